-- Which objects ever stood in which bucket of a join, so that a correction looks only at partners it can meet.
CREATE TABLE bucket (
    bucket INTEGER NOT NULL, oid INTEGER NOT NULL,
    PRIMARY KEY (bucket, oid)
) WITHOUT ROWID;

-- The rows of before lack it. All rows follow from the log, so they go, and the next run projects the log anew.
DELETE FROM object;
DELETE FROM version;
DELETE FROM content;
DELETE FROM change;
DELETE FROM edge;
DELETE FROM coverage;
DELETE FROM evidence;
DELETE FROM dead_letter;
DELETE FROM gap;
DELETE FROM position;

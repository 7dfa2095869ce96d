-- Whom a workload calls is derived from the addresses that it is given, for all of the past as well. All rows follow from
-- the log, so they go, and the next run projects the log anew.
DELETE FROM object;
DELETE FROM version;
DELETE FROM content;
DELETE FROM change;
DELETE FROM edge;
DELETE FROM coverage;
DELETE FROM evidence;
DELETE FROM dead_letter;
DELETE FROM gap;
DELETE FROM bucket;
DELETE FROM position;
DELETE FROM horizon;

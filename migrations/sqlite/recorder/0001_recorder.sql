-- What a recorder knows of one scope, so that it goes on where it was: made of the log, and made anew from it if lost.

-- One row. `position`: of the last record of the log that is taken into account; 0 where nothing is.
CREATE TABLE recorder (
    scope TEXT NOT NULL, position INTEGER NOT NULL
) STRICT;
INSERT INTO recorder VALUES ('', 0);

-- Its columns are what capture.kubernetes.watched.Watch says of them.
CREATE TABLE watch (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    listed INTEGER NOT NULL DEFAULT 0, last INTEGER, lost TEXT, lost_since INTEGER NOT NULL DEFAULT 0,
    hole_at INTEGER, hole TEXT, doubt_since INTEGER, doubt_until INTEGER, unread TEXT,
    late_since INTEGER, late_until INTEGER, version TEXT
) STRICT;

-- The living objects of each watch, packed.
CREATE TABLE object (
    id INTEGER PRIMARY KEY, watch INTEGER NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX object_key ON object (key, watch);
CREATE INDEX object_watch ON object (watch, key);

-- What was set last, up to a bound; a higher id was set later. Events heard, ends of incarnations, who held a key last.
CREATE TABLE heard (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body BLOB NOT NULL
) STRICT;
CREATE TABLE death (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body BLOB NOT NULL
) STRICT;
CREATE TABLE predecessor (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body BLOB NOT NULL
) STRICT;

-- The log: one row a record, never changed after it was written.
-- `chain` is the checksum of the previous row's chain with everything else in this row.
CREATE TABLE entry (
  position INTEGER PRIMARY KEY,
  s        INTEGER NOT NULL,
  scope    INTEGER NOT NULL,
  epoch    INTEGER NOT NULL,
  coding   INTEGER NOT NULL,
  body     BLOB NOT NULL,
  chain    BLOB NOT NULL
) STRICT;

-- source/scope, once: rows point to it. `s` and `count` are of its last record.
CREATE TABLE scope (
  id    INTEGER PRIMARY KEY,
  name  TEXT NOT NULL UNIQUE,
  s     INTEGER NOT NULL,
  count INTEGER NOT NULL
) STRICT;

-- One run of a recorder or one recording file; `count` says how many of its records are here.
CREATE TABLE epoch (
  id    INTEGER PRIMARY KEY,
  name  TEXT NOT NULL UNIQUE,
  count INTEGER NOT NULL
) STRICT;

-- Bodies over the cap, by digest.
CREATE TABLE blob (
  digest BLOB PRIMARY KEY,
  body   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

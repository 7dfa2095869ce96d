-- Where retention has cut (no row: never). Up to `position` only what is still needed stands, at its old positions and
-- with a chain of its own that ends in `seal`; the row behind it continues `anchor`, the chain of the log as it was.
-- `ended` was the last position when it was cut: a ledger that had read less was made of the longer log.
CREATE TABLE trim (
  position INTEGER NOT NULL,
  anchor   BLOB NOT NULL,
  seal     BLOB NOT NULL,
  ended    INTEGER NOT NULL
) STRICT;

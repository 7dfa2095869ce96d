-- The instant below which a scope cannot be asked about: what lay before was trimmed from the log.
CREATE TABLE horizon (
    scope TEXT PRIMARY KEY, at INTEGER NOT NULL, seq INTEGER NOT NULL
) WITHOUT ROWID;

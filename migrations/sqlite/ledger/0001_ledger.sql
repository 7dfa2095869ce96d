-- The embedded ledger. Rows follow the five-integer rule (docs/concepts.md): a row is visible at (T, S) iff
-- sf <= S < st and vf <= T and (T < vt or S < vts). Open ends are the largest int64, never null.

CREATE TABLE object (
    oid INTEGER PRIMARY KEY,            -- 64-bit hash of key
    key TEXT NOT NULL,
    source TEXT NOT NULL,
    scope TEXT NOT NULL,
    type TEXT NOT NULL,
    kind TEXT NOT NULL,
    class TEXT NOT NULL,
    namespace TEXT,
    name TEXT NOT NULL
);
CREATE INDEX object_name ON object (name);

-- One row per interval in which an object was believed to be in one state.
-- lo: earliest instant at which it may have begun; vlo: earliest at which it may have ended.
CREATE TABLE version (
    oid INTEGER NOT NULL, vf INTEGER NOT NULL, seq INTEGER NOT NULL, sf INTEGER NOT NULL,
    st INTEGER NOT NULL, vt INTEGER NOT NULL, vts INTEGER NOT NULL,
    lo INTEGER NOT NULL, vlo INTEGER NOT NULL,
    n INTEGER NOT NULL, uid TEXT,
    PRIMARY KEY (oid, vf, seq, sf)
) WITHOUT ROWID;
-- The one open row of a fact, whatever the depth of its history.
CREATE INDEX version_open ON version (oid) WHERE st = 9223372036854775807 AND vt = 9223372036854775807;

-- Content apart from intervals: state n of an object, whole (anchor = n) or as a patch against n - 1.
CREATE TABLE content (
    oid INTEGER NOT NULL, n INTEGER NOT NULL, anchor INTEGER NOT NULL, digest BLOB NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (oid, n)
) WITHOUT ROWID;

-- What was recorded about an object, in log order, with its effective instant vf; amended rows are superseded.
CREATE TABLE change (
    seq INTEGER NOT NULL, sf INTEGER NOT NULL, st INTEGER NOT NULL,
    id BLOB NOT NULL, oid INTEGER NOT NULL, op TEXT NOT NULL, late INTEGER NOT NULL,
    nb INTEGER NOT NULL, na INTEGER NOT NULL, vf INTEGER NOT NULL,
    n INTEGER, uid TEXT, noise INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (seq, sf)
) WITHOUT ROWID;
CREATE INDEX change_time ON change (vf, seq);
CREATE INDEX change_object ON change (oid, vf, seq);
CREATE INDEX change_id ON change (id);

CREATE TABLE edge (
    eid INTEGER NOT NULL, vf INTEGER NOT NULL, seq INTEGER NOT NULL, sf INTEGER NOT NULL,
    st INTEGER NOT NULL, vt INTEGER NOT NULL, vts INTEGER NOT NULL,
    predicate TEXT NOT NULL, src INTEGER NOT NULL, dst INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (eid, vf, seq, sf)
) WITHOUT ROWID;
CREATE INDEX edge_open ON edge (eid) WHERE st = 9223372036854775807 AND vt = 9223372036854775807;
CREATE INDEX edge_src ON edge (src, vf);
CREATE INDEX edge_dst ON edge (dst, vf);

CREATE TABLE coverage (
    cid INTEGER NOT NULL, vf INTEGER NOT NULL, seq INTEGER NOT NULL, sf INTEGER NOT NULL,
    st INTEGER NOT NULL, vt INTEGER NOT NULL, vts INTEGER NOT NULL,
    scope TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (cid, vf, seq, sf)
) WITHOUT ROWID;

CREATE TABLE evidence (
    id BLOB PRIMARY KEY, scope TEXT NOT NULL, oid INTEGER NOT NULL, at INTEGER NOT NULL, seq INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX evidence_time ON evidence (scope, at);

CREATE TABLE dead_letter (
    position INTEGER PRIMARY KEY, scope TEXT NOT NULL, s INTEGER NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL
);
-- An object whose chain is broken since `seq`, until the next full state (`until`).
CREATE TABLE gap (
    oid INTEGER NOT NULL, seq INTEGER NOT NULL, sf INTEGER NOT NULL, reason TEXT NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (oid, seq)
) WITHOUT ROWID;
CREATE TABLE position (
    scope TEXT PRIMARY KEY, position INTEGER NOT NULL, s INTEGER NOT NULL, top INTEGER NOT NULL
);

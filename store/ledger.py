"""The embedded ledger: executes row operations on SQLite, and reads back what the planner and rewind ask for.

It knows rows and indexes, nothing of what they mean: planning is `store.planner`, questions are `store.rewind`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import orjson
import zstandard

from migrations import migrate
from schema.canonical import Json
from schema.errors import StoreCorrupt, StoreMissing
from schema.identity import oid as oid_of
from schema.identity import parse_key
from schema.instants import MAX
from schema.kinds import class_of
from schema.patch import PatchOp, apply
from schema.records import Evidence, ObjectRef
from store.rows import (
    ChangeRow,
    Close,
    Content,
    CoverageRow,
    EdgeRow,
    Insert,
    Interval,
    OpenGap,
    RowOp,
    Supersede,
    VersionRow,
)

_PACK = zstandard.ZstdCompressor(level=3, write_content_size=True)
_UNPACK = zstandard.ZstdDecompressor()
_CHANGE = "seq, sf, id, oid, op, late, nb, na, vf, n, uid, noise, body"
_KNOWN = 200_000
"""How many keys are remembered as being there, about 250 bytes each; beyond it, all are forgotten and asked again."""
_MANY = 500
"""How many ids one look-up asks for."""
_FACT = {"version": "oid", "edge": "eid", "coverage": "cid"}


def pack(body: bytes) -> bytes:
    return _PACK.compress(body)


def unpack(body: bytes) -> bytes:
    return _UNPACK.decompress(body)


class SqliteLedger:
    """One ledger file. `path` ":memory:" for a throw-away one.

    Raises StoreMissing when `readonly` and nothing is there, StoreVersion when a newer Hindgraph wrote it.
    """

    def __init__(self, path: Path | str, *, readonly: bool = False) -> None:
        if readonly and not Path(path).exists():
            raise StoreMissing(f"no ledger at {path}", hint="record or replay something first")
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA busy_timeout = 10000")
        if readonly:
            self.connection.execute("PRAGMA query_only = ON")
        else:
            migrate(self.connection, "ledger")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self._known: dict[str, int] = {}

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything in the block, or nothing of it."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            self._known.clear()
            raise
        self.connection.execute("COMMIT")

    # -- executing

    def execute(self, ops: Sequence[RowOp]) -> None:
        """Run row operations inside the caller's transaction."""
        for op in ops:
            if isinstance(op, Insert):
                self._insert(op)
            elif isinstance(op, Close):
                self._close(op)
            elif isinstance(op, Supersede):
                fact = "seq" if op.table == "change" else _FACT[op.table]
                where = f"{fact} = ? AND seq = ? AND sf = ?" + ("" if op.table == "change" else " AND vf = ?")
                key = (op.fact, op.seq, op.sf) + (() if op.table == "change" else (op.vf,))
                self._one(f"UPDATE {op.table} SET st = ? WHERE {where}", (op.st, *key))
            elif isinstance(op, OpenGap):
                self.connection.execute("INSERT INTO gap VALUES (?,?,?,?,?)", (op.oid, op.seq, op.sf, op.reason, MAX))
            else:
                self.connection.execute("UPDATE gap SET until = ? WHERE oid = ? AND until = ?", (op.until, op.oid, MAX))

    def add_object(self, ref: ObjectRef) -> None:
        """Make the identity known; raises StoreCorrupt if another key has the same 64-bit id."""
        key = str(ref.key)
        if key not in self._known:
            self._know(key, ref.source, ref.scope, ref.type, ref.kind, ref.class_, ref.namespace, ref.name)

    def _know(self, key: str, *rest: str | None) -> int:
        oid = oid_of(key)
        insert = "INSERT OR IGNORE INTO object VALUES (?,?,?,?,?,?,?,?,?)"
        if self.connection.execute(insert, (oid, key, *rest)).rowcount == 0:
            found = self.connection.execute("SELECT key FROM object WHERE oid = ?", (oid,)).fetchone()
            if found[0] != key:
                raise StoreCorrupt(f"two keys share one id: {found[0]} and {key}")
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[key] = oid
        return oid

    def _insert(self, op: Insert) -> None:
        row = op.row
        run = self.connection.execute
        if isinstance(row, Content):
            values = (row.oid, row.n, row.anchor, bytes.fromhex(row.digest), pack(row.body))
            run("INSERT INTO content VALUES (?,?,?,?,?)", values)
        elif isinstance(row, ChangeRow):
            run(
                f"INSERT INTO change ({_CHANGE}, st) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (
                    row.seq, row.sf, bytes.fromhex(row.id), row.oid, row.op, row.late, row.nb, row.na, row.vf, row.n,
                    row.uid, row.noise, pack(row.body), MAX,
                ),
            )  # fmt: skip
        else:
            span = row.span
            five = (span.vf, span.seq, span.sf, span.st, span.vt, span.vts)
            if isinstance(row, VersionRow):
                run(
                    "INSERT INTO version VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                    (row.oid, *five, row.lo, row.vlo, row.n, row.uid),
                )
            elif isinstance(row, EdgeRow):
                ends = (self._end(row.src), self._end(row.dst))
                run("INSERT INTO edge VALUES (?,?,?,?,?,?,?,?,?,?,?)", (row.eid, *five, row.predicate, *ends, row.body))
            else:
                run("INSERT INTO coverage VALUES (?,?,?,?,?,?,?,?,?)", (row.cid, *five, row.scope, row.body))

    def _end(self, text: str) -> int:
        """The id of an edge's end, which becomes known whether or not anybody lives there."""
        oid = self._known.get(text)
        if oid is None:
            key = parse_key(text)
            oid = self._know(
                text, key.source, key.scope, key.type, key.kind, class_of(key.type), key.namespace, key.name
            )
        return oid

    def _close(self, op: Close) -> None:
        sets, values = ("vt = ?, vts = ?, vlo = ?", (op.vt, op.vts, op.vlo))
        if op.table != "version":
            sets, values = ("vt = ?, vts = ?", (op.vt, op.vts))  # type: ignore[assignment]
        # The open end stands as a literal: with a parameter SQLite would not use the index of open rows.
        where = f"{_FACT[op.table]} = ? AND st = {MAX} AND vt = {MAX}"
        self._one(f"UPDATE {op.table} SET {sets} WHERE {where}", (*values, op.fact))

    def _one(self, sql: str, values: tuple[int | str, ...]) -> None:
        count = self.connection.execute(sql, values).rowcount
        if count != 1:
            raise StoreCorrupt(f"a row operation met {count} rows instead of one: {sql}", hint="run hindgraph verify")

    # -- reading, for the planner

    def ref(self, oid: int) -> ObjectRef | None:
        row = self.connection.execute(
            "SELECT source, scope, type, kind, class, namespace, name FROM object WHERE oid = ?", (oid,)
        ).fetchone()
        if row is None:
            return None
        source, scope, type_, kind, class_, namespace, name = row
        return ObjectRef(
            source=source, scope=scope, type=type_, kind=kind, class_=class_, namespace=namespace, name=name
        )

    def content(self, oid: int, n: int) -> dict[str, Json]:
        """State `n` of an object, built from its anchor."""
        rows = self.connection.execute(
            "SELECT n, anchor, body FROM content WHERE oid = ?1 AND n <= ?2 AND n >= "
            "(SELECT anchor FROM content WHERE oid = ?1 AND n = ?2) ORDER BY n",
            (oid, n),
        ).fetchall()
        if not rows or rows[-1][0] != n:
            raise StoreCorrupt(f"state {n} of object {oid} is not there", hint="run hindgraph verify")
        state: Json = orjson.loads(unpack(rows[0][2]))
        for _, _, body in rows[1:]:
            patch: list[PatchOp] = orjson.loads(unpack(body))
            state = apply(state, patch)
        if not isinstance(state, dict):
            raise StoreCorrupt(f"state {n} of object {oid} is not an object", hint="run hindgraph verify")
        return state

    def last_n(self, oid: int) -> int:
        found = self.connection.execute("SELECT max(n) FROM content WHERE oid = ?", (oid,)).fetchone()[0]
        return -1 if found is None else int(found)

    def anchor(self, oid: int, n: int) -> tuple[int, str]:
        row = self.connection.execute("SELECT anchor, digest FROM content WHERE oid = ? AND n = ?", (oid, n)).fetchone()
        return int(row[0]), row[1].hex()

    def changes_of(self, oid: int) -> list[ChangeRow]:
        """The believed changes of one object, in log order."""
        rows = self.connection.execute(
            f"SELECT {_CHANGE} FROM change WHERE oid = ? AND st = ? ORDER BY seq", (oid, MAX)
        )
        return [change_row(row) for row in rows]

    def change_oid(self, change_id: str) -> int | None:
        row = self.connection.execute("SELECT oid FROM change WHERE id = ?", (bytes.fromhex(change_id),)).fetchone()
        return None if row is None else int(row[0])

    def versions_of(self, oid: int) -> list[VersionRow]:
        rows = self.connection.execute(
            "SELECT vf, vt, vts, sf, st, seq, lo, vlo, n, uid FROM version WHERE oid = ? AND st = ? ORDER BY vf, seq",
            (oid, MAX),
        )
        return [VersionRow(oid, Interval(*row[:6]), *row[6:]) for row in rows]

    def edge_rows(self, eid: int) -> list[EdgeRow]:
        rows = self.connection.execute(
            "SELECT vf, vt, vts, sf, st, seq, predicate, s.key, d.key, body FROM edge "
            "JOIN object s ON s.oid = src JOIN object d ON d.oid = dst WHERE eid = ? AND st = ? ORDER BY vf, seq",
            (eid, MAX),
        )
        return [EdgeRow(eid, Interval(*row[:6]), *row[6:]) for row in rows]

    def coverage_rows(self, cid: int) -> list[CoverageRow]:
        rows = self.connection.execute(
            "SELECT vf, vt, vts, sf, st, seq, scope, body FROM coverage WHERE cid = ? AND st = ? ORDER BY vf",
            (cid, MAX),
        )
        return [CoverageRow(cid, Interval(*row[:6]), *row[6:]) for row in rows]

    def oids(self, scope: str) -> list[int]:
        source, _, name = scope.partition("/")
        rows = self.connection.execute("SELECT oid FROM object WHERE source = ? AND scope = ?", (source, name))
        return [row[0] for row in rows]

    def live(self, scope: str) -> list[int]:
        source, _, name = scope.partition("/")
        rows = self.connection.execute(
            "SELECT DISTINCT v.oid FROM version v JOIN object o ON o.oid = v.oid "
            f"WHERE v.st = {MAX} AND v.vt = {MAX} AND o.source = ? AND o.scope = ?",
            (source, name),
        )
        return [row[0] for row in rows]

    def open_gap(self, oid: int) -> bool:
        found = self.connection.execute("SELECT 1 FROM gap WHERE oid = ? AND until = ?", (oid, MAX)).fetchone()
        return found is not None

    # -- position, dead letters, evidence

    def position(self, scope: str) -> tuple[int, int]:
        """(log position, system time) of the last record projected for this scope; (0, 0) before the first."""
        row = self.connection.execute("SELECT position, s FROM position WHERE scope = ?", (scope,)).fetchone()
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def floor(self) -> int:
        """The log position up to which every scope is projected; 0 for a new ledger."""
        return int(self.connection.execute("SELECT coalesce(min(position), 0) FROM position").fetchone()[0])

    def seen(self, change_ids: Sequence[str]) -> set[str]:
        """Which of these changes and states are there, whether still believed or not."""
        found: set[str] = set()
        for start in range(0, len(change_ids), _MANY):
            ids = [bytes.fromhex(one) for one in change_ids[start : start + _MANY]]
            marks = ",".join("?" * len(ids))
            rows = self.connection.execute(f"SELECT id FROM change WHERE id IN ({marks})", ids)
            found.update(row[0].hex() for row in rows)
        return found

    def top(self, scope: str) -> int:
        row = self.connection.execute("SELECT top FROM position WHERE scope = ?", (scope,)).fetchone()
        return -MAX if row is None else int(row[0])

    def set_position(self, scope: str, position: int, s: int, top: int) -> None:
        self.connection.execute("INSERT OR REPLACE INTO position VALUES (?,?,?,?)", (scope, position, s, top))

    def add_dead_letter(self, position: int, scope: str, s: int, reason: str, detail: str) -> None:
        self.connection.execute("INSERT INTO dead_letter VALUES (?,?,?,?,?)", (position, scope, s, reason, detail))

    def add_evidence(self, record: Evidence, scope: str, seq: int) -> bool:
        """Keep an evidence record; False when it is there already."""
        self.add_object(record.object)
        body = pack(orjson.dumps(record.model_dump(mode="json", by_alias=True, exclude_defaults=True)))
        values = (bytes.fromhex(record.id), scope, oid_of(record.object.key), record.at, seq, body)
        return self.connection.execute("INSERT OR IGNORE INTO evidence VALUES (?,?,?,?,?,?)", values).rowcount == 1

    def digest(self) -> str:
        """128-bit digest of all logical rows, in key order: equal ledgers, equal digests."""
        whole = blake2b(digest_size=16)
        for table, order in (
            ("object", "oid"), ("version", "oid, vf, seq, sf"), ("content", "oid, n"), ("change", "seq, sf"),
            ("edge", "eid, vf, seq, sf"), ("coverage", "cid, vf, seq, sf"), ("evidence", "id"),
            ("dead_letter", "position"), ("gap", "oid, seq"), ("position", "scope"),
        ):  # fmt: skip
            whole.update(table.encode())
            for row in self.connection.execute(f"SELECT * FROM {table} ORDER BY {order}"):
                whole.update(repr(tuple(map(_logical, row))).encode())
        return whole.hexdigest()


def _logical(value: object) -> object:
    """Compression is no part of a row: compare what was compressed."""
    if isinstance(value, bytes) and value[:4] == b"\x28\xb5\x2f\xfd":
        return unpack(value)
    return value


def change_row(
    row: tuple[int, int, bytes, int, str, int, int, int, int, int | None, str | None, int, bytes],
) -> ChangeRow:
    """A ChangeRow from the columns `_CHANGE`."""
    seq, sf, id_, oid, op, late, nb, na, vf, n, uid, noise, body = row
    return ChangeRow(seq, sf, id_.hex(), oid, op, bool(late), nb, na, vf, n, uid, bool(noise), unpack(body))

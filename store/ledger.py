"""The embedded ledger: executes row operations on SQLite, and reads back what the planner and rewind ask for.

It knows rows and indexes, nothing of what they mean: planning is `store.planner`, questions are `store.rewind`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import orjson

from migrations import migrate
from schema.canonical import Json
from schema.errors import StoreCorrupt, StoreMissing
from schema.identity import Key, parse_key
from schema.identity import oid as oid_of
from schema.instants import MAX
from schema.kinds import class_of
from schema.patch import PatchOp, apply
from schema.records import Evidence, ObjectRef
from store.bodies import pack, unpack
from store.correction import Place
from store.pending import Pending
from store.rows import (
    BucketRow,
    ChangeRow,
    Close,
    Content,
    CoverageRow,
    EdgeRow,
    Insert,
    Interval,
    ObjectRow,
    OpenGap,
    Row,
    RowOp,
    Supersede,
    VersionRow,
)

_CHANGE = "seq, sf, id, oid, op, late, nb, na, vf, n, uid, noise, body"
_KNOWN = 200_000
"""How many keys are remembered as being there, about 250 bytes each; beyond it, all are forgotten and asked again."""
_MANY = 500
"""How many ids one look-up asks for."""
_VERSION = "vf, vt, vts, sf, st, seq, lo, vlo, n, uid"
_REF = "o.source, o.scope, o.type, o.kind, o.class, o.namespace, o.name"
_FACT = {"version": "oid", "edge": "eid", "coverage": "cid", "change": "seq"}
_OPEN = f"st = {MAX} AND vt = {MAX}"
_CHAIN = {False: "", True: "AND late = 0 "}
_START = "SELECT max(vf) FROM {table} WHERE {fact} = ?1 AND st = ?2 AND vf < vt AND vf <= ?3"


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
        self._pending = Pending()

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything in the block, or nothing of it."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.settle()
        except BaseException:
            self.connection.execute("ROLLBACK")
            self._pending = Pending()
            self._known.clear()
            raise
        self.connection.execute("COMMIT")

    # -- executing

    def execute(self, ops: Iterable[RowOp]) -> None:
        """Run row operations inside the caller's transaction. They may be written as late as its end."""
        for op in ops:
            if isinstance(op, Insert):
                self._insert(op.row)
            elif isinstance(op, Close):
                if op.table == "coverage":
                    self._one(
                        f"UPDATE coverage SET vt = ?, vts = ? WHERE cid = ? AND {_OPEN}", (op.vt, op.vts, op.fact)
                    )
                else:
                    self._pending.close(op)
            elif isinstance(op, Supersede):
                self.settle()
                fact = _FACT[op.table]
                where = f"{fact} = ? AND seq = ? AND sf = ?" + ("" if op.table == "change" else " AND vf = ?")
                key = (op.fact, op.seq, op.sf) + (() if op.table == "change" else (op.vf,))
                self._one(f"UPDATE {op.table} SET st = ? WHERE {where}", (op.st, *key))
            elif isinstance(op, OpenGap):
                self.connection.execute("INSERT INTO gap VALUES (?,?,?,?,?)", (op.oid, op.seq, op.sf, op.reason, MAX))
            else:
                self.connection.execute("UPDATE gap SET until = ? WHERE oid = ? AND until = ?", (op.until, op.oid, MAX))

    def _insert(self, row: Row) -> None:
        pending = self._pending
        if isinstance(row, EdgeRow):
            pending.edge(row, self._end(row.src), self._end(row.dst))
        elif isinstance(row, Content):
            pending.content(row, pack)
        elif isinstance(row, ChangeRow):
            pending.change(row, pack)
        elif isinstance(row, VersionRow):
            pending.version(row)
        elif isinstance(row, BucketRow):
            pending.bucket(row)
        elif isinstance(row, ObjectRow):
            self._know(row.key, str(row.key), row.kind, row.class_)
        else:
            span = row.span
            five = (span.vf, span.seq, span.sf, span.st, span.vt, span.vts)
            self.connection.execute(
                "INSERT INTO coverage VALUES (?,?,?,?,?,?,?,?,?)", (row.cid, *five, row.scope, row.body)
            )

    def settle(self) -> None:
        """Write what is pending. Whoever reads rows that may be pending settles first."""
        if not self._pending:
            return
        todo, self._pending = self._pending, Pending()
        # Rows of before are closed before others open, so that a fact never has two open rows.
        self._close_all("version", "vt = ?, vts = ?, vlo = ?", todo.versions.closes)
        self._close_all("edge", "vt = ?, vts = ?", todo.edges.closes)
        run = self.connection.executemany
        for rows, sql in (
            (todo.contents, "INSERT INTO content VALUES (?,?,?,?,?)"),
            (todo.changes, f"INSERT INTO change ({_CHANGE}, st) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
            (todo.versions.rows, "INSERT INTO version VALUES (?,?,?,?,?,?,?,?,?,?,?)"),
            (todo.edges.rows, "INSERT INTO edge VALUES (?,?,?,?,?,?,?,?,?,?,?)"),
            (todo.buckets, "INSERT OR IGNORE INTO bucket VALUES (?,?)"),
        ):
            if rows:
                run(sql, rows)

    def _close_all(self, table: str, sets: str, closes: list[tuple[int, ...]]) -> None:
        if closes:
            fact = _FACT[table]
            # The open row is the last in time: a walk down the primary key meets it first, however deep the history.
            sql = (
                f"UPDATE {table} SET {sets} WHERE ({fact}, vf, seq, sf) = (SELECT {fact}, vf, seq, sf FROM {table} "
                f"WHERE {fact} = ? AND {_OPEN} ORDER BY vf DESC, seq DESC LIMIT 1)"
            )
            met = self.connection.executemany(sql, closes).rowcount
            if met != len(closes):
                raise _unmet(met, len(closes), sql)

    def _one(self, sql: str, values: tuple[int | str, ...]) -> None:
        met = self.connection.execute(sql, values).rowcount
        if met != 1:
            raise _unmet(met, 1, sql)

    def _end(self, text: str) -> int:
        """The id of an edge's end, which becomes known whether or not anybody lives there."""
        oid = self._known.get(text)
        if oid is None:
            key = parse_key(text)
            oid = self._know(key, text, key.kind, class_of(key.type))
        return oid

    def _know(self, key: Key, text: str, kind: str, class_: str) -> int:
        """Make an identity known; raises StoreCorrupt if another key has the same 64-bit id."""
        oid = self._known.get(text)
        if oid is not None:
            return oid
        oid = oid_of(text)
        row = (oid, text, key.source, key.scope, key.type, kind, class_, key.namespace, key.name)
        insert = "INSERT OR IGNORE INTO object VALUES (?,?,?,?,?,?,?,?,?)"
        if self.connection.execute(insert, row).rowcount == 0:
            found = self.connection.execute("SELECT key FROM object WHERE oid = ?", (oid,)).fetchone()
            if found[0] != text:
                raise StoreCorrupt(f"two keys share one id: {found[0]} and {text}")
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[text] = oid
        return oid

    # -- reading, for the planner

    def _settle_for(self, oid: int) -> None:
        if oid in self._pending.oids:
            self.settle()

    def ref(self, oid: int) -> ObjectRef | None:
        row = self.connection.execute(f"SELECT {_REF} FROM object o WHERE o.oid = ?", (oid,)).fetchone()
        return None if row is None else _ref(row)

    def content(self, oid: int, n: int) -> dict[str, Json]:
        """State `n` of an object, built from its anchor."""
        self._settle_for(oid)
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
        """The number of the newest content of an object, -1 when it has none."""
        self._settle_for(oid)
        return int(
            self.connection.execute("SELECT coalesce(max(n), -1) FROM content WHERE oid = ?", (oid,)).fetchone()[0]
        )

    def anchor(self, oid: int, n: int) -> tuple[int, str]:
        self._settle_for(oid)
        row = self.connection.execute("SELECT anchor, digest FROM content WHERE oid = ? AND n = ?", (oid, n)).fetchone()
        return int(row[0]), row[1].hex()

    def seen(self, change_ids: Sequence[str]) -> set[str]:
        """Which of these changes and states are there, whether still believed or not."""
        self.settle()
        found: set[str] = set()
        for start in range(0, len(change_ids), _MANY):
            ids = [bytes.fromhex(one) for one in change_ids[start : start + _MANY]]
            marks = ",".join("?" * len(ids))
            rows = self.connection.execute(f"SELECT id FROM change WHERE id IN ({marks})", ids)
            found.update(row[0].hex() for row in rows)
        return found

    def believed(self, change_id: str) -> ChangeRow | None:
        """The change or state of this id, as believed now."""
        self.settle()
        row = self.connection.execute(
            f"SELECT {_CHANGE} FROM change WHERE id = ? AND st = ?", (bytes.fromhex(change_id), MAX)
        ).fetchone()
        return None if row is None else change_row(row)

    def last_change(self, oid: int, *, chain: bool = False) -> ChangeRow | None:
        """The last believed change of an object in time; of its chain of patches, if asked."""
        return self.change_before(oid, (MAX, MAX), chain=chain)

    def change_before(self, oid: int, place: Place, *, chain: bool = False) -> ChangeRow | None:
        self._settle_for(oid)
        row = self.connection.execute(
            f"SELECT {_CHANGE} FROM change WHERE oid = ? AND st = ? AND (vf, seq) < (?, ?) {_CHAIN[chain]}"
            "ORDER BY vf DESC, seq DESC LIMIT 1",
            (oid, MAX, *place),
        ).fetchone()
        return None if row is None else change_row(row)

    def changes_after(self, oid: int, place: Place, *, chain: bool = False) -> Iterator[ChangeRow]:
        self._settle_for(oid)
        rows = self.connection.execute(
            f"SELECT {_CHANGE} FROM change WHERE oid = ? AND st = ? AND (vf, seq) > (?, ?) {_CHAIN[chain]}"
            "ORDER BY vf, seq",
            (oid, MAX, *place),
        )
        return map(change_row, rows)

    def changes_within(self, oid: int, first: Place, last: Place) -> list[ChangeRow]:
        self._settle_for(oid)
        rows = self.connection.execute(
            f"SELECT {_CHANGE} FROM change WHERE oid = ? AND st = ? AND (vf, seq) >= (?, ?) AND (vf, seq) <= (?, ?) "
            "ORDER BY vf, seq",
            (oid, MAX, *first, *last),
        )
        return [change_row(row) for row in rows]

    def versions_within(self, oid: int, first: Place, last: Place) -> list[VersionRow]:
        self._settle_for(oid)
        rows = self.connection.execute(
            f"SELECT {_VERSION} FROM version WHERE oid = ? AND st = ? AND (vf, seq) >= (?, ?) AND (vf, seq) <= (?, ?) "
            "ORDER BY vf, seq",
            (oid, MAX, *first, *last),
        )
        return [VersionRow(oid, Interval(*row[:6]), *row[6:]) for row in rows]

    def versions_during(self, oid: int, since: int, until: int) -> list[VersionRow]:
        """The believed versions that held at some instant of [since, until)."""
        self._settle_for(oid)
        rows = self.connection.execute(
            f"SELECT {_VERSION} FROM version WHERE oid = ?1 AND st = ?2 AND vf < vt AND vt > ?3 AND vf < ?4 AND vf >= "
            f"coalesce(({_START.format(table='version', fact='oid')}), ?3) ORDER BY vf",
            (oid, MAX, since, until),
        )
        return [VersionRow(oid, Interval(*row[:6]), *row[6:]) for row in rows]

    def edge_rows(self, eid: int, since: int, until: int) -> list[EdgeRow]:
        """The believed rows of an edge that overlap or touch [since, until]."""
        if eid in self._pending.eids:
            self.settle()
        rows = self.connection.execute(
            "SELECT vf, vt, vts, sf, st, seq, predicate, s.key, d.key, body FROM edge "
            "JOIN object s ON s.oid = src JOIN object d ON d.oid = dst "
            "WHERE eid = ?1 AND st = ?2 AND vf < vt AND vt >= ?3 AND vf <= ?4 AND vf >= "
            f"coalesce(({_START.format(table='edge', fact='eid')}), ?3) ORDER BY vf",
            (eid, MAX, since, until),
        )
        return [EdgeRow(eid, Interval(*row[:6]), *row[6:]) for row in rows]

    def standing(self, bucket: int) -> list[int]:
        """Every object that ever stood in this bucket of a join."""
        self.settle()
        return [row[0] for row in self.connection.execute("SELECT oid FROM bucket WHERE bucket = ?", (bucket,))]

    def coverage_rows(self, cid: int) -> list[CoverageRow]:
        rows = self.connection.execute(
            "SELECT vf, vt, vts, sf, st, seq, scope, body FROM coverage WHERE cid = ? AND st = ? ORDER BY vf",
            (cid, MAX),
        )
        return [CoverageRow(cid, Interval(*row[:6]), *row[6:]) for row in rows]

    def living(self, scope: str) -> Iterator[tuple[int, ObjectRef, int]]:
        """Every object of a scope that lives now: id, reference of its incarnation, number of its content."""
        source, _, name = scope.partition("/")
        objects = self.connection.execute(
            f"SELECT o.oid, {_REF} FROM object o WHERE o.source = ? AND o.scope = ?", (source, name)
        ).fetchall()
        for oid, *ref in objects:
            last = self.connection.execute(
                f"SELECT n, uid FROM version WHERE oid = ? AND {_OPEN} ORDER BY vf DESC, seq DESC LIMIT 1", (oid,)
            ).fetchone()
            if last is not None:
                yield oid, _ref(ref, last[1]), last[0]

    def gaps(self) -> set[int]:
        """The objects whose chain is broken."""
        return {row[0] for row in self.connection.execute("SELECT oid FROM gap WHERE until = ?", (MAX,))}

    # -- position, dead letters, evidence

    def position(self, scope: str) -> tuple[int, int]:
        """(log position, system time) of the last record projected for this scope; (0, 0) before the first."""
        row = self.connection.execute("SELECT position, s FROM position WHERE scope = ?", (scope,)).fetchone()
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def floor(self) -> int:
        """The log position up to which every scope is projected; 0 for a new ledger."""
        return int(self.connection.execute("SELECT coalesce(min(position), 0) FROM position").fetchone()[0])

    def top(self, scope: str) -> int:
        row = self.connection.execute("SELECT top FROM position WHERE scope = ?", (scope,)).fetchone()
        return -MAX if row is None else int(row[0])

    def set_position(self, scope: str, position: int, s: int, top: int) -> None:
        self.connection.execute("INSERT OR REPLACE INTO position VALUES (?,?,?,?)", (scope, position, s, top))

    def add_dead_letter(self, position: int, scope: str, s: int, reason: str, detail: str) -> None:
        self.connection.execute("INSERT INTO dead_letter VALUES (?,?,?,?,?)", (position, scope, s, reason, detail))

    def add_evidence(self, record: Evidence, scope: str, seq: int) -> bool:
        """Keep an evidence record; False when it is there already."""
        key = record.object.key
        oid = self._know(key, str(key), record.object.kind, record.object.class_)
        body = pack(orjson.dumps(record.model_dump(mode="json", by_alias=True, exclude_defaults=True)))
        values = (bytes.fromhex(record.id), scope, oid, record.at, seq, body)
        return self.connection.execute("INSERT OR IGNORE INTO evidence VALUES (?,?,?,?,?,?)", values).rowcount == 1

    def digest(self) -> str:
        """128-bit digest of all logical rows, in key order: equal ledgers, equal digests."""
        whole = blake2b(digest_size=16)
        for table, order in (
            ("object", "oid"), ("version", "oid, vf, seq, sf"), ("content", "oid, n"), ("change", "seq, sf"),
            ("edge", "eid, vf, seq, sf"), ("coverage", "cid, vf, seq, sf"), ("evidence", "id"),
            ("dead_letter", "position"), ("gap", "oid, seq"), ("position", "scope"), ("bucket", "bucket, oid"),
        ):  # fmt: skip
            whole.update(table.encode())
            rows = self.connection.execute(f"SELECT * FROM {table} ORDER BY {order}")
            packed = next((i for i, column in enumerate(rows.description) if column[0] == "body"), None)
            for row in rows:
                # Compression is no part of a row: compare what was compressed.
                if packed is not None and isinstance(row[packed], bytes):
                    whole.update(unpack(row[packed]))
                    whole.update(repr((*row[:packed], *row[packed + 1 :])).encode())
                else:
                    whole.update(repr(row).encode())
        return whole.hexdigest()


def _ref(row: Sequence[str], uid: str | None = None) -> ObjectRef:
    source, scope, type_, kind, class_, namespace, name = row
    return ObjectRef(
        source=source, scope=scope, type=type_, kind=kind, class_=class_, namespace=namespace, name=name, uid=uid
    )


def _unmet(met: int, wanted: int, sql: str) -> StoreCorrupt:
    return StoreCorrupt(f"row operations met {met} rows instead of {wanted}: {sql}", hint="run hindgraph verify")


def change_row(
    row: tuple[int, int, bytes, int, str, int, int, int, int, int | None, str | None, int, bytes],
) -> ChangeRow:
    """A ChangeRow from the columns `_CHANGE`."""
    seq, sf, id_, oid, op, late, nb, na, vf, n, uid, noise, body = row
    return ChangeRow(seq, sf, id_.hex(), oid, op, bool(late), nb, na, vf, n, uid, bool(noise), unpack(body))

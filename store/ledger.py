"""The embedded ledger: executes row operations on SQLite, keeps the position, dead letters and evidence.

It knows rows and indexes, nothing of what they mean: planning is `store.planner`, what the planner reads back
`store.believed`, questions are `store.rewind`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import orjson

from migrations import migrate, pending
from schema.errors import StoreCorrupt, StoreMissing
from schema.identity import Key, parse_key
from schema.identity import oid as oid_of
from schema.instants import MAX
from schema.kinds import class_of
from schema.records import Evidence
from store.believed import CHANGE, OPEN, Believed
from store.bodies import pack, unpack
from store.files import connect
from store.pending import Identity, Pending
from store.rows import (
    BucketRow,
    ChangeRow,
    Close,
    Content,
    EdgeRow,
    Insert,
    ObjectRow,
    OpenGap,
    Row,
    RowOp,
    SetHorizon,
    Supersede,
    VersionRow,
)

_CACHE = 65_536
"""KiB of pages that SQLite may hold: ids are hashes, so rows of one batch lie all over the file."""
_CHECKPOINT = 8_000
"""Pages (32 MiB) after which the write-ahead log goes into the file: a page that many batches touch is moved once."""
_KNOWN = 200_000
"""How many keys are remembered as being there, about 250 bytes each; beyond it, all are forgotten and asked again."""
_FACT = {"version": "oid", "edge": "eid", "coverage": "cid", "change": "seq"}


class SqliteLedger(Believed):
    """One ledger file. `path` ":memory:" for a throw-away one.

    Raises StoreMissing when `readonly` and there is nothing, or only rows of an older Hindgraph; StoreError when not
    `readonly` and the file may only be read; StoreVersion when a newer Hindgraph wrote it.
    """

    def __init__(self, path: Path | str, *, readonly: bool = False) -> None:
        if readonly and not Path(path).exists():
            raise StoreMissing(f"no ledger at {path}", hint="record or replay something first")
        super().__init__(connect(path, readonly=readonly))
        if readonly:
            if pending(self.connection, "ledger"):
                self.connection.close()
                raise StoreMissing(
                    f"the ledger at {path} is one of an older Hindgraph",
                    hint="`hindgraph project` brings it up, from the log where need be",
                )
        else:
            migrate(self.connection, "ledger")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.execute(f"PRAGMA cache_size = -{_CACHE}")
        self.connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
        self._known: dict[str, int] = {}

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

    def become(self, other: SqliteLedger) -> None:
        """Turn into a copy of another ledger, in one transaction: readers see the old rows or the new ones."""
        other.connection.backup(self.connection)
        self._known.clear()
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- executing

    def execute(self, ops: Iterable[RowOp]) -> None:
        """Run row operations inside the caller's transaction. They may be written as late as its end."""
        for op in ops:
            if isinstance(op, Insert):
                self._insert(op.row)
            elif isinstance(op, Close):
                if op.table == "coverage":
                    self._one(f"UPDATE coverage SET vt = ?, vts = ? WHERE cid = ? AND {OPEN}", (op.vt, op.vts, op.fact))
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
            elif isinstance(op, SetHorizon):
                self.connection.execute("INSERT OR REPLACE INTO horizon VALUES (?,?,?)", (op.scope, op.at, op.seq))
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
        self._name(todo.objects)
        # Rows of before are closed before others open, so that a fact never has two open rows.
        self._close_all("version", "vt = ?, vts = ?, vlo = ?", todo.versions.closes)
        self._close_all("edge", "vt = ?, vts = ?", todo.edges.closes)
        run = self.connection.executemany
        for rows, sql in (
            (todo.contents, "INSERT INTO content VALUES (?,?,?,?,?)"),
            (todo.changes, f"INSERT INTO change ({CHANGE}, st) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
            (todo.versions.rows, "INSERT INTO version VALUES (?,?,?,?,?,?,?,?,?,?,?)"),
            (todo.edges.rows, "INSERT INTO edge VALUES (?,?,?,?,?,?,?,?,?,?,?)"),
            (todo.buckets, "INSERT OR IGNORE INTO bucket VALUES (?,?)"),
        ):
            if rows:
                run(sql, rows)

    def _name(self, objects: list[Identity]) -> None:
        """Write identities; raises StoreCorrupt if another key has the same 64-bit id."""
        if not objects:
            return
        insert = "INSERT OR IGNORE INTO object VALUES (?,?,?,?,?,?,?,?,?)"
        if self.connection.executemany(insert, objects).rowcount == len(objects):
            return
        for oid, text, *_ in objects:
            found = self.connection.execute("SELECT key FROM object WHERE oid = ?", (oid,)).fetchone()
            if found[0] != text:
                raise StoreCorrupt(f"two keys share one id: {found[0]} and {text}")

    def _close_all(self, table: str, sets: str, closes: list[tuple[int, ...]]) -> None:
        if closes:
            fact = _FACT[table]
            # The open row is the last in time: a walk down the primary key meets it first, however deep the history.
            sql = (
                f"UPDATE {table} SET {sets} WHERE ({fact}, vf, seq, sf) = (SELECT {fact}, vf, seq, sf FROM {table} "
                f"WHERE {fact} = ? AND {OPEN} ORDER BY vf DESC, seq DESC LIMIT 1)"
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
        """Make an identity known."""
        oid = self._known.get(text)
        if oid is not None:
            return oid
        oid = oid_of(text)
        row = (oid, text, key.source, key.scope, key.type, kind, class_, key.namespace, key.name)
        self._pending.objects.append(row)
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[text] = oid
        return oid

    # -- position, dead letters, evidence

    def position(self, scope: str) -> tuple[int, int]:
        """(log position, system time) of the last record projected for this scope; (0, 0) before the first."""
        row = self.connection.execute("SELECT position, s FROM position WHERE scope = ?", (scope,)).fetchone()
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def floor(self) -> int:
        """The log position up to which every scope is projected; 0 for a new ledger."""
        return int(self.connection.execute("SELECT coalesce(min(position), 0) FROM position").fetchone()[0])

    def positions(self) -> list[tuple[str, int, int]]:
        """(scope, log position, system time) of every scope."""
        return self.connection.execute("SELECT scope, position, s FROM position ORDER BY scope").fetchall()

    def top(self, scope: str) -> int:
        row = self.connection.execute("SELECT top FROM position WHERE scope = ?", (scope,)).fetchone()
        return -MAX if row is None else int(row[0])

    def end(self) -> int:
        """The last log position projected for any scope; 0 for a new ledger."""
        return int(self.connection.execute("SELECT coalesce(max(position), 0) FROM position").fetchone()[0])

    def horizon(self, scope: str) -> int:
        row = self.connection.execute("SELECT at FROM horizon WHERE scope = ?", (scope,)).fetchone()
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
            ("horizon", "scope"),
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


def _unmet(met: int, wanted: int, sql: str) -> StoreCorrupt:
    return StoreCorrupt(f"row operations met {met} rows instead of {wanted}: {sql}", hint="run hindgraph verify")

"""What is believed now, read from SQLite for the planner: ends of chains, and the rows about a stretch of time.

Rows of the transaction under way may not be written yet; a read that is about such a row has them written first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

import orjson

from schema.canonical import Json
from schema.errors import StoreCorrupt
from schema.instants import MAX
from schema.patch import PatchOp, apply_in_place
from schema.records import ObjectRef
from store.bodies import unpack
from store.correction import Place
from store.pending import Pending
from store.rows import ChangeRow, CoverageRow, EdgeRow, Interval, VersionRow

CHANGE = "seq, sf, id, oid, op, late, nb, na, vf, n, uid, noise, body"
_VERSION = "vf, vt, vts, sf, st, seq, lo, vlo, n, uid"
_REF = "o.source, o.scope, o.type, o.kind, o.class, o.namespace, o.name"
OPEN = f"st = {MAX} AND vt = {MAX}"
_CHAIN = {False: "", True: "AND late = 0 "}
_START = "SELECT max(vf) FROM {table} WHERE {fact} = ?1 AND st = ?2 AND vf < vt AND vf <= ?3"
_MANY = 500
"""How many ids one look-up asks for."""


class Believed:
    """The reading half of a ledger."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._pending = Pending()

    def settle(self) -> None:
        """Write what is pending. A ledger that is only read has nothing."""

    def _settle_for(self, oid: int) -> None:
        if oid in self._pending.oids:
            self.settle()

    def ref(self, oid: int) -> ObjectRef | None:
        self._settle_for(oid)
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
            state = apply_in_place(state, patch)
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
        """Which of these changes and states are written, whether still believed or not."""
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
            f"SELECT {CHANGE} FROM change WHERE id = ? AND st = ?", (bytes.fromhex(change_id), MAX)
        ).fetchone()
        return None if row is None else _change_row(row)

    def last_change(self, oid: int, *, chain: bool = False) -> ChangeRow | None:
        """The last believed change of an object in time; of its chain of patches, if asked."""
        return self.change_before(oid, (MAX, MAX), chain=chain)

    def change_before(self, oid: int, place: Place, *, chain: bool = False) -> ChangeRow | None:
        self._settle_for(oid)
        row = self.connection.execute(
            f"SELECT {CHANGE} FROM change WHERE oid = ? AND st = ? AND (vf, seq) < (?, ?) {_CHAIN[chain]}"
            "ORDER BY vf DESC, seq DESC LIMIT 1",
            (oid, MAX, *place),
        ).fetchone()
        return None if row is None else _change_row(row)

    def changes_after(self, oid: int, place: Place, *, chain: bool = False) -> Iterator[ChangeRow]:
        self._settle_for(oid)
        rows = self.connection.execute(
            f"SELECT {CHANGE} FROM change WHERE oid = ? AND st = ? AND (vf, seq) > (?, ?) {_CHAIN[chain]}"
            "ORDER BY vf, seq",
            (oid, MAX, *place),
        )
        return map(_change_row, rows)

    def changes_within(self, oid: int, first: Place, last: Place) -> list[ChangeRow]:
        self._settle_for(oid)
        rows = self.connection.execute(
            f"SELECT {CHANGE} FROM change WHERE oid = ? AND st = ? AND (vf, seq) >= (?, ?) AND (vf, seq) <= (?, ?) "
            "ORDER BY vf, seq",
            (oid, MAX, *first, *last),
        )
        return [_change_row(row) for row in rows]

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
                f"SELECT n, uid FROM version WHERE oid = ? AND {OPEN} ORDER BY vf DESC, seq DESC LIMIT 1", (oid,)
            ).fetchone()
            if last is not None:
                yield oid, _ref(ref, last[1]), last[0]

    def gaps(self) -> set[int]:
        """The objects whose chain is broken."""
        return {row[0] for row in self.connection.execute("SELECT oid FROM gap WHERE until = ?", (MAX,))}


def _ref(row: Sequence[str], uid: str | None = None) -> ObjectRef:
    source, scope, type_, kind, class_, namespace, name = row
    return ObjectRef(
        source=source, scope=scope, type=type_, kind=kind, class_=class_, namespace=namespace, name=name, uid=uid
    )


def _change_row(
    row: tuple[int, int, bytes, int, str, int, int, int, int, int | None, str | None, int, bytes],
) -> ChangeRow:
    """A ChangeRow from the columns `CHANGE`."""
    seq, sf, id_, oid, op, late, nb, na, vf, n, uid, noise, body = row
    return ChangeRow(seq, sf, id_.hex(), oid, op, bool(late), nb, na, vf, n, uid, bool(noise), unpack(body))

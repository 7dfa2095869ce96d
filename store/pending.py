"""Row operations of one transaction, gathered so that each table is written in one go.

A row that is opened and closed in one transaction is written once, closed. Rows are kept in the order of their table's
columns; which SQL writes them, and when it must be written because somebody reads, is the business of the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from schema.instants import MAX
from store.rows import BucketRow, ChangeRow, Close, Content, EdgeRow, VersionRow

Cell = int | str | bytes | None
Identity = tuple[int, str, str, str, str, str, str, str | None, str]
"""A row of `object`: id, key, source, scope, type, kind, class, namespace, name."""


@dataclass(slots=True)
class Timeline:
    """Versions or edges: `closes` of rows written earlier (vt, vts, vlo if bounded, fact), `rows`, and the open ones of
    each fact among them: one, unless odd objects give an edge twice (two of one uid). Then each close meets one."""

    closes: list[tuple[int, ...]] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    open: dict[int, list[list[Cell]]] = field(default_factory=dict)

    def close(self, op: Close, *, bounded: bool) -> None:
        open_rows = self.open.get(op.fact)
        if not open_rows:
            self.closes.append((op.vt, op.vts, op.vlo, op.fact) if bounded else (op.vt, op.vts, op.fact))
            return
        row = open_rows.pop()
        row[5], row[6] = op.vt, op.vts
        if bounded:
            row[8] = op.vlo

    def insert(self, fact: int, row: list[Cell]) -> None:
        self.rows.append(row)
        if row[5] == MAX:
            self.open.setdefault(fact, []).append(row)


@dataclass(slots=True)
class Pending:
    """What is planned and not written yet. `oids` are the objects, `eids` the edges that it is about."""

    objects: list[Identity] = field(default_factory=list)
    contents: list[tuple[Cell, ...]] = field(default_factory=list)
    changes: list[tuple[Cell, ...]] = field(default_factory=list)
    buckets: list[tuple[Cell, ...]] = field(default_factory=list)
    versions: Timeline = field(default_factory=Timeline)
    edges: Timeline = field(default_factory=Timeline)
    oids: set[int] = field(default_factory=set)
    eids: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.oids or self.eids or self.objects or self.buckets)

    def close(self, op: Close) -> None:
        if op.table == "version":
            self.oids.add(op.fact)
            self.versions.close(op, bounded=True)
        else:
            self.eids.add(op.fact)
            self.edges.close(op, bounded=False)

    def content(self, row: Content, pack: Callable[[bytes], bytes]) -> None:
        self.oids.add(row.oid)
        self.contents.append((row.oid, row.n, row.anchor, bytes.fromhex(row.digest), pack(row.body)))

    def change(self, row: ChangeRow, pack: Callable[[bytes], bytes]) -> None:
        self.oids.add(row.oid)
        self.changes.append(
            (
                row.seq, row.sf, bytes.fromhex(row.id), row.oid, row.op, row.late, row.nb, row.na, row.vf, row.n,
                row.uid, row.noise, pack(row.body), MAX,
            )
        )  # fmt: skip

    def version(self, row: VersionRow) -> None:
        self.oids.add(row.oid)
        span = row.span
        five = (span.vf, span.seq, span.sf, span.st, span.vt, span.vts)
        self.versions.insert(row.oid, [row.oid, *five, row.lo, row.vlo, row.n, row.uid])

    def edge(self, row: EdgeRow, src: int, dst: int) -> None:
        self.eids.add(row.eid)
        span = row.span
        five = (span.vf, span.seq, span.sf, span.st, span.vt, span.vts)
        self.edges.insert(row.eid, [row.eid, *five, row.predicate, src, dst, row.body])

    def bucket(self, row: BucketRow) -> None:
        self.buckets.append((row.bucket, row.oid))

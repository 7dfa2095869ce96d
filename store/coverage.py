"""How well each group-resource was watched, as rows: one coverage record to row operations. Pure.

What a gap or an end of coverage means for an answer is left to whoever answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from schema.canonical import canonical, hash64
from schema.instants import MAX
from schema.records import Coverage
from store.rows import Close, CoverageRow, Insert, Interval, RowOp, Supersede


def coverage_id(record: Coverage) -> int:
    """64-bit id of what was watched: a group-resource of a scope, in all namespaces or in some."""
    spaces = ",".join(sorted(record.namespaces)) if record.namespaces else "*"
    return hash64(f"{record.source}\n{record.scope}\n{record.group_resource}\n{spaces}")


def cover(cid: int, rows: Sequence[CoverageRow], record: Coverage, seq: int, s: int) -> list[RowOp]:
    """Operations after which the record holds over its interval, and the believed `rows` elsewhere."""
    body = canonical(
        {
            "group_resource": record.group_resource, "namespaces": record.namespaces, "state": record.state,
            "reason": record.reason, "epoch": record.epoch,
        }
    ).decode()  # fmt: skip
    start, end = record.valid.from_, record.valid.to
    ops: list[RowOp] = []
    inserts: list[RowOp] = []
    for row in rows:
        span = row.span
        if span.vt <= start or span.vf >= end:
            continue
        if span.vt == MAX and end == MAX and span.vf < start:
            ops.append(Close("coverage", cid, start, s))
            continue
        ops.append(Supersede("coverage", cid, span.vf, span.seq, span.sf, s))
        for vf, vt in ((span.vf, start), (end, span.vt)):
            if vf < vt:
                rest = Interval(vf, vt, MAX if vt == MAX else s, s, MAX, span.seq)
                inserts.append(Insert(row._replace(span=rest)))
    span = Interval(start, end, MAX if end == MAX else s, s, MAX, seq)
    return [*ops, *inserts, Insert(CoverageRow(cid, span, f"{record.source}/{record.scope}", body))]

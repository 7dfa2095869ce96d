"""Edges as rows: the body that a fact leaves in a row, and what a correction makes of the rows of one edge. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from schema.canonical import Json, canonical
from schema.instants import MAX
from store.derive.facts import EdgeFact, Named
from store.derive.sides import same
from store.rows import Close, EdgeRow, Insert, Interval, RowOp
from store.timeline import revise_edge

PLAIN: dict[str, Json] = {"attrs": {}, "basis": "declared", "confidence": 1.0, "discriminator": ""}


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `vf` to `vt` the edge is what `fact` says, or is not (None)."""

    vf: int
    vt: int
    fact: EdgeFact | None


def edge_body(fact: EdgeFact) -> str:
    """Canonical JSON of what an edge says beside its ends; what most edges say alike (`PLAIN`) is left out."""
    body: dict[str, Json] = {"rule": fact.rule}
    if fact.attrs:
        body["attrs"] = fact.attrs
    if fact.discriminator:
        body["discriminator"] = fact.discriminator
    if fact.basis != PLAIN["basis"]:
        body["basis"] = fact.basis
    if fact.confidence != PLAIN["confidence"]:
        body["confidence"] = fact.confidence
    return canonical(body).decode()


def edge_row(eid: int, fact: EdgeFact, span: Interval) -> EdgeRow:
    return EdgeRow(eid, span, fact.predicate, fact.src, fact.dst, edge_body(fact))


def moved(before: Named, after: Named) -> Iterator[tuple[int, bool, EdgeFact | None]]:
    """Every edge that is gone, says something else or is new: its id, whether it was there, what it says now."""
    for name, old in before.items():
        new = after.get(name)
        if new is None or not same(old, new):
            yield old.eid, True, new
    for name, new in after.items():
        if name not in before:
            yield new.eid, False, new


def in_order(before: Named, after: Named, vf: int, seq: int, s: int) -> Iterator[RowOp]:
    """From `vf` on, the facts `after` hold instead of `before`."""
    for eid, stood, fact in moved(before, after):
        if stood:
            yield Close("edge", eid, vf, s)
        if fact is not None:
            yield Insert(edge_row(eid, fact, Interval(vf, MAX, MAX, s, MAX, seq)))


def corrected(eid: int, rows: Sequence[EdgeRow], stretches: Iterable[Stretch], seq: int, s: int) -> list[RowOp]:
    """Operations after which the edge is as the stretches say where they reach, and as before elsewhere.

    `rows` are the believed rows of the edge that overlap or touch the stretches.
    """
    wanted = [row for row in rows if row.span.vf < row.span.vt]
    for stretch in stretches:
        wanted = [part for row in wanted for part in _outside(row, stretch)]
        if stretch.fact is not None:
            wanted.append(edge_row(eid, stretch.fact, Interval(stretch.vf, stretch.vt, MAX, s, MAX, seq)))
    return revise_edge(eid, rows, _believed(_coalesce(wanted), rows, seq, s), s)


def _outside(row: EdgeRow, stretch: Stretch) -> Iterator[EdgeRow]:
    if row.span.vt <= stretch.vf or stretch.vt <= row.span.vf:
        yield row
        return
    if row.span.vf < stretch.vf:
        yield row._replace(span=row.span._replace(vt=stretch.vf))
    if stretch.vt < row.span.vt:
        yield row._replace(span=row.span._replace(vf=stretch.vt))


def _coalesce(rows: Iterable[EdgeRow]) -> list[EdgeRow]:
    """Touching stretches that say the same become one."""
    out: list[EdgeRow] = []
    for row in sorted(rows, key=lambda row: (row.span.vf, row.span.vt)):
        last = out[-1] if out else None
        if last is not None and last.span.vt == row.span.vf and last.body == row.body:
            out[-1] = last._replace(span=last.span._replace(vt=row.span.vt))
        else:
            out.append(row)
    return out


def _believed(wanted: Iterable[EdgeRow], rows: Sequence[EdgeRow], seq: int, s: int) -> list[EdgeRow]:
    """Wanted stretches as rows believed from `s`; where believed rows already tile a stretch, those rows instead."""
    out = []
    for row in wanted:
        tiles = _tiling(row, rows)
        if tiles is not None:
            out.extend(tiles)
            continue
        vts = MAX if row.span.vt == MAX else s
        out.append(row._replace(span=Interval(row.span.vf, row.span.vt, vts, s, MAX, seq)))
    return out


def _tiling(row: EdgeRow, rows: Sequence[EdgeRow]) -> list[EdgeRow] | None:
    tiles = []
    at = row.span.vf
    for one in sorted(rows, key=lambda one: (one.span.vf, one.span.vt)):
        if one.span.vf == at and one.body == row.body and one.span.vt > at:
            tiles.append(one)
            at = one.span.vt
    return tiles if at == row.span.vt and tiles else None

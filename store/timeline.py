"""From what was recorded of one object to its timeline: pure, and the one place where order in time is decided.

Sorted by (instant, log position), each believed change holds until the next. A correction writes the difference between
the timeline it finds and the timeline it wants (`revise_versions`, `revise_edge`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from schema.instants import MAX
from store.rows import ChangeRow, Close, EdgeRow, Insert, Interval, RowOp, Supersede, VersionRow

_Row = TypeVar("_Row", VersionRow, EdgeRow)


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of a timeline: content `n` of `uid` from `vf` to `vt`; `lo` and `vlo` bound both below."""

    vf: int
    vt: int
    lo: int
    vlo: int
    n: int
    uid: str | None
    seq: int


def pieces(changes: Iterable[ChangeRow]) -> list[Piece]:
    """The timeline of one object out of its believed changes. Deletes leave a hole."""
    ordered = sorted(changes, key=lambda row: (row.vf, row.seq))
    out = []
    followers: list[ChangeRow | None] = [*ordered[1:], None]
    for here, after in zip(ordered, followers, strict=False):
        if here.n is None:
            continue
        vt, vlo = (after.vf, min(after.nb, after.vf)) if after else (MAX, MAX)
        out.append(Piece(here.vf, vt, min(here.nb, here.vf), vlo, here.n, here.uid, here.seq))
    return out


def segments(
    was: Sequence[Piece], now: Sequence[Piece], since: int
) -> Iterator[tuple[int, int, Piece | None, Piece | None]]:
    """The stretches from `since` on in which two timelines of one object hold different states: [vf, vt), what was,
    what is (None: nothing)."""
    cuts = sorted({since} | {max(at, since) for piece in (*was, *now) for at in (piece.vf, piece.vt)})
    old, new = _at(was, cuts), _at(now, cuts)
    for (vf, vt), before, after in zip(pairwise(cuts), old, new, strict=False):
        if (before and (before.n, before.uid)) != (after and (after.n, after.uid)):
            yield vf, vt, before, after


def _at(timeline: Sequence[Piece], instants: Sequence[int]) -> list[Piece | None]:
    """The piece that holds at each of the ascending instants."""
    held = [piece for piece in timeline if piece.vf < piece.vt]
    starts = [piece.vf for piece in held]
    found = (bisect_right(starts, at) - 1 for at in instants)
    return [held[i] if i >= 0 and at < held[i].vt else None for i, at in zip(found, instants, strict=True)]


def revise_versions(oid: int, rows: Sequence[VersionRow], wanted: Sequence[Piece], s: int) -> list[RowOp]:
    """Operations that turn the believed `rows` of an object into the `wanted` timeline, as of system time `s`."""

    def make(piece: Piece) -> VersionRow:
        span = Interval(piece.vf, piece.vt, MAX if piece.vt == MAX else s, s, MAX, piece.seq)
        return VersionRow(oid, span, piece.lo, piece.vlo, piece.n, piece.uid)

    def same(row: VersionRow) -> tuple[object, ...]:
        return row.span.vf, row.span.seq, row.lo, row.n, row.uid

    return _revise("version", oid, rows, [make(piece) for piece in wanted], same, s)


def revise_edge(eid: int, rows: Sequence[EdgeRow], wanted: Sequence[EdgeRow], s: int) -> list[RowOp]:
    """The same for one edge."""
    return _revise("edge", eid, rows, wanted, lambda row: (row.span.vf, row.body), s)


def _revise(
    table: str,
    fact: int,
    rows: Sequence[_Row],
    wanted: Sequence[_Row],
    same: Callable[[_Row], tuple[object, ...]],
    s: int,
) -> list[RowOp]:
    believed = {same(row): row for row in rows}
    supersede: list[RowOp] = []
    close: list[RowOp] = []
    insert: list[RowOp] = []
    for row in wanted:
        old = believed.pop(same(row), None)
        vlo = row.vlo if isinstance(row, VersionRow) else MAX
        old_vlo = old.vlo if isinstance(old, VersionRow) else MAX
        if old is not None and old.span.vt == row.span.vt and old_vlo == vlo:
            continue
        if old is not None and old.span.vt == MAX:
            close.append(Close(table, fact, row.span.vt, s, vlo))
            continue
        if old is not None:
            supersede.append(_supersede(table, fact, old.span, s))
        insert.append(Insert(row))
    supersede.extend(_supersede(table, fact, row.span, s) for row in believed.values())
    return [*supersede, *close, *insert]


def _supersede(table: str, fact: int, span: Interval, s: int) -> Supersede:
    return Supersede(table, fact, span.vf, span.seq, span.sf, s)

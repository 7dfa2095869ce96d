"""What comes late or corrects: the window of time in which one object was believed to be other than it is now.

A full state from before, an amendment, a retraction, or a change that is older than something else of its scope moves
a few of the object's changes. Only what lies between the change before the first of them and the change after the last
is planned anew: versions by comparing both timelines, edges only where the state itself is another, and pairs only with
those partners that ever stood in the bucket and were there at the time. So the cost follows the correction, not the
depth of the history or the size of the scope.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from schema.canonical import Json
from schema.identity import Key
from schema.identity import oid as oid_of
from schema.instants import MAX
from schema.records import ObjectRef
from store.derive.addresses import Lent
from store.derive.sides import (
    CALLER,
    NOTHING,
    Derived,
    Facing,
    Shown,
    Sides,
    bucket_id,
    buckets_of,
    changed,
    derived,
    filled,
    meet,
    readers_id,
)
from store.edges import Stretch, corrected, moved
from store.rows import BucketRow, ChangeRow, EdgeRow, Insert, RowOp, Supersede, VersionRow
from store.timeline import Piece, pieces, revise_versions, segments

DERIVED = 4096
"""How many past states keep what was derived from them, about 10 KB each: corrections come in crowds."""

Turn = tuple[int, int, int, Facing, Facing]
"""From, to, side, and the facets that are gone and new there."""

Place = tuple[int, int]
"""(instant, log position): where a change stands among those of its object."""


class History(Protocol):
    """What corrections must know of the past. All of it is about rows believed now."""

    def ref(self, oid: int) -> ObjectRef | None: ...
    def content(self, oid: int, n: int) -> dict[str, Json]: ...
    def change_before(self, oid: int, place: Place, *, chain: bool = False) -> ChangeRow | None: ...
    def changes_after(self, oid: int, place: Place, *, chain: bool = False) -> Iterator[ChangeRow]: ...
    def changes_within(self, oid: int, first: Place, last: Place) -> list[ChangeRow]: ...
    def versions_within(self, oid: int, first: Place, last: Place) -> list[VersionRow]: ...
    def versions_during(self, oid: int, since: int, until: int) -> list[VersionRow]: ...
    def edge_rows(self, eid: int, since: int, until: int) -> list[EdgeRow]: ...
    def standing(self, bucket: int) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Shift:
    """Changes of one object that are no longer believed as they stand, and those that are instead."""

    lost: Sequence[ChangeRow]
    gained: Sequence[ChangeRow]


@dataclass(slots=True)
class Correction:
    """Operations, and what they make of the present: `shown` by what lives now if that is another (else None), `last`
    the log position of the row that decides it if the window reaches the present (else None)."""

    ops: list[RowOp]
    shown: Shown | None = None
    last: int | None = None


@dataclass(slots=True)
class Corrector:
    """Plans corrections over one history."""

    history: History
    _derived: OrderedDict[tuple[int, int, str | None], Derived] = field(default_factory=OrderedDict)

    def shift_of(self, row: ChangeRow, instead: ChangeRow | None, s: int) -> Shift:
        """What losing `row`, or having `instead` for it, does to the chain: each change takes effect at its own
        instant, but never before its predecessor in the log, so followers may move until one stands as it stood."""
        place = (row.vf, row.seq)
        if row.late:
            return Shift([row], [instead._replace(vf=instead.na)] if instead else [])
        before = self.history.change_before(row.oid, place, chain=True)
        floor = before.vf if before else -MAX
        lost, gained = [row], []
        if instead:
            floor = max(instead.na, floor)
            gained.append(instead._replace(vf=floor))
        for follower in self.history.changes_after(row.oid, place, chain=True):
            floor = max(follower.na, floor)
            if floor == follower.vf:
                break
            lost.append(follower)
            gained.append(follower._replace(vf=floor, sf=s))
        return Shift(lost, gained)

    def correct(
        self, oid: int, ref: ObjectRef, shift: Shift, states: Mapping[int, dict[str, Json]], seq: int, s: int
    ) -> Correction:
        """Operations that make a shift true. `states` holds contents that are not stored yet."""
        places = sorted((row.vf, row.seq) for row in (*shift.lost, *shift.gained))
        first, last = places[0], places[-1]
        before = self.history.change_before(oid, first)
        after = next(self.history.changes_after(oid, last), None)
        beside = [row for row in (before, after) if row is not None]
        inner = self.history.changes_within(oid, first, last)
        lost = {row.seq for row in shift.lost}
        now = [*beside, *(row for row in inner if row.seq not in lost), *shift.gained]
        was, wanted = (
            [piece for piece in pieces(rows) if after is None or piece.seq != after.seq]
            for rows in ([*beside, *inner], now)
        )
        ops: list[RowOp] = [Supersede("change", row.seq, row.vf, row.seq, row.sf, s) for row in shift.lost]
        ops.extend(Insert(row) for row in shift.gained)
        start = (before.vf, before.seq) if before else first
        ops.extend(revise_versions(oid, self.history.versions_within(oid, start, last), wanted, s))
        correction = Correction(ops)
        self._edges(correction, oid, ref, segments(was, wanted, first[0]), states, seq, s)
        if after is None:
            correction.last = max(((row.vf, row.seq) for row in now), default=(0, 0))[1]
        return correction

    def _edges(
        self, correction: Correction, oid: int, ref: ObjectRef,
        parts: Iterable[tuple[int, int, Piece | None, Piece | None]],
        states: Mapping[int, dict[str, Json]], seq: int, s: int,
    ) -> None:  # fmt: skip
        stretches: dict[int, list[Stretch]] = defaultdict(list)
        stood: dict[int, set[int]] = defaultdict(set)
        for n in states:
            stood[oid] |= buckets_of(self._of(oid, ref, n, states).shown)
        for vf, vt, was, now in parts:
            old = NOTHING if was is None else self._of(oid, _as(ref, was.uid), was.n, states)
            new = NOTHING if now is None else self._of(oid, _as(ref, now.uid), now.n, states)
            for eid, _, fact in moved(old.facts, new.facts):
                stretches[eid].append(Stretch(vf, vt, fact))
            turns = [(oid, turn) for turn in _turns(self._filled(old.shown, vf, vt), self._filled(new.shown, vf, vt))]
            if old.shown.lent != new.shown.lent:
                turns.extend(self._borrowed(ref.key, old.shown.lent, new.shown.lent, vf, vt))
            for one, (lo, hi, side, mine, yours) in turns:
                if side == CALLER:
                    stood[one] |= {bucket_id(side, facet) for facet in yours}
                for eid, stretch in self._pairs(one, side, mine, yours, lo, hi):
                    stretches[eid].append(stretch)
            if vt == MAX:
                correction.shown = new.shown
        correction.ops.extend(Insert(BucketRow(bucket, one)) for one in stood for bucket in sorted(stood[one]))
        for eid, parts_of in sorted(stretches.items()):
            parts_of.sort(key=lambda stretch: stretch.vf)
            rows = self.history.edge_rows(eid, parts_of[0].vf, parts_of[-1].vt)
            correction.ops.extend(corrected(eid, rows, parts_of, seq, s))

    def _borrowed(
        self, config: Key, was: Lent | None, now: Lent | None, vf: int, vt: int
    ) -> Iterator[tuple[int, Turn]]:
        """What those who read a ConfigMap during [vf, vt) show instead, now that it holds something else."""
        for other in self.history.standing(readers_id(config)):
            for lo, hi, theirs in self._during(other, vf, vt):
                if config in theirs.reads:
                    before = self._filled(theirs, lo, hi, (config, was))
                    for turn in _turns(before, self._filled(theirs, lo, hi, (config, now))):
                        yield other, turn

    def _filled(
        self, shown: Shown, vf: int, vt: int, instead: tuple[Key, Lent | None] | None = None
    ) -> list[tuple[int, int, Sides]]:
        """What is shown during [vf, vt), stretch by stretch, with the ConfigMaps of then; `instead`: one of them with
        what it is to hold."""
        lent = {key: self._during(oid_of(key), vf, vt) for key in shown.reads if not instead or key != instead[0]}
        marks = {vf, vt, *(mark for rows in lent.values() for lo, hi, _ in rows for mark in (lo, hi))}
        found = []
        for lo, hi in pairwise(sorted(marks)):
            now = {key: one.lent for key, rows in lent.items() for since, until, one in rows if since <= lo < until}
            if instead:
                now[instead[0]] = instead[1]
            found.append((lo, hi, filled(shown, now.get)))
        return found

    def _during(self, oid: int, vf: int, vt: int) -> list[tuple[int, int, Shown]]:
        """What an object showed during [vf, vt)."""
        ref = self.history.ref(oid)
        rows = [] if ref is None else self.history.versions_during(oid, vf, vt)
        found = []
        for row in rows:
            lo, hi = max(vf, row.span.vf), min(vt, row.span.vt)
            if ref is not None and lo < hi:
                found.append((lo, hi, self._of(oid, _as(ref, row.uid), row.n, {}).shown))
        return found

    def _pairs(
        self, oid: int, side: int, mine: Facing, yours: Facing, vf: int, vt: int
    ) -> Iterator[tuple[int, Stretch]]:
        """How the pairs of one side differ during [vf, vt), with the partners of then."""
        buckets = {bucket_id(side ^ 1, facet) for facet in (*mine, *yours)}
        for other in sorted({one for bucket in buckets for one in self.history.standing(bucket)} - {oid}):
            for since, until, shown in self._during(other, vf, vt):
                for lo, hi, theirs in self._filled(shown, since, until):
                    facing = theirs[side ^ 1]
                    for eid, _, fact in moved(meet(side, mine, facing), meet(side, yours, facing)):
                        yield eid, Stretch(lo, hi, fact)

    def _of(self, oid: int, ref: ObjectRef, n: int, states: Mapping[int, dict[str, Json]]) -> Derived:
        name = (oid, n, ref.uid)
        found = self._derived.get(name)
        if found is None:
            state = states.get(n) or self.history.content(oid, n)
            found = self._derived[name] = derived(ref, state)
            if len(self._derived) > DERIVED:
                self._derived.popitem(last=False)
        else:
            self._derived.move_to_end(name)
        return found


def _turns(was: Iterable[tuple[int, int, Sides]], now: Sequence[tuple[int, int, Sides]]) -> Iterator[Turn]:
    """How two tellings of one stretch differ, side by side: the facets that are gone, and those that are new."""
    for since, until, mine in was:
        for first, last, yours in now:
            lo, hi = max(since, first), min(until, last)
            if lo < hi:
                for side, before, after in changed(mine, yours):
                    yield lo, hi, side, before, after


def _as(ref: ObjectRef, uid: str | None) -> ObjectRef:
    return ref if ref.uid == uid else ref.model_copy(update={"uid": uid})

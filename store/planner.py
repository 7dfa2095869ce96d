"""From one record to row operations: what the bitemporal ledger must do to believe it.

Two ways, one result. A change that follows everything recorded so far closes the open row and opens the next, and its
edges follow the same way. Whatever comes late or corrects (a full state from before, an amendment, a retraction) is
planned by rebuilding the timelines that it touches and writing only the difference. The planner reads through `Reader`
and writes nothing; a record that does not fit raises an ApplyError before any operation exists.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import orjson

from schema.canonical import Json, canonical, digest, hash64
from schema.errors import BadPatch, UnknownTarget, WrongBase, WrongDigest
from schema.identity import oid as oid_of
from schema.instants import MAX
from schema.patch import apply
from schema.records import Amend, Change, Coverage, ObjectRef, Record, Retract, State
from store.derive import JOINS, EdgeFact, Facet, derive
from store.rows import (
    ChangeRow,
    Close,
    CloseGap,
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
from store.timeline import Piece, effective, pieces, revise_edge, revise_versions

ANCHOR_EVERY = 32
"""A whole state is stored at least this often, so that a read applies at most 31 patches."""

_NOT_IN_BODY = frozenset(("v", "type", "patch", "state"))
_State = dict[str, Json]


@dataclass(slots=True)
class Head:
    """The end of an object's chain: what the next live patch must apply to. `n` None: deleted, or never seen.

    `living` is what the object is in today by best knowledge, with `living_ref`: the chain's end, but for a late full
    state that an amendment left standing after it.
    """

    ref: ObjectRef
    vf: int
    n: int | None
    next_n: int
    anchor: int
    digest: str | None
    state: _State | None
    living_ref: ObjectRef
    living: _State | None


class Reader(Protocol):
    """What the planner must know of the ledger."""

    def ref(self, oid: int) -> ObjectRef | None: ...
    def content(self, oid: int, n: int) -> _State: ...
    def last_n(self, oid: int) -> int: ...
    def anchor(self, oid: int, n: int) -> tuple[int, str]: ...
    def changes_of(self, oid: int) -> list[ChangeRow]: ...
    def change_oid(self, change_id: str) -> int | None: ...
    def versions_of(self, oid: int) -> list[VersionRow]: ...
    def edge_rows(self, eid: int) -> list[EdgeRow]: ...
    def coverage_rows(self, cid: int) -> list[CoverageRow]: ...
    def oids(self, scope: str) -> list[int]: ...
    def live(self, scope: str) -> list[int]: ...
    def top(self, scope: str) -> int: ...
    def position(self, scope: str) -> tuple[int, int]: ...
    def open_gap(self, oid: int) -> bool: ...


class Planner:
    """Plans the records of one scope, in log order. It holds what it planned for believed: after a transaction that
    was rolled back, take a new one. `position` is the last log position it knows of.
    """

    def __init__(self, reader: Reader, scope: str) -> None:
        self._reader = reader
        self._scope = scope
        self.position = reader.position(scope)[0]
        self._heads: dict[int, Head] = {}
        self._facets: dict[tuple[str, str], dict[tuple[str, ...], dict[int, Facet]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._top = self._reader.top(self._scope)
        for oid in self._reader.live(self._scope):
            head = self._head(oid)
            if head is not None:
                self._index(oid, None, None, head.living_ref, head.living)

    @property
    def top(self) -> int:
        """The latest instant that any row of the scope begins or ends at."""
        return self._top

    def plan(self, record: Record, told: dict[str, Json], seq: int, s: int) -> list[RowOp]:
        """Row operations for one record, not seen before, at log position `seq` and system time `s`.

        `told` is the record as the log keeps it. Raises ApplyError when the record does not fit what is stored.
        """
        if isinstance(record, Change):
            return self._change(record, told, seq, s)
        if isinstance(record, State):
            return self._state(record, told, seq, s)
        if isinstance(record, Amend):
            return self._correct(record, record.amends, seq, s)
        if isinstance(record, Retract):
            return self._correct(record, record.retracts, seq, s)
        if isinstance(record, Coverage):
            return self._coverage(record, seq, s)
        return []

    def gap(self, ref: ObjectRef, seq: int, s: int, reason: str) -> list[RowOp]:
        """The marker that the chain of this object is broken here."""
        oid = oid_of(ref.key)
        return [] if self._reader.open_gap(oid) else [OpenGap(oid, seq, s, reason)]

    # -- in order

    def _change(self, record: Change, told: dict[str, Json], seq: int, s: int) -> list[RowOp]:
        oid = oid_of(record.object.key)
        head = self._head(oid) or _unseen(record.object)
        if record.op == "delete":
            if head.state is None:
                raise WrongBase(f"delete of {record.object.key}, which is not there")
            new: _State | None = None
        else:
            new = self._patched(record, head)
        vf = max(record.valid.not_after, head.vf)
        return self._place(record, told, head, new, record.digest, vf, record.valid.not_before, seq, s, record.op)

    def _patched(self, record: Change, head: Head) -> _State:
        whole = record.op in ("create", "observe")
        if not whole and (head.state is None or record.base != head.digest):
            raise WrongBase(
                f"change {record.id} of {record.object.key} is against {record.base}, stored is {head.digest}"
            )
        state = apply(None if whole else head.state, record.patch)
        if not isinstance(state, dict):
            raise BadPatch(f"change {record.id} of {record.object.key} does not give an object")
        if digest(state) != record.digest:
            raise WrongDigest(f"change {record.id} of {record.object.key} gives a state with another digest")
        return state

    def _state(self, record: State, told: dict[str, Json], seq: int, s: int) -> list[RowOp]:
        if digest(record.state) != record.digest:
            raise WrongDigest(f"state {record.id} of {record.object.key} has another digest")
        oid = oid_of(record.object.key)
        head = self._head(oid) or _unseen(record.object)
        instant = record.valid.not_after
        if instant < head.vf:
            n = head.next_n
            row = ChangeRow(
                seq, s, record.id, oid, "state", True, record.valid.not_before, instant, instant, n,
                record.object.uid, False, body_of(told),
            )  # fmt: skip
            head.next_n += 1
            content = Insert(Content(oid, n, n, record.digest, orjson.dumps(record.state)))
            extra = {n: record.state}
            return [content, Insert(row), *self._rebuild(oid, head.ref, [], [row], s, seq, extra)]
        if head.digest == record.digest and head.ref.uid == record.object.uid:
            return self._end_gap(oid, s)
        return self._place(
            record, told, head, record.state, record.digest, instant, record.valid.not_before, seq, s, "state"
        )

    def _place(
        self, record: Change | State, told: dict[str, Json], head: Head, new: _State | None, new_digest: str | None,
        vf: int, not_before: int, seq: int, s: int, op: str,
    ) -> list[RowOp]:  # fmt: skip
        """Put a state (None: a delete) at the end of the chain, effective at `vf`."""
        oid = oid_of(record.object.key)
        ops: list[RowOp] = []
        n: int | None = None
        anchor = head.anchor
        if new is not None:
            n = head.next_n
            follows = head.n is not None and head.n == n - 1 and isinstance(record, Change) and op == "update"
            if follows and isinstance(record, Change) and n - anchor < ANCHOR_EVERY:
                body = orjson.dumps(record.patch)
            else:
                body, anchor = orjson.dumps(new), n
            ops.append(Insert(Content(oid, n, anchor, new_digest or "", body)))
        lo = min(not_before, vf)
        noise = isinstance(record, Change) and "noise" in record.flags
        row = ChangeRow(
            seq, s, record.id, oid, op, False, not_before, max(record.valid.not_after, -MAX), vf, n,
            record.object.uid, noise, body_of(told),
        )  # fmt: skip
        ops.append(Insert(row))
        after_all = vf >= self._top and head.living is head.state
        if after_all:
            if head.n is not None:
                ops.append(Close("version", oid, vf, s, lo))
            if n is not None:
                ops.append(Insert(VersionRow(oid, Interval(vf, MAX, MAX, s, MAX, seq), lo, MAX, n, record.object.uid)))
            ops.extend(self._edges_in_order(oid, head, new, record.object, vf, seq, s))
        else:
            # Something else already moved at a later instant: joins must be worked out against closed rows too.
            extra = {} if n is None or new is None else {n: new}
            ops.extend(self._rebuild(oid, record.object, [], [row], s, seq, extra))
        ops.extend(self._end_gap(oid, s) if op != "update" else [])
        if after_all:
            self._index(oid, head.living_ref, head.living, record.object, new)
        rebuilt = self._heads.get(oid, head)
        living_ref, living = (record.object, new) if after_all else (rebuilt.living_ref, rebuilt.living)
        self._heads[oid] = Head(
            record.object, vf, n, head.next_n + (n is not None), anchor, new_digest if new is not None else None, new,
            living_ref, living,
        )  # fmt: skip
        self._top = max(self._top, vf)
        return ops

    def _end_gap(self, oid: int, s: int) -> list[RowOp]:
        return [CloseGap(oid, s)] if self._reader.open_gap(oid) else []

    # -- edges

    def _edges_in_order(
        self, oid: int, head: Head, new: _State | None, ref: ObjectRef, vf: int, seq: int, s: int
    ) -> list[RowOp]:
        old_facts = {} if head.state is None else self._facts(oid, head.ref, head.state)
        new_facts = {} if new is None else self._facts(oid, ref, new)
        ops: list[RowOp] = []
        restart = head.ref.uid != ref.uid
        for eid, fact in old_facts.items():
            if restart or eid not in new_facts or edge_body(new_facts[eid]) != edge_body(fact):
                ops.append(Close("edge", eid, vf, s))
        for eid, fact in new_facts.items():
            if restart or eid not in old_facts or edge_body(old_facts[eid]) != edge_body(fact):
                ops.append(Insert(edge_row(fact, Interval(vf, MAX, MAX, s, MAX, seq))))
        return ops

    def _facts(self, oid: int, ref: ObjectRef, state: _State) -> dict[int, EdgeFact]:
        """Every edge that the object gives, alone and with the living partners of today."""
        facts = {fact.eid: fact for fact in derive(ref, state)}
        for rule in JOINS:
            left = rule.left(ref, state)
            if left is not None:
                for other, right in self._facets[rule.id, "right"][left.bucket].items():
                    if other != oid:
                        facts.update((fact.eid, fact) for fact in rule.match(left, right))
            right_side = rule.right(ref, state)
            if right_side is not None:
                for other, left_side in self._facets[rule.id, "left"][right_side.bucket].items():
                    if other != oid:
                        facts.update((fact.eid, fact) for fact in rule.match(left_side, right_side))
        return facts

    def _index(
        self, oid: int, old_ref: ObjectRef | None, old: _State | None, ref: ObjectRef, new: _State | None
    ) -> None:
        """Keep the facets of living objects by rule, side and bucket."""
        for rule in JOINS:
            for side, facet_of in (("left", rule.left), ("right", rule.right)):
                index = self._facets[rule.id, side]
                before = None if old is None or old_ref is None else facet_of(old_ref, old)
                after = None if new is None else facet_of(ref, new)
                if before == after:
                    continue
                if before is not None:
                    index[before.bucket].pop(oid, None)
                if after is not None:
                    index[after.bucket][oid] = after

    # -- out of order

    def _correct(self, record: Amend | Retract, target: str, seq: int, s: int) -> list[RowOp]:
        oid = self._reader.change_oid(target)
        row = next((row for row in self._reader.changes_of(oid) if row.id == target), None) if oid is not None else None
        if row is None or oid is None:
            raise UnknownTarget(f"{record.type} {record.id} names change {target}, which is not there or withdrawn")
        ref = self._reader.ref(oid)
        if ref is None:
            raise UnknownTarget(f"{record.type} {record.id}: the object of change {target} is not there")
        ops: list[RowOp] = [Supersede("change", row.seq, row.vf, row.seq, row.sf, s)]
        if isinstance(record, Retract):
            return ops + self._rebuild(oid, ref, [row], [], s, seq, {})
        told = orjson.loads(row.body)
        for name in ("valid", "actor", "provenance"):
            value = getattr(record, name)
            if value is not None:
                told[name] = value.model_dump(mode="json", by_alias=True)
        fresh = replace(row, sf=s, body=orjson.dumps(told))
        if record.valid is not None:
            fresh = replace(fresh, nb=record.valid.not_before, na=record.valid.not_after)
        return ops + self._rebuild(oid, ref, [row], [fresh], s, seq, {}, insert=[fresh])

    def _rebuild(
        self, oid: int, ref: ObjectRef, gone: Sequence[ChangeRow], added: Sequence[ChangeRow], s: int, seq: int,
        extra: dict[int, _State], insert: Sequence[ChangeRow] = (),
    ) -> list[RowOp]:  # fmt: skip
        """Work out the whole timeline of an object anew, and that of every edge it takes part in."""
        stored = self._reader.changes_of(oid)
        lost = {row.seq for row in gone}
        before = pieces(stored)
        now = effective([row for row in stored if row.seq not in lost] + list(added))
        by_seq = {row.seq: row for row in stored}
        ops: list[RowOp] = []
        for row in now:
            old = by_seq.get(row.seq)
            if any(row.seq == one.seq for one in insert):
                ops.append(Insert(row))
            elif old is not None and old.vf != row.vf:
                ops.append(Supersede("change", row.seq, old.vf, row.seq, old.sf, s))
                ops.append(Insert(replace(row, sf=s)))
        after = pieces(now)
        ops.extend(revise_versions(oid, self._reader.versions_of(oid), after, s))
        ops.extend(self._edges_rebuilt(oid, ref, before, after, s, seq, extra))
        self._refresh_head(oid, ref, now, extra)
        instants = [row.vf for row in now] + [piece.vf for piece in before]
        self._top = max([self._top, *instants])
        return ops

    def _refresh_head(self, oid: int, ref: ObjectRef, rows: Sequence[ChangeRow], extra: dict[int, _State]) -> None:
        old = self._head(oid)
        head = self._head_of(oid, ref, rows, extra)
        head.next_n = max(head.next_n, old.next_n if old else 0)
        self._index(oid, old.living_ref if old else None, old.living if old else None, head.living_ref, head.living)
        self._heads[oid] = head

    def _head_of(self, oid: int, ref: ObjectRef, rows: Sequence[ChangeRow], extra: dict[int, _State]) -> Head:
        """The head that believed, effective `rows` in log order give; `extra` holds states not stored yet."""
        head = _unseen(ref)
        head.next_n = self._reader.last_n(oid) + 1
        chain = [row for row in rows if not row.late]
        if chain:
            last = chain[-1]
            head.ref, head.vf, head.n = ref.model_copy(update={"uid": last.uid}), last.vf, last.n
            if last.n is not None:
                stored = last.n not in extra
                head.state = self._reader.content(oid, last.n) if stored else extra[last.n]
                head.anchor = self._reader.anchor(oid, last.n)[0] if stored else 0
                head.digest = digest(head.state)
        final = max(rows, key=lambda row: (row.vf, row.seq), default=None)
        if final is not None:
            head.living_ref = ref.model_copy(update={"uid": final.uid})
            if chain and final is chain[-1]:
                head.living = head.state
            elif final.n is not None:
                head.living = extra[final.n] if final.n in extra else self._reader.content(oid, final.n)
        return head

    def _edges_rebuilt(
        self, oid: int, ref: ObjectRef, before: Sequence[Piece], after: Sequence[Piece], s: int, seq: int,
        extra: dict[int, _State],
    ) -> list[RowOp]:  # fmt: skip
        states = dict(extra)
        for piece in (*before, *after):
            if piece.n not in states:
                states[piece.n] = self._reader.content(oid, piece.n)
        partners = [
            (other, other_ref, pieces(self._reader.changes_of(other)))
            for other in self._reader.oids(self._scope)
            if other != oid and (other_ref := self._reader.ref(other)) is not None
        ]
        old = self._edge_pieces(oid, ref, before, states, partners, seq)
        new = self._edge_pieces(oid, ref, after, states, partners, seq)
        ops: list[RowOp] = []
        for eid in sorted(old.keys() | new.keys()):
            rows = self._reader.edge_rows(eid)
            ops.extend(revise_edge(eid, rows, _as_rows(coalesce(new.get(eid, [])), rows, s), s))
        return ops

    def _edge_pieces(
        self, oid: int, ref: ObjectRef, own: Sequence[Piece], states: dict[int, _State],
        partners: Sequence[tuple[int, ObjectRef, list[Piece]]], seq: int,
    ) -> dict[int, list[EdgeRow]]:  # fmt: skip
        out: dict[int, list[EdgeRow]] = defaultdict(list)
        for piece in own:
            me = ref.model_copy(update={"uid": piece.uid})
            for fact in derive(me, states[piece.n]):
                out[fact.eid].append(edge_row(fact, Interval(piece.vf, piece.vt, MAX, 0, MAX, seq)))
            for rule in JOINS:
                left = rule.left(me, states[piece.n])
                right = rule.right(me, states[piece.n])
                if left is None and right is None:
                    continue
                for other, other_ref, theirs in partners:
                    for near in _overlapping(theirs, piece):
                        they = other_ref.model_copy(update={"uid": near.uid})
                        state = self._reader.content(other, near.n)
                        found: list[EdgeFact] = []
                        mirror = rule.right(they, state) if left is not None else None
                        if left is not None and mirror is not None and mirror.bucket == left.bucket:
                            found.extend(rule.match(left, mirror))
                        mirror = rule.left(they, state) if right is not None else None
                        if right is not None and mirror is not None and mirror.bucket == right.bucket:
                            found.extend(rule.match(mirror, right))
                        for fact in found:
                            span = Interval(max(piece.vf, near.vf), min(piece.vt, near.vt), MAX, 0, MAX, seq)
                            out[fact.eid].append(edge_row(fact, span))
        return out

    # -- coverage

    def _coverage(self, record: Coverage, seq: int, s: int) -> list[RowOp]:
        spaces = ",".join(sorted(record.namespaces)) if record.namespaces else "*"
        cid = hash64(f"{record.source}\n{record.scope}\n{record.group_resource}\n{spaces}")
        body = canonical(
            {
                "group_resource": record.group_resource, "namespaces": record.namespaces, "state": record.state,
                "reason": record.reason, "epoch": record.epoch,
            }
        ).decode()  # fmt: skip
        start, end = record.valid.from_, record.valid.to
        ops: list[RowOp] = []
        inserts: list[RowOp] = []
        for row in self._reader.coverage_rows(cid):
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
                    inserts.append(Insert(replace(row, span=rest)))
        span = Interval(start, end, MAX if end == MAX else s, s, MAX, seq)
        return [*ops, *inserts, Insert(CoverageRow(cid, span, self._scope, body))]

    def _head(self, oid: int) -> Head | None:
        head = self._heads.get(oid)
        if head is None:
            head = self._load_head(oid)
            if head is not None:
                self._heads[oid] = head
        return head

    def _load_head(self, oid: int) -> Head | None:
        ref = self._reader.ref(oid)
        return None if ref is None else self._head_of(oid, ref, effective(self._reader.changes_of(oid)), {})


def _unseen(ref: ObjectRef) -> Head:
    return Head(ref, -MAX, None, 0, 0, None, None, ref, None)


def body_of(told: dict[str, Json]) -> bytes:
    """What answers need of a record beside its content: all but the patch, and of a state all but the state."""
    return orjson.dumps({name: value for name, value in told.items() if name not in _NOT_IN_BODY})


def edge_body(fact: EdgeFact) -> str:
    """Canonical JSON of what an edge says beside its ends."""
    return canonical(
        {
            "attrs": fact.attrs, "basis": fact.basis, "confidence": fact.confidence,
            "discriminator": fact.discriminator, "rule": fact.rule,
        }
    ).decode()  # fmt: skip


def edge_row(fact: EdgeFact, span: Interval) -> EdgeRow:
    return EdgeRow(fact.eid, span, fact.predicate, fact.src, fact.dst, edge_body(fact))


def coalesce(rows: Iterable[EdgeRow]) -> list[EdgeRow]:
    """Touching stretches that say the same become one."""
    out: list[EdgeRow] = []
    for row in sorted(rows, key=lambda row: (row.span.vf, row.span.vt)):
        last = out[-1] if out else None
        if last is not None and last.span.vt == row.span.vf and last.body == row.body:
            out[-1] = replace(last, span=replace(last.span, vt=row.span.vt))
        elif row.span.vf < row.span.vt:
            out.append(row)
    return out


def _as_rows(wanted: Sequence[EdgeRow], rows: Sequence[EdgeRow], s: int) -> list[EdgeRow]:
    """Wanted stretches as rows believed from `s`; where believed rows already tile a stretch, those rows instead."""
    out = []
    for row in wanted:
        tiles = _tiling(row, rows)
        if tiles is not None:
            out.extend(tiles)
            continue
        vts = MAX if row.span.vt == MAX else s
        out.append(replace(row, span=replace(row.span, sf=s, vts=vts)))
    return out


def _tiling(row: EdgeRow, rows: Sequence[EdgeRow]) -> list[EdgeRow] | None:
    tiles = []
    at = row.span.vf
    for one in sorted(rows, key=lambda one: (one.span.vf, one.span.vt)):
        if one.span.vf == at and one.body == row.body and one.span.vt > at:
            tiles.append(one)
            at = one.span.vt
    return tiles if at == row.span.vt and tiles else None


def _overlapping(theirs: Sequence[Piece], piece: Piece) -> Iterator[Piece]:
    return (near for near in theirs if near.vf < piece.vt and piece.vf < near.vt)

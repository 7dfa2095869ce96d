"""From one record to row operations: what the bitemporal ledger must do to believe it.

Two ways, one result. A change that follows everything recorded so far closes the open row and opens the next, and its
edges follow the same way; where its patch touches nothing that edges are derived from, they are not looked at. Whatever
comes late or corrects goes to `store.correction`. The planner reads through `Reader` and writes nothing; a record that
does not fit raises an ApplyError before any operation exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import orjson

from schema.canonical import Json, canonical, digest_of
from schema.errors import BadPatch, BelowHorizon, UnknownTarget, WrongBase, WrongDigest
from schema.identity import oid as oid_of
from schema.instants import MAX, show
from schema.patch import apply_in_place
from schema.records import Amend, Change, Coverage, Horizon, ObjectRef, Record, Retract, State
from store.correction import Correction, Corrector, History, Shift
from store.coverage import cover, coverage_id
from store.derive.facts import Named
from store.derive.reads import touches
from store.derive.rules import facts_of
from store.derive.sides import NOTHING, bucket_id, changed, derived, readers_id, shown_by
from store.edges import in_order
from store.living import Chains, Facets, Head, Heads
from store.rows import (
    BucketRow,
    ChangeRow,
    Close,
    CloseGap,
    Content,
    CoverageRow,
    Insert,
    Interval,
    ObjectRow,
    OpenGap,
    RowOp,
    SetHorizon,
    Supersede,
    VersionRow,
)

ANCHOR_EVERY = 16
"""A whole state is stored at least this often, so that a read applies at most 15 patches."""

# Columns and contents hold these.
_NOT_IN_BODY = frozenset(("v", "type", "id", "op", "object", "base", "digest", "patch", "state"))
_State = dict[str, Json]


class Reader(History, Chains, Protocol):
    """What the planner must know of the ledger, beside what corrections and heads ask."""

    def believed(self, change_id: str) -> ChangeRow | None: ...
    def coverage_rows(self, cid: int) -> list[CoverageRow]: ...
    def living(self, scope: str) -> Iterator[tuple[int, ObjectRef, int]]: ...
    def position(self, scope: str) -> tuple[int, int]: ...
    def top(self, scope: str) -> int: ...
    def gaps(self) -> set[int]: ...
    def horizon(self, scope: str) -> int: ...


class Planner:
    """Plans the records of one scope, in log order. It holds what it planned for believed: its operations must be
    executed before the next record, and after a transaction that was rolled back, take a new one.

    `position` is the last log position it knows of, `top` the latest instant that any row of the scope begins or ends
    at.
    """

    def __init__(self, reader: Reader, scope: str) -> None:
        self._reader = reader
        self._scope = scope
        self._heads = Heads(reader)
        self._facets = Facets()
        self._corrector = Corrector(reader)
        self._gaps = reader.gaps()
        self._horizon = reader.horizon(scope)
        self.position = reader.position(scope)[0]
        self.top = reader.top(scope)
        for oid, ref, n in reader.living(scope):
            self._facets.put(oid, shown_by(ref, reader.content(oid, n)))

    def plan(self, record: Record, told: _State, seq: int, s: int) -> list[RowOp]:
        """Row operations for one record, not seen before, at log position `seq` and system time `s`.

        `told` is the record as the log keeps it. Raises ApplyError when the record does not fit what is stored.
        """
        if isinstance(record, Change):
            return self._change(record, told, seq, s)
        if isinstance(record, State):
            return self._state(record, told, seq, s)
        if isinstance(record, Amend):
            return self._revise(record, record.amends, seq, s)
        if isinstance(record, Retract):
            return self._revise(record, record.retracts, seq, s)
        if isinstance(record, Coverage):
            cid = coverage_id(record)
            return cover(cid, self._reader.coverage_rows(cid), record, seq, s)
        if isinstance(record, Horizon):
            self._horizon = max(self._horizon, record.at)
            return [SetHorizon(self._scope, self._horizon, seq)]
        return []

    def gap(self, ref: ObjectRef, seq: int, s: int, reason: str) -> list[RowOp]:
        """The marker that the chain of this object is broken here."""
        oid = oid_of(ref.key)
        if oid in self._gaps:
            return []
        self._gaps.add(oid)
        return [Insert(ObjectRow(oid, ref.key, ref.kind, ref.class_)), OpenGap(oid, seq, s, reason)]

    # -- in order

    def _change(self, record: Change, told: _State, seq: int, s: int) -> list[RowOp]:
        self._in_time(record)
        oid = oid_of(record.object.key)
        head = self._heads.of(oid)
        vf = max(record.valid.not_after, head.vf)
        if record.op == "delete":
            if head.body is None:
                raise WrongBase(f"delete of {record.object.key}, which is not there")
            return self._place(record, told, oid, head, None, None, vf, seq, s)
        whole = record.op in ("create", "observe")
        if not whole and (head.body is None or record.base != head.digest):
            raise WrongBase(
                f"change {record.id} of {record.object.key} is against {record.base}, stored is {head.digest}"
            )
        # Spelled before it is applied: applying in place may write into the values of the patch.
        patch = None if whole else orjson.dumps(record.patch)
        state = apply_in_place(None if whole or head.body is None else orjson.loads(head.body), record.patch)
        if not isinstance(state, dict):
            raise BadPatch(f"change {record.id} of {record.object.key} does not give an object")
        body = canonical(state)
        if digest_of(body) != record.digest:
            raise WrongDigest(f"change {record.id} of {record.object.key} gives a state with another digest")
        return self._place(record, told, oid, head, state, body, vf, seq, s, patch)

    def _state(self, record: State, told: _State, seq: int, s: int) -> list[RowOp]:
        body = canonical(record.state)
        if digest_of(body) != record.digest:
            raise WrongDigest(f"state {record.id} of {record.object.key} has another digest")
        if not record.horizon:
            self._in_time(record)
        oid = oid_of(record.object.key)
        head = self._heads.of(oid)
        instant = record.valid.not_after
        if instant >= head.vf and not record.late:
            if head.digest == record.digest and head.uid == record.object.uid:
                return self._end_gap(oid, s)
            return self._place(record, told, oid, head, record.state, body, instant, seq, s)
        n = head.next_n
        row = ChangeRow(
            seq, s, record.id, oid, "state", True, record.valid.not_before, instant, instant, n, record.object.uid,
            False, _body_of(told),
        )  # fmt: skip
        content = Insert(Content(oid, n, n, record.digest, body))
        self._heads.drop(oid)
        known = [] if n else [Insert(ObjectRow(oid, record.object.key, record.object.kind, record.object.class_))]
        correction = self._correct(oid, record.object, Shift([], [row]), {n: record.state}, seq, s)
        return [*known, content, *correction.ops, *self._still_broken(record, oid, seq, s)]

    def _place(
        self, record: Change | State, told: _State, oid: int, head: Head, state: _State | None, body: bytes | None,
        vf: int, seq: int, s: int, patch: bytes | None = None,
    ) -> list[RowOp]:  # fmt: skip
        """Put a state (None: a delete) at the end of the chain, effective at `vf`; `patch` leads to it from the state
        before, if there is one."""
        ref = record.object
        op, noise, follows = "state", False, False
        if isinstance(record, Change):
            op, noise = record.op, "noise" in record.flags
            follows = op == "update" and head.n == head.next_n - 1
        ops: list[RowOp] = []
        if head.next_n == 0:
            ops.append(Insert(ObjectRow(oid, ref.key, ref.kind, ref.class_)))
        new = Head(ref.uid, vf, seq, seq, None, head.next_n, head.anchor)
        if body is not None:
            new.n, new.next_n, new.digest, new.body = head.next_n, head.next_n + 1, record.digest, body
            kept = patch
            if kept is None or not follows or new.n - head.anchor >= ANCHOR_EVERY:
                new.anchor, kept = new.n, body
            ops.append(Insert(Content(oid, new.n, new.anchor, record.digest or "", kept)))
        row = ChangeRow(
            seq, s, record.id, oid, op, False, record.valid.not_before, max(record.valid.not_after, -MAX), vf, new.n,
            ref.uid, noise, _body_of(told),
        )  # fmt: skip
        if vf >= self.top and head.last == head.seq:
            lo = min(record.valid.not_before, vf)
            ops.append(Insert(row))
            if head.n is not None:
                ops.append(Close("version", oid, vf, s, lo))
            if new.n is not None:
                ops.append(Insert(VersionRow(oid, Interval(vf, MAX, MAX, s, MAX, seq), lo, MAX, new.n, ref.uid)))
            if follows and head.uid == ref.uid and isinstance(record, Change) and not touches(ref.type, record.patch):
                new.facts = head.facts
            else:
                ops.extend(self._edges(oid, head, new, ref, state, seq, s))
            self.top = vf
        else:
            # Something else already moved at a later instant: joins must be worked out against closed rows too.
            states = {} if new.n is None or state is None else {new.n: state}
            correction = self._correct(oid, ref, Shift([], [row]), states, seq, s)
            new.last = head.last if correction.last is None else correction.last
            ops.extend(correction.ops)
        if isinstance(record, State) and record.horizon:
            ops.extend(self._still_broken(record, oid, seq, s))
        elif op != "update":
            ops.extend(self._end_gap(oid, s))
        self._heads.put(oid, new)
        return ops

    def _edges(
        self, oid: int, head: Head, new: Head, ref: ObjectRef, state: _State | None, seq: int, s: int
    ) -> list[RowOp]:
        """The edges of the new state instead of those of the old, alone and with the living partners of today."""
        old_facts = self._facts(head, ref)
        now = NOTHING if state is None else derived(ref, state)
        ops: list[RowOp] = [Insert(BucketRow(readers_id(config), oid)) for config in now.shown.reads]
        # A new incarnation begins anew, whatever it has in common with the last one.
        again = head.uid != ref.uid
        turns = [(old_facts, {}), ({}, now.facts)] if again else [(old_facts, now.facts)]
        moves = self._facets.moves(oid, now.shown)
        for one, mine, yours in moves:
            for side, before, after in changed(mine, yours, anew=again and one == oid):
                stood = {facet.bucket for facet in mine[side]}
                ops.extend(Insert(BucketRow(bucket_id(side, x), one)) for x in after if x.bucket not in stood)
                gone, come = self._facets.pairs(one, side, before), self._facets.pairs(one, side, after)
                turns.extend([(gone, {}), ({}, come)] if again else [(gone, come)])
        for gone, come in turns:
            ops.extend(in_order(gone, come, new.vf, seq, s))
        self._facets.put(oid, now.shown, moves)
        new.facts = now.facts
        return ops

    def _facts(self, head: Head, ref: ObjectRef) -> Named:
        """What the chain's end gives alone."""
        if head.body is None:
            return {}
        if head.facts is None:
            head.facts = facts_of(ref.model_copy(update={"uid": head.uid}), orjson.loads(head.body))
        return head.facts

    def _in_time(self, record: Change | State) -> None:
        """Refuse what tells of a time that was dropped: what it follows or repeats is not there to be compared."""
        if record.valid.not_after <= self._horizon:
            raise BelowHorizon(
                f"{record.type} {record.id} of {record.object.key} tells of {show(record.valid.not_after)}; "
                f"what lies below {show(self._horizon)} was dropped"
            )

    def _still_broken(self, record: State, oid: int, seq: int, s: int) -> list[RowOp]:
        """The gap marker that a state at the horizon carries on: it is our own belief, and mends no chain."""
        if record.broken is None:
            return []
        self._gaps.add(oid)
        return [OpenGap(oid, seq, s, record.broken)]

    def _end_gap(self, oid: int, s: int) -> list[RowOp]:
        if oid not in self._gaps:
            return []
        self._gaps.remove(oid)
        return [CloseGap(oid, s)]

    # -- out of order

    def _correct(
        self, oid: int, ref: ObjectRef, shift: Shift, states: dict[int, _State], seq: int, s: int
    ) -> Correction:
        correction = self._corrector.correct(oid, ref, shift, states, seq, s)
        if correction.shown is not None:
            self._facets.put(oid, correction.shown)
        self.top = max([self.top, *(row.vf for row in shift.gained)])
        return correction

    def _revise(self, record: Amend | Retract, target: str, seq: int, s: int) -> list[RowOp]:
        row = self._reader.believed(target)
        ref = None if row is None else self._reader.ref(row.oid)
        if row is None or ref is None:
            raise UnknownTarget(f"{record.type} {record.id} names change {target}, which is not there or withdrawn")
        if orjson.loads(row.body).get("horizon"):
            raise UnknownTarget(f"{record.type} {record.id} names change {target}, of which only the state was kept")
        fresh = None if isinstance(record, Retract) else _amended(row, record, s)
        if isinstance(record, Amend) and record.valid is None and fresh is not None:
            # Only what is said about the change is another: no instant moves.
            return [Supersede("change", row.seq, row.vf, row.seq, row.sf, s), Insert(fresh)]
        self._heads.drop(row.oid)
        return self._correct(row.oid, ref, self._corrector.shift_of(row, fresh, s), {}, seq, s).ops


def _amended(row: ChangeRow, record: Amend, s: int) -> ChangeRow:
    """A change as the amendment tells it, believed from `s`."""
    told = orjson.loads(row.body)
    for name in ("valid", "actor", "provenance"):
        value = getattr(record, name)
        if value is not None:
            told[name] = value.model_dump(mode="json", by_alias=True)
    fresh = row._replace(sf=s, body=orjson.dumps(told))
    return fresh if record.valid is None else fresh._replace(nb=record.valid.not_before, na=record.valid.not_after)


def _body_of(told: _State) -> bytes:
    """What answers need of a record beside its content and what stands in columns."""
    return orjson.dumps({name: value for name, value in told.items() if name not in _NOT_IN_BODY})

"""An independent, slow idea of what the ledger must answer: no rows, no intervals, just the log read again each time.

It shares with the store the records and the derivation of edges from one state; how time works is written twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from schema.canonical import canonical, digest
from schema.identity import Key
from schema.patch import apply
from schema.records import Amend, Change, ObjectRef, Record, Retract, State
from store.derive import JOINS, derive
from store.derive.sides import filled, shown_by


@dataclass(frozen=True)
class Told:
    """One accepted statement: this object was in `state` (None: gone) from about `instant` on."""

    order: int
    ref: ObjectRef
    instant: int
    state: dict | None
    late: bool


class Oracle:
    def __init__(self) -> None:
        self.log: list[tuple[int, Record]] = []
        self.refused: set[int] = set()

    def accept(self, s: int, record: Record) -> None:
        self.log.append((s, record))

    def believed(self, known_at: int) -> dict[str, Told]:
        """All accepted statements by id, after the amendments and retractions known by then."""
        told: dict[str, Told] = {}
        seen: set[str] = set()
        for order, (s, record) in enumerate(self.log):
            if s > known_at:
                break
            if isinstance(record, Change) and record.id not in seen:
                new = self._after(record, told)
                if new is not False:
                    seen.add(record.id)
                    told[record.id] = Told(order, record.object, record.valid.not_after, new, False)
            elif isinstance(record, State) and record.id not in seen:
                chain = self._chain(told, record.object)
                late = bool(chain) and record.valid.not_after < chain[-1][0]
                if (
                    not late
                    and chain
                    and chain[-1][1].state == record.state
                    and chain[-1][1].ref.uid == record.object.uid
                ):
                    continue
                seen.add(record.id)
                told[record.id] = Told(order, record.object, record.valid.not_after, record.state, late)
            elif isinstance(record, Amend) and record.amends in told and record.valid is not None:
                told[record.amends] = replace(told[record.amends], instant=record.valid.not_after)
            elif isinstance(record, Retract):
                told.pop(record.retracts, None)
        return told

    def _after(self, record: Change, told: dict[str, Told]) -> dict | bool | None:
        chain = self._chain(told, record.object)
        head = chain[-1][1].state if chain else None
        if record.op == "delete":
            return None if head is not None else False
        if record.op in ("create", "observe"):
            return apply(None, record.patch)
        if head is None or digest(head) != record.base:
            return False
        return apply(head, record.patch)

    def _chain(self, told: dict[str, Told], ref: ObjectRef) -> list[tuple[int, Told]]:
        out, floor = [], -(2**62)
        for one in sorted(told.values(), key=lambda one: one.order):
            if one.ref.key == ref.key and not one.late:
                floor = max(floor, one.instant)
                out.append((floor, one))
        return out

    def slice(self, at: int, known_at: int) -> dict[str, tuple[ObjectRef, dict]]:
        told = self.believed(known_at)
        refs = {str(one.ref.key): one.ref for one in told.values()}
        found = {}
        for key, ref in refs.items():
            placed = [(vf, one.order, one) for vf, one in self._chain(told, ref)]
            placed += [(one.instant, one.order, one) for one in told.values() if one.late and one.ref.key == ref.key]
            now = [item for item in placed if item[0] <= min(at, known_at)]
            if now:
                last = max(now, key=lambda item: item[:2])[2]
                if last.state is not None:
                    found[key] = (last.ref, last.state)
        return found

    def edges(self, at: int, known_at: int) -> set[tuple[str, str, str, str, bytes]]:
        objects = self.slice(at, known_at)
        facts = [fact for ref, state in objects.values() for fact in derive(ref, state)]
        configs = {
            str(ref.key): state.get("data", {}) for ref, state in objects.values() if ref.type == "core/ConfigMap"
        }

        def lender(config: Key) -> dict | None:
            return configs.get(str(config))

        sides = {key: filled(shown_by(ref, state), lender) for key, (ref, state) in objects.items()}
        for number, rule in enumerate(JOINS):
            for left_key, mine in sides.items():
                for right_key, theirs in sides.items():
                    for left in mine[2 * number]:
                        for right in theirs[2 * number + 1]:
                            if left_key != right_key and left.bucket == right.bucket:
                                facts.extend(rule.match(left, right))
        return {(fact.predicate, fact.src, fact.dst, fact.rule, canonical(fact.attrs)) for fact in facts}

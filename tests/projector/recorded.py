"""Recordings as records, and the graph worked out the slow way: every state derived, every pair of a bucket met."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

from capture.kubernetes.replay import capture_file
from capture.redact import Redactor
from schema.canonical import canonical
from schema.identity import Key
from schema.patch import apply
from schema.records import Change, ObjectRef, Record, State
from store.derive import JOINS
from store.derive.addresses import lent_by
from store.derive.facts import EdgeFact
from store.derive.sides import Derived, derived, filled


@cache
def records_of(path: Path) -> list[tuple[Record, int]]:
    return list(capture_file(path, "lab", redactor=Redactor(b"k" * 32)))


def spelled(fact) -> tuple[str, ...]:
    return fact.predicate, str(fact.src), str(fact.dst), fact.rule, fact.basis, canonical(fact.attrs).decode()


class World:
    """The state of everything after the records so far."""

    def __init__(self) -> None:
        self.states: dict[str, tuple[ObjectRef, dict]] = {}
        self._derived: dict[str, Derived] = {}

    def take(self, record: Record) -> None:
        if not isinstance(record, Change | State):
            return
        key = str(record.object.key)
        self._derived.pop(key, None)
        if isinstance(record, State):
            self.states[key] = (record.object, record.state)
        elif record.op == "delete":
            del self.states[key]
        else:
            whole = record.op in ("create", "observe")
            self.states[key] = (record.object, apply(None if whole else self.states[key][1], record.patch))

    def _lender(self, config: Key) -> dict | None:
        ref, state = self.states.get(str(config), (None, None))
        return None if ref is None else lent_by(ref, state)

    def edges(self) -> list[tuple[str, ...]]:
        found: list[EdgeFact] = []
        buckets = defaultdict(list)
        for key, (ref, state) in self.states.items():
            if key not in self._derived:
                self._derived[key] = derived(ref, state)
            found.extend(self._derived[key].facts.values())
            for side, facing in enumerate(filled(self._derived[key].shown, self._lender)):
                for facet in facing:
                    buckets[side >> 1, facet.bucket].append((side & 1, key, facet))
        for (rule, _), standing in buckets.items():
            for _, mine, left in (one for one in standing if one[0] == 0):
                for _, other, right in (one for one in standing if one[0] == 1):
                    if mine != other:
                        found.extend(JOINS[rule].match(left, right))
        return sorted(map(spelled, found))

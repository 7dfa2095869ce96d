"""What checks look at: a scope as it was at one instant, what led there, what was heard, and what was not watched.

Plain values and indices over them; how a past is read into one is the caller's (`api.slices`). A slice can be asked
for the changes before its instant and for states that are gone, as a check must name the change that made it true.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from schema.canonical import Json
from schema.identity import Key
from schema.instants import SECOND
from schema.paths import matches
from schema.records import Evidence, FieldChange
from store.derive.facts import State
from store.past import Edge, Recorded

GRACE = 10 * SECOND
"""What lasts no longer than this may be a restart, a scaling or a move that goes well."""

HEARD = 300 * SECOND
"""Evidence that was not repeated for so long has lapsed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One object as it was."""

    kind: str
    class_: str
    uid: str | None
    state: State


class Past(Protocol):
    """What was recorded before the instant of a slice, that instant included."""

    def changes(self, key: Key) -> Sequence[Recorded]:
        """The changes of one object, newest first; of all its incarnations."""

    def recent(self, type_: str) -> Sequence[Recorded]:
        """The changes of all objects of a type, newest first."""

    def before(self, key: Key, at: int) -> State | None:
        """The state of an object just before an instant; None where it was not there."""


@dataclass(frozen=True, slots=True)
class Made:
    """A recorded change, and those of its fields that made something true; none of them: the change as a whole did."""

    recorded: Recorded
    rows: tuple[FieldChange, ...] = ()

    @property
    def at(self) -> int:
        return self.recorded.vf

    @property
    def key(self) -> Key:
        return self.recorded.change.object.key


@dataclass(frozen=True)
class Slice:
    """A scope at an instant. `watched` tells whether a type was watched, in a namespace or (None) in all of them."""

    at: int
    objects: Mapping[Key, Seen]
    edges: Sequence[Edge]
    evidence: Sequence[Evidence]
    past: Past
    watched: Callable[[str, str | None], bool]

    # -- objects

    @cached_property
    def _by_type(self) -> dict[str, list[tuple[Key, State]]]:
        found: dict[str, list[tuple[Key, State]]] = defaultdict(list)
        for key, seen in self.objects.items():
            found[key.type].append((key, seen.state))
        return found

    def of(self, *types: str) -> Iterator[tuple[Key, State]]:
        """The objects of some types."""
        for type_ in types:
            yield from self._by_type.get(type_, ())

    def state(self, key: Key) -> State | None:
        seen = self.objects.get(key)
        return None if seen is None else seen.state

    # -- edges

    @cached_property
    def _out(self) -> dict[tuple[Key, str], list[Edge]]:
        found: dict[tuple[Key, str], list[Edge]] = defaultdict(list)
        for one in self.edges:
            found[one.src, one.predicate].append(one)
        return found

    @cached_property
    def _into(self) -> dict[tuple[Key, str], list[Edge]]:
        found: dict[tuple[Key, str], list[Edge]] = defaultdict(list)
        for one in self.edges:
            found[one.dst, one.predicate].append(one)
        return found

    def out(self, key: Key, predicate: str) -> Sequence[Edge]:
        """The edges of a predicate that begin at an object."""
        return self._out.get((key, predicate), ())

    def into(self, key: Key, predicate: str) -> Sequence[Edge]:
        """The edges of a predicate that end at an object."""
        return self._into.get((key, predicate), ())

    def targets(self, key: Key, predicate: str, *types: str) -> list[Key]:
        """The other ends of what begins at an object, each once; only of these types, where some are given."""
        return list(dict.fromkeys(one.dst for one in self.out(key, predicate) if not types or one.dst.type in types))

    def sources(self, key: Key, predicate: str, *types: str) -> list[Key]:
        """The other ends of what ends at an object, each once; only of these types, where some are given."""
        return list(dict.fromkeys(one.src for one in self.into(key, predicate) if not types or one.src.type in types))

    @cached_property
    def _controllers(self) -> dict[Key, Key]:
        owns = (one for one in self.edges if one.predicate == "OWNS" and one.attrs.get("controller") is True)
        return {one.dst: one.src for one in owns}

    def root(self, key: Key) -> Key:
        """The top of an object's chain of controllers; the object itself where nothing controls it."""
        seen = {key}
        while (over := self._controllers.get(key)) is not None and over not in seen:
            seen.add(over)
            key = over
        return key

    # -- evidence

    @cached_property
    def _heard(self) -> dict[Key, list[Evidence]]:
        found: dict[Key, list[Evidence]] = defaultdict(list)
        for one in self.evidence:
            found[one.object.key].append(one)
        return found

    def heard(self, key: Key, *reasons: str) -> list[Evidence]:
        """What was heard of an object within `HEARD`, oldest first, with one of these reasons where some are given.

        Of another incarnation of the key nothing is told.
        """
        seen = self.objects.get(key)
        return [
            one
            for one in self._heard.get(key, ())
            if (not reasons or one.reason in reasons) and (seen is None or one.object.uid in (None, seen.uid))
        ]

    # -- what led here

    def changed(self, key: Key, *patterns: str, fits: Callable[[FieldChange], bool] | None = None) -> list[Made]:
        """The newest change of a field that meets one of the patterns, with all its rows that do; empty where none was
        recorded. None is sought before the creation of the object, which set every field."""
        for one in self.past.changes(key):
            rows = tuple(
                row
                for row in one.change.fields
                if any(matches(row.path, pattern) for pattern in patterns) and (fits is None or fits(row))
            )
            if rows or one.change.op == "create":
                return [Made(one, rows)]
        return []

    def created(self, key: Key) -> list[Made]:
        """The creation of the object, where that was recorded."""
        return [Made(one) for one in self.past.changes(key) if one.change.op == "create"][:1]

    def deleted(self, key: Key) -> list[Made]:
        """The last deletion of a key, where that was recorded."""
        return [Made(one) for one in self.past.changes(key) if one.change.op == "delete"][:1]

    def lasts(self, since: int | None, grace: int = GRACE) -> bool:
        """Whether something that began at `since` has outlived its grace; what began before the recording has."""
        return since is None or self.at - since >= grace


def beside(key: Key, type_: str, name: str, namespace: str | None = None) -> Key:
    """The key of another object of the same scope."""
    return Key(key.source, key.scope, type_, namespace, name)


def becomes(value: Json) -> Callable[[FieldChange], bool]:
    """Whether a field was given a value, for `Slice.changed`."""
    return lambda row: row.after == value

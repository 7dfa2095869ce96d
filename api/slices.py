"""Reading the past into slices for checks: one at an instant, or a whole film of them in which nothing is read twice.

Which rows answer is `store.rewind`'s business, what is seen in a slice `diagnose`'s; this only joins them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache

from api.questions import Moment
from diagnose.slices import HEARD, Seen, Slice
from schema.identity import Key
from store.derive.facts import State
from store.past import Covered, Recorded, Version
from store.rewind import Rewind

_HISTORY = 200
"""How many changes of one object, or of one type, a check can look back over."""


def read(rewind: Rewind, moment: Moment, types: frozenset[str]) -> Slice:
    """The scope at a moment: its edges, what was heard lately, and the states of objects of these types."""
    objects = {
        one.key: Seen(one.kind, one.class_, one.uid, rewind.state(one))
        for one in rewind.objects(moment.scope, moment.at, moment.known_at)
        if one.key.type in types
    }
    edges = rewind.edges(moment.scope, moment.at, moment.known_at)
    lately = rewind.evidence(moment.scope, moment.at - HEARD, moment.at)
    heard = [one for one in lately if one.observed_at <= moment.known_at]
    watched = _watching(rewind.coverage(moment.scope, moment.known_at), moment.at)
    return Slice(moment.at, objects, edges, heard, _Before(rewind, moment), watched)


class _Before:
    """The past of one moment, read as it is asked for."""

    def __init__(self, rewind: Rewind, moment: Moment) -> None:
        self._rewind = rewind
        self._moment = moment
        self.changes = cache(self._changes)
        self.recent = cache(self._recent)
        self.before = cache(self._state)

    def _changes(self, key: Key) -> Sequence[Recorded]:
        at, known = self._moment.at, self._moment.known_at
        return self._rewind.changes(self._moment.scope, key=key, until=at, known_at=known, limit=_HISTORY)

    def _recent(self, type_: str) -> Sequence[Recorded]:
        scope, at, known = self._moment.scope, self._moment.at, self._moment.known_at
        kind = type_.rpartition("/")[2]
        found = self._rewind.changes(scope, kind=kind, until=at, known_at=known, limit=_HISTORY)
        return [one for one in found if one.change.object.type == type_]

    def _state(self, key: Key, at: int) -> State | None:
        if at - 1 < self._rewind.horizon(self._moment.scope):
            return None
        version = self._rewind.as_of(key, at - 1, self._moment.known_at)
        return None if version is None else self._rewind.state(version)


class Film:
    """All of a scope as believed at one system time, in memory, for slices at many instants of it."""

    def __init__(self, rewind: Rewind, moment: Moment, types: frozenset[str]) -> None:
        scope, known = moment.scope, moment.known_at
        self._types = types
        self._lives: dict[Key, tuple[list[int], list[Version]]] = {}
        for one in rewind.lives(scope, known):
            instants, versions = self._lives.setdefault(one.key, ([], []))
            instants.append(one.vf)
            versions.append(one)
        self._seen = cache(lambda key, n: _seen(rewind, self._version(key, n)))
        self._numbered = {(one.key, one.n): one for _, versions in self._lives.values() for one in versions}
        self._edges = rewind.edges_ever(scope, known)
        self._heard = [
            one for one in rewind.evidence(scope, rewind.horizon(scope), moment.at) if one.observed_at <= known
        ]
        self._covered = rewind.coverage(scope, known)
        self.changes = rewind.changes(scope, until=moment.at, known_at=known, limit=-1)
        """Every change up to the moment, newest first."""
        self._of_key: dict[Key, list[Recorded]] = defaultdict(list)
        self._of_type: dict[str, list[Recorded]] = defaultdict(list)
        for row in self.changes:
            self._of_key[row.change.object.key].append(row)
            self._of_type[row.change.object.type].append(row)

    def at(self, instant: int) -> Slice:
        """The slice at an instant."""
        objects: dict[Key, Seen] = {}
        for key in self._lives:
            version = self._as_of(key, instant)
            if version is not None and key.type in self._types:
                objects[key] = self._seen(key, version.n)
        edges = [one for one in self._edges if (one.vf is None or one.vf <= instant) and instant < one.vt]
        heard = [one for one in self._heard if instant - HEARD < one.at <= instant]
        return Slice(instant, objects, edges, heard, _Cut(self, instant), _watching(self._covered, instant))

    def changes_of(self, key: Key | None, type_: str, instant: int) -> list[Recorded]:
        rows = self._of_type[type_] if key is None else self._of_key[key]
        return [one for one in rows if one.vf <= instant][:_HISTORY]

    def state(self, key: Key, instant: int) -> State | None:
        version = self._as_of(key, instant)
        return None if version is None else self._seen(key, version.n).state

    def _as_of(self, key: Key, instant: int) -> Version | None:
        instants, versions = self._lives.get(key, ([], []))
        place = bisect_right(instants, instant)
        return versions[place - 1] if place and instant < versions[place - 1].vt else None

    def _version(self, key: Key, n: int) -> Version:
        return self._numbered[key, n]


class _Cut:
    """The past of one instant of a film."""

    def __init__(self, film: Film, instant: int) -> None:
        self._film = film
        self._instant = instant
        self.changes = cache(lambda key: film.changes_of(key, key.type, instant))
        self.recent = cache(lambda type_: film.changes_of(None, type_, instant))

    def before(self, key: Key, at: int) -> State | None:
        return self._film.state(key, at - 1)


def _seen(rewind: Rewind, version: Version) -> Seen:
    return Seen(version.kind, version.class_, version.uid, rewind.state(version))


def _watching(rows: Sequence[Covered], instant: int) -> Callable[[str, str | None], bool]:
    """Whether a type was being watched when an instant came, in one namespace or in all; its last instant counts."""
    found: dict[str, list[Covered]] = defaultdict(list)
    for row in rows:
        if row.state == "watching" and row.vf <= instant <= row.vt:
            found[row.group_resource].append(row)

    def watched(type_: str, namespace: str | None) -> bool:
        return any(
            row.namespaces is None or (namespace is not None and namespace in row.namespaces)
            for row in found.get(resource_of(type_), ())
        )

    return watched


@cache
def resource_of(type_: str) -> str:
    """The group-resource of a built-in type: `core/Pod` is `core/pods`, `networking.k8s.io/Ingress` `…/ingresses`."""
    name = type_.lower()
    if name.endswith("endpoints"):
        return name
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"

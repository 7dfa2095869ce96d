"""What is held of one watch: its living objects, how far they are known, and what its news have to be doubted for.

A watch is of a group-resource or of a part of one, such as one namespace; its name is `apps/deployments` or
`apps/deployments namespace=shop`. Parts of one resource share no object at any one instant. Plain state; when it
changes, and what that says, is the reflector's and the losses'.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from capture.kubernetes.gone import DEATHS, PREDECESSORS, Death, Predecessor
from capture.kubernetes.objects import older
from capture.kubernetes.recent import Newest, Recent
from capture.kubernetes.telling import LAG, Seen
from capture.normalise import Prepared
from schema.identity import Key
from schema.records import Flag, Valid

Lost = Literal["gap", "forbidden", "removed", "ended"]

HEARD = 65_536
"""Events that are remembered. They live for an hour after they last rose; beyond this many the oldest are forgotten."""


@dataclass(slots=True)
class Known:
    """A living object. `changes` and `whole_at`: how many since its whole state was last told, and when that was."""

    prepared: Prepared
    valid: Valid
    whole_at: int
    changes: int = 0


class Objects(Protocol):
    """The living objects of one watch, by key. What is changed has to be set again."""

    def get(self, key: Key, /) -> Known | None: ...
    def __setitem__(self, key: Key, known: Known, /) -> None: ...
    def pop(self, key: Key, /) -> Known: ...
    def keys(self) -> Collection[Key]: ...


class Memory(Protocol):
    """Where watches, their objects, the dead and the Events heard are held: in memory, or in a store on disk. `heard`:
    count and instant, by the Event's uid."""

    heard: Recent[str, tuple[int, int]]
    deaths: Recent[tuple[Key, str], Death]
    predecessors: Recent[Key, Predecessor]

    def watches(self) -> list[Watch]:
        """Those opened so far, in an earlier run or in this one."""
        ...

    def open(self, name: str) -> Watch:
        """A new one. It stays the memory's as well, which may read it whenever it likes."""
        ...


@dataclass(slots=True)
class Pages:
    """A list of which some pages came. `since`: how old at most its news are; `left`: its watch had ended; `there`: its
    objects so far; `helm`: some of them are Helm's; `missed`: why some cannot be used; `unread`: why some of it may not
    have been read at all."""

    started: int
    version: str | None
    relist: bool
    since: int
    flags: tuple[Flag, ...]
    left: bool = False
    total: int = 0
    there: set[Key] = field(default_factory=set)
    helm: bool = False
    missed: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def is_begun_anew(self, version: str | None, keys: Collection[Key]) -> bool:
        """Whether a page of some version is the first of another list: it shows again what was shown already."""
        if version is None or self.version is None:
            return False  # A list that is streamed tells its version in the end.
        return version != self.version and not self.there.isdisjoint(keys)


@dataclass(slots=True)
class Watch:
    """`last`: when something was last received that nothing lost preceded; `lost` and `lost_since`: how and since when
    it is not watched, up to the next whole LIST; `hole`: (instant, reason) of a line or object that was of no use, up
    to the next that is; `doubt`: (last good instant before, instant of) such a loss, remembered up to the next whole
    LIST: what an object went through then came in later; `unread`: why the line before could not be read, which
    may have been the first page of the list that comes next; `late`: (since, until) what arrives up to `until` may be
    as old as `since`; `version`: the newest seen; `pages`: the list that is coming in."""

    name: str
    known: Objects = field(default_factory=dict[Key, Known])
    listed: bool = False
    last: int | None = None
    lost: Lost | None = None
    lost_since: int = 0
    hole: tuple[int, str] | None = None
    doubt: tuple[int, int] | None = None
    unread: str | None = None
    late: tuple[int, int] | None = None
    version: str | None = None
    pages: Pages | None = None
    resource: str = field(init=False)
    part: str | None = field(init=False)

    def __post_init__(self) -> None:
        self.resource, _, part = self.name.partition(" ")
        self.part = part or None

    @property
    def is_over(self) -> bool:
        """Whether it is watched no longer, on purpose or as there is no such resource: it holds what it last knew."""
        return self.lost in ("ended", "removed")

    def sure(self, t: int) -> int:
        """Whatever happened before this is known; asked at `t`. Events come in order, but each as late as it likes."""
        return t if self.last is None else min(t, self.last - LAG)

    def since(self, t: int) -> int:
        """How old at most the news are that an event at `t` brings."""
        if self.lost is not None:
            return self.sure(t - LAG)
        return t - LAG if self.late is None or t > self.late[1] else min(t - LAG, self.late[0])

    def heard(self, t: int, *, all_of_it: bool) -> None:
        """Something came in order; `all_of_it`: nothing that lies before it is still to come (a bookmark)."""
        if self.lost is not None:
            return  # What comes while it is lost says nothing of what does not.
        if self.late is not None and (all_of_it or t > self.late[1]):
            self.late = None
        if self.late is None:
            self.last = max(t, self.last or t)

    def advance(self, version: str | None) -> None:
        if self.version is None or older(self.version, version):
            self.version = version

    def in_doubt(self, known: Known | None) -> bool:
        """Whether something was lost since this object was last seen."""
        return self.doubt is not None and (known is None or known.valid.not_after <= self.doubt[1])

    def doubted(self, seen: Seen, known: Known | None) -> Seen:
        """What was lost may have been of this object: then its news may be as old as the loss."""
        if self.doubt is None or not self.in_doubt(known):
            return seen
        return Seen(seen.t, min(seen.since, self.doubt[0]), seen.flags)


class InMemory:
    """Nothing of an earlier run, nothing for a later one."""

    def __init__(self) -> None:
        self.heard: Recent[str, tuple[int, int]] = Newest(HEARD)
        self.deaths: Recent[tuple[Key, str], Death] = Newest(DEATHS)
        self.predecessors: Recent[Key, Predecessor] = Newest(PREDECESSORS)
        self._opened: list[Watch] = []

    def watches(self) -> list[Watch]:
        return [*self._opened]

    def open(self, name: str) -> Watch:
        self._opened.append(Watch(name))
        return self._opened[-1]


class Watches:
    """All watches of one scope, and which of them are parts of one resource."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._all = {one.name: one for one in memory.watches()}
        self._of: dict[str, list[Watch]] = {}
        for one in self._all.values():
            self._of.setdefault(one.resource, []).append(one)

    def __iter__(self) -> Iterator[Watch]:
        return iter(self._all.values())

    def find(self, name: str) -> Watch | None:
        return self._all.get(name)

    def of(self, name: str) -> Watch:
        """The watch of a name, begun if need be."""
        found = self._all.get(name)
        if found is None:
            found = self._all[name] = self._memory.open(name)
            self._of.setdefault(found.resource, []).append(found)
        return found

    def parts(self, resource: str) -> list[Watch]:
        return self._of.get(resource, [])

    def holder(self, watch: Watch, key: Key) -> Watch | None:
        """The other part of its resource that holds a key."""
        siblings = self._of[watch.resource]
        if len(siblings) > 1:
            for one in siblings:
                if one is not watch and one.known.get(key) is not None:
                    return one
        return None

    def over(self, watch: Watch) -> list[Watch]:
        """The other parts of its resource that are watched no longer."""
        siblings = self._of[watch.resource]
        if len(siblings) == 1:
            return []
        return [one for one in siblings if one is not watch and one.is_over]

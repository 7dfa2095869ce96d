"""What is remembered of objects that are gone, so that late news of them does not bring them back, what was made anew
is compared with its predecessor, and what does come back is told from what it was.

It is memory, bounded. A later run needs it as well: what was made anew while nobody looked is compared with who held
its key before, and what comes back is told from what it was.
"""

from __future__ import annotations

from typing import NamedTuple

from capture.kubernetes.objects import compared, incarnation, instant_of_birth
from capture.kubernetes.recent import Recent
from capture.normalise import Prepared
from schema.identity import Key

PREDECESSORS = 4096
"""Whole states that are remembered, for comparing; pods never reuse a name."""
DEATHS = 65_536
"""Ends that are remembered: more than a namespace holds, and a late event is late by seconds."""


class Death(NamedTuple):
    """The end of one incarnation in one watch. `version`: what it had been then, of its resource; `last`: the object's
    own last; `sure`: its end was seen, not only that it is missing; `anew`: its own, see SourceVersion."""

    watch: str
    version: str | None
    last: str | None
    sure: bool
    anew: int

    def is_before(self, version: str | None, watch: str, *, ended: bool) -> bool:
        """Whether it was over when an event of the incarnation, of its end or not, was of some version in a watch. An
        end in one part of a resource may be a beginning in another, of the same version."""
        if watch == self.watch:
            order = compared(version, self.version)
            return self.sure if order is None else order <= 0
        order = compared(version, self.version if self.sure and ended else self.last)
        if order is None:
            return self.sure and ended
        return order <= 0 if ended else order < 0


class Predecessor(NamedTuple):
    """Who held a key last: until which `version` of its resource, in which watch."""

    prepared: Prepared
    watch: str
    version: str | None


class Gone:
    """The dead of one scope: the end of each incarnation, and who held a key last."""

    def __init__(self, deaths: Recent[tuple[Key, str], Death], predecessors: Recent[Key, Predecessor]) -> None:
        self._deaths = deaths
        self._predecessors = predecessors

    def add(self, one: Prepared, watch: str, version: str | None, *, sure: bool) -> None:
        """It is gone from a watch, as of `version` of its resource."""
        said = one.source_version
        self._deaths[one.key, incarnation(one)] = Death(watch, version, said.version, sure, said.anew or 0)
        self._predecessors[one.key] = Predecessor(one, watch, version)

    def uncount(self, resource: str) -> None:
        """The versions of a resource start anew: those that its dead had come after none."""
        for name in self._deaths.names():
            death = self._deaths.get(name)
            if death is not None and death.watch.partition(" ")[0] == resource:
                self._deaths[name] = Death(death.watch, None, None, False, death.anew)
        for key in self._predecessors.names():
            found = self._predecessors.get(key)
            if found is not None and found.watch.partition(" ")[0] == resource:
                one = found.prepared
                unversioned = one._replace(source_version=one.source_version.model_copy(update={"version": None}))
                self._predecessors[key] = Predecessor(unversioned, found.watch, None)

    def death_of(self, one: Prepared) -> Death | None:
        """How this very incarnation ended before."""
        return self._deaths.get((one.key, incarnation(one)))

    def predecessor(self, key: Key) -> Prepared | None:
        """Who held a key last, once: its successor is here."""
        found = self._predecessors.forget(key)
        return None if found is None else found.prepared

    def is_late(self, new: Prepared, holder: Prepared | None, watch: str, *, ended: bool) -> bool:
        """Whether an event is of an incarnation that is over: one known to be dead, or older than who holds its key or
        held it last. Versions decide where they compare, then births; else what comes later is later."""
        version = new.source_version.version
        death = self.death_of(new)
        if death is not None and death.is_before(version, watch, ended=ended):
            return True
        if holder is not None:
            order = compared(version, holder.source_version.version)
        else:
            found = self._predecessors.get(new.key)
            if found is None:
                return False
            holder, where, until = found
            order = compared(version, until if where == watch else holder.source_version.version)
        if order is not None and order != 0:
            return order < 0
        mine, other = instant_of_birth(new), instant_of_birth(holder)
        return mine is not None and other is not None and mine < other

"""What is remembered of objects that are gone, so that late news of them does not bring them back, what was made anew
is compared with its predecessor, and what does come back is told from what it was.

It is memory, bounded, and empty after a restart: then a LIST comes first, and says what is there.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from capture.kubernetes.objects import compared, incarnation, instant_of_birth
from capture.normalise import Prepared
from schema.identity import Key

_PREDECESSORS = 4096  # Whole states, for comparing; pods never reuse a name.
_DEATHS = 65_536  # About 200 bytes each: more than a namespace holds, and a late event is late by seconds.


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


class Gone:
    """The dead of one scope."""

    def __init__(self) -> None:
        self._deaths: OrderedDict[tuple[Key, str], Death] = OrderedDict()
        self._predecessors: OrderedDict[Key, tuple[Prepared, str, str | None]] = OrderedDict()

    def add(self, one: Prepared, watch: str, version: str | None, *, sure: bool) -> None:
        """It is gone from a watch, as of `version` of its resource."""
        name = (one.key, incarnation(one))
        self._deaths[name] = Death(watch, version, one.source_version.version, sure, one.source_version.anew or 0)
        self._deaths.move_to_end(name)
        self._predecessors[one.key] = (one, watch, version)
        self._predecessors.move_to_end(one.key)
        if len(self._deaths) > _DEATHS:
            self._deaths.popitem(last=False)
        if len(self._predecessors) > _PREDECESSORS:
            self._predecessors.popitem(last=False)

    def uncount(self, resource: str) -> None:
        """The versions of a resource start anew: those that its dead had come after none."""
        for name, death in self._deaths.items():
            if death.watch.partition(" ")[0] == resource:
                self._deaths[name] = Death(death.watch, None, None, False, death.anew)
        for key, (one, watch, _) in self._predecessors.items():
            if watch.partition(" ")[0] == resource:
                unversioned = one._replace(source_version=one.source_version.model_copy(update={"version": None}))
                self._predecessors[key] = (unversioned, watch, None)

    def death_of(self, one: Prepared) -> Death | None:
        """How this very incarnation ended before."""
        return self._deaths.get((one.key, incarnation(one)))

    def predecessor(self, key: Key) -> Prepared | None:
        """Who held a key last, once: its successor is here."""
        found = self._predecessors.pop(key, None)
        return None if found is None else found[0]

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

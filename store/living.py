"""What the planner of a scope keeps in memory: the ends of chains of patches, and what lives now shows to the joins.

Heads are bounded: beyond `HEADS` the one longest not asked for is dropped, and read again from the ledger when its
object changes. Facets are kept of every living object that takes part in a join, about 1 KB each, since a join must see
all partners; of ConfigMaps their values, of templates that read some their pod spec. Nothing here decides anything;
that is `store.planner`.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from schema.canonical import Json, canonical
from schema.identity import Key
from schema.identity import oid as oid_of
from schema.instants import MAX
from store.derive.addresses import Lent
from store.derive.facts import Facet, Named
from store.derive.joins import JOINS
from store.derive.sides import NOWHERE, Shown, Sides, filled
from store.rows import ChangeRow

HEADS = 20_000
"""How many heads are kept: a pod's takes about 10 KB with its facts, so 200 MB at most."""


@dataclass(slots=True)
class Head:
    """The end of an object's chain: what the next live patch must apply to. `n` None: deleted, or never seen.

    `seq` is the log position of the chain's last row, `last` that of the row that decides what lives now: another one
    where a late full state holds from after the chain's end. `body` is the state in canonical spelling, `facts` are
    the edges that it gives alone, None until somebody asked.
    """

    uid: str | None = None
    vf: int = -MAX
    seq: int = 0
    last: int = 0
    n: int | None = None
    next_n: int = 0
    anchor: int = 0
    digest: str | None = None
    body: bytes | None = None
    facts: Named | None = None


class Chains(Protocol):
    """Where heads are read from."""

    def last_n(self, oid: int) -> int: ...
    def anchor(self, oid: int, n: int) -> tuple[int, str]: ...
    def last_change(self, oid: int, *, chain: bool = False) -> ChangeRow | None: ...
    def content(self, oid: int, n: int) -> dict[str, Json]: ...


class Heads:
    """Heads by object id, the longest unused dropped first."""

    def __init__(self, chains: Chains) -> None:
        self._chains = chains
        self._heads: OrderedDict[int, Head] = OrderedDict()

    def of(self, oid: int) -> Head:
        head = self._heads.get(oid)
        if head is None:
            head = self._load(oid)
            self.put(oid, head)
        else:
            self._heads.move_to_end(oid)
        return head

    def _load(self, oid: int) -> Head:
        head = Head(next_n=self._chains.last_n(oid) + 1)
        if head.next_n == 0:
            return head
        end, final = self._chains.last_change(oid, chain=True), self._chains.last_change(oid)
        head.last = final.seq if final else 0
        if end is not None:
            head.uid, head.vf, head.seq, head.n = end.uid, end.vf, end.seq, end.n
            if end.n is not None:
                head.anchor, head.digest = self._chains.anchor(oid, end.n)
                head.body = canonical(self._chains.content(oid, end.n))
        return head

    def put(self, oid: int, head: Head) -> None:
        self._heads[oid] = head
        self._heads.move_to_end(oid)
        if len(self._heads) > HEADS:
            self._heads.popitem(last=False)

    def drop(self, oid: int) -> None:
        self._heads.pop(oid, None)


Moves = list[tuple[int, Sides, Sides]]
"""Of objects by id, what each shows before and after."""


class Facets:
    """What living objects show: facets by side and bucket, who reads which ConfigMap, and what these hold."""

    def __init__(self) -> None:
        self._own: dict[int, Sides] = {}
        self._by: list[dict[tuple[str, ...], dict[int, Facet]]] = [defaultdict(dict) for _ in NOWHERE]
        self._reading: dict[int, Shown] = {}
        self._readers: dict[int, set[int]] = defaultdict(set)
        self._lent: dict[int, Lent] = {}

    def of(self, oid: int) -> Sides:
        return self._own.get(oid, NOWHERE)

    def moves(self, oid: int, shown: Shown) -> Moves:
        """Whose sides may be others once the object shows this: its own, and where it lends, those who read it."""
        found = [(oid, self.of(oid), filled(shown, self._lender))]
        if shown.lent != self._lent.get(oid):

            def lender(config: Key) -> Lent | None:
                number = oid_of(config)
                return shown.lent if number == oid else self._lent.get(number)

            for reader in sorted(self._readers.get(oid, ())):
                found.append((reader, self.of(reader), filled(self._reading[reader], lender)))
        return found

    def put(self, oid: int, shown: Shown, moves: Moves | None = None) -> None:
        """What the object shows from now on, nothing when it is gone; `moves` are those of this showing, if known."""
        for one, before, after in self.moves(oid, shown) if moves is None else moves:
            self._stand(one, before, after)
        if oid in self._reading:
            for config in self._reading.pop(oid).reads:
                self._readers[oid_of(config)].discard(oid)
        if shown.reads:
            self._reading[oid] = shown
            for config in shown.reads:
                self._readers[oid_of(config)].add(oid)
        if shown.lent is not None:
            self._lent[oid] = shown.lent
        elif oid in self._lent:
            del self._lent[oid]

    def _lender(self, config: Key) -> Lent | None:
        return self._lent.get(oid_of(config))

    def _stand(self, oid: int, was: Sides, sides: Sides) -> None:
        if was == sides:
            return
        for side, (before, after) in enumerate(zip(was, sides, strict=True)):
            if before == after:
                continue
            here = self._by[side]
            for facet in before:
                bucket = here[facet.bucket]
                del bucket[oid]
                if not bucket:
                    del here[facet.bucket]
            for facet in after:
                here[facet.bucket][oid] = facet
        if any(sides):
            self._own[oid] = sides
        else:
            self._own.pop(oid, None)

    def pairs(self, oid: int, side: int, facing: Iterable[Facet]) -> Named:
        """The edges between facets of this object and everybody living at the other side."""
        found: Named = {}
        match = JOINS[side >> 1].match
        for facet in facing:
            for other, theirs in self._by[side ^ 1].get(facet.bucket, {}).items():
                if other != oid:
                    for fact in match(theirs, facet) if side & 1 else match(facet, theirs):
                        found[fact.name] = fact
        return found

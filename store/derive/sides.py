"""All that one state says about edges: those it gives alone, and what it shows to each side of every join.

The joins have two sides each; side `2 i` is the left of `JOINS[i]`, side `2 i + 1` its right, so that `side ^ 1` is the
other. Who stands at the other sides, and when, is left to the planner.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from schema.canonical import canonical, hash64
from schema.records import ObjectRef
from store.derive.facts import EdgeFact, Facet, Named, Side, State
from store.derive.joins import JOINS
from store.derive.rules import facts_of

Sides = tuple[Facet | None, ...]
_SIDES = tuple(side for rule in JOINS for side in (rule.left, rule.right))
NOWHERE: Sides = (None,) * len(_SIDES)
"""What an object shows that takes part in no join."""


@dataclass(frozen=True, slots=True)
class Derived:
    """`facts`: the edges that a state gives alone; `sides`: its facet for each side of each join."""

    facts: Named = field(default_factory=dict)
    sides: Sides = NOWHERE


NOTHING = Derived()
"""What the absence of an object says."""


def derived(ref: ObjectRef, state: State) -> Derived:
    return Derived(facts_of(ref, state), sides_of(ref, state))


def sides_of(ref: ObjectRef, state: State) -> Sides:
    """The facet of a state for each side."""
    able = _able(ref.type)
    if not able:
        return NOWHERE
    found = list(NOWHERE)
    for number, side in able:
        found[number] = side.facet(ref, state)
    return tuple(found)


@cache
def _able(type_: str) -> tuple[tuple[int, Side], ...]:
    """The sides that a type can stand at."""
    return tuple((number, side) for number, side in enumerate(_SIDES) if side.accepts(type_))


def meet(side: int, mine: Facet | None, other: Facet | None) -> Named:
    """The edges between a facet at `side` and one at the other side of that join."""
    if mine is None or other is None or mine.bucket != other.bucket:
        return {}
    left, right = (other, mine) if side & 1 else (mine, other)
    return {fact.name: fact for fact in JOINS[side >> 1].match(left, right)}


def bucket_id(side: int, facet: Facet) -> int:
    """64-bit id of the bucket that a facet stands in at `side`."""
    return hash64("\n".join((JOINS[side >> 1].id, "right" if side & 1 else "left", *facet.bucket)))


def same(one: EdgeFact, two: EdgeFact) -> bool:
    """Whether two facts of one name say the same, to the letter: in JSON, 1 and true and 1.0 are three things."""
    return (
        one.rule == two.rule
        and one.basis == two.basis
        and one.confidence == two.confidence
        and canonical(one.attrs) == canonical(two.attrs)
    )

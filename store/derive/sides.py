"""All that one state says about edges: those it gives alone, and what it shows to each side of every join.

The joins have two sides each; side `2 i` is the left of `JOINS[i]`, side `2 i + 1` its right, so that `side ^ 1` is the
other. What a template shows as a caller also depends on the ConfigMaps that it reads: `filled` completes it for those
that lend at some time. Who stands at the other sides, who lends, and when, is left to the planner.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from schema.canonical import canonical, hash64
from schema.identity import Key
from schema.records import ObjectRef
from store.derive.addresses import Lender, Lent, Template, lent_by, template_of
from store.derive.calls import RULE, call_facets, nobody
from store.derive.facts import EdgeFact, Facet, Named, Side, State
from store.derive.joins import JOINS
from store.derive.rules import facts_of

Facing = tuple[Facet, ...]
"""What an object shows to one side, a facet for each bucket that it stands in."""
Sides = tuple[Facing, ...]
_SIDES = tuple(side for rule in JOINS for side in (rule.left, rule.right))
NOWHERE: Sides = ((),) * len(_SIDES)
"""What an object shows that takes part in no join."""
CALLER = next(2 * number for number, rule in enumerate(JOINS) if rule.id == RULE)
"""The side of those who call."""


class Shown(NamedTuple):
    """What a state shows to others: its facets, those of a caller left out where ConfigMaps have a say in them;
    `template`, that caller's template; `lent`, what a ConfigMap holds."""

    sides: Sides = NOWHERE
    template: Template | None = None
    lent: Lent | None = None

    @property
    def reads(self) -> tuple[Key, ...]:
        """The ConfigMaps that decide with it what it shows."""
        return () if self.template is None else self.template.configs


class Derived(NamedTuple):
    """`facts`: the edges that a state gives alone; `shown`: what it shows to others."""

    facts: Named
    shown: Shown


_NOTHING_SHOWN = Shown()
NOTHING = Derived({}, _NOTHING_SHOWN)
"""What the absence of an object says."""


def derived(ref: ObjectRef, state: State) -> Derived:
    return Derived(facts_of(ref, state), shown_by(ref, state))


def shown_by(ref: ObjectRef, state: State) -> Shown:
    lent = lent_by(ref, state)
    able = _able(ref.type)
    if not able:
        return _NOTHING_SHOWN if lent is None else Shown(lent=lent)
    found, template = list(NOWHERE), None
    for number, side in able:
        if number != CALLER:
            found[number] = side.facets(ref, state)
        elif (template := template_of(ref, state)) is not None and not template.configs:
            found[number], template = call_facets(template, nobody), None
    return Shown(tuple(found), template, lent)


def filled(shown: Shown, lender: Lender) -> Sides:
    """The facets for each side while the ConfigMaps are those of the lender."""
    if shown.template is None:
        return shown.sides
    return (*shown.sides[:CALLER], call_facets(shown.template, lender), *shown.sides[CALLER + 1 :])


def changed(was: Sides, now: Sides, *, anew: bool = False) -> Iterator[tuple[int, Facing, Facing]]:
    """Side by side the facets that are gone, and those that are new or say something else; `anew`: all of them."""
    if was == now and not anew:
        return
    for side, (before, after) in enumerate(zip(was, now, strict=True)):
        if anew and (before or after):
            yield side, before, after
        elif before != after:
            yield side, tuple(x for x in before if x not in after), tuple(x for x in after if x not in before)


@cache
def _able(type_: str) -> tuple[tuple[int, Side], ...]:
    """The sides that a type can stand at."""
    return tuple((number, side) for number, side in enumerate(_SIDES) if side.accepts(type_))


def meet(side: int, mine: Facing, others: Facing) -> Named:
    """The edges between what one object shows at `side` and another at the other side of that join."""
    match = JOINS[side >> 1].match
    return {
        fact.name: fact
        for one in mine
        for other in others
        if one.bucket == other.bucket
        for fact in (match(other, one) if side & 1 else match(one, other))
    }


def bucket_id(side: int, facet: Facet) -> int:
    """64-bit id of the bucket that a facet stands in at `side`."""
    return hash64("\n".join((JOINS[side >> 1].id, "right" if side & 1 else "left", *facet.bucket)))


def readers_id(config: Key) -> int:
    """64-bit id of the bucket of those who read a ConfigMap."""
    return hash64(f"reads\n{config}")


def buckets_of(shown: Shown) -> set[int]:
    """Every bucket in which a state puts its object, whatever is lent to it."""
    stands = {bucket_id(side, facet) for side, facing in enumerate(shown.sides) for facet in facing}
    return stands | {readers_id(config) for config in shown.reads}


def same(one: EdgeFact, two: EdgeFact) -> bool:
    """Whether two facts of one name say the same, to the letter: in JSON, 1 and true and 1.0 are three things."""
    return (
        one.rule == two.rule
        and one.basis == two.basis
        and one.confidence == two.confidence
        and canonical(one.attrs) == canonical(two.attrs)
    )

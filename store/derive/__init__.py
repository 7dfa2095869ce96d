"""Edges out of states: pure rules over one object, and join rules over two objects of one scope.

`derive` gives every edge that a single stored state implies; each of `JOINS` gives those that need a second object;
`store.derive.sides` puts both together for the planner, and `store.derive.reads` knows which parts of a state matter.
When edges hold is left to the planner. Ids of rules are id@version: a rule that gives other edges than before takes a
new version.
"""

from __future__ import annotations

from store.derive.facts import EdgeFact, Facet, JoinRule
from store.derive.joins import JOINS
from store.derive.rules import derive

__all__ = ["JOINS", "EdgeFact", "Facet", "JoinRule", "derive"]

"""The closed set of predicates: which relations there are, and between which classes of nodes.

The list is the table `tables/predicates.toml`. An edge with a predicate or a pair of classes outside of it raises
IllegalEdge and is never stored. What gives the edges is left to `store.derive`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from schema.errors import IllegalEdge
from schema.kinds import CLASSES


@dataclass(frozen=True, slots=True)
class Predicate:
    """One predicate. A pair of classes may say `*` for any class; `bases` are how such an edge may be known."""

    id: str
    version: int
    meaning: str
    pairs: frozenset[tuple[str, str]]
    cardinality: str
    bases: tuple[str, ...]


def _load() -> dict[str, Predicate]:
    table = tomllib.loads(files("schema").joinpath("tables/predicates.toml").read_text(encoding="utf-8"))
    return {
        entry["id"]: Predicate(
            entry["id"],
            entry["version"],
            entry["meaning"],
            frozenset((src, dst) for sources, targets in entry["pairs"] for src in sources for dst in targets),
            entry["cardinality"],
            tuple(entry["bases"]),
        )
        for entry in table["predicate"]
    }


PREDICATES: Mapping[str, Predicate] = _load()
"""Every predicate there is, by id."""


def legal(predicate: str, src_class: str, dst_class: str) -> bool:
    """Whether the closed set holds this predicate between these classes."""
    known = PREDICATES.get(predicate)
    if known is None or src_class not in CLASSES or dst_class not in CLASSES:
        return False
    pairs = known.pairs
    return (
        (src_class, dst_class) in pairs or ("*", dst_class) in pairs or (src_class, "*") in pairs or ("*", "*") in pairs
    )


def check(predicate: str, src_class: str, dst_class: str) -> None:
    """Raises IllegalEdge unless the closed set holds this predicate between these classes."""
    if predicate not in PREDICATES:
        raise IllegalEdge(f"unknown predicate {predicate!r}")
    if not legal(predicate, src_class, dst_class):
        raise IllegalEdge(f"{predicate} does not lead from {src_class} to {dst_class}")

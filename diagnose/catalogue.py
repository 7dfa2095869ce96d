"""The catalogue: every check there is, and what all of them find in a slice. What a check holds stands beside it, in
`diagnose.checks`; a new module of checks is named here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from diagnose.check import Check, Finding
from diagnose.checks import (
    access,
    admission,
    calls,
    config,
    containers,
    policies,
    routes,
    scaling,
    scheduling,
    services,
    symptoms,
)
from diagnose.slices import Slice

_MODULES = (services, calls, policies, routes, config, containers, scheduling, admission, access, scaling, symptoms)

CHECKS: tuple[Check, ...] = tuple(one for module in _MODULES for one in module.CHECKS)
"""In the order in which they are documented."""

READS = frozenset(type_ for one in CHECKS for type_ in (*one.reads, *one.also))
"""The types whose states a slice needs."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A check that can say nothing at the instant, and the types that were not watched."""

    check: Check
    types: tuple[str, ...]


def run(slice_: Slice, checks: Iterable[Check] = CHECKS) -> tuple[list[Finding], list[Unknown]]:
    """What the checks find, mechanisms first, of these what a recorded change made so; and which can say nothing."""
    found: list[Finding] = []
    unknown: list[Unknown] = []
    for one in checks:
        missing = tuple(type_ for type_ in one.reads if not slice_.watched(type_, None))
        if missing:
            unknown.append(Unknown(one, missing))
        else:
            found.extend(Finding(one, each) for each in one.find(slice_))
    return sorted(found, key=_order), unknown


def _order(one: Finding) -> tuple[str, bool, str, str, str]:
    return one.check.says, not one.found.made, str(one.found.key), one.check.id, one.found.sentence

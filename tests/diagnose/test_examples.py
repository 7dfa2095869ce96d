"""Every check by examples: a world or more in which it finds what it is for, three or more in which it is silent."""

from __future__ import annotations

import pytest

from diagnose.catalogue import CHECKS
from tests.diagnose import (
    cases_access,
    cases_admission,
    cases_calls,
    cases_config,
    cases_containers,
    cases_routes,
    cases_scaling,
    cases_scheduling,
)

MODULES = (
    cases_access, cases_admission, cases_calls, cases_config, cases_containers, cases_routes, cases_scaling,
    cases_scheduling,
)  # fmt: skip
CASES = [each for module in MODULES for each in module.CASES]
ELSEWHERE = {"service-selects-nothing", "service-port-unserved", "service-selects-strangers"}
"""Checks whose examples need more than a verdict: tests of their own."""


def _id(value: object) -> str | None:
    return value.id if hasattr(value, "id") else None


@pytest.mark.parametrize(
    ("check", "world", "blamed", "made"), [(c.check, *each) for c in CASES for each in c.finds], ids=_id
)
def test_it_finds_what_it_is_for(check, world, blamed, made) -> None:
    found = world.find(check)
    assert [(one.key.kind, one.key.name) for one in found] == [blamed]
    change = found[0].made[0].recorded.change.object if found[0].made else None
    assert (change and (change.kind, change.name)) == made
    assert found[0].sentence
    assert found[0].cited


@pytest.mark.parametrize(("check", "world"), [(c.check, each) for c in CASES for each in c.silent], ids=_id)
def test_it_is_silent_where_all_is_well(check, world) -> None:
    assert world.find(check) == []


def test_every_mechanism_has_examples() -> None:
    told = {each.check.id: (len(each.finds), len(each.silent)) for each in CASES}
    wanted = {one.id for one in CHECKS if one.says == "mechanism"} - ELSEWHERE
    assert set(told) == wanted
    assert {id_: counts for id_, counts in told.items() if counts[0] < 1 or counts[1] < 3} == {}


def test_ids_are_unique_and_words_are_there() -> None:
    assert len({one.id for one in CHECKS}) == len(CHECKS)
    for one in CHECKS:
        assert len(one.silent) >= 3
        assert all([one.when, one.why, one.fix, one.example, *one.silent])
        assert not any(words.endswith(".") for words in (one.when, one.why, one.fix, one.example, *one.silent))

"""Kubernetes Events are evidence, not changes: heard once each, with both clocks (rows 41 to 46 of the pitfalls)."""

from __future__ import annotations

import pytest

from schema import instants
from tests.reflector.lines import T0, S, ev, event, heard, lst


def test_41_an_event_needs_no_known_target():
    (found,) = heard(ev(1, "ADDED", event(), r="v1/events"))
    assert (found.object.type, found.object.uid, found.at) == ("core/Pod", "u9", T0 + S)


@pytest.mark.parametrize(
    ("claims", "minute"),
    [
        (
            {
                "series": {"count": 2, "lastObservedTime": "2026-03-01T02:01:00Z"},
                "lastTimestamp": "2026-03-01T02:02:00Z",
            },
            1,
        ),
        ({"series": None, "lastTimestamp": "2026-03-01T02:02:00Z", "eventTime": "2026-03-01T02:03:00.000001Z"}, 2),
        ({"lastTimestamp": None, "eventTime": "2026-03-01T02:03:00Z", "firstTimestamp": "2026-03-01T02:04:00Z"}, 3),
        ({"lastTimestamp": None, "eventTime": None, "firstTimestamp": "2026-03-01T02:04:00Z"}, 4),
        ({"metadata": {"name": "a.1", "creationTimestamp": "2026-03-01T02:05:00Z"}}, 5),
    ],
)
def test_42_the_instant_of_an_event_is_the_first_place_that_has_one(claims, minute):
    (found,) = heard(ev(1, "ADDED", event(**claims), r="v1/events"))
    assert found.at == instants.parse(f"2026-03-01T02:0{minute}:00Z")


def test_43_an_event_repeated_in_place_counts_its_new_occurrences():
    first, second = heard(ev(1, "ADDED", event(1), r="v1/events"), ev(9, "MODIFIED", event(4, "2"), r="v1/events"))
    assert (first.occurrences, second.count, second.occurrences) == (1, 4, 3)


def test_44_an_old_event_is_kept_with_both_clocks():
    (found,) = heard(ev(1, "ADDED", event(lastTimestamp="2020-01-01T00:00:00Z"), r="v1/events"))
    assert (found.at, found.observed_at) == (instants.parse("2020-01-01T00:00:00Z"), T0 + S)


def test_46_an_event_listed_again_is_not_heard_twice():
    old = event(lastTimestamp="2026-03-01T02:00:00Z")
    assert len(heard(lst(0, old, r="v1/events"), lst(5, old, r="v1/events"))) == 1


def test_46_an_event_heard_again_after_a_restart_is_the_same_evidence():
    old = event(lastTimestamp="2026-03-01T02:00:00Z")
    first, again = heard(lst(0, old, r="v1/events")), heard(lst(500, old, r="v1/events"))
    assert first[0].id == again[0].id
    assert first[0].id != heard(lst(500, event(2), r="v1/events"))[0].id

"""Which request made which change: each way that is told, and each that is not guessed."""

from __future__ import annotations

import itertools

import pytest

from capture.kubernetes.audit import HOLD, PATIENCE, WINDOW
from schema.instants import SECOND
from tests.audit.words import amends, at, audit, change, event, thing, who

ONE = change(id="1" * 32)
ANSWERED = event(answer=thing())
BY_TIME = event()


def told(changes, events):
    """By the digit that a change's id repeats: who, and how surely."""
    return {id_[0]: one for id_, one in who(amends(changes, events)).items()}


def other(**more):
    return change(id="2" * 32, rv="11", **more)


TABLE = {
    # name: (changes, events, {change: (user, confidence)})
    "the answer has its version": ([ONE], [ANSWERED], {"1": ("alice", 1.0)}),
    "another version": ([ONE], [event(answer=thing(rv="9"))], {}),
    "the same version of another incarnation": ([ONE], [event(answer=thing(uid="u2"))], {}),
    "the same version of another object": ([ONE], [event(name="b", answer=thing(name="b"))], {}),
    "the same version an hour later, of a restored backup": ([ONE], [event(start=3600, answer=thing())], {}),
    "clocks that differ do not matter to a version": ([ONE], [event(start=20, answer=thing())], {"1": ("alice", 1.0)}),
    "a request that changed nothing has the same answer": (
        [ONE], [event(user="bob", start=0.05, answer=thing()), ANSWERED], {"1": ("alice", 1.0)},
    ),
    "failed": ([ONE], [event(code=409, answer=thing())], {}),
    "not tried in earnest": ([ONE], [event(uri="?dryRun=All", answer=thing())], {}),
    "made": ([change("create", id="1" * 32)], [event("create", code=201, answer=thing())], {"1": ("alice", 1.0)}),
    "made, and changed before it was first seen": (
        [change("create", id="1" * 32, rv="12", flags=["from_relist"])],
        [event("create", code=201, answer=thing()), event(user="bob", start=0.05, answer=thing(rv="12"))],
        {"1": ("alice", 1.0)},
    ),
    "observed: nobody made it": ([change("observe", id="1" * 32)], [ANSWERED], {}),
    "deleted, by uid": (
        [change("delete", id="1" * 32)], [event("delete", answer={"kind": "Status", "details": {"uid": "u1"}})],
        {"1": ("alice", 1.0)},
    ),
    "another incarnation was deleted": (
        [change("delete", id="1" * 32)], [event("delete", answer={"kind": "Status", "details": {"uid": "u2"}})], {},
    ),
    "marked by one, let go by another": (
        [
            change(id="1" * 32, paths=["metadata.deletionTimestamp"]),
            change("delete", id="2" * 32, seen=0.5),
        ],
        [
            event("delete", answer=thing(finalizers=["x/y"], deletionTimestamp="z")),
            event(user="bob", start=0.4, answer=thing(rv="11", deletionTimestamp="z")),
        ],
        {"1": ("alice", 1.0), "2": ("bob", 1.0)},
    ),
    "deleted with all others": (
        [change("delete", id="1" * 32), change("delete", "b", uid="u2", id="2" * 32)],
        [event("deletecollection", None, answer={"items": [thing(), thing("u2", name="b")]})],
        {"1": ("alice", 1.0), "2": ("alice", 1.0)},
    ),
    "deleted with all others, of whom no answer tells": (
        [
            change("delete", id="1" * 32), change("delete", "b", uid="u2", id="2" * 32),
            change("delete", namespace="other", id="3" * 32),
        ],
        [event("deletecollection", None), event("deletecollection", None, start=0.05)],
        {"1": ("alice", 0.5), "2": ("alice", 0.5)},
    ),
    "deleted with all others, by one of two": (
        [change("delete", id="1" * 32)],
        [event("deletecollection", None), event("deletecollection", None, user="bob")], {},
    ),
    "with all others is not how things are changed": ([ONE], [event("deletecollection", None)], {}),

    "the one request that was in hand": ([ONE], [BY_TIME], {"1": ("alice", 0.8)}),
    "and whose tool stands in managedFields": (
        [change(id="1" * 32, manager="tool-of-alice")], [BY_TIME], {"1": ("alice", 0.9)},
    ),
    "and whose tool does not": ([change(id="1" * 32, manager="tool-of-bob")], [BY_TIME], {}),
    "a tool that stands there less surely says nothing": (
        [change(id="1" * 32, manager="tool-of-bob", sure=0.5)], [BY_TIME], {"1": ("alice", 0.8)},
    ),
    "before it can have been": ([ONE], [event(start=-3, end=-2)], {}),
    "after it was seen": ([ONE], [event(start=0.5)], {}),
    "made is not changed": ([ONE], [event("create", code=201)], {}),
    "changed is not made": ([change("create", id="1" * 32)], [BY_TIME], {}),
    "made, by name": ([change("create", id="1" * 32)], [event("create", code=201)], {"1": ("alice", 0.8)}),
    "a deletion marks, and changes nothing else": ([ONE], [event("delete")], {}),
    "nothing else marks": ([change(id="1" * 32, paths=["metadata.deletionTimestamp"])], [BY_TIME], {}),
    "evicted": (
        [change(id="1" * 32, type_="core/Pod", paths=["metadata.deletionTimestamp"])],
        [event("create", resource="pods", sub="eviction", code=201)], {"1": ("alice", 0.8)},
    ),
    "bound, which nobody signs": (
        [change(id="1" * 32, type_="core/Pod", paths=["spec.nodeName"], manager="kubelet")],
        [event("create", resource="pods", sub="binding", code=201)], {"1": ("alice", 0.8)},
    ),
    "status is written by itself": (
        [change(id="1" * 32, type_="core/Pod", paths=["status.phase"])], [event(resource="pods")], {},
    ),
    "and nothing else with it": (
        [change(id="1" * 32, type_="core/Pod", paths=["spec.x"])], [event(resource="pods", sub="status")], {},
    ),

    "two within a second, one after the other": (
        [change(id="1" * 32, since=0), other(since=0, seen=0.9)],
        [BY_TIME, event(user="bob", start=0.8)],
        {"1": ("alice", 0.6), "2": ("bob", 0.6)},
    ),
    "two within a second, at once": (
        [change(id="1" * 32, since=0), other(since=0, seen=0.11)], [BY_TIME, event(user="bob")], {},
    ),
    "two at once, told apart by their tools": (
        [
            change(id="1" * 32, since=0, manager="tool-of-bob", sure=0.5),
            other(since=0, seen=0.11, manager="tool-of-alice", sure=0.5),
        ],
        [BY_TIME, event(user="bob")],
        {"1": ("bob", 0.6), "2": ("alice", 0.6)},
    ),
    "two at once, both of one": (
        [change(id="1" * 32, since=0), other(since=0, seen=0.11)], [BY_TIME, event(start=0.02)],
        {"1": ("alice", 0.6), "2": ("alice", 0.6)},
    ),
    "one request makes one change": ([change(id="1" * 32, since=0), other(since=0, seen=0.11)], [BY_TIME], {}),
    "who answers with the version leaves the other to time": (
        [change(id="1" * 32, since=0), other(since=0, seen=0.11)],
        [event(user="bob"), event(start=0.02, answer=thing(rv="11"))],
        {"1": ("bob", 0.8), "2": ("alice", 1.0)},
    ),

    "over a gap, by one": (
        [change(id="1" * 32, since=-60, manager="tool-of-alice", flags=["from_relist"])],
        [ANSWERED], {"1": ("alice", 0.9)},
    ),
    "over a gap, by several: whose tool owns what changed": (
        [change(id="1" * 32, since=-60, manager="tool-of-bob", sure=0.7, flags=["from_relist"])],
        [event(user="bob", start=-30, answer=thing(rv="9")), ANSWERED], {"1": ("bob", 0.6)},
    ),
    "over a gap, by several, of whom none owns it": (
        [change(id="1" * 32, since=-60, manager="tool-of-carol", sure=0.7, flags=["from_relist"])],
        [event(user="bob", start=-30, answer=thing(rv="9")), ANSWERED], {},
    ),
    "over a gap, a request whose change was seen is not one of them": (
        [
            change(id="1" * 32, since=-60, manager="tool-of-alice", flags=["from_relist"]),
            change(id="2" * 32, rv="9", seen=-30, since=-31),
        ],
        [event(user="bob", start=-30.5, answer=thing(rv="9")), ANSWERED],
        {"1": ("alice", 0.9), "2": ("bob", 1.0)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_who_made_it(name) -> None:
    changes, events, expected = TABLE[name]
    assert told(changes, events) == expected


@pytest.mark.parametrize("name", TABLE)
def test_the_order_in_which_they_come_says_nothing(name) -> None:
    changes, events, _ = TABLE[name]
    expected = sorted(one.id for one in amends(changes, events))
    for some in itertools.permutations([*changes, *events]):
        core = audit()
        for one in some:
            if isinstance(one, dict):
                core.heard(one)
            else:
                core.told([one])
        assert sorted(one.id for one in core.settle(2**62)) == expected


# -- when it took place


def test_what_was_not_known_closely_is_told_closely() -> None:
    (one,) = amends(
        [change("delete", since=-9)], [event("delete", answer={"kind": "Status", "details": {"uid": "u1"}})]
    )
    assert one.valid is not None
    assert (one.valid.not_before, one.valid.not_after, one.valid.clock) == (at(0), at(0.01), "audit")
    gap = change(since=-60, manager="tool-of-alice", flags=["from_relist"])
    (over,) = amends([gap], [ANSWERED])
    assert over.valid == one.valid


@pytest.mark.parametrize(
    ("changes", "events"),
    [
        ([ONE], [ANSWERED]),  # Known within a second: not worth it.
        ([change(since=-9)], [event(start=0.2, answer=thing())]),  # By another clock.
        ([change(since=-9)], [BY_TIME]),  # Only time put them together.
        ([change("create", since=-9, rv="12")], [event("create", code=201, answer=thing())]),  # It had changed since.
        ([change(since=-60, manager="tool-of-alice", sure=0.7, flags=["from_relist"])], [ANSWERED]),  # Others may have.
        (
            [change(since=-60, manager="tool-of-alice", flags=["from_relist"])],
            [event(start=-9, answer=thing(rv="9")), ANSWERED],
        ),
    ],
)  # fmt: skip
def test_an_instant_is_told_only_where_it_is_certain(changes, events) -> None:
    (one,) = amends(changes, events)
    assert one.valid is None
    assert one.actor is not None


# -- when it is said, and how long it is remembered


def test_what_is_certain_is_said_soon_what_only_time_tells_later() -> None:
    for events, wait in (([ANSWERED], HOLD), ([BY_TIME], PATIENCE)):
        assert amends([ONE], events, now=ONE.valid.not_after + wait - 1) == []
        assert len(amends([ONE], events, now=ONE.valid.not_after + wait)) == 1


def test_what_is_certain_betters_what_time_told_and_nothing_betters_that() -> None:
    core = audit()
    assert who(amends([ONE], [event(user="bob")], core, now=at(130))) == {ONE.id: ("bob", 0.8)}
    assert who(amends([], [ANSWERED], core, now=at(140))) == {ONE.id: ("alice", 1.0)}
    assert amends([], [event(user="carol", start=-0.5, answer=thing())], core, now=at(150)) == []


def test_what_is_told_twice_changes_nothing() -> None:
    core = audit()
    first = amends([ONE, ONE], [ANSWERED, ANSWERED], core, now=at(20))
    assert len(first) == 1
    assert amends([ONE], [ANSWERED], core) == []
    assert core.counts["repeated"] == 2
    assert amends([ONE], [ANSWERED]) == first  # After a restart: the same record.


def test_what_nothing_comes_for_is_forgotten_and_counted() -> None:
    core = audit()
    assert amends([ONE], [event(name="b")], core, now=at(1) + WINDOW) == []
    assert core.waiting == (0, 0)
    assert core.counts == {"changes": 1, "requests": 1, "changes without a request": 1, "requests without a change": 1}
    assert amends([], [ANSWERED], core) == []


def test_what_was_used_is_not_counted_as_without() -> None:
    core = audit()
    gone = change("delete")
    assert len(amends([ONE, gone], [ANSWERED, event("deletecollection", None)], core)) == 2
    assert core.waiting == (0, 0)
    assert core.counts == {"changes": 2, "requests": 2, "certain": 1, "by collection": 1}


def test_memory_is_bounded() -> None:
    core = audit(most=10)
    core.told([change(name=f"c{n}", rv=str(n)) for n in range(100)])
    for n in range(100):
        core.heard(event(name=f"e{n}"))
    assert core.waiting == (10, 10)
    assert core.counts["changes crowded out"] == core.counts["requests crowded out"] == 90
    assert amends([], [], core) == []


def test_over_a_gap_that_is_longer_than_memory_one_request_is_not_known_to_be_alone() -> None:
    gap = change(seen=1200, since=0, manager="tool-of-alice", flags=["from_relist"])
    core = audit()
    assert amends([], [event(name="b", start=100)], core, now=at(1000)) == []
    assert who(amends([gap], [event(start=1100, answer=thing())], core)) == {gap.id: ("alice", 0.6)}


def test_kinds_may_come_later() -> None:
    core = audit()
    gadget = change(type_="example.org/Gadget", id="1" * 32)
    assert amends([gadget], [], core) == []
    assert core.counts["changes of an unknown kind"] == 1
    from capture.kubernetes.recording import Resource

    core.learn([Resource("example.org", "v1", "gadgets", "Gadget")])
    asked = event(resource="gadgets", group="example.org", answer=thing())
    assert who(amends([gadget], [asked], core)) == {gadget.id: ("alice", 1.0)}


def test_an_amendment_says_who_and_keeps_the_tool() -> None:
    asked = event(agent="", answer=thing(), userAgent=None)
    (one,) = amends([change(manager="kubectl-edit", id="1" * 32)], [asked])
    assert one.actor is not None
    assert (one.amends, one.actor.manager, one.actor.method, one.scope) == ("1" * 32, "kubectl-edit", "audit", "lab")
    assert one.observed_at >= at(0.01)
    assert one.observed_at - at(0) < SECOND
    assert one.provenance is None

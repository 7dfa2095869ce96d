"""A memory filled from the records of a run holds what the run held, as far as records say."""

from __future__ import annotations

import pytest

from capture.kubernetes.recalling import Recall
from capture.kubernetes.recording import BadLine, Resource
from capture.kubernetes.watched import InMemory
from schema.errors import StoreCorrupt
from tests.reflector.lines import CMS, RESOURCES, T0, S, changes, cm, covers, ev, event, gap, lst, ops, reflector, run

EVENTS = "v1/events"


def recalled_from(records) -> InMemory:
    memory = InMemory()
    recall = Recall(memory, RESOURCES)
    for record in records:
        recall.apply(record)
    assert not recall.unplaced
    return memory


def held(memory) -> dict:
    """What is known of each object, but for what no record says."""
    return {
        key: (
            watch.name,
            known.prepared._replace(managed=[], prints={}, applied_print=None),
            known.valid,
            known.changes,
        )
        for watch in memory.watches()
        for key, known in ((key, watch.known.get(key)) for key in [*watch.known.keys()])
    }


def test_the_living_are_as_they_were_told() -> None:
    memory = InMemory()
    lines = [lst(0, cm(), cm("b", uid="u2")), ev(5, "DELETED", cm("b", uid="u2", rv="20"))]
    lines += [ev(6 + n, "MODIFIED", cm(rv=str(30 + n), data=str(n))) for n in range(70)]
    records = run(*lines, core=reflector(memory))
    (watch,) = memory.watches()
    later = recalled_from(records)
    assert held(later) == held(memory)
    (known,), (other,) = ([*map(one.known.get, one.known.keys())] for one in (watch, *later.watches()))
    assert known is not None
    assert other is not None
    assert (other.whole_at, other.changes) == (known.whole_at, known.changes) == (T0 + 69 * S, 6)


def test_what_happened_to_the_dead_is_known_to_the_next_run() -> None:
    before = run(lst(0, cm()), ev(5, "DELETED", cm(rv="20")))
    core = reflector(recalled_from(before))
    core.lost([CMS], T0 + 9 * S, "away")
    (made,) = changes(run(lst(10, cm(rv="30", uid="u2", data="2", born="2026-03-01T03:00:07Z")), core=core))
    assert (made.op, made.flags) == ("create", ["from_relist", "replaced"])
    assert [one.after for one in made.fields if one.path == "data.size"] == ["2"]


def said(count: int) -> dict:
    return event(count=count, lastTimestamp="2026-03-01T02:59:00Z")


def test_an_event_that_was_heard_before_is_not_told_again() -> None:
    before = run(lst(0, said(3), r=EVENTS))
    core = reflector(recalled_from(before))
    assert run(ev(5, "ADDED", said(3), r=EVENTS), core=core) == []
    (more,) = run(ev(6, "MODIFIED", said(7), r=EVENTS), core=core)
    assert more.occurrences == 4


@pytest.mark.parametrize("lost", [[gap(5)], [ev(5, "ERROR", {"kind": "Status", "apiVersion": "v1", "code": 403})], []])
def test_what_comes_next_is_told_since_no_later_than_is_known(lost) -> None:
    core = reflector(recalled_from(run(lst(0, cm()), *lost)))
    told = core.lost([CMS], T0 + 50 * S, "away")
    assert covers(told) == ([] if lost else [("gap", "away")])
    (change,) = changes(run(lst(60, cm(rv="11", data="2")), core=core))
    assert change.valid.not_before <= T0


def test_a_hole_that_was_told_is_doubted_by_the_next_run() -> None:
    first = reflector()
    records = run(lst(0, cm()), core=first) + first.miss(BadLine(7, "not JSON", CMS), T0 + 5 * S)
    core = reflector(recalled_from(records))
    (change,) = changes(run(ev(20, "MODIFIED", cm(rv="11", data="2")), core=core))
    assert change.valid.not_before <= T0 - 5 * S


def test_a_record_that_does_not_fit_is_named() -> None:
    records = run(lst(0, cm()), ev(5, "MODIFIED", cm(rv="11", data="2")), ev(6, "MODIFIED", cm(rv="12", data="3")))
    with pytest.raises(StoreCorrupt, match=r"record [0-9a-f]{32} of .*/a changes a state that is not known"):
        recalled_from([*records[:2], *records[3:]])


def test_objects_of_which_no_watch_can_be_told_are_counted() -> None:
    records = run(
        lst(0, {**cm(), "kind": "Thing"}, r="v1/things"), ev(5, "DELETED", {**cm(), "kind": "Thing"}, "v1/things")
    )
    assert ops(records) == ["observe", "delete"]
    recall = Recall(InMemory(), RESOURCES)
    for record in records:
        recall.apply(record)
    assert [key.type for key in recall.unplaced] == ["core/Thing"]


def test_a_crd_tells_where_objects_of_its_kind_belong() -> None:
    spec = {"group": "x.io", "names": {"kind": "Thing", "plural": "things"}}
    crd = {**cm("things.x.io", namespace=None), "apiVersion": "apiextensions.k8s.io/v1", "spec": spec}
    thing = {**cm(), "apiVersion": "x.io/v1", "kind": "Thing"}
    records = run(
        lst(0, {**crd, "kind": "CustomResourceDefinition"}, r="apiextensions.k8s.io/v1/customresourcedefinitions"),
        lst(1, thing, r="x.io/v1/things"),
    )
    memory = InMemory()
    resources = [Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")]
    recall = Recall(memory, resources)
    for record in records:
        recall.apply(record)
    assert sorted(name for name, *_ in held(memory).values()) == [
        "apiextensions.k8s.io/customresourcedefinitions", "x.io/things",
    ]  # fmt: skip

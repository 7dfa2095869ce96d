"""Who made a change, where managedFields leave a choice: the one that owns what changed, or nobody."""

from __future__ import annotations

from typing import Any

import pytest

from capture.normalise import recalled
from schema.records import Change
from tests.reflector.lines import T0, S, changes, cm, ev, gap, lst, recalling, run

BEFORE, GAP, LATER = "2026-02-01T00:00:00Z", "2026-03-01T03:00:20Z", "2026-03-01T03:00:30Z"
SPEC: dict[str, Any] = {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:targetPort": {}}}, "f:type": {}}}
STATUS = {"f:status": {"f:phase": {}}, "f:metadata": {"f:annotations": {"f:seen": {}}}}


def entry(manager: str, time: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time, "fieldsV1": fields, **more}


def service(rv: str, target: int, phase: str, *managed: dict[str, Any], port: int = 80, **spec: Any) -> dict[str, Any]:
    body = cm(rv=rv, managedFields=list(managed), annotations={"seen": phase})
    del body["data"]
    ports = [{"port": port, "protocol": "TCP", "targetPort": target}]
    return {**body, "kind": "Service", "spec": {"ports": ports, **spec}, "status": {"phase": phase}}


def human(time: str, fields: dict[str, Any] = SPEC) -> dict[str, Any]:
    return entry("kubectl-edit", time, fields)


def controller(time: str, fields: dict[str, Any] = STATUS) -> dict[str, Any]:
    return entry("controller", time, fields, subresource="status")


def over_a_gap(old: dict[str, Any], new: dict[str, Any]) -> Change:
    return changes(run(lst(0, old, r="v1/services"), lst(60, new, r="v1/services")))[-1]


def told(change: Change) -> tuple[str | None, float]:
    return change.actor.manager, change.actor.confidence


OLD = service("10", 1, "a", human(BEFORE), controller(BEFORE))


def test_a_spec_is_whose_it_is_though_a_status_was_written_after_it() -> None:
    assert told(over_a_gap(OLD, service("20", 2, "b", human(GAP), controller(LATER)))) == ("kubectl-edit", 0.7)


def test_a_status_is_its_writers() -> None:
    assert told(over_a_gap(OLD, service("20", 1, "b", human(BEFORE), controller(LATER)))) == ("controller", 0.9)
    assert told(over_a_gap(OLD, service("20", 1, "b", human(GAP), controller(LATER)))) == ("controller", 0.7)


def test_of_two_that_own_what_changed_it_is_said_with_less_confidence() -> None:
    other = entry("helm", LATER, {"f:spec": {"f:type": {}}})
    new = service("20", 2, "a", human(GAP), other, controller(BEFORE), type="NodePort")
    assert told(over_a_gap(OLD, new)) == ("kubectl-edit", 0.5)


def test_where_nobody_that_moved_owns_what_changed_nobody_is_named() -> None:
    assert told(over_a_gap(OLD, service("20", 2, "a", human(BEFORE), controller(LATER)))) == (None, 0.0)
    stranger = entry("helm", LATER, {"f:data": {}})
    assert told(over_a_gap(OLD, service("20", 2, "a", human(BEFORE), stranger, controller(LATER)))) == (None, 0.0)


def test_one_that_moved_between_two_versions_of_the_watch_is_the_one_whatever_it_owns() -> None:
    new = service("20", 2, "a", human(BEFORE), controller("2026-03-01T03:00:04Z"))
    change = changes(run(lst(0, OLD, r="v1/services"), ev(5, "MODIFIED", new, r="v1/services")))[-1]
    assert told(change) == ("controller", 0.9)
    assert change.valid.clock == "managedFields"


def test_of_several_that_moved_between_two_versions_the_owner_is_the_one_and_the_last_bounds_it() -> None:
    managed = human("2026-03-01T03:00:03Z"), controller("2026-03-01T03:00:04Z")
    new = service("20", 2, "b", *managed)
    change = changes(run(lst(0, OLD, r="v1/services"), ev(5, "MODIFIED", new, r="v1/services")))[-1]
    assert told(change) == ("kubectl-edit", 0.7)
    assert change.valid.not_before == T0 + 4 * S


def test_what_was_removed_was_removed_by_who_owned_it() -> None:
    old = service("10", 1, "a", human(BEFORE), controller(BEFORE), type="NodePort")
    kept = {"f:spec": {"f:ports": SPEC["f:spec"]["f:ports"]}}
    assert told(over_a_gap(old, service("20", 1, "b", human(GAP, kept), controller(LATER)))) == ("kubectl-edit", 0.7)


@pytest.mark.parametrize(
    "owned",
    [
        {"f:spec": {"f:ports": {}}}, {"f:spec": {}}, {"f:spec": {"f:ports": {'k:{"port":80}': {"f:targetPort": {}}}}},
        {"f:spec": {"f:ports": {".": {}, "k:{no JSON": {}, "k:[]": {}, 'k:{"port":80,"x":1,"protocol":"TCP"}': {}}}},
    ],
)  # fmt: skip
def test_what_is_owned_as_a_whole_or_by_fewer_keys_is_owned(owned: dict[str, Any]) -> None:
    assert told(over_a_gap(OLD, service("20", 2, "b", human(GAP, owned), controller(LATER)))) == ("kubectl-edit", 0.7)


@pytest.mark.parametrize("owned", [{}, None, [], "x", {"f:spec": []}, {"f:spec": {"f:ports": {'k:{"port":81}': {}}}}])
def test_what_is_not_owned_is_not(owned: Any) -> None:
    assert told(over_a_gap(OLD, service("20", 2, "b", human(GAP, owned), controller(LATER)))) == ("controller", 0.7)


def test_an_object_made_in_a_gap_is_its_first_writers() -> None:
    new = service("20", 1, "a", human(GAP), controller(LATER))
    made = changes(run(lst(0, r="v1/services"), gap(9), lst(60, new, r="v1/services")))[-1]
    assert (made.op, *told(made)) == ("create", "kubectl-edit", 0.5)
    assert told(changes(run(lst(0, r="v1/services"), lst(9, service("20", 1, "a"), r="v1/services")))[-1]) == (None, 0)


def test_after_a_restart_only_who_wrote_since_then_can_have_made_the_change() -> None:
    first = changes(run(lst(0, OLD, r="v1/services")))[-1]
    state = first.patch[0]["value"]
    assert isinstance(state, dict)
    for managed, who in (((human(BEFORE), controller(LATER)), None), ((human(GAP), controller(LATER)), "kubectl-edit")):
        core = recalling([(recalled(first.object, state, first.source_version), first.valid)], {"core/services": T0})
        (change,) = changes(run(lst(60, service("20", 2, "a", *managed), r="v1/services"), core=core))
        assert (change.op, change.actor.manager) == ("update", who)

"""What is visibly wrong: silence over a healthy cluster, and each symptom by what it finds and what keeps it silent."""

from __future__ import annotations

import pytest

from diagnose.catalogue import run
from diagnose.check import Found
from diagnose.checks import symptoms as rules
from diagnose.slices import Seen, Slice
from schema.identity import Key
from schema.instants import SECOND
from schema.records import Change, Evidence, FieldChange, ObjectRef, Valid
from store.past import Edge, Recorded

NOW = 10_000 * SECOND
GROUPS = {"Deployment": "apps", "StatefulSet": "apps", "DaemonSet": "apps", "EndpointSlice": "discovery.k8s.io"}


def key(kind: str, name: str = "cart") -> Key:
    return Key("kubernetes", "lab", f"{GROUPS.get(kind, 'core')}/{kind}", "shop", name)


def changed(at: int, *fields: tuple[str, object, object], op: str = "update") -> Recorded:
    told = [FieldChange(path=path, pointer="", effect="changed", before=old, after=new) for path, old, new in fields]
    ref = ObjectRef(
        source="kubernetes", scope="lab", type="core/Pod", kind="Pod", class_="Pod", namespace="shop", name="cart"
    )
    valid = Valid(not_before=at, not_after=at)
    return Recorded(1, at, Change(id=f"{at:032x}", op=op, object=ref, valid=valid, observed_at=at, fields=told))


class Past:
    def __init__(self, history: dict[Key, list[Recorded]]) -> None:
        self._history = history

    def changes(self, key: Key) -> list[Recorded]:
        return self._history.get(key, [])


def found(states: dict[Key, dict], history: dict[Key, list[Recorded]] | None = None, heard: list | None = None):
    services = [one for one in states if one.kind == "Service"]
    pods = [one for one in states if one.kind == "Pod"]
    edges = [Edge("SELECTS", one, pod, {}, "inferred", 1.0, "", 0, 0) for one in services for pod in pods]
    objects = {one: Seen(one.kind, "", None, state) for one, state in states.items()}
    slice_ = Slice(NOW, objects, edges, heard or [], Past(history or {}), lambda *_: True)
    return [(one.check.id, one.found) for one in run(slice_, rules.CHECKS)[0]]


def ids(told: list[tuple[str, Found]]) -> list[str]:
    return [id_ for id_, _ in told]


def made(told: Found) -> str | None:
    return told.made[0].recorded.change.id if told.made else None


def values(told: Found) -> dict[str, object]:
    return {one.path: one.value for one in told.cited}


def deployment(have: int, reason: str = "NewReplicaSetAvailable", **conditions: str) -> dict:
    stated = [{"type": "Progressing", "status": "True", "reason": reason}]
    stated += [{"type": name, "status": status} for name, status in conditions.items()]
    return {"spec": {"replicas": 2}, "status": {"availableReplicas": have, "conditions": stated}}


def fell(ago: int) -> list[Recorded]:
    return [changed(NOW - ago * SECOND, ("status.availableReplicas", 2, 1))]


@pytest.mark.parametrize(
    ("state", "history", "wrong"),
    [
        (deployment(1), fell(60), True),
        (deployment(1), [], True),  # since before the recording
        (deployment(1, "ReplicaSetUpdated", ReplicaFailure="True"), fell(60), True),
        (deployment(2), fell(60), False),
        (deployment(1), fell(3), False),  # a pod was deleted just now
        (deployment(1), [changed(NOW - SECOND, ("spec.replicas", 1, 2))], False),  # scaled up just now
        (deployment(1), [changed(NOW - SECOND, op="create")], False),
        (deployment(1, "ReplicaSetUpdated"), fell(60), False),  # rolling out
        ({"spec": {"replicas": 0}, "status": {}}, [], False),
    ],
)
def test_a_workload_short_of_replicas(state, history, wrong) -> None:
    told = found({key("Deployment"): state}, {key("Deployment"): history})
    assert ids(told) == ["workload-unavailable"] * wrong
    if wrong:
        assert told[0][1].sentence == "1 of 2 replicas are available"
        assert made(told[0][1]) == (history[0].change.id if history else None)


@pytest.mark.parametrize(
    ("kind", "state", "wrong"),
    [
        ("StatefulSet", {"spec": {"replicas": 1}, "status": {}}, True),
        ("StatefulSet", {"spec": {"replicas": 1}, "status": {"updateRevision": "b", "currentRevision": "a"}}, False),
        ("DaemonSet", {"status": {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3}}, True),
        ("DaemonSet", {"status": {"desiredNumberScheduled": 3, "updatedNumberScheduled": 1}}, False),
    ],
)
def test_the_other_workloads(kind, state, wrong) -> None:
    assert ids(found({key(kind): state})) == ["workload-unavailable"] * wrong


def waiting(reason: str) -> dict:
    return {
        "status": {"containerStatuses": [{"name": "cart", "state": {"waiting": {"reason": reason, "message": "m"}}}]}
    }


def test_a_container_that_waits_says_for_what() -> None:
    path = 'status.containerStatuses[k:{"name":"cart"}].state.waiting.reason'
    history = {key("Pod"): [changed(NOW, (path, None, "ImagePullBackOff"))]}
    ((id_, told),) = found({key("Pod"): waiting("ImagePullBackOff")}, history)
    assert (id_, told.sentence) == ("container-waiting", "container cart waits: ImagePullBackOff")
    assert values(told)["status.containerStatuses[name=cart].state.waiting.message"] == "m"
    assert made(told) == history[key("Pod")][0].change.id
    assert found({key("Pod"): waiting("ContainerCreating")}) == []
    leaving = {**waiting("ImagePullBackOff"), "metadata": {"deletionTimestamp": "2026-03-01T03:00:00Z"}}
    assert found({key("Pod"): leaving}) == []


@pytest.mark.parametrize(("ago", "wrong"), [(60, True), (2, False)])
def test_a_pod_that_no_node_takes(ago, wrong) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes"}
    path = 'status.conditions[k:{"type":"PodScheduled"}].reason'
    history = {key("Pod"): [changed(NOW - ago * SECOND, (path, None, "Unschedulable"))]}
    told = found({key("Pod"): {"status": {"phase": "Pending", "conditions": [condition]}}}, history)
    assert ids(told) == ["pod-unschedulable"] * wrong


def endpoints(*ready: bool) -> dict:
    labels = {"kubernetes.io/service-name": "cart"}
    return {"metadata": {"labels": labels}, "endpoints": [{"conditions": {"ready": one}} for one in ready]}


@pytest.mark.parametrize(
    ("slice_", "ago", "wrong"),
    [(endpoints(False), 60, True), (endpoints(), 60, True), (endpoints(False, True), 60, False),
     (endpoints(False), 2, False), (None, 60, False)],
)  # fmt: skip
def test_a_service_without_a_ready_endpoint(slice_, ago, wrong) -> None:
    states = {key("Service"): {"spec": {"selector": {"app": "cart"}}}, key("Pod"): {}}
    if slice_ is not None:
        states[key("EndpointSlice")] = slice_
    lost = changed(NOW - ago * SECOND, ("endpoints[h:1]", {"conditions": {"ready": True}}, None))
    told = found(states, {key("EndpointSlice"): [lost]})
    assert ids(told) == ["service-no-ready-endpoint"] * wrong
    if wrong:
        assert made(told[0][1]) == lost.change.id
        assert found({one: state for one, state in states.items() if one.kind != "Pod"}) == []  # it selects nothing


@pytest.mark.parametrize(
    ("ready", "first", "last", "count", "wrong"),
    [
        ("False", 60, 5, 4, True),
        ("True", 60, 5, 4, False),  # it recovered
        ("False", 60, 60, 1, False),  # said once
        ("False", 5, 1, 4, False),  # it is only starting
        ("False", 900, 600, 4, False),  # long ago
    ],
)
def test_a_warning_counts_where_the_object_is_not_well(ready, first, last, count, wrong) -> None:
    ref = ObjectRef(
        source="kubernetes", scope="lab", type="core/Pod", kind="Pod", class_="Pod", namespace="shop", name="cart"
    )
    heard = Evidence(
        id="e" * 32, kind="event", object=ref, at=NOW - last * SECOND, first_at=NOW - first * SECOND, observed_at=NOW,
        severity="Warning", reason="Unhealthy", message="probe failed", count=count, occurrences=count,
    )  # fmt: skip
    state = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}
    told = found({key("Pod"): state}, heard=[heard])
    assert ids(told) == ["warning"] * wrong
    if wrong:
        assert values(told[0][1]) == {"status.conditions[type=Ready].status": "False"}
        assert told[0][1].evidence == (heard,)

"""Pod specs wherever they stand: in a pod, in the template of what makes pods; and quantities."""

from __future__ import annotations

import re
from collections.abc import Iterator

from diagnose.slices import Slice
from schema.canonical import Json
from schema.identity import Key
from store.derive.facts import State, at, maps, strings, text

POD = "core/Pod"
DEPLOYMENT, STATEFUL_SET, DAEMON_SET = "apps/Deployment", "apps/StatefulSet", "apps/DaemonSet"
REPLICA_SET, JOB, CRON_JOB = "apps/ReplicaSet", "batch/Job", "batch/CronJob"
SERVING = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)
"""Workloads whose pods are meant to run for good."""
WORKLOADS = (*SERVING, REPLICA_SET, JOB, CRON_JOB)
"""All that make pods, as far as checks know them."""

_PARTS = ("initContainers", "containers")
_UNITS = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)([A-Za-z]*)\Z")


def place(type_: str) -> str:
    """The path of the pod template (or pod) in an object of a type, with its dot behind it: empty for a pod."""
    if type_ == POD:
        return ""
    return "spec.jobTemplate.spec.template." if type_ == CRON_JOB else "spec.template."


def pod_of(key: Key, state: State) -> State:
    """The pod or pod template of an object; empty where it has none."""
    path = place(key.type)
    found = at(state, *path.rstrip(".").split(".")) if path else state
    return found if isinstance(found, dict) else {}


def spec_of(key: Key, state: State) -> State:
    """The pod spec of an object; empty where it has none."""
    spec = pod_of(key, state).get("spec")
    return spec if isinstance(spec, dict) else {}


def labels_of(key: Key, state: State) -> dict[str, str]:
    """The labels that the pods of an object carry."""
    return strings(pod_of(key, state), "metadata", "labels")


def containers(spec: State) -> Iterator[tuple[str, State]]:
    """(path below the spec, container), init containers first."""
    for part in _PARTS:
        for one in maps(spec, part):
            yield f"{part}[name={text(one, 'name')}]", one


def lives(pod: State) -> bool:
    """Whether a pod is meant to run: not over, not on its way out."""
    over = text(pod, "status", "phase") in ("Succeeded", "Failed")
    return not over and at(pod, "metadata", "deletionTimestamp") is None


def ready(pod: State) -> bool:
    return any(
        text(one, "type") == "Ready" and text(one, "status") == "True" for one in maps(pod, "status", "conditions")
    )


def replicas(state: State) -> int:
    """How many pods a Deployment, StatefulSet or ReplicaSet asks for."""
    return count(at(state, "spec", "replicas"), 1)


def pods_of(slice_: Slice, workload: Key) -> list[tuple[Key, State]]:
    """The pods that a workload runs, over whatever stands between."""
    found = ((key, slice_.state(key)) for key in slice_.targets(workload, "RUNS", POD))
    return [(key, state) for key, state in found if state is not None]


def tops(slice_: Slice, *types: str) -> Iterator[tuple[Key, State]]:
    """The workloads (of these types, else all) and bare pods that nothing makes and that are not on their way out."""
    for key, state in slice_.of(*(types or (*WORKLOADS, POD))):
        if at(state, "metadata", "deletionTimestamp") is None and slice_.root(key) == key:
            yield key, state


def count(value: Json, default: int = 0) -> int:
    return value if isinstance(value, int) else default


def quantity(value: Json) -> float | None:
    """A quantity as a number: `100m` is 0.1, `64Mi` 67108864; None for what is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    met = _QUANTITY.match(value) if isinstance(value, str) else None
    unit = _UNITS.get(met[2]) if met else None
    return None if met is None or unit is None else float(met[1]) * unit

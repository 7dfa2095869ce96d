"""Symptoms: what is visibly wrong in a slice, each with the field values it rests on and the change that made it true.

Pure over what is handed in. A symptom says that something is wrong, never why: causes are sought among the changes
before it. Silence where a cluster is healthy comes first: rollouts, restarts and scaling have their grace, and a
warning counts only where the status of the object it is about bears it out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from schema.canonical import Json
from schema.identity import Key
from schema.instants import SECOND
from schema.records import Evidence, FieldChange
from store.derive.facts import State, at, maps, text
from store.past import Edge, Recorded

GRACE = 10 * SECOND
"""What lasts no longer than this may be a restart, a scaling or a move that goes well."""

RECENT = 300 * SECOND
"""A warning that was not repeated for so long has lapsed."""

_WORKLOADS = ("apps/Deployment", "apps/StatefulSet", "apps/DaemonSet")
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})

READS = frozenset(
    {*_WORKLOADS, "apps/ReplicaSet", "batch/Job", "core/Pod", "core/Service", "core/PersistentVolumeClaim",
     "discovery.k8s.io/EndpointSlice"}
)  # fmt: skip
"""The types whose states a slice for symptoms needs."""

History = Callable[[Key], Sequence[Recorded]]
"""The changes of one object up to the slice's instant, newest first."""

Fields = list[tuple[str, Json]]


@dataclass(frozen=True, slots=True)
class Seen:
    """One object as it was."""

    kind: str
    class_: str
    uid: str | None
    state: State


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a scope at one instant that symptoms are read from."""

    at: int
    objects: Mapping[Key, Seen]
    edges: Sequence[Edge]
    evidence: Sequence[Evidence]


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing wrong. `fields` are (path, value); `change` and `since` are None where it was so before recording."""

    id: str
    key: Key
    sentence: str
    fields: Fields
    change: str | None
    since: int | None


def find(slice_: Slice, history: History) -> list[Symptom]:
    """Everything visibly wrong, ordered by object, then by id."""
    found = [one for rule in (_workloads, _pods, _services, _warnings) for one in rule(slice_, history)]
    return sorted(found, key=lambda one: (str(one.key), one.id, one.sentence))


# -- workloads


def _workloads(slice_: Slice, history: History) -> Iterator[Symptom]:
    """`workload-unavailable`: fewer replicas available than asked for, though no rollout is under way."""
    for key, seen in _of(slice_, *_WORKLOADS):
        short = _short(key.type, seen.state)
        if short is None or _rolling(key.type, seen.state):
            continue
        (want_path, want), (have_path, have) = short
        since = _latest(history(key), _widens(want_path, have_path))
        if _in_grace(slice_, since):
            continue
        fields: Fields = [(want_path, want), (have_path, have)]
        for condition in maps(seen.state, "status", "conditions"):
            told = text(condition, "type"), text(condition, "status")
            if told in (("Progressing", "False"), ("ReplicaFailure", "True")):
                path = f"status.conditions[type={told[0]}]"
                fields += [(f"{path}.{name}", condition.get(name)) for name in ("status", "reason", "message")]
        yield _symptom("workload-unavailable", key, f"{have} of {want} replicas are available", fields, since)


def _short(type_: str, state: State) -> tuple[tuple[str, int], tuple[str, int]] | None:
    """(path, value) of what is wanted and of what there is, where that is less."""
    if type_ == "apps/DaemonSet":
        want, have = "status.desiredNumberScheduled", "status.numberAvailable"
    else:
        want, have = "spec.replicas", "status.availableReplicas"
    wanted = _count(at(state, *want.split(".")), default=1 if want == "spec.replicas" else 0)
    there = _count(at(state, *have.split(".")))
    return ((want, wanted), (have, there)) if there < wanted else None


def _widens(want: str, have: str) -> Callable[[FieldChange], bool]:
    """Whether a field asks for more than before, or has less."""

    def told(one: FieldChange) -> bool:
        before, after = _count(one.before), _count(one.after)
        return (one.path == want and after > before) or (one.path == have and after < before)

    return told


def _rolling(type_: str, state: State) -> bool:
    """Whether it is changing over to a new revision in good order."""
    if type_ == "apps/Deployment":
        conditions = {text(one, "type"): one for one in maps(state, "status", "conditions")}
        if text(conditions.get("ReplicaFailure"), "status") == "True":
            return False
        progress = conditions.get("Progressing")
        return text(progress, "status") == "True" and text(progress, "reason") != "NewReplicaSetAvailable"
    if type_ == "apps/StatefulSet":
        return text(state, "status", "updateRevision") != text(state, "status", "currentRevision")
    updated, wanted = at(state, "status", "updatedNumberScheduled"), at(state, "status", "desiredNumberScheduled")
    return _count(updated) < _count(wanted)


# -- pods


def _pods(slice_: Slice, history: History) -> Iterator[Symptom]:
    """`container-waiting`: a container waits for more than its turn. `pod-unschedulable`: no node takes it."""
    for key, seen in _of(slice_, "core/Pod"):
        if not _lives(seen.state):
            continue
        for part in ("initContainerStatuses", "containerStatuses"):
            for status in maps(seen.state, "status", part):
                reason = text(status, "state", "waiting", "reason")
                if reason and reason not in _STARTING:
                    name, message = text(status, "name"), at(status, "state", "waiting", "message")
                    path = f"status.{part}[name={name}].state.waiting"
                    since = _latest(history(key), _becomes(".waiting.reason", reason))
                    fields: Fields = [(f"{path}.reason", reason), (f"{path}.message", message)]
                    yield _symptom("container-waiting", key, f"container {name} waits: {reason}", fields, since)
        for condition in maps(seen.state, "status", "conditions"):
            if text(condition, "type") == "PodScheduled" and text(condition, "reason") == "Unschedulable":
                since = _latest(history(key), _becomes(".reason", "Unschedulable"))
                if not _in_grace(slice_, since):
                    path = "status.conditions[type=PodScheduled]"
                    fields = [(f"{path}.{name}", condition.get(name)) for name in ("reason", "message")]
                    yield _symptom("pod-unschedulable", key, "no node takes the pod", fields, since)


def _lives(state: State) -> bool:
    """Whether a pod is meant to run: not over, not on its way out."""
    over = text(state, "status", "phase") in ("Succeeded", "Failed")
    return not over and at(state, "metadata", "deletionTimestamp") is None


# -- services


def _services(slice_: Slice, history: History) -> Iterator[Symptom]:
    """`service-no-ready-endpoint` and `service-port-unserved`, of services that select living pods."""
    selected: dict[Key, list[State]] = defaultdict(list)
    for edge in slice_.edges:
        pod = slice_.objects.get(edge.dst) if edge.predicate == "SELECTS" and edge.dst.type == "core/Pod" else None
        if pod is not None and _lives(pod.state):
            selected[edge.src].append(pod.state)
    listed: dict[tuple[str | None, str], list[Key]] = defaultdict(list)
    for key, seen in _of(slice_, "discovery.k8s.io/EndpointSlice"):
        listed[key.namespace, text(seen.state, "metadata", "labels", "kubernetes.io/service-name")].append(key)
    for key, seen in _of(slice_, "core/Service"):
        pods = selected[key]
        if not pods or text(seen.state, "spec", "type") == "ExternalName":
            continue
        yield from _endpoints(slice_, history, key, len(pods), listed[key.namespace, key.name])
        # Who calls a headless service dials its pods, whatever port the service writes.
        if text(seen.state, "spec", "clusterIP") != "None":
            yield from _ports(history, key, seen.state, pods)


def _endpoints(slice_: Slice, history: History, key: Key, pods: int, slices: list[Key]) -> Iterator[Symptom]:
    fields: Fields = [
        (f"EndpointSlice/{each.name} endpoints", at(slice_.objects[each].state, "endpoints")) for each in slices
    ]
    # No slice at all: endpoints are not recorded here, and what was not watched cannot be wrong.
    if not slices or any(_ready(endpoints) for _, endpoints in fields):
        return
    moved = [
        _latest(history(each), lambda one: one.path.startswith("endpoints") and _ready(one.before)) for each in slices
    ]
    moved.append(_latest(history(key), _below("spec.selector")))
    since = max((one for one in moved if one is not None), key=lambda one: (one.vf, one.seq), default=None)
    if not _in_grace(slice_, since):
        sentence = f"it selects {pods} {'pod' if pods == 1 else 'pods'}, none is a ready endpoint"
        yield _symptom("service-no-ready-endpoint", key, sentence, fields, since)


def _ready(endpoints: Json) -> bool:
    """Whether an endpoint, or one of several, takes traffic; `ready` left out means that it does."""
    each = endpoints if isinstance(endpoints, list) else [endpoints]
    return any(isinstance(one, dict) and at(one, "conditions", "ready") is not False for one in each)


def _ports(history: History, key: Key, service: State, pods: list[State]) -> Iterator[Symptom]:
    declared = [port for pod in pods for port in _declared(pod)]
    for port in maps(service, "spec", "ports"):
        target = port.get("targetPort")
        if target is None or _serves(declared, target):
            continue
        keyed = orjson.dumps({"port": port.get("port"), "protocol": port.get("protocol", "TCP")}).decode()
        path = f"spec.ports[k:{keyed}].targetPort"
        since = _latest(history(key), _becomes(path, target))
        # A container may listen on a port that it does not declare: a number is wrong only where a recorded change
        # took the service from a port that its pods do declare.
        fields = [] if since is None else since.change.fields
        if isinstance(target, int) and not any(one.path == path and _serves(declared, one.before) for one in fields):
            continue
        there = ", ".join(sorted({f"{one.get('name', '-')}={one.get('containerPort')}" for one in declared})) or "none"
        sentence = f"port {port.get('port')} leads to {target}, which none of its pods declares ({there})"
        yield _symptom("service-port-unserved", key, sentence, [(path, target)], since)


def _declared(pod: State) -> Iterator[State]:
    for container in maps(pod, "spec", "containers"):
        yield from maps(container, "ports")
    for container in maps(pod, "spec", "initContainers"):
        if text(container, "restartPolicy") == "Always":
            yield from maps(container, "ports")


def _serves(declared: list[State], target: Json) -> bool:
    return target is not None and any(target in (one.get("name"), one.get("containerPort")) for one in declared)


# -- evidence


def _warnings(slice_: Slice, history: History) -> Iterator[Symptom]:
    """`warning`: the cluster complains again and again of an object that is not as it should be."""
    heard: dict[tuple[Key, str], list[Evidence]] = defaultdict(list)
    for one in slice_.evidence:
        seen = slice_.objects.get(one.object.key)
        if one.severity == "Warning" and seen is not None and one.object.uid in (None, seen.uid):
            heard[one.object.key, one.reason or "Warning"].append(one)
    for (key, reason), told in heard.items():
        unsound = _unsound(key.type, slice_.objects[key].state)
        first, last = min(one.first_at or one.at for one in told), max(told, key=lambda one: one.at)
        lasts = slice_.at - first >= GRACE and slice_.at - last.at < RECENT
        if unsound is not None and lasts and sum(one.occurrences for one in told) > 1:
            since = _latest(history(key), _below(unsound[0].partition("[")[0]))
            fields: Fields = [unsound, ("evidence.reason", reason), ("evidence.message", last.message)]
            yield _symptom("warning", key, f"{reason}: {last.message or 'no message'}", fields, since)


def _unsound(type_: str, state: State) -> tuple[str, Json] | None:
    """The path and value by which an object says itself that it is not well; None where it is, or says nothing."""
    if type_ == "core/Pod" and _lives(state):
        ready = [at(one, "status") for one in maps(state, "status", "conditions") if text(one, "type") == "Ready"]
        return None if "True" in ready else ("status.conditions[type=Ready].status", ready[0] if ready else None)
    if type_ in _WORKLOADS or type_ == "apps/ReplicaSet":
        short = _short(type_, state)
        return None if short is None else short[1]
    if type_ == "batch/Job":
        done = any(text(one, "type") == "Complete" for one in maps(state, "status", "conditions"))
        running = _count(at(state, "status", "ready"))
        return None if done or running else ("status.ready", running)
    if type_ == "core/PersistentVolumeClaim":
        phase = at(state, "status", "phase")
        return None if phase == "Bound" else ("status.phase", phase)
    return None


# -- tools


def _of(slice_: Slice, *types: str) -> Iterator[tuple[Key, Seen]]:
    return ((key, seen) for key, seen in slice_.objects.items() if key.type in types)


def _latest(changes: Sequence[Recorded], told: Callable[[FieldChange], bool]) -> Recorded | None:
    """The newest change with a field that fits; none before the creation of the object, which set every field."""
    return next((one for one in changes if one.change.op == "create" or any(map(told, one.change.fields))), None)


def _becomes(path: str, value: Json) -> Callable[[FieldChange], bool]:
    return lambda one: one.path.endswith(path) and one.after == value


def _below(path: str) -> Callable[[FieldChange], bool]:
    return lambda one: one.path.startswith(path)


def _in_grace(slice_: Slice, since: Recorded | None) -> bool:
    return since is not None and slice_.at - since.vf < GRACE


def _symptom(id_: str, key: Key, sentence: str, fields: Fields, since: Recorded | None) -> Symptom:
    change, from_ = (None, None) if since is None else (since.change.id, since.vf)
    return Symptom(id_, key, sentence, fields, change, from_)


def _count(value: Json, default: int = 0) -> int:
    return value if isinstance(value, int) else default

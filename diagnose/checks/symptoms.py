"""What is visibly wrong: workloads short of pods, pods that no node takes, containers that wait, services without an
endpoint, repeated warnings.

A symptom says where to begin to look, never why. Silence where a cluster is healthy comes first: rollouts, restarts
and scaling have their grace, and a warning counts only where the status of the object it is about bears it out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from diagnose.check import Cited, Found, check
from diagnose.slices import GRACE, HEARD, Made, Slice
from diagnose.templates import DAEMON_SET, DEPLOYMENT, JOB, POD, REPLICA_SET, SERVING, STATEFUL_SET, count, lives
from schema.canonical import Json
from schema.identity import Key
from schema.records import Evidence, FieldChange
from store.derive.facts import State, at, maps, text

_ENDPOINTS, _CLAIM, _SERVICE = "discovery.k8s.io/EndpointSlice", "core/PersistentVolumeClaim", "core/Service"
STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""For what a container waits in its turn."""

# -- workloads


@check(
    "workload-unavailable", says="symptom", reads=SERVING,
    when="a Deployment, StatefulSet or DaemonSet has fewer replicas available than it asks for",
    why="what it does is done by fewer pods than somebody thought necessary, or by none",
    silent=(
        "its rollout still makes progress (condition Progressing)",
        "the shortage, the scaling or the object itself is younger than 10 s",
        "it asks for no replicas",
    ),
    fix="look at its pods, and at the mechanisms found for them",
    example="spec.replicas 2, status.availableReplicas 1, for a minute",
)  # fmt: skip
def workload_unavailable(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(*SERVING):
        short = shortage(key.type, state)
        if short is None or rolling(key.type, state):
            continue
        (want_path, want), (have_path, have) = short
        made = _latest(slice_, key, _widens(want_path, have_path))
        if made and not slice_.lasts(made[0].at):
            continue
        cited = [Cited(key, want_path, want), Cited(key, have_path, have)]
        for condition in maps(state, "status", "conditions"):
            told = text(condition, "type"), text(condition, "status")
            if told in (("Progressing", "False"), ("ReplicaFailure", "True")):
                path = f"status.conditions[type={told[0]}]"
                cited += [Cited(key, f"{path}.{name}", condition.get(name)) for name in ("status", "reason", "message")]
        yield Found(key, f"{have} of {want} replicas are available", tuple(cited), made)


def shortage(type_: str, state: State) -> tuple[tuple[str, int], tuple[str, int]] | None:
    """(path, value) of what is wanted and of what there is, where that is less."""
    if type_ == DAEMON_SET:
        want, have = "status.desiredNumberScheduled", "status.numberAvailable"
    else:
        want, have = "spec.replicas", "status.availableReplicas"
    wanted = count(at(state, *want.split(".")), default=1 if want == "spec.replicas" else 0)
    there = count(at(state, *have.split(".")))
    return ((want, wanted), (have, there)) if there < wanted else None


def _widens(want: str, have: str) -> Callable[[FieldChange], bool]:
    """Whether a field asks for more than before, or has less."""

    def told(one: FieldChange) -> bool:
        before, after = count(one.before), count(one.after)
        return (one.path == want and after > before) or (one.path == have and after < before)

    return told


def rolling(type_: str, state: State) -> bool:
    """Whether it is changing over to a new revision in good order."""
    if type_ == DEPLOYMENT:
        conditions = {text(one, "type"): one for one in maps(state, "status", "conditions")}
        if text(conditions.get("ReplicaFailure"), "status") == "True":
            return False
        progress = conditions.get("Progressing")
        return text(progress, "status") == "True" and text(progress, "reason") != "NewReplicaSetAvailable"
    if type_ == STATEFUL_SET:
        return text(state, "status", "updateRevision") != text(state, "status", "currentRevision")
    updated, wanted = at(state, "status", "updatedNumberScheduled"), at(state, "status", "desiredNumberScheduled")
    return count(updated) < count(wanted)


# -- pods


@check(
    "container-waiting", says="symptom", reads=(POD,),
    when="a container waits with a reason, as ImagePullBackOff or CreateContainerConfigError",
    why="the pod does not run",
    silent=(
        "it waits for its start (ContainerCreating, PodInitializing)",
        "the pod is over",
        "the pod is on its way out",
    ),
    fix="look at the mechanisms found for the pod's workload",
    example="status.containerStatuses[name=cart].state.waiting.reason is ImagePullBackOff",
)  # fmt: skip
def container_waiting(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(POD):
        for path, name, waiting in waits(state):
            reason = text(waiting, "reason")
            made = _latest(slice_, key, _becomes(".waiting.reason", reason))
            cited = tuple(Cited(key, f"{path}.{one}", waiting.get(one)) for one in ("reason", "message"))
            yield Found(key, f"container {name} waits: {reason}", cited, made)


def waits(pod: State) -> Iterator[tuple[str, str, State]]:
    """(path of `waiting`, container, waiting) of each container of a living pod that waits beyond its turn."""
    if lives(pod):
        for part in ("initContainerStatuses", "containerStatuses"):
            for status in maps(pod, "status", part):
                waiting = at(status, "state", "waiting")
                if isinstance(waiting, dict) and text(waiting, "reason") not in ("", *STARTING):
                    name = text(status, "name")
                    yield f"status.{part}[name={name}].state.waiting", name, waiting


@check(
    "pod-unschedulable", says="symptom", reads=(POD,),
    when="no node takes a pod",
    why="the pod does not run",
    silent=("it is younger than 10 s", "it has a node", "it is over or on its way out"),
    fix="look at the mechanisms found for the pod's workload",
    example="condition PodScheduled is False with reason Unschedulable, for a minute",
)  # fmt: skip
def pod_unschedulable(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(POD):
        condition = unschedulable(state)
        if condition is not None:
            made = _latest(slice_, key, _becomes(".reason", "Unschedulable"))
            if not made or slice_.lasts(made[0].at):
                path = "status.conditions[type=PodScheduled]"
                cited = tuple(Cited(key, f"{path}.{name}", condition.get(name)) for name in ("reason", "message"))
                yield Found(key, "no node takes the pod", cited, made)


def unschedulable(pod: State) -> State | None:
    """The condition by which a living pod says that no node takes it."""
    if not lives(pod):
        return None
    return next(
        (
            one
            for one in maps(pod, "status", "conditions")
            if text(one, "type") == "PodScheduled" and text(one, "reason") == "Unschedulable"
        ),
        None,
    )


# -- services


@check(
    "service-no-ready-endpoint", says="symptom", reads=(_SERVICE, POD, _ENDPOINTS),
    when="a Service selects living pods, and none of them is a ready endpoint",
    why="whoever calls it is refused",
    silent=(
        "the last endpoint went within 10 s",
        "it has no EndpointSlice: its endpoints are not recorded",
        "it selects no pod, which service-selects-nothing tells",
        "it is an ExternalName",
        "its pods are those of a Job, which come and go",
    ),
    fix="look at the pods, and at the mechanisms found for their workload",
    example="two pods are selected, both endpoints have ready false, for a minute",
)  # fmt: skip
def service_no_ready_endpoint(slice_: Slice) -> Iterator[Found]:
    listed: dict[tuple[str | None, str], list[Key]] = defaultdict(list)
    for key, state in slice_.of(_ENDPOINTS):
        listed[key.namespace, text(state, "metadata", "labels", "kubernetes.io/service-name")].append(key)
    for key, state in slice_.of(_SERVICE):
        chosen = selected(slice_, key)
        pods = [pod for pod, _ in chosen if slice_.root(pod).type not in (JOB, "batch/CronJob")]
        lists = listed[key.namespace, key.name]
        # No slice at all: endpoints are not recorded here, and what was not watched cannot be wrong.
        if not pods or not lists or text(state, "spec", "type") == "ExternalName":
            continue
        ends = [(one, at(slice_.state(one), "endpoints")) for one in lists]
        if any(_ready(endpoints) for _, endpoints in ends):
            continue
        moved = [
            made
            for one in lists
            for made in _latest(slice_, one, lambda row: row.path.startswith("endpoints") and _ready(row.before))
        ]
        moved += _latest(slice_, key, lambda row: row.path.startswith("spec.selector"))
        made = tuple(sorted(moved, key=lambda one: (one.at, one.recorded.seq))[-1:])
        if not made or slice_.lasts(made[0].at):
            sentence = f"it selects {len(pods)} {'pod' if len(pods) == 1 else 'pods'}, none is a ready endpoint"
            cited = tuple(Cited(one, "endpoints", value) for one, value in ends)
            yield Found(key, sentence, cited, made, tuple(pods))


def selected(slice_: Slice, service: Key) -> list[tuple[Key, State]]:
    """The living pods that a Service selects."""
    pods = ((pod, slice_.state(pod)) for pod in slice_.targets(service, "SELECTS", POD))
    return [(pod, state) for pod, state in pods if state is not None and lives(state)]


def _ready(endpoints: Json) -> bool:
    """Whether an endpoint, or one of several, takes traffic; `ready` left out means that it does."""
    each = endpoints if isinstance(endpoints, list) else [endpoints]
    return any(isinstance(one, dict) and at(one, "conditions", "ready") is not False for one in each)


# -- evidence


@check(
    "warning", says="symptom", reads=(), also=(*SERVING, REPLICA_SET, JOB, POD, _CLAIM),
    when="a Warning, repeated, lasting 10 s, heard within 5 minutes, about an object whose own status says that it is "
    "not well",
    why="the cluster complains of it again and again",
    silent=(
        "the object is ready, available, complete or bound by now",
        "its status says nothing of the kind",
        "it was said once, or not for 5 minutes",
    ),
    fix="read the message; look at the mechanisms found for the object",
    example="Unhealthy, four times in a minute, of a pod that is not ready",
)  # fmt: skip
def warning(slice_: Slice) -> Iterator[Found]:
    heard: dict[tuple[Key, str], list[Evidence]] = defaultdict(list)
    for one in slice_.evidence:
        seen = slice_.objects.get(one.object.key)
        if one.severity == "Warning" and seen is not None and one.object.uid in (None, seen.uid):
            heard[one.object.key, one.reason or "Warning"].append(one)
    for (key, reason), told in heard.items():
        unsound = _unsound(key.type, slice_.objects[key].state)
        first, last = min(one.first_at or one.at for one in told), max(told, key=lambda one: one.at)
        lasts = slice_.at - first >= GRACE and slice_.at - last.at < HEARD
        if unsound is not None and lasts and sum(one.occurrences for one in told) > 1:
            path, value = unsound
            made = _latest(slice_, key, _below(path.partition("[")[0]))
            sentence = f"{reason}: {last.message or 'no message'}"
            yield Found(key, sentence, (Cited(key, path, value),), made, evidence=(last,))


def _unsound(type_: str, state: State) -> tuple[str, Json] | None:
    """The path and value by which an object says itself that it is not well; None where it is, or says nothing."""
    if type_ == POD and lives(state):
        told = [at(one, "status") for one in maps(state, "status", "conditions") if text(one, "type") == "Ready"]
        return None if "True" in told else ("status.conditions[type=Ready].status", told[0] if told else None)
    if type_ in (*SERVING, REPLICA_SET):
        short = shortage(type_, state)
        return None if short is None else short[1]
    if type_ == JOB:
        done = any(text(one, "type") == "Complete" for one in maps(state, "status", "conditions"))
        running = count(at(state, "status", "ready"))
        return None if done or running else ("status.ready", running)
    if type_ == _CLAIM:
        phase = at(state, "status", "phase")
        return None if phase == "Bound" else ("status.phase", phase)
    return None


# -- tools


def _latest(slice_: Slice, key: Key, told: Callable[[FieldChange], bool]) -> tuple[Made, ...]:
    """The newest change with a field that fits; none before the creation of the object, which set every field."""
    for one in slice_.past.changes(key):
        rows = tuple(row for row in one.change.fields if told(row))
        if rows or one.change.op == "create":
            return (Made(one, rows),)
    return ()


def _becomes(path: str, value: Json) -> Callable[[FieldChange], bool]:
    return lambda one: one.path.endswith(path) and one.after == value


def _below(path: str) -> Callable[[FieldChange], bool]:
    return lambda one: one.path.startswith(path)


CHECKS = (workload_unavailable, container_waiting, pod_unschedulable, service_no_ready_endpoint, warning)

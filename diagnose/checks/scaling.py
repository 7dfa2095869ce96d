"""How many there are, and how they come and go: rollouts, jobs, autoscalers, disruption budgets, nodes."""

from __future__ import annotations

from collections.abc import Iterator

from diagnose.check import Cited, Found, check
from diagnose.checks.containers import of_template
from diagnose.checks.scheduling import newest
from diagnose.slices import GRACE, Slice, beside
from diagnose.templates import (
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    WORKLOADS,
    containers,
    count,
    lives,
    place,
    pods_of,
    replicas,
    spec_of,
)
from schema.canonical import Json
from schema.errors import BadInstant
from schema.identity import Key, type_of
from schema.instants import SECOND, parse
from store.derive.facts import State, at, maps, text

SCALER, BUDGET, NODE = "autoscaling/HorizontalPodAutoscaler", "policy/PodDisruptionBudget", "core/Node"
_PRESSURE = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_DRAINED = 60 * SECOND


@check(
    "rollout-takes-all-down", reads=(DEPLOYMENT, POD), also=(REPLICA_SET,),
    when="a Deployment may take down all of its replicas at once, does so, and the new ones are not ready",
    why="nothing serves until the new revision is ready, which may be never",
    silent=(
        "its strategy keeps some of its replicas",
        "some are available",
        "the rollout is younger than 10 s",
        "it has one replica, or strategy Recreate since before the recording: it was meant so",
    ),
    fix="keep some replicas (maxUnavailable), and put right what keeps the new ones from being ready",
    example="maxUnavailable goes from 25% to 100% together with a new init container that does not end",
)  # fmt: skip
def rollout_takes_all_down(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(DEPLOYMENT):
        wanted, strategy = replicas(state), at(state, "spec", "strategy")
        if wanted < 1 or count(at(state, "status", "availableReplicas")) or not _all(strategy, wanted):
            continue
        loosened = [one for one in slice_.changed(key, "spec.strategy") if one.rows]
        if text(strategy, "type") == "Recreate" and not loosened:
            continue
        fell = slice_.changed(key, "status.availableReplicas")
        rolled = [one for one in slice_.changed(key, "spec.template.spec") if one.rows]
        pods = pods_of(slice_, key)
        if not pods or not (loosened or rolled) or (fell and not slice_.lasts(fell[0].at)):
            continue
        # An outage that began without a rollout is another matter.
        begun = max(one.at for one in (*loosened, *rolled))
        if fell and fell[0].at < begun - SECOND:
            continue
        cited = (Cited(key, "spec.strategy", strategy), Cited(key, "spec.replicas", wanted))
        made = sorted([*loosened, *rolled], key=lambda one: (not loosened or one is not loosened[0], -one.at))
        sentence = f"all {wanted} replicas may go at once, and none of the new ones is available"
        yield Found(key, sentence, cited, tuple(made), tuple(pod for pod, _ in pods))


def _all(strategy: Json, wanted: int) -> bool:
    """Whether a strategy lets all replicas go at once."""
    if text(strategy, "type") == "Recreate":
        return True
    most = at(strategy, "rollingUpdate", "maxUnavailable")
    if isinstance(most, str) and most.rstrip("%").isdigit():
        return wanted > 1 and int(most.rstrip("%")) * wanted // 100 >= wanted
    return wanted > 1 and isinstance(most, int) and most >= wanted


@check(
    "job-held-by-sidecar", reads=(JOB, POD), also=(CRON_JOB,),
    when="in the pod of a Job one container has ended well, another ordinary one runs on, and the Job does not end",
    why="a Job ends when all of its containers have; a CronJob goes on to start more of them",
    silent=(
        "the container that runs on is a sidecar (an init container with restartPolicy Always)",
        "the first ended less than 30 s ago",
        "all containers still run, or all have ended",
    ),
    fix="make the second container a sidecar, or let it end with the first",
    example="a metrics relay is added to a CronJob's containers; sweep has ended, metrics-relay runs on",
)  # fmt: skip
def job_held_by_sidecar(slice_: Slice) -> Iterator[Found]:
    told: set[Key] = set()
    for job, _ in slice_.of(JOB):
        root = slice_.root(job)
        for pod, state in pods_of(slice_, job):
            ordinary = list(maps(state, "status", "containerStatuses"))
            done = [one for one in ordinary if at(one, "state", "terminated", "exitCode") == 0]
            left = [one for one in ordinary if at(one, "state", "running") is not None]
            if root in told or not lives(state) or not done or not left:
                continue
            if not all(_ended_before(one, slice_.at - 3 * GRACE) for one in done):
                continue
            told.add(root)
            names = [text(one, "name") for one in left]
            _, made = of_template(slice_, pod, *(f"containers[name={name}]" for name in names))
            running = [one for one, body in slice_.of(JOB) if slice_.root(one) == root and at(body, "status", "active")]
            cited = tuple(
                Cited(pod, f"status.containerStatuses[name={text(one, 'name')}].state", one.get("state"))
                for one in (*done, *left)
            )
            ended = ", ".join(text(one, "name") for one in done)
            many = f"; {len(running)} jobs are active" if len(running) > 1 else ""
            sentence = f"{ended} has ended, but {', '.join(names)} runs on and the job with it{many}"
            yield Found(root, sentence, cited, tuple(made), (pod, *running))


def _ended_before(status: State, instant: int) -> bool:
    try:
        return parse(text(status, "state", "terminated", "finishedAt")) <= instant
    except BadInstant:
        return False


@check(
    "autoscaler-cannot-act", reads=(SCALER,), also=WORKLOADS,
    when="a HorizontalPodAutoscaler has no target, measures what its target's containers do not request, or had its "
    "maximum lowered below the replicas that were running",
    why="the load is carried by fewer pods than it needs",
    silent=(
        "the maximum was lowered while fewer pods ran",
        "the target is a custom resource with a scale of its own",
        "it has wanted less than the maximum since",
        "the change is younger than 10 s",
    ),
    fix="let min and max meet the load, name a target that is there, give its containers requests",
    example="maxReplicas goes from 6 to 1 while 4 replicas run; TooManyReplicas",
)  # fmt: skip
def autoscaler_cannot_act(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(SCALER):
        told = at(state, "spec", "scaleTargetRef")
        target = beside(key, type_of(text(told, "apiVersion"), text(told, "kind")), text(told, "name"), key.namespace)
        body = slice_.state(target)
        if target.type in WORKLOADS and slice_.watched(target.type, key.namespace) and body is None:
            made = newest(*slice_.changed(key, "spec.scaleTargetRef"), *slice_.deleted(target))
            if not made or slice_.lasts(made[0].at):
                cited = (Cited(key, "spec.scaleTargetRef", told),)
                yield Found(key, f"its target {target.kind} {target.name} is not there", cited, made, (target,))
            continue
        yield from _lowered(slice_, key, state, target)
        if body is not None:
            yield from _unrequested(slice_, key, state, target, body)


def _lowered(slice_: Slice, key: Key, state: State, target: Key) -> Iterator[Found]:
    most = count(at(state, "spec", "maxReplicas"))
    for made in slice_.changed(key, "spec.maxReplicas"):
        row = next((one for one in made.rows if count(one.after) < count(one.before)), None)
        before = slice_.past.before(key, made.at)
        ran = max(count(at(before, "status", "currentReplicas")), count(at(before, "status", "desiredReplicas")))
        limited = any(
            text(one, "type") == "ScalingLimited" and text(one, "reason") == "TooManyReplicas"
            for one in maps(state, "status", "conditions")
        )
        if row is not None and ran > most and limited and slice_.lasts(made.at):
            cited = (
                Cited(key, "spec.maxReplicas", most),
                Cited(key, "status.desiredReplicas", at(state, "status", "desiredReplicas")),
            )
            sentence = f"its maximum was lowered to {most} while {ran} replicas ran, and it would have more"
            yield Found(key, sentence, cited, (made,), (target,))


def _unrequested(slice_: Slice, key: Key, state: State, target: Key, body: State) -> Iterator[Found]:
    for metric in maps(state, "spec", "metrics"):
        name = text(metric, "resource", "name")
        if not name or text(metric, "resource", "target", "type") != "Utilization":
            continue
        # One container without a request is enough for the whole pod to have no percentage.
        bare = [
            path
            for path, one in containers(spec_of(target, body))
            if path.startswith("containers")
            and at(one, "resources", "requests", name) is None
            and at(one, "resources", "limits", name) is None
        ]
        failing = any(
            text(one, "type") == "ScalingActive" and text(one, "status") == "False"
            for one in maps(state, "status", "conditions")
        )
        if bare and failing:
            path = f"{place(target.type)}spec"
            fields = [f"{path}.{one}.resources" for one in bare]
            made = newest(*(one for one in slice_.changed(target, *fields, f"{path}.containers") if one.rows))
            cited = tuple(Cited(target, one, None) for one in fields)
            sentence = f"it scales by {name}, of which {target.name} requests none"
            yield Found(key, sentence, cited, made, (target,))


@check(
    "disruption-budget-blocks", reads=(BUDGET, POD, NODE), also=WORKLOADS,
    when="a node is cordoned for a minute, a pod of a workload is still on it, and its disruption budget can never "
    "allow that it goes: it asks for all of its pods",
    why="the node is not emptied, and whoever drains it waits",
    silent=(
        "the budget allows a disruption, or would if all pods were well",
        "no node is being drained",
        "the node was cordoned less than a minute ago",
    ),
    fix="let the budget allow one, or run one replica more",
    example="minAvailable 2, two replicas, and the node of one of them is cordoned",
)  # fmt: skip
def disruption_budget_blocks(slice_: Slice) -> Iterator[Found]:
    draining = {
        key.name: key
        for key, state in slice_.of(NODE)
        if at(state, "spec", "unschedulable") is True
        and all(slice_.lasts(one.at, _DRAINED) for one in slice_.changed(key, "spec.unschedulable"))
    }
    for key, state in slice_.of(BUDGET):
        expected, needed = (count(at(state, "status", name)) for name in ("expectedPods", "desiredHealthy"))
        if not draining or not expected or needed < expected or count(at(state, "status", "disruptionsAllowed")):
            continue
        held = [
            pod
            for pod in slice_.targets(key, "SELECTS", POD)
            if text(slice_.state(pod), "spec", "nodeName") in draining and lives(slice_.state(pod) or {})
        ]
        owned = [pod for pod in held if slice_.root(pod).type in (DEPLOYMENT, STATEFUL_SET, REPLICA_SET)]
        if owned:
            made = newest(*(one for one in slice_.changed(key, "spec") if one.rows))
            cited = (
                Cited(key, "status.desiredHealthy", needed), Cited(key, "status.expectedPods", expected),
                *(Cited(draining[name], "spec.unschedulable", True)
                  for name in sorted({text(slice_.state(pod), "spec", "nodeName") for pod in owned})),
            )  # fmt: skip
            sentence = f"it asks for {needed} of {expected} pods, so none of them may be evicted"
            yield Found(key, sentence, cited, made, tuple(owned))


@check(
    "node-unhealthy", reads=(NODE,),
    when="a node is not ready, or says that it is short of memory, disk, processes or network",
    why="its pods are evicted or out of reach, and none come",
    silent=(
        "it became so within 10 s",
        "a condition of another type, whose meaning nobody but its maker knows",
        "the node says nothing of itself yet",
        "the node is cordoned: it is being worked on",
    ),
    fix="look at the node's kubelet and what it lacks",
    example="condition Ready is Unknown: Kubelet stopped posting node status",
)  # fmt: skip
def node_unhealthy(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(NODE):
        if at(state, "spec", "unschedulable") is True:
            continue
        for one in maps(state, "status", "conditions"):
            kind, status = text(one, "type"), text(one, "status")
            bad = status in ("False", "Unknown") if kind == "Ready" else kind in _PRESSURE and status == "True"
            path = f"status.conditions[type={kind}]"
            made = [each for each in slice_.changed(key, f"{path}.status") if each.rows] if bad else []
            if bad and (not made or slice_.lasts(made[0].at)):
                cited = tuple(Cited(key, f"{path}.{name}", one.get(name)) for name in ("status", "reason", "message"))
                sentence = f"{kind} is {status}: {text(one, 'message') or text(one, 'reason') or 'no message'}"
                yield Found(key, sentence, cited, tuple(made))


CHECKS = (
    rollout_takes_all_down, job_held_by_sidecar, autoscaler_cannot_act, disruption_budget_blocks, node_unhealthy,
)  # fmt: skip

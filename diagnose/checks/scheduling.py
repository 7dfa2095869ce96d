"""Pods that have no place: no node that fits, taints, volumes that lie elsewhere, claims that cannot be shared,
preemption, host ports.

Why a node refuses a pod is worked out in `diagnose.placing`; here it is told what of that was somebody's doing.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnose.check import Cited, Found, check
from diagnose.checks.symptoms import shortage, unschedulable
from diagnose.placing import CLAIM, NODE, VOLUME, Why, apart, chosen, claims, host_ports, refusals, untolerated
from diagnose.slices import Made, Slice, beside
from diagnose.templates import (
    DEPLOYMENT,
    POD,
    REPLICA_SET,
    SERVING,
    STATEFUL_SET,
    WORKLOADS,
    labels_of,
    place,
    pod_of,
    replicas,
    spec_of,
    tops,
)
from schema.identity import Key
from store.derive.facts import State, at, controller_of, text

_PRIORITY = "scheduling.k8s.io/PriorityClass"


def pending(slice_: Slice) -> Iterator[tuple[Key, Key, State, dict[Key, frozenset[Why]]]]:
    """(pod, its root, state, refusals by node) of each pod that no node takes, one for each root."""
    told: set[Key] = set()
    for pod, state in slice_.of(POD):
        if unschedulable(state) is None or at(state, "spec", "schedulingGates"):
            continue
        began = slice_.changed(pod, "status.conditions[type=PodScheduled]")
        root = slice_.root(pod)
        if root not in told and (not began or slice_.lasts(began[0].at)):
            told.add(root)
            yield pod, root, state, refusals(slice_, pod, state)


def _message(pod: Key, state: State) -> Cited:
    return Cited(pod, "status.conditions[type=PodScheduled].message", text(unschedulable(state), "message"))


def newest(*made: Made) -> tuple[Made, ...]:
    """The newest of some changes."""
    return tuple(sorted(made, key=lambda one: (one.at, one.recorded.seq))[-1:])


@check(
    "pending-no-matching-node", reads=(POD, NODE), also=WORKLOADS,
    when="no node takes a pod, and none has the labels that its nodeSelector or required affinity asks for; or of "
    "those that do none is large enough, or none has room",
    why="the pod stays Pending until a node comes that fits, or it asks for less",
    silent=(
        "it is pending for less than 10 s, or has scheduling gates",
        "a node that fits would take it but for a taint, a cordon, a volume or another pod: other checks tell that",
        "it was preempted, which preempted tells",
        "nodes were not watched",
    ),
    fix="let the pod ask for what a node has, or bring such a node",
    example="nodeSelector gets accelerator: inference-b, which no node carries",
)  # fmt: skip
def pending_no_matching_node(slice_: Slice) -> Iterator[Found]:
    for pod, root, state, why in pending(slice_):
        path = f"{place(root.type)}spec"
        fits = [node for node, reasons in why.items() if "selector" not in reasons]
        large = [node for node in fits if "size" not in why[node]]
        if not why or (large and not all(why[node] == {"room"} for node in large)) or preemptions(slice_, root):
            continue
        if not fits:
            fields = [f"{path}.nodeSelector", f"{path}.affinity.nodeAffinity", f"{path}.nodeName"]
            made = _wrote(slice_, root, *fields) or _relabelled(slice_)
            spec = pod_of(root, slice_.state(root) or {}).get("spec")
            cited = [Cited(root, one, at(spec, *one.removeprefix(f"{path}.").split("."))) for one in fields[:2]]
            sentence = f"no node of {len(why)} has the labels that it asks for"
        else:
            fields = [f"{path}.containers[*].resources.requests", f"{path}.containers[*].resources"]
            made = _wrote(slice_, root, *fields)
            cited = []
            sentence = "it asks for more than any node that fits has"
            if large:
                made = newest(*made, *_wrote(slice_, root, "spec.replicas"), *slice_.created(root))
                sentence = "no node that fits has room for what it asks for"
        cited = [one for one in cited if one.value is not None]
        yield Found(root, sentence, (*cited, _message(pod, state)), tuple(made), (pod,))


def _wrote(slice_: Slice, key: Key, *patterns: str) -> tuple[Made, ...]:
    return tuple(one for one in slice_.changed(key, *patterns) if one.rows)


def _relabelled(slice_: Slice) -> tuple[Made, ...]:
    """The newest change of the labels of a node, or loss of one."""
    found = []
    for one in slice_.past.recent(NODE):
        rows = tuple(row for row in one.change.fields if row.path.startswith("metadata.labels"))
        if rows or one.change.op == "delete":
            found.append(Made(one, rows))
    return tuple(found[:1])


@check(
    "taint-repels", reads=(POD, NODE), also=(*WORKLOADS, CLAIM, VOLUME),
    when="a pod is pending, and a node would take it but for a taint, or a cordon, that it does not tolerate",
    why="the pod can run nowhere else, and there it may not",
    silent=(
        "it is pending for less than 10 s",
        "the tainted node would not take it anyway",
        "another node takes it",
        "the taint was there before the recording: those nodes are kept for others",
    ),
    fix="take the taint away when what it was for is done, or let the pods tolerate it",
    example="the node that holds the volume gets the taint maintenance=disk-check:NoExecute",
)  # fmt: skip
def taint_repels(slice_: Slice) -> Iterator[Found]:
    for pod, root, state, why in pending(slice_):
        for node, reasons in why.items():
            if not reasons or not reasons <= {"taint", "cordon"}:
                continue
            body = slice_.state(node) or {}
            made = [one for one in slice_.changed(node, "spec.taints", "spec.unschedulable") if one.rows]
            tolerated = _wrote(slice_, root, f"{place(root.type)}spec.tolerations")
            if not made and not tolerated:
                continue
            taints = list(untolerated(body, state))
            cited = [Cited(node, f"spec.taints[key={text(one, 'key')}]", one) for one in taints]
            if "cordon" in reasons:
                cited.append(Cited(node, "spec.unschedulable", True))
            named = ", ".join(f"{text(one, 'key')}:{text(one, 'effect')}" for one in taints) or "a cordon"
            sentence = f"{root.kind} {root.name} could run on {node.name} only, which repels it by {named}"
            blamed = newest(*made, *tolerated)
            yield Found(blamed[0].key, sentence, (*cited, _message(pod, state)), blamed, (root, pod, node))


@check(
    "volume-elsewhere", reads=(POD, NODE, CLAIM, VOLUME), also=WORKLOADS,
    when="a pod is pending, its volume is bound to nodes by its node affinity, and none of these is there, or none of "
    "these has the labels that the pod asks for",
    why="the pod can never have its data where it may run",
    silent=(
        "a node that has the volume would take the pod but for a taint, a cordon or for want of room",
        "the claim is not bound yet (WaitForFirstConsumer)",
        "it is pending for less than 10 s",
    ),
    fix="let the pod run where its volume is, or move the data",
    example="the volume lies on worker-3, the pods get nodeSelector disk: fast, which worker-3 has not",
)  # fmt: skip
def volume_elsewhere(slice_: Slice) -> Iterator[Found]:
    for pod, root, state, why in pending(slice_):
        if not why or not any("volume" in reasons for reasons in why.values()):
            continue
        holders = [node for node, reasons in why.items() if "volume" not in reasons]
        if any("selector" not in why[node] for node in holders):
            continue
        path = f"{place(root.type)}spec"
        made = _wrote(slice_, root, f"{path}.nodeSelector", f"{path}.affinity.nodeAffinity")
        if not holders:
            made = newest(*(Made(one) for one in slice_.past.recent(NODE) if one.change.op == "delete")) or made
        where = ", ".join(one.name for one in holders) or "a node that is not there"
        sentence = f"its volume lies on {where}, where it may not run" if holders else f"its volume lies on {where}"
        bound = [
            Cited(one, "spec.volumeName", at(slice_.state(one), "spec", "volumeName")) for one in claims(pod, state)
        ]
        yield Found(made[0].key if made else root, sentence, (*bound, _message(pod, state)), made, (root, pod))


@check(
    "claim-shared-by-exclusive-replicas", reads=(POD, CLAIM, DEPLOYMENT, STATEFUL_SET), also=(REPLICA_SET, VOLUME),
    when="several replicas mount one claim that only one node (ReadWriteOnce) or one pod (ReadWriteOncePod) may write, "
    "and they must not share a node",
    why="the first replica keeps the volume; the others are never placed",
    silent=(
        "the claim can be written from many nodes (ReadWriteMany), or is only read",
        "nothing keeps the replicas from sharing a node",
        "there is one replica",
        "each replica has a claim of its own (volumeClaimTemplates)",
    ),
    fix="run one replica, drop the anti-affinity, or give them a volume that many nodes can mount",
    example="two replicas with required anti-affinity by host name mount one ReadWriteOnce claim",
)  # fmt: skip
def claim_shared(slice_: Slice) -> Iterator[Found]:
    for root, state in tops(slice_, DEPLOYMENT, STATEFUL_SET):
        if replicas(state) < 2:
            continue
        template, path = pod_of(root, state), f"{place(root.type)}spec"
        for claim in claims(root, template):
            body = slice_.state(claim)
            modes = at(body, "spec", "accessModes")
            if body is None or not isinstance(modes, list):
                continue
            alone = modes == ["ReadWriteOncePod"]
            labels = labels_of(root, state)
            exclusive = any(chosen(one, labels) for one in apart(template))
            if not alone and not (modes == ["ReadWriteOnce"] and exclusive):
                continue
            fields = (f"{path}.volumes", f"{path}.affinity", "spec.replicas")
            made = slice_.changed(root, *fields)
            made = sorted([*made, *slice_.created(claim)], key=lambda one: (-one.at, one.recorded.seq))
            if made and not slice_.lasts(made[0].at):
                continue
            cited = (
                Cited(root, "spec.replicas", replicas(state)),
                Cited(claim, "spec.accessModes", modes),
                Cited(root, f"{path}.affinity.podAntiAffinity", at(template, "spec", "affinity", "podAntiAffinity")),
            )
            sentence = f"{replicas(state)} replicas that must not share a node mount one {modes[0]} claim {claim.name}"
            yield Found(root, sentence, cited, tuple(made), (claim,))


def preemptions(slice_: Slice, root: Key) -> list[tuple[Key, str]]:
    """(pod, message) of pods of a workload that were preempted lately."""
    found = []
    for one in slice_.evidence:
        if one.reason == "Preempted" and one.object.type == POD:
            pod = one.object.key
            state = slice_.past.before(pod, one.at + 1) or slice_.past.before(pod, one.at - 10**6)
            owner = controller_of(state) if state else None
            over = None if owner is None else _over(slice_, pod, owner)
            if over == root:
                found.append((pod, one.message or ""))
    return found


def _over(slice_: Slice, pod: Key, owner: State) -> Key:
    group = text(owner, "apiVersion").rpartition("/")[0] or "core"
    return slice_.root(beside(pod, f"{group}/{text(owner, 'kind')}", text(owner, "name"), pod.namespace))


@check(
    "preempted", reads=(POD, *SERVING), also=(REPLICA_SET, _PRIORITY),
    when="a workload is short of pods since one was evicted for a pod of higher priority",
    why="what came with the higher priority took the room, and there is not enough for both",
    silent=("the workload has all its pods again", "nothing was heard of a preemption", "it asks for no replicas"),
    fix="give one of the two less priority or less to ask for, or bring another node",
    example="a new PriorityClass and a Deployment that has it; the only node that payment may use is full",
)  # fmt: skip
def preempted(slice_: Slice) -> Iterator[Found]:
    for root, state in tops(slice_, *SERVING):
        if shortage(root.type, state) is None:
            continue
        victims = preemptions(slice_, root)
        if not victims:
            continue
        message = victims[-1][1]
        by = next((key for key, seen in slice_.objects.items() if seen.uid and seen.uid in message), None)
        winner = slice_.root(by) if by is not None else None
        made: list[Made] = []
        cited: list[Cited] = []
        if winner is not None:
            spec = spec_of(winner, slice_.state(winner) or {})
            path = f"{place(winner.type)}spec.priorityClassName"
            class_ = text(spec, "priorityClassName")
            cited.append(Cited(winner, path, class_ or None))
            made += slice_.changed(winner, path, f"{place(winner.type)}spec.containers[*].resources", "spec.replicas")
            if class_:
                level = beside(winner, _PRIORITY, class_)
                cited.append(Cited(level, "value", at(slice_.state(level), "value")))
                made += slice_.changed(level, "value", "preemptionPolicy")
        made.sort(key=lambda one: -one.at)
        whom = f"{winner.kind} {winner.name}" if winner is not None else "a pod that is gone"
        told = [one for one in slice_.evidence if one.reason == "Preempted" and one.object.key == victims[-1][0]]
        sentence = f"a pod of {root.kind} {root.name} was evicted for {whom}, and there is no room for another"
        blamed = winner if winner is not None else root
        yield Found(blamed, sentence, tuple(cited), tuple(made), (root, victims[-1][0]), tuple(told[-1:]))


@check(
    "host-port-collision", reads=(POD, NODE), also=WORKLOADS,
    when="a pod is pending, and every node that would take it has another pod on the host port that it wants",
    why="two pods cannot have one port of a node",
    silent=(
        "a node is free of that port",
        "it is pending for less than 10 s",
        "the nodes refuse it for another reason",
    ),
    fix="let one of the two use another port, or no host port",
    example="two replicas want hostPort 9100 and only one node fits",
)  # fmt: skip
def host_port_collision(slice_: Slice) -> Iterator[Found]:
    for pod, root, state, why in pending(slice_):
        taken = [node for node, reasons in why.items() if reasons == {"port"}]
        if not taken or not all(reasons for reasons in why.values()):
            continue
        path = f"{place(root.type)}spec.containers[*].ports"
        ports = ", ".join(sorted(str(port) for port, _ in host_ports(state)))
        made = newest(*_wrote(slice_, root, path, "spec.replicas"), *slice_.created(root))
        cited = (
            Cited(root, path, [*{str(port): port for port, _ in host_ports(state)}.values()]),
            _message(pod, state),
        )
        yield Found(root, f"host port {ports} is taken on each node that fits", cited, made, (pod, *taken))


CHECKS = (
    pending_no_matching_node, taint_repels, volume_elsewhere, claim_shared, preempted, host_port_collision,
)  # fmt: skip

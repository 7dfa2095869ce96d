"""Why a node does not take a pod: what a scheduler would say, worked out from what was recorded.

Selectors, required node affinity, taints, cordons, room, host ports, where a bound volume lies, and required
anti-affinity by host name. Preferences, spreading and other topologies are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from diagnose.slices import Slice, beside
from diagnose.templates import POD, containers, labels_of, quantity
from schema.canonical import Json
from schema.identity import Key
from store.derive.facts import State, at, maps, strings, text

NODE, CLAIM, VOLUME = "core/Node", "core/PersistentVolumeClaim", "core/PersistentVolume"
Why = Literal["selector", "taint", "cordon", "size", "room", "port", "volume", "apart"]
"""`size`: it is too small for the pod even if empty; `room`: others take what the pod asks for; `apart`: a pod that it
must not meet is there."""

_HOST = "kubernetes.io/hostname"


def refusals(slice_: Slice, pod: Key, state: State) -> dict[Key, frozenset[Why]]:
    """For each node, all reasons why it does not take a pod; none of them: it would."""
    volumes = list(_volumes(slice_, pod, state))
    taken = _taken(slice_, pod)
    return {
        node: frozenset(_refusals(body, node, pod, state, volumes, taken.get(node.name, [])))
        for node, body in slice_.of(NODE)
    }


def _refusals(
    node: State, key: Key, pod: Key, state: State, volumes: list[State], others: list[tuple[Key, State]]
) -> Iterator[Why]:
    labels = strings(node, "metadata", "labels")
    if not selected(state, labels, key.name):
        yield "selector"
    if at(node, "spec", "unschedulable") is True:
        yield "cordon"
    if any(untolerated(node, state)):
        yield "taint"
    for name, asked in requests(state).items():
        there = quantity(at(node, "status", "allocatable", name))
        if there is None or not asked:
            continue
        if asked > there:
            yield "size"
        elif asked + sum(requests(one).get(name, 0.0) for _, one in others) > there:
            yield "room"
    wanted = set(host_ports(state))
    if wanted & {port for _, one in others for port in host_ports(one)}:
        yield "port"
    if not all(
        _terms(at(one, "spec", "nodeAffinity", "required", "nodeSelectorTerms"), labels, key.name) for one in volumes
    ):
        yield "volume"
    if any(_keeps_apart(state, pod, one, other) for one, other in others):
        yield "apart"


def selected(pod: State, labels: Mapping[str, str], name: str) -> bool:
    """Whether a pod's nodeSelector and required node affinity take a node with these labels and this name."""
    if not strings(pod, "spec", "nodeSelector").items() <= labels.items():
        return False
    required = at(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return _terms(at(required, "nodeSelectorTerms"), labels, name)


def _terms(terms: Json, labels: Mapping[str, str], name: str) -> bool:
    """Whether one of several terms holds; no terms at all take any node."""
    if not isinstance(terms, list) or not terms:
        return True
    return any(
        all(_holds(one, labels) for one in maps(term, "matchExpressions"))
        and all(_holds(one, {"metadata.name": name}) for one in maps(term, "matchFields"))
        for term in terms
    )


def _holds(one: State, labels: Mapping[str, str]) -> bool:
    value, operator = labels.get(text(one, "key")), text(one, "operator")
    listed = one.get("values")
    values = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    if operator in ("Gt", "Lt"):
        if value is None or not value.isdigit() or not values or not values[0].isdigit():
            return False
        return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    return (value is not None) == (operator == "Exists")


def untolerated(node: State, pod: State) -> Iterator[State]:
    """The taints of a node that keep a pod away and that it does not tolerate."""
    for taint in maps(node, "spec", "taints"):
        # A cordon has its own name; what it adds as a taint is the same thing.
        if text(taint, "effect") == "PreferNoSchedule" or text(taint, "key") == "node.kubernetes.io/unschedulable":
            continue
        if not any(_tolerates(one, taint) for one in maps(pod, "spec", "tolerations")):
            yield taint


def _tolerates(toleration: State, taint: State) -> bool:
    key, operator = text(toleration, "key"), text(toleration, "operator") or "Equal"
    if text(toleration, "effect") not in ("", text(taint, "effect")):
        return False
    if not key:
        return operator == "Exists"
    return key == text(taint, "key") and (operator == "Exists" or text(toleration, "value") == text(taint, "value"))


def requests(pod: State) -> dict[str, float]:
    """What a pod asks for: cpu in cores, memory in bytes, itself as one of the pods, other resources by their name."""
    asked: dict[str, float] = {"pods": 1.0}
    first: dict[str, float] = {}
    spec = pod.get("spec")
    for path, one in containers(spec if isinstance(spec, dict) else {}):
        wanted = at(one, "resources", "requests")
        for name, value in (wanted if isinstance(wanted, dict) else {}).items():
            number = quantity(value) or 0.0
            if path.startswith("initContainers") and text(one, "restartPolicy") != "Always":
                first[name] = max(first.get(name, 0.0), number)
            else:
                asked[name] = asked.get(name, 0.0) + number
    return {name: max(asked.get(name, 0.0), first.get(name, 0.0)) for name in {*asked, *first}}


def host_ports(pod: State) -> Iterator[tuple[Json, str]]:
    """(port, protocol) that a pod takes of its node."""
    spec = pod.get("spec")
    for _, one in containers(spec if isinstance(spec, dict) else {}):
        for port in maps(one, "ports"):
            if port.get("hostPort"):
                yield port["hostPort"], text(port, "protocol") or "TCP"


def _taken(slice_: Slice, pod: Key) -> dict[str, list[tuple[Key, State]]]:
    """The other living pods, by node."""
    found: dict[str, list[tuple[Key, State]]] = {}
    for key, state in slice_.of(POD):
        node = text(state, "spec", "nodeName")
        # One that is on its way out still takes its room.
        if node and key != pod and text(state, "status", "phase") not in ("Succeeded", "Failed"):
            found.setdefault(node, []).append((key, state))
    return found


def _volumes(slice_: Slice, pod: Key, state: State) -> Iterator[State]:
    """The volumes that a pod's claims are bound to."""
    for claim in claims(pod, state):
        name = text(slice_.state(claim), "spec", "volumeName")
        found = slice_.state(beside(claim, VOLUME, name)) if name else None
        if found is not None:
            yield found


def claims(owner: Key, pod: State) -> Iterator[Key]:
    """The claims that a pod (or template, of `owner`'s namespace) mounts by name."""
    for volume in maps(pod, "spec", "volumes"):
        if name := text(volume, "persistentVolumeClaim", "claimName"):
            yield beside(owner, CLAIM, name, owner.namespace)


def apart(pod: State) -> Iterator[State]:
    """The label selectors of the pods that must not be on the same node."""
    rule = at(pod, "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in rule if isinstance(rule, list) else []:
        if text(term, "topologyKey") == _HOST:
            chosen = at(term, "labelSelector")
            if isinstance(chosen, dict):
                yield chosen


def chosen(selector: State, labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels; an empty one takes all."""
    return strings(selector, "matchLabels").items() <= labels.items() and all(
        _holds(one, labels) for one in maps(selector, "matchExpressions")
    )


def _keeps_apart(pod: State, key: Key, other: Key, theirs: State) -> bool:
    return key.namespace == other.namespace and any(chosen(one, labels_of(other, theirs)) for one in apart(pod))

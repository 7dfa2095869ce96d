"""Whether network policies let one pod reach another: the union of the policies on each side, as Kubernetes has it.

Policies of other kinds (those of a CNI or a mesh) are not judged.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from diagnose.placing import chosen
from diagnose.slices import Slice, beside
from diagnose.templates import containers, labels_of, spec_of
from schema.canonical import Json
from schema.identity import Key
from store.derive.facts import State, at, maps, strings, text

POLICY, _SPACE = "networking.k8s.io/NetworkPolicy", "core/Namespace"
Way = Literal["Ingress", "Egress"]


@dataclass(frozen=True, slots=True)
class Pod:
    """One end of a connection: a pod, or what a template makes."""

    key: Key
    state: State

    @property
    def labels(self) -> dict[str, str]:
        return labels_of(self.key, self.state)


def isolating(slice_: Slice, pod: Pod, way: Way) -> list[tuple[Key, State]]:
    """The policies that select a pod and limit it in one direction; none: nothing does."""
    return [
        (key, state)
        for key, state in slice_.of(POLICY)
        if key.namespace == pod.key.namespace and way in ways(state) and selects(state, pod.labels)
    ]


def ways(policy: State) -> list[str]:
    """The directions that a policy limits."""
    told = at(policy, "spec", "policyTypes")
    if isinstance(told, list):
        return [one for one in told if isinstance(one, str)]
    return ["Ingress", *(["Egress"] if at(policy, "spec", "egress") else [])]


def selects(policy: State, labels: dict[str, str]) -> bool:
    """Whether a policy is about pods with these labels."""
    wanted = at(policy, "spec", "podSelector")
    return chosen(wanted if isinstance(wanted, dict) else {}, labels)


def allows(
    slice_: Slice, policies: list[tuple[Key, State]], way: Way, other: Pod | None, port: int | None, to: Pod | None,
    protocol: str = "TCP",
) -> bool:  # fmt: skip
    """Whether one of the policies allows a connection with the other end on a port of `to`, the pod that is called.

    `other` None: any end. `port` None: any port.
    """
    field, side = ("ingress", "from") if way == "Ingress" else ("egress", "to")
    for key, state in policies:
        for rule in maps(state, "spec", field):
            if _port(rule, port, to, protocol) and _peer(slice_, key, rule.get(side), other):
                return True
    return False


def _port(rule: State, port: int | None, to: Pod | None, protocol: str) -> bool:
    listed = list(maps(rule, "ports"))
    if not listed or port is None:
        return True
    for one in listed:
        wanted, last = one.get("port"), one.get("endPort")
        if (text(one, "protocol") or "TCP") != protocol:
            continue
        if isinstance(wanted, str) and to is not None:
            wanted = named_port(to, wanted)
        if wanted is None or wanted == port:
            return True
        if isinstance(wanted, int) and isinstance(last, int) and wanted <= port <= last:
            return True
    return False


def named_port(pod: Pod, name: str) -> int | None:
    """The number of a named port of a pod; -1 where it has none, which no connection is to."""
    for _, one in containers(spec_of(pod.key, pod.state)):
        for port in maps(one, "ports"):
            if text(port, "name") == name and isinstance(number := port.get("containerPort"), int):
                return number
    return -1


def _peer(slice_: Slice, policy: Key, peers: Json, other: Pod | None) -> bool:
    if not isinstance(peers, list) or not peers or other is None:
        return True
    return any(isinstance(one, dict) and _is(slice_, policy, one, other) for one in peers)


def _is(slice_: Slice, policy: Key, peer: State, other: Pod) -> bool:
    pods, spaces, block = peer.get("podSelector"), peer.get("namespaceSelector"), peer.get("ipBlock")
    if isinstance(block, dict):
        return _within(block, text(other.state, "status", "podIP"))
    if isinstance(spaces, dict):
        space = beside(other.key, _SPACE, other.key.namespace or "")
        labels = {"kubernetes.io/metadata.name": space.name, **strings(slice_.state(space), "metadata", "labels")}
        if not chosen(spaces, labels):
            return False
    elif other.key.namespace != policy.namespace:
        return False
    return not isinstance(pods, dict) or chosen(pods, other.labels)


def _within(block: State, address: str) -> bool:
    """Whether an address lies in a block. One that is not known may lie in it."""
    if not address:
        return True
    listed = block.get("except")
    try:
        ip = ipaddress.ip_address(address)
        outside = any(ip in net for net in _nets(listed if isinstance(listed, list) else []))
        return ip in ipaddress.ip_network(text(block, "cidr"), strict=False) and not outside
    except ValueError:
        return True


def _nets(listed: list[Json]) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return (ipaddress.ip_network(one, strict=False) for one in listed if isinstance(one, str))

"""Which parts of a state the rules read, so that a change elsewhere (a status, most of the time) costs no deriving.

A pattern is an RFC 6901 pointer in which `*` stands for any one token. A change touches it when the patch writes at it,
below it or above it. A rule that reads a new place must be given it here; a test derives both ways over all recordings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from schema.kinds import class_of
from schema.patch import PatchOp

_EVERY = (
    "/metadata/annotations", "/metadata/deletionTimestamp", "/metadata/finalizers", "/metadata/labels",
    "/metadata/ownerReferences",
)  # fmt: skip
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_OF_CLASS: Mapping[str, tuple[str, ...]] = {
    "Workload": ("/spec/template", "/spec/jobTemplate"),
    "Pod": ("/spec", *(f"/status/{part}/*/{name}" for part in _STATUSES for name in ("name", "imageID"))),
    "Node": ("/spec/providerID",),
    "Volume": ("/spec/volumeName", "/spec/storageClassName", "/spec/csi", "/status/phase"),
    "Service": ("/spec", "/status/loadBalancer"),
    "Route": ("/spec",),
    "Binding": ("/roleRef", "/subjects"),
    "Autoscaler": ("/spec",),
    "Webhook": ("/webhooks",),
    "ApiExtension": ("/spec",),
    "Delivery": ("/spec", "/status/sync"),
}
_OF_TYPE: Mapping[str, tuple[str, ...]] = {
    "apps/StatefulSet": ("/spec/replicas", "/spec/ordinals", "/spec/volumeClaimTemplates"),
    "core/ConfigMap": ("/data",),
    "core/Namespace": ("/spec/finalizers",),
    "core/ServiceAccount": ("/imagePullSecrets",),
    "discovery.k8s.io/EndpointSlice": ("/endpoints", "/ports"),
    "networking.k8s.io/Ingress": ("/spec", "/status/loadBalancer"),
    "networking.k8s.io/NetworkPolicy": ("/spec/podSelector",),
    "policy/PodDisruptionBudget": ("/spec/selector",),
    "apiextensions.k8s.io/CustomResourceDefinition": ("/spec",),
}
_Tree = dict[str, "_Tree"]


def touches(type_: str, patch: Sequence[PatchOp]) -> bool:
    """Whether a patch may change what a state of this type says about edges."""
    tree = _tree(type_)
    return any(_meets(tree, op["path"]) for op in patch)


def _meets(tree: _Tree, path: str) -> bool:
    for token in path.split("/")[1:]:
        below = tree.get(token)
        if below is None:
            below = tree.get("*")
        if below is None:
            return False
        if not below:
            return True
        tree = below
    return True


@cache
def _tree(type_: str) -> _Tree:
    return _grown((*_EVERY, *_OF_CLASS.get(class_of(type_), ()), *_OF_TYPE.get(type_, ())))


def _grown(patterns: Iterable[str]) -> _Tree:
    """Patterns token by token; a node without children is the end of one, and stands for all below."""
    root: _Tree = {}
    for pattern in sorted(patterns):
        node = root
        tokens = pattern.split("/")[1:]
        for number, token in enumerate(tokens):
            last = number == len(tokens) - 1
            if token in node and not node[token]:
                break
            node = node.setdefault(token, {})
            if last:
                node.clear()
    return root

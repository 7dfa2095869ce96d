"""Edges that one stored state implies by itself: places, owners, storage, rights, limits; and which rules a type has.

Rules that read a pod spec are in `store.derive.pods`, those of requests in `store.derive.network`, those of delivery
and catalogue in `store.derive.origin`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from schema.identity import Key
from schema.kinds import class_of
from schema.records import ObjectRef
from store.derive import network, origin, pods
from store.derive.facts import EdgeFact, Named, State, at, fact, key_in, made_up, maps, owner_key, strings, text

Rule = Callable[[ObjectRef, State], Iterator[EdgeFact]]

_CLOUD_IDENTITIES = (
    "eks.amazonaws.com/role-arn",
    "iam.gke.io/gcp-service-account",
    "azure.workload.identity/client-id",
)
# Who takes a finalizer away, where Kubernetes itself does; any other is taken to be of the domain in its name.
_CONTROLLER = "kube-controller-manager"
_FINALIZERS = {
    "foregroundDeletion": _CONTROLLER,
    "orphan": _CONTROLLER,
    "kubernetes": _CONTROLLER,
    "kubernetes.io/pvc-protection": _CONTROLLER,
    "kubernetes.io/pv-protection": _CONTROLLER,
    "batch.kubernetes.io/job-tracking": _CONTROLLER,
    "service.kubernetes.io/load-balancer-cleanup": "cloud-controller-manager",
    "customresourcecleanup.apiextensions.k8s.io": "kube-apiserver",
}


def contains(ref: ObjectRef, _state: State) -> Iterator[EdgeFact]:
    where = key_in(ref, "core/Namespace", ref.namespace) if ref.namespace else made_up(ref, "Cluster", ref.scope)
    yield fact("CONTAINS", where, ref.key, "contains@1")


def owns(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """By the owner's uid: a new object under the owner's name owns nothing of this."""
    for owner in maps(state, "metadata", "ownerReferences"):
        key = owner_key(ref, owner)
        if key is not None:
            uid = text(owner, "uid")
            attrs: State = {"uid": uid, "controller": owner.get("controller") is True}
            yield fact("OWNS", key, ref.key, "owns@1", discriminator=uid, attrs=attrs)


def blocked_by(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """While an object is being deleted, each finalizer holds it."""
    if not text(state, "metadata", "deletionTimestamp"):
        return
    for place in ("metadata", "spec"):  # a namespace carries its own in the spec
        finalizers = at(state, place, "finalizers")
        for name in finalizers if isinstance(finalizers, list) else []:
            if isinstance(name, str) and name and (place == "metadata" or ref.type == "core/Namespace"):
                known = _FINALIZERS.get(name)
                holder = made_up(ref, "Actor", known or name.partition("/")[0])
                yield fact(
                    "BLOCKED_BY", ref.key, holder, "finalizer@1", discriminator=name, attrs={"finalizer": name},
                    basis="inferred", confidence=0.9 if known else 0.5,
                )  # fmt: skip


def storage(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """Claim → volume, both → storage class, volume → disk."""
    volume = text(state, "spec", "volumeName")
    if volume and ref.type == "core/PersistentVolumeClaim":
        attrs: State = {"phase": text(state, "status", "phase")}
        target = key_in(ref, "core/PersistentVolume", volume)
        yield fact("BOUND_TO", ref.key, target, "bound-to@1", attrs=attrs, basis="observed")
    if name := text(state, "spec", "storageClassName"):
        yield fact("PROVISIONED_BY", ref.key, key_in(ref, "storage.k8s.io/StorageClass", name), "provisioned-by@1")
    if handle := text(state, "spec", "csi", "volumeHandle"):
        attrs = {"driver": text(state, "spec", "csi", "driver")}
        yield fact(
            "BACKED_BY", ref.key, made_up(ref, "CloudResource", handle), "csi-handle@1", attrs=attrs, basis="observed"
        )


def provider(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    if name := text(state, "spec", "providerID"):
        yield fact("BACKED_BY", ref.key, made_up(ref, "CloudResource", name), "provider-id@1", basis="observed")


def load_balancer(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    for entry in maps(state, "status", "loadBalancer", "ingress"):
        if name := text(entry, "hostname") or text(entry, "ip"):
            yield fact("BACKED_BY", ref.key, made_up(ref, "CloudResource", name), "load-balancer@1", basis="observed")


def account(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """The cloud identity that a service account may act as, and the secrets its pods pull images with."""
    annotations = strings(state, "metadata", "annotations")
    for name in _CLOUD_IDENTITIES:
        if value := annotations.get(name):
            yield fact(
                "ASSUMES", ref.key, made_up(ref, "CloudIdentity", value), "assumes@1", attrs={"annotation": name}
            )
    for secret in maps(state, "imagePullSecrets"):
        if name := text(secret, "name"):
            attrs: State = {"via": "pull", "optional": False}
            target = key_in(ref, "core/Secret", name, ref.namespace)
            yield fact("USES_CONFIG", ref.key, target, "account-pull@1", discriminator="pull", attrs=attrs)


def binding(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    kind, name = text(state, "roleRef", "kind"), text(state, "roleRef", "name")
    if kind in ("Role", "ClusterRole") and name:
        role = key_in(ref, f"rbac.authorization.k8s.io/{kind}", name, ref.namespace)
        yield fact("BINDS", ref.key, role, "role-ref@1")
    for subject in maps(state, "subjects"):
        if (key := _subject(ref, subject)) is not None:
            yield fact("GRANTS", ref.key, key, "subjects@1")


def _subject(ref: ObjectRef, subject: State) -> Key | None:
    kind, name = text(subject, "kind"), text(subject, "name")
    if kind == "User" and name.startswith("system:serviceaccount:") and name.count(":") == 3:
        _, _, namespace, name = name.split(":")
        return key_in(ref, "core/ServiceAccount", name, namespace) if name else None
    if kind == "ServiceAccount" and name:
        return key_in(ref, "core/ServiceAccount", name, text(subject, "namespace") or ref.namespace)
    return made_up(ref, kind, name) if kind in ("User", "Group") and name else None


def limits(ref: ObjectRef, _state: State) -> Iterator[EdgeFact]:
    if ref.namespace:
        target = key_in(ref, "core/Namespace", ref.namespace)
        yield fact("CONSTRAINS", ref.key, target, "limits@1", attrs={"effect": "limit"})


_EVERY: tuple[Rule, ...] = (
    contains, owns, blocked_by, origin.managed_by, origin.declared_in, origin.part_of,
)  # fmt: skip
_SPEC: tuple[Rule, ...] = (pods.uses_config, pods.mounts, pods.runs_as, pods.prioritised)
_OF_CLASS: Mapping[str, tuple[Rule, ...]] = {
    "Workload": (*_SPEC, origin.built_from),
    "Pod": (*_SPEC, pods.runs),
    "Node": (provider,),
    "Volume": (storage,),
    "Service": (network.external_name, load_balancer),
    "Route": (network.gateway_route, network.virtual_service),
    "Binding": (binding,),
    "Autoscaler": (network.scales,),
    "Webhook": (network.served_by,),
    "ApiExtension": (network.served_by,),
    "Delivery": (origin.synced_from,),
    "Topic": (origin.in_kafka,),
}
_OF_TYPE: Mapping[str, tuple[Rule, ...]] = {
    "networking.k8s.io/Ingress": (network.ingress, load_balancer),
    "discovery.k8s.io/EndpointSlice": (network.endpoints,),
    "core/ServiceAccount": (account,),
    "core/ResourceQuota": (limits,),
    "core/LimitRange": (limits,),
}


def derive(ref: ObjectRef, state: State) -> list[EdgeFact]:
    """Every edge that the state implies, each (predicate, source, target, discriminator) once."""
    return list(facts_of(ref, state).values())


def facts_of(ref: ObjectRef, state: State) -> Named:
    """The same by name. The first rule that gives a name has it."""
    found: Named = {}
    for rule in _rules(ref.type):
        for edge in rule(ref, state):
            found.setdefault(edge.name, edge)
    return found


@cache
def _rules(type_: str) -> tuple[Rule, ...]:
    class_ = class_of(type_)
    return () if class_ == "Evidence" else (*_EVERY, *_OF_CLASS.get(class_, ()), *_OF_TYPE.get(type_, ()))

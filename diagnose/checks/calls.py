"""Whom a workload calls, and whether it can: addresses that lead nowhere, callers that are shut out, Services that were
scaled away.

That a workload calls a Service is taken from the addresses it is given (`CALLS`, `store.derive.addresses`). Such an
address may be one that nobody dials, so what was always so is told only where the workload is not well.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnose.check import Cited, Found, check
from diagnose.checks.config import makes_pods
from diagnose.checks.scheduling import newest
from diagnose.checks.services import SERVICE, selector
from diagnose.checks.symptoms import selected, shortage, waits
from diagnose.slices import Made, Slice, beside
from diagnose.templates import (
    DEPLOYMENT,
    POD,
    SERVING,
    STATEFUL_SET,
    WORKLOADS,
    lives,
    place,
    pods_of,
    ready,
    spec_of,
    tops,
)
from schema.identity import Key
from schema.kinds import class_of
from schema.records import ObjectRef
from store.derive.addresses import addresses, lent_by, meant, resolve
from store.derive.facts import Address, at, maps, text
from store.past import Edge

CONFIG_MAP, _SPACE = "core/ConfigMap", "core/Namespace"


def callers(slice_: Slice, service: Key) -> list[Edge]:
    """The calls to a Service by workloads that make pods and are not what it selects itself."""
    mine = {slice_.root(pod) for pod in slice_.targets(service, "SELECTS")}
    found = []
    for edge in slice_.into(service, "CALLS"):
        state = slice_.state(edge.src)
        if state is not None and edge.src not in mine and makes_pods(edge.src, state):
            found.append(edge)
    return found


def unwell(slice_: Slice, root: Key) -> bool:
    """Whether a workload lacks pods, or one of them waits."""
    state = slice_.state(root) or {}
    return (root.type in SERVING and shortage(root.type, state) is not None) or any(
        next(waits(pod), None) is not None for _, pod in pods_of(slice_, root)
    )


def _ref(key: Key) -> ObjectRef:
    return ObjectRef(
        source=key.source, scope=key.scope, type=key.type, kind=key.kind, class_=class_of(key.type),
        namespace=key.namespace, name=key.name,
    )  # fmt: skip


def _wrote(slice_: Slice, root: Key, of: str, path: str) -> list[Made]:
    """The newest change of the field that an address is in: of the workload, or of the ConfigMap that lends it."""
    lenders = [one for one in slice_.targets(root, "USES_CONFIG", CONFIG_MAP) if of in (str(one), one.name)]
    return [one for key in (lenders or [root]) for one in slice_.changed(key, path) if one.rows]


@check(
    "address-names-wrong-port", reads=(SERVICE, *WORKLOADS), also=(CONFIG_MAP,),
    when="an address that a workload is given names a Service and a port that the Service does not have, and a "
    "recorded change made it so, or the workload is not well",
    why="what the workload calls there does not answer",
    silent=(
        "the Service has that port, by number",
        "the Service is headless or an ExternalName: its ports are those of whoever is behind it",
        "it was so before the recording and the workload is well: not every address is dialled",
        "the workload makes no pods",
    ),
    fix="let the address name a port of the Service",
    example="CATALOG_ADDR goes from catalog:8080 to catalog:8808; the Service has 8080",
)  # fmt: skip
def address_names_wrong_port(slice_: Slice) -> Iterator[Found]:
    told: set[tuple[Key, Key]] = set()
    for service, state in slice_.of(SERVICE):
        ports = [one.get("port") for one in maps(state, "spec", "ports")]
        outside = text(state, "spec", "type") == "ExternalName" or text(state, "spec", "clusterIP") == "None"
        for edge in () if outside or not ports else callers(slice_, service):
            port, path, of = edge.attrs.get("port"), str(edge.attrs.get("path")), str(edge.attrs.get("of") or "")
            if port is None or port in ports or (edge.src, service) in told:
                continue
            shut = [one for one in slice_.changed(service, "spec.ports") if any(r.before == port for r in one.rows)]
            made = newest(*_wrote(slice_, edge.src, of, path), *shut)
            if not made and not unwell(slice_, edge.src):
                continue
            told.add((edge.src, service))
            cited = (Cited(edge.src, path, f"{edge.attrs.get('host')}:{port}"), Cited(service, "spec.ports", [*ports]))
            sentence = f"it is to call port {port} of Service {service.name}, which has {', '.join(map(str, ports))}"
            yield Found(made[0].key if made else edge.src, sentence, cited, made, (edge.src, service))


@check(
    "address-names-no-service", reads=(SERVICE, *WORKLOADS), also=(CONFIG_MAP, _SPACE),
    when="an address that a workload is given names a Service that is not there: it says so itself (x.y.svc), or "
    "the Service was there before; and a recorded change made it so, or the workload is not well",
    why="the name leads nowhere: what the workload calls there cannot be found",
    silent=(
        "the name is one of a host outside of the cluster",
        "it was so before the recording and the workload is well: not every address is dialled",
        "the workload came, or the Service went, within 10 s",
        "Services were not watched in that namespace",
    ),
    fix="let the address name a Service that is there",
    example="DB_HOST goes from orders-db.data.svc.cluster.local to orders-db-primary.data.svc.cluster.local",
)  # fmt: skip
def address_names_no_service(slice_: Slice) -> Iterator[Found]:
    there = {
        (key.namespace or "", key.name): text(state, "spec", "clusterIP") == "None" for key, state in slice_.of(SERVICE)
    }
    spaces = {key.name for key, _ in slice_.of(_SPACE)}

    def lender(config: Key) -> dict[str, str] | None:
        state = slice_.state(config)
        lent = None if state is None else lent_by(_ref(config), state)
        return None if lent is None else dict(lent)

    for root, state in tops(slice_):
        told: set[Key] = set()
        here = root.namespace or ""
        for one in addresses(_ref(root), state, lender).addresses if makes_pods(root, state) else ():
            if resolve(one.host, here, there) is not None:
                continue
            named = meant(one.host, here, spaces)
            service = None if named is None else beside(root, SERVICE, named[1], named[0])
            if service is None or service in told or not slice_.watched(SERVICE, service.namespace):
                continue
            found = _nowhere(slice_, root, one, service, there)
            if found is not None:
                told.add(service)
                yield found


def _nowhere(
    slice_: Slice, root: Key, one: Address, service: Key, there: dict[tuple[str, str], bool]
) -> Found | None:  # fmt: skip
    written = _wrote(slice_, root, one.of, one.path)
    gone = slice_.deleted(service)
    explicit = ".svc" in one.host
    # A word that never was a Service may be anything; one that took the place of a Service was meant as one.
    if not explicit and not gone and not any(_was(row.before, root, there) for made in written for row in made.rows):
        return None
    made = newest(*written, *gone)
    if not made and not (explicit and unwell(slice_, root)):
        return None
    born = slice_.created(root)
    if not slice_.lasts(max((each.at for each in (*made, *born)), default=None)):
        return None
    cited = (Cited(root, one.path, one.host if one.port is None else f"{one.host}:{one.port}"),)
    sentence = (
        f"{root.kind} {root.name} is to call {one.host}, and there is no Service {service.name} in {service.namespace}"
    )
    return Found(made[0].key if made else root, sentence, cited, made, (root, service))


def _was(value: object, root: Key, there: dict[tuple[str, str], bool]) -> bool:
    host = str(value).rpartition("//")[2].partition("/")[0].partition(":")[0]
    return resolve(host, root.namespace or "", there) is not None


@check(
    "scaled-to-zero", reads=(SERVICE, DEPLOYMENT, STATEFUL_SET), also=(*WORKLOADS, CONFIG_MAP),
    when="a recorded change set the replicas of a workload to 0, while other workloads are given the address of its "
    "Service or a route leads there, and nothing else stands behind that Service",
    why="whoever calls it is refused",
    silent=(
        "nobody calls its Service",
        "it has had no replicas since before the recording",
        "an autoscaler scales it: it brings it back when it is wanted",
        "it was scaled within 10 s, as in a restart",
        "another workload serves",
    ),
    fix="give it its replicas back",
    example="kubectl scale sets replicas of cart to 0; web is given CART_ADDR=cart:7070",
)  # fmt: skip
def scaled_to_zero(slice_: Slice) -> Iterator[Found]:
    for root, state in tops(slice_, DEPLOYMENT, STATEFUL_SET):
        made = [one for one in slice_.changed(root, "spec.replicas") if any(row.after == 0 for row in one.rows)]
        if (
            at(state, "spec", "replicas") != 0
            or not made
            or not slice_.lasts(made[0].at)
            or slice_.into(root, "SCALES")
        ):
            continue
        for service in slice_.sources(root, "SELECTS", SERVICE):
            users = [edge.src for edge in callers(slice_, service)] + slice_.sources(service, "ROUTES_TO")
            if users and not selected(slice_, service):
                cited = (Cited(root, "spec.replicas", 0),)
                names = ", ".join(dict.fromkeys(f"{one.kind} {one.name}" for one in users))
                sentence = f"it has no replicas, and Service {service.name} is called by {names}"
                yield Found(root, sentence, cited, tuple(made), (service, *dict.fromkeys(users)))
                break


@check(
    "traffic-policy-misses-callers", reads=(SERVICE, POD), also=(*WORKLOADS, CONFIG_MAP),
    when="internalTrafficPolicy is Local, and pods of a caller run on nodes that have no ready pod of the Service",
    why="their calls are dropped, though the Service has ready pods elsewhere",
    silent=(
        "each node that callers run on has a ready pod of the Service",
        "the policy is Cluster, or not set",
        "no caller is known",
        "the change is younger than 10 s, or no pod of the Service is ready",
    ),
    fix="set internalTrafficPolicy to Cluster, or run the Service's pods on each node",
    example="internalTrafficPolicy of inventory goes to Local; checkout's pods run on other nodes",
)  # fmt: skip
def traffic_policy_misses_callers(slice_: Slice) -> Iterator[Found]:
    for service, state in slice_.of(SERVICE):
        if text(state, "spec", "internalTrafficPolicy") != "Local" or not selector(state):
            continue
        near = {text(pod, "spec", "nodeName") for _, pod in selected(slice_, service) if ready(pod)}
        made = [one for one in slice_.changed(service, "spec.internalTrafficPolicy") if one.rows]
        if not near or (made and not slice_.lasts(made[0].at)):
            continue
        missed: dict[Key, list[Key]] = {}
        for edge in callers(slice_, service):
            for pod, body in pods_of(slice_, edge.src):
                born = slice_.created(pod)
                settled = not born or slice_.lasts(born[0].at)
                if lives(body) and settled and text(body, "spec", "nodeName") not in ("", *near):
                    missed.setdefault(edge.src, []).append(pod)
        if missed:
            cited = (
                Cited(service, "spec.internalTrafficPolicy", "Local"),
                *(
                    Cited(pod, "spec.nodeName", text(slice_.state(pod), "spec", "nodeName"))
                    for each in missed.values()
                    for pod in each
                ),
            )
            names = ", ".join(f"{one.kind} {one.name}" for one in missed)
            sentence = f"only callers on {', '.join(sorted(near))} reach it; pods of {names} run elsewhere"
            yield Found(service, sentence, cited, tuple(made), tuple(dict.fromkeys(missed)))


@check(
    "dns-policy-bypasses-cluster", reads=(SERVICE, *WORKLOADS), also=(CONFIG_MAP,),
    when="a pod template does not ask the cluster's DNS server (dnsPolicy None with other nameservers, or Default), it "
    "is given addresses of Services, and a recorded change made it so or it is not well",
    why="names of Services are not known outside of the cluster's DNS",
    silent=(
        "the nameservers are those of the cluster's DNS Service",
        "it is given no address of a Service",
        "it was so before the recording and the workload is well",
        "dnsPolicy is ClusterFirst",
    ),
    fix="set dnsPolicy to ClusterFirst; what else should be asked goes into dnsConfig",
    example="dnsPolicy goes from ClusterFirst to None with nameserver 192.0.2.53; the pods dial kafka.data",
)  # fmt: skip
def dns_policy_bypasses_cluster(slice_: Slice) -> Iterator[Found]:
    cluster = {
        text(state, "spec", "clusterIP") for key, state in slice_.of(SERVICE) if key.namespace == "kube-system"
    }  # fmt: skip
    for root, state in tops(slice_):
        spec, path = spec_of(root, state), f"{place(root.type)}spec"
        policy, servers = text(spec, "dnsPolicy"), at(spec, "dnsConfig", "nameservers")
        asked = {one for one in servers if isinstance(one, str)} if isinstance(servers, list) else set()
        called = slice_.targets(root, "CALLS", SERVICE)
        if policy not in ("None", "Default") or asked & cluster or not called or not makes_pods(root, state):
            continue
        made = [one for one in slice_.changed(root, f"{path}.dnsPolicy", f"{path}.dnsConfig") if one.rows]
        if made or unwell(slice_, root):
            cited = (Cited(root, f"{path}.dnsPolicy", policy), Cited(root, f"{path}.dnsConfig", at(spec, "dnsConfig")))
            names = ", ".join(one.name for one in called)
            sentence = f"its pods do not ask the cluster's DNS server, and are given {names} to call"
            yield Found(root, sentence, cited, tuple(made), tuple(called))


CHECKS = (
    address_names_wrong_port, address_names_no_service, scaled_to_zero, traffic_policy_misses_callers,
    dns_policy_bypasses_cluster,
)  # fmt: skip

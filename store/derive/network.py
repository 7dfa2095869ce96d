"""How requests travel: endpoints behind a service, routes to it, what serves a webhook or an API."""

from __future__ import annotations

from collections.abc import Iterator

from schema.canonical import Json, canonical
from schema.identity import Key, type_of
from schema.records import ObjectRef
from store.derive.facts import EdgeFact, State, at, fact, key_in, made_up, maps, may, text

_GATEWAY = "gateway.networking.k8s.io"
_ISTIO = "networking.istio.io"


def endpoints(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """EndpointSlice → who answers for the service. Old-style Endpoints say the same and are not read."""
    service = text(state, "metadata", "labels", "kubernetes.io/service-name")
    if not service:
        return
    target = key_in(ref, "core/Service", service, ref.namespace)
    ports: list[Json] = [
        {name: value for name in ("name", "port", "protocol") if (value := port.get(name)) is not None}
        for port in maps(state, "ports")
    ]
    for endpoint in maps(state, "endpoints"):
        listed = endpoint.get("addresses")
        addresses = [item for item in listed if isinstance(item, str)] if isinstance(listed, list) else []
        attrs: State = {
            "addresses": [*addresses],
            "ports": ports,
            "ready": at(endpoint, "conditions", "ready") is not False,
            "serving": at(endpoint, "conditions", "serving") is not False,
            "terminating": at(endpoint, "conditions", "terminating") is True,
        }
        attrs.update({name: endpoint[name] for name in ("zone", "nodeName", "hostname") if endpoint.get(name)})
        pod = text(endpoint, "targetRef", "name") if text(endpoint, "targetRef", "kind") == "Pod" else ""
        if pod:
            source = key_in(ref, "core/Pod", pod, text(endpoint, "targetRef", "namespace") or ref.namespace)
            attrs["uid"] = text(endpoint, "targetRef", "uid")
        elif addresses:
            source = made_up(ref, "External", addresses[0])
        else:
            continue
        mark = f"{ref.name}/{','.join(addresses)}"
        yield fact("ENDPOINT_OF", source, target, "endpoint-slice@1", discriminator=mark, attrs=attrs, basis="observed")


def external_name(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """A service that is only another name for a host outside."""
    host = text(state, "spec", "externalName")
    if host and text(state, "spec", "type") == "ExternalName":
        yield fact("ENDPOINT_OF", made_up(ref, "External", host), ref.key, "external-name@1", discriminator="name")


def ingress(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    places: list[tuple[State, Json]] = [({}, at(state, "spec", "defaultBackend"))]
    for rule in maps(state, "spec", "rules"):
        for path in maps(rule, "http", "paths"):
            shown: State = {"host": text(rule, "host"), "path": text(path, "path")}
            places.append((shown, path.get("backend")))
    for attrs, backend in places:
        if name := text(backend, "service", "name"):
            port = at(backend, "service", "port")
            told = {**attrs, "port": at(port, "number") or at(port, "name")}
            yield _route(ref, key_in(ref, "core/Service", name, ref.namespace), told, "ingress@1")
    for tls in maps(state, "spec", "tls"):
        if name := text(tls, "secretName"):
            target = key_in(ref, "core/Secret", name, ref.namespace)
            own: State = {"via": "tls", "optional": False}
            yield fact("USES_CONFIG", ref.key, target, "ingress-tls@1", discriminator="tls", attrs=own)


def gateway_route(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """Gateway API: from the parents to the route, from the route to its backends."""
    if not ref.type.startswith(_GATEWAY + "/"):
        return
    for parent in maps(state, "spec", "parentRefs"):
        type_ = f"{_named(parent, 'group', _GATEWAY)}/{text(parent, 'kind') or 'Gateway'}"
        source = key_in(ref, type_, text(parent, "name"), text(parent, "namespace") or ref.namespace)
        if source.name and may("ROUTES_TO", source, ref.key):
            section = text(parent, "sectionName")
            yield fact("ROUTES_TO", source, ref.key, "gateway-parent@1", discriminator=section)
    for rule in maps(state, "spec", "rules"):
        for backend in maps(rule, "backendRefs"):
            type_ = f"{_named(backend, 'group', 'core') or 'core'}/{text(backend, 'kind') or 'Service'}"
            target = key_in(ref, type_, text(backend, "name"), text(backend, "namespace") or ref.namespace)
            if target.name and may("ROUTES_TO", ref.key, target):
                attrs: State = {
                    "host": at(state, "spec", "hostnames"), "match": rule.get("matches"), "port": backend.get("port"),
                    "weight": backend.get("weight", 1),
                }  # fmt: skip
                yield _route(ref, target, attrs, "gateway-backend@1")


def virtual_service(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """Istio: destinations by host (short, or inside the cluster), and the gateways that lead here."""
    if ref.type != f"{_ISTIO}/VirtualService":
        return
    for part in ("http", "tls", "tcp"):
        for rule in maps(state, "spec", part):
            for route in maps(rule, "route"):
                name, _, rest = text(route, "destination", "host").partition(".")
                namespace = rest.partition(".")[0] or ref.namespace
                if name and (not rest or rest.partition(".")[2] in ("svc", "svc.cluster.local")):
                    attrs: State = {
                        "host": at(state, "spec", "hosts"), "match": rule.get("match"), "weight": route.get("weight"),
                        "port": at(route, "destination", "port", "number"),
                    }  # fmt: skip
                    target = key_in(ref, "core/Service", name, namespace)
                    yield _route(ref, target, attrs, "virtual-service@1")
    gateways = at(state, "spec", "gateways")
    for gateway in gateways if isinstance(gateways, list) else []:
        if isinstance(gateway, str) and gateway not in ("", "mesh"):
            where, _, name = gateway.rpartition("/")
            source = key_in(ref, f"{_ISTIO}/Gateway", name, where or ref.namespace)
            yield fact("ROUTES_TO", source, ref.key, "istio-gateway@1")


def served_by(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """The service behind each webhook, an aggregated API, or the conversion of a kind."""
    places = [(text(hook, "name"), at(hook, "clientConfig", "service")) for hook in maps(state, "webhooks")]
    places.append(("", at(state, "spec", "service")))
    places.append(("conversion", at(state, "spec", "conversion", "webhook", "clientConfig", "service")))
    for mark, service in places:
        name, namespace = text(service, "name"), text(service, "namespace")
        if name and namespace:
            attrs: State = {"port": at(service, "port") or 443}
            target = key_in(ref, "core/Service", name, namespace)
            yield fact("SERVED_BY", ref.key, target, "served-by@1", discriminator=mark, attrs=attrs)


def _route(ref: ObjectRef, target: Key, attrs: State, rule: str) -> EdgeFact:
    told: State = {name: value for name, value in attrs.items() if value is not None and value not in ("", [])}
    # Not the position in the list: a route put before the others leaves theirs as they were. A weight may move.
    mark = canonical({name: value for name, value in told.items() if name != "weight"}).decode()
    return fact("ROUTES_TO", ref.key, target, rule, discriminator=mark, attrs=told)


def _named(node: State, field: str, default: str) -> str:
    value = node.get(field)
    return value if isinstance(value, str) else default


def scales(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """HorizontalPodAutoscaler, VerticalPodAutoscaler (`targetRef`) and KEDA, whose default kind is a Deployment."""
    target = at(state, "spec", "scaleTargetRef") or at(state, "spec", "targetRef")
    name, kind = text(target, "name"), text(target, "kind") or "Deployment"
    if name:
        key = key_in(ref, type_of(text(target, "apiVersion") or "apps/v1", kind), name, ref.namespace)
        if may("SCALES", ref.key, key):
            low, high = at(state, "spec", "minReplicas"), at(state, "spec", "maxReplicas")
            attrs: State = {bound: value for bound, value in (("min", low), ("max", high)) if value is not None}
            yield fact("SCALES", ref.key, key, "scale-target@1", attrs=attrs)

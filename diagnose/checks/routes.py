"""From outside to a Service: routes whose backend, port, class or certificate is not there, certificates that ended,
and what the cluster's own DNS makes of a Service's name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from diagnose.check import Cited, Found, check
from diagnose.checks.scheduling import newest
from diagnose.checks.services import SERVICE, ending
from diagnose.slices import Slice, beside
from schema.canonical import Json
from schema.errors import BadInstant
from schema.identity import Key
from schema.instants import SECOND, parse
from store.derive.facts import State, at, maps, strings, text

INGRESS, CLASS = "networking.k8s.io/Ingress", "networking.k8s.io/IngressClass"
HTTP_ROUTE = "gateway.networking.k8s.io/HTTPRoute"
_CONFIG_MAP, _SECRET = "core/ConfigMap", "core/Secret"
_WEEK = 7 * 24 * 3600 * SECOND
_HOOKS = (
    "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
    "admissionregistration.k8s.io/MutatingWebhookConfiguration",
)


@check(
    "route-backend-missing", reads=(SERVICE,), also=(INGRESS, CLASS, HTTP_ROUTE, _SECRET),
    when="an Ingress or HTTPRoute leads to a Service or a port that is not there, or an Ingress names a TLS Secret or, "
    "by a recorded change, a class that is not there",
    why="who comes that way gets an error instead of an answer",
    silent=(
        "the backend is no Service (a resource backend, a bucket)",
        "the route came, or the Service went, within 10 s",
        "the Secret is one that cert-manager makes and has not made yet",
        "the Ingress is of a class that was never recorded: some controllers need none",
    ),
    fix="let the route name a Service and a port that are there",
    example="the Ingress leads to port 8081 of web, which has 8080 only",
)  # fmt: skip
def route_backend_missing(slice_: Slice) -> Iterator[Found]:
    for route, state in slice_.of(INGRESS, HTTP_ROUTE):
        if ending(slice_, route):
            continue
        told: set[Key] = set()
        for edge in slice_.out(route, "ROUTES_TO"):
            service = slice_.state(edge.dst)
            if edge.dst.type != SERVICE or edge.dst in told or not slice_.watched(SERVICE, edge.dst.namespace):
                continue
            port = edge.attrs.get("port")
            if service is not None and (port is None or _listens(service, port)):
                continue
            made = newest(
                *(one for one in slice_.changed(route, "spec") if one.rows or one.recorded.change.op == "create"),
                *(slice_.deleted(edge.dst) if service is None else slice_.changed(edge.dst, "spec.ports")),
            )
            if made and not slice_.lasts(made[0].at):
                continue
            told.add(edge.dst)
            what = f"port {port} of Service {edge.dst.name}" if service is not None else f"Service {edge.dst.name}"
            cited = (Cited(route, "spec.rules", at(state, "spec", "rules")),)
            blamed = made[0].key if made else route
            yield Found(blamed, f"{route.kind} {route.name} leads to {what}, which is not there", cited, made, (route,))
        yield from _named(slice_, route, state)


def _listens(service: State, port: Json) -> bool:
    if text(service, "spec", "type") == "ExternalName":
        return True
    return any(port in (one.get("port"), one.get("name")) for one in maps(service, "spec", "ports"))


def _named(slice_: Slice, route: Key, state: State) -> Iterator[Found]:
    """A class or a TLS Secret of an Ingress that is not there."""
    for secret in slice_.targets(route, "USES_CONFIG", _SECRET):
        manager = any("cert-manager.io" in name for name in strings(state, "metadata", "annotations"))
        if slice_.state(secret) is not None or not slice_.watched(_SECRET, secret.namespace):
            continue
        made = newest(*slice_.deleted(secret), *(one for one in slice_.changed(route, "spec.tls") if one.rows))
        if (manager and not slice_.deleted(secret)) or (made and not slice_.lasts(made[0].at)):
            continue
        cited = (Cited(route, "spec.tls", at(state, "spec", "tls")),)
        sentence = f"{route.kind} {route.name} needs the certificate in Secret {secret.name}, which is not there"
        yield Found(made[0].key if made else route, sentence, cited, made, (route,))
    name = text(state, "spec", "ingressClassName")
    if name and slice_.watched(CLASS, None) and slice_.state(beside(route, CLASS, name)) is None:
        changed = [one for one in slice_.changed(route, "spec.ingressClassName") if one.rows]
        made = newest(*changed, *slice_.deleted(beside(route, CLASS, name)))
        if made and slice_.lasts(made[0].at):
            cited = (Cited(route, "spec.ingressClassName", name),)
            yield Found(
                made[0].key, f"{route.kind} {route.name} is of class {name}, which is not there", cited, made, (route,)
            )


@check(
    "certificate-expired", reads=(), also=(_SECRET, *_HOOKS, INGRESS),
    when="a certificate in a Secret that something uses, or the CA bundle of a webhook, is past its end, or within a "
    "week of it and was not renewed at half its life",
    why="who verifies it refuses the connection",
    silent=(
        "nothing that was recorded uses the Secret",
        "it is within a week of its end but lives for less than a month, as short ones do",
        "it holds no certificate that can be read",
        "it is renewed already",
    ),
    fix="renew it",
    example="not_after of tls.crt was yesterday, and an Ingress serves it",
)  # fmt: skip
def certificate_expired(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(_SECRET):
        if not slice_.into(key, "USES_CONFIG"):
            continue
        data = at(state, "data")
        for name, told in (data if isinstance(data, dict) else {}).items():
            yield from _ended(slice_, key, f"data[{name}]", told)
    for key, state in slice_.of(*_HOOKS):
        for hook in maps(state, "webhooks"):
            path = f"webhooks[name={text(hook, 'name')}].clientConfig.caBundle"
            yield from _ended(slice_, key, path, at(hook, "clientConfig", "caBundle"))


def _ended(slice_: Slice, key: Key, path: str, told: Json) -> Iterator[Found]:
    try:
        begin, end = (parse(text(told, name)) for name in ("not_before", "not_after"))
    except BadInstant:
        return
    near = end - slice_.at < _WEEK and end - begin > 4 * _WEEK
    if slice_.at < end and not near:
        return
    used = tuple(slice_.sources(key, "USES_CONFIG"))
    verb = "ended" if slice_.at >= end else "ends"
    made = [one for one in slice_.changed(key, path.replace("[", ".").replace("]", "")) if one.rows]
    cited = (Cited(key, f"{path}.not_after", text(told, "not_after")),)
    since = end if slice_.at >= end else None
    yield Found(key, f"its certificate {verb} at {text(told, 'not_after')}", cited, tuple(made), used, since=since)


# -- names

_DOMAIN = "cluster.local"


@check(
    "dns-hides-service", reads=(_CONFIG_MAP, SERVICE),
    when="the configuration of the cluster's DNS server has a rewrite, template, hosts entry or zone that catches the "
    "name of a Service that is there",
    why="who asks for the Service by its name is told of something else, or of nothing",
    silent=(
        "the rule is for names outside of the cluster",
        "the rule leads to a name of the same Service, or from another name to it",
        "the rule is a comment",
        "no such Service is there",
    ),
    fix="take the rule out of the Corefile",
    example="rewrite name exact payment.shop.svc.cluster.local payment.retired.invalid",
)  # fmt: skip
def dns_hides_service(slice_: Slice) -> Iterator[Found]:
    services = {f"{key.name}.{key.namespace}.svc.{_DOMAIN}": key for key, _ in slice_.of(SERVICE)}
    for config, state in slice_.of(_CONFIG_MAP):
        data = strings(state, "data")
        if config.namespace != "kube-system" or not (config.name.startswith("coredns") or "Corefile" in data):
            continue
        for field, words in data.items():
            for line, caught in _caught(words, services):
                made = [one for one in slice_.changed(config, f'data["{field}"]') if one.rows]
                path = f"data.{field}" if "." not in field else f'data["{field}"]'
                hidden = tuple(services[name] for name in caught)
                sentence = f"`{line}` catches the name of Service {hidden[0].name} in {hidden[0].namespace}"
                yield Found(config, sentence, (Cited(config, path, line),), tuple(made), hidden)


def _caught(words: str, services: dict[str, Key]) -> Iterator[tuple[str, list[str]]]:
    """(line, names) of each line of a Corefile that catches names of Services."""
    for raw in words.splitlines():
        line = raw.partition("#")[0].strip()
        tokens = line.split()
        caught: list[str] = []
        if tokens[:1] == ["rewrite"]:
            caught = _rewritten(tokens[1:], services)
        elif tokens[:1] == ["template"]:
            zones = [one.rstrip(".") for one in tokens[3:] if one != "{"]
            caught = [name for name in services if any(_in_zone(name, zone) for zone in zones)]
        elif tokens[:1] == ["match"]:
            caught = [name for name in services if _matches(" ".join(tokens[1:]), name)]
        elif line.endswith("{") and len(tokens) > 1:
            zones = [one.partition(":")[0].rstrip(".") for one in tokens[:-1]]
            caught = [name for name in services if any(zone.count(".") > 2 and _in_zone(name, zone) for zone in zones)]
        elif tokens and re.fullmatch(r"[\d.]+|[0-9a-fA-F:]*:[0-9a-fA-F:]*", tokens[0]):
            caught = [one.rstrip(".") for one in tokens[1:] if one.rstrip(".") in services]
        if caught:
            yield line, caught


def _in_zone(name: str, zone: str) -> bool:
    return bool(zone) and zone not in (_DOMAIN, "local") and (name == zone or name.endswith(f".{zone}"))


def _rewritten(tokens: list[str], services: dict[str, Key]) -> list[str]:
    rest = [one for one in tokens if one not in ("stop", "continue")]
    if rest[:1] == ["name"]:
        rest = rest[1:]
    kind = rest[0] if rest and rest[0] in ("exact", "prefix", "suffix", "substring", "regex") else "exact"
    rest = rest[1:] if rest[:1] == [kind] else rest
    if len(rest) < 2:
        return []
    wanted, to = rest[0].rstrip("."), rest[1].rstrip(".")
    if kind == "exact" and to in services:
        return []
    return [name for name in services if to != name and _fits(kind, wanted, name)]


def _fits(kind: str, wanted: str, name: str) -> bool:
    return {
        "exact": name == wanted,
        "prefix": name.startswith(wanted),
        "suffix": name.endswith(wanted),
        "substring": wanted in name,
    }.get(kind, kind == "regex" and _matches(wanted, name))


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None or re.search(pattern, f"{name}.") is not None
    except re.error:
        return False


CHECKS = (route_backend_missing, certificate_expired, dns_hides_service)

"""Addresses that a workload is given: in env values, arguments, and the ConfigMaps that it reads. Pure.

`template_of` is the pod template of whoever answers for it, `said` all hosts and ports that it names, each with the
field that says so, spelled as recorded changes spell it. The names are read by the grammar of `store.derive.hosts`;
whether such a Service is there is asked of it (`store.derive.calls` for edges, `resolve` for questions over a slice).
Variables are expanded as a kubelet expands them. Values of Secrets are fingerprints and are never read: a field that
asks for a host and takes it from there is told as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schema.canonical import Json, canonical
from schema.identity import Key
from schema.kinds import class_of
from schema.paths import field_name
from schema.records import ObjectRef
from store.derive.facts import Address, State, at, controller_of, maps, owner_key, strings, text
from store.derive.hosts import Spot, candidates, in_file, in_value, is_of_names_only, listens, wants_host
from store.derive.pods import pod_spec

MOST = 500
"""Addresses of one template; further ones are left out."""
LONGEST_FILE = 65_536
"""Characters; a longer value of a ConfigMap is not read."""

_PARTS = ("initContainers", "containers", "ephemeralContainers")
_REFERENCE = re.compile(r"\$\$|\$\(([^()\s]{1,200})\)")
_UNSET_PORT = re.compile(r":\$\([^()\s]{1,200}\)")
_FLAG = re.compile(r"(--?[A-Za-z][\w.-]{0,100})(?:=(.*))?\Z", re.DOTALL)
_HOST_NAME = re.compile(r"(?:HOST|HOSTNAME|ADDR|ADDRESS|SERVER|SERVICE)\Z")

Lent = Mapping[str, str]
"""What a ConfigMap lends to those who read it: values by key."""
Lender = Callable[[Key], Lent | None]
"""Gives what a ConfigMap of this key holds, None when there is none."""


class Unknown(NamedTuple):
    """A field that asks for a host whose value is not to be had, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Said:
    """All that a template says of whom it calls."""

    addresses: tuple[Address, ...] = ()
    unknown: tuple[Unknown, ...] = ()


class Template(NamedTuple):
    """A pod template (or bare pod) with its owner's key, the path of its spec, and the ConfigMaps that it reads."""

    key: Key
    path: str
    spec: Json
    configs: tuple[Key, ...]


def template_of(ref: ObjectRef, state: State) -> Template | None:
    """The template of a workload or bare pod; None for what a workload made, which only repeats its maker."""
    controller = controller_of(state)
    if controller is not None:
        over = owner_key(ref, controller)
        if ref.type == "core/Pod" or (over is not None and class_of(over.type) == "Workload"):
            return None
    spec = pod_spec(ref, state)
    if not isinstance(spec, dict):
        return None
    named = {key for _, _, key, _ in _uses(ref.key, spec)}
    return Template(ref.key, _PATHS.get(ref.type, "spec.template.spec"), spec, tuple(sorted(named)))


_PATHS = {"core/Pod": "spec", "batch/CronJob": "spec.jobTemplate.spec.template.spec"}


def lent_by(ref: ObjectRef, state: State) -> Lent | None:
    """What an object lends to the templates that name it: a ConfigMap its values, anything else nothing (None)."""
    if ref.type != "core/ConfigMap":
        return None
    data = strings(state, "data")
    return {key: value for key, value in data.items() if len(value) <= LONGEST_FILE and "-----BEGIN" not in value}


def said(template: Template, lender: Lender) -> Said:
    """Every host that the template names, in a stable order."""
    reader = _Reader(template, lender)
    for part in _PARTS:
        for container in maps(template.spec, part):
            if name := text(container, "name"):
                reader.container(f"{template.path}.{part}{_item(name)}", name, container)
    reader.files()
    found = dict.fromkeys(reader.addresses)
    return Said(tuple(found)[:MOST], tuple(dict.fromkeys(reader.unknown)))


def addresses(ref: ObjectRef, state: State, lender: Lender) -> Said:
    """The same of an object; nothing for what has no template of its own."""
    template = template_of(ref, state)
    return Said() if template is None else said(template, lender)


def resolve(host: str, namespace: str, services: Mapping[tuple[str, str], bool]) -> tuple[str, str] | None:
    """The (namespace, name) of the Service that a host is for a pod of `namespace`, as DNS would find it; None when it
    is none. `services` are those that there are, and whether each is headless."""
    for target in candidates(host, namespace):
        place = (target.namespace, target.name)
        if place in services and (services[place] or not target.pod):
            return place
    return None


def meant(host: str, namespace: str, namespaces: Collection[str] = ()) -> tuple[str, str] | None:
    """The Service that a host means whether or not it is there: what it says itself (`x.y.svc`), a single word in
    `namespace`, or `x.y` where y is one of `namespaces`. None for a host that can be anywhere."""
    targets = candidates(host, namespace)
    for target in targets:
        here = "." not in host or (target.namespace in namespaces and not (target.pod and len(targets) > 1))
        if here or target.explicit:
            return target.namespace, target.name
    return None


@dataclass(slots=True)
class _Variable:
    """The value of a variable, None when it is not to be had; where it is said, and taken from."""

    value: str | None
    path: str
    of: str
    via: str = ""
    key: str = ""
    parts: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reader:
    template: Template
    lender: Lender
    addresses: list[Address] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)

    def container(self, path: str, name: str, container: State) -> None:
        env = self._env(path, container)
        for variable, told in env.items():
            if told.value is None:
                continue
            fields = (variable, told.key) if told.key else (variable,)
            for spot in self._value(told.value, fields, name):
                port, parts = spot.port, told.parts
                if port is None and _HOST_NAME.search(variable):
                    beside = env.get(_HOST_NAME.sub("PORT", variable))
                    if beside is not None and beside.value is not None and beside.value.isdecimal():
                        port = int(beside.value[:6])
                        parts = (*parts, f"{beside.of} {beside.path}")
                self._add(spot, port, told.path, told.of, told.via, parts)
        for place in ("command", "args"):
            words = at(container, place)
            self._words(f"{path}.{place}", words if isinstance(words, list) else [], env, name)

    def files(self) -> None:
        """What mounted ConfigMaps say."""
        for kind, path, key, items in _uses(self.template.key, self.template.spec):
            lent = self.lender(key) if kind == "volume" else None
            for name, value in sorted((lent or {}).items()):
                if (items and name not in items) or is_of_names_only(name) or listens(name):
                    continue
                spots = in_file(value) if "\n" in value else in_value(value, name)
                for spot in self._kept(spots, ""):
                    via = f"{self.template.path}.{path}"
                    self._add(spot, spot.port, f"data{field_name(name)}", str(key), via, ())

    def _env(self, path: str, container: State) -> dict[str, _Variable]:
        """The variables of a container: those taken whole from ConfigMaps, then its own, each seeing those before."""
        env: dict[str, _Variable] = {}
        own = str(self.template.key)
        for entry in maps(container, "envFrom"):
            if name := text(entry, "configMapRef", "name"):
                config = self._config(name)
                for key, value in sorted((self.lender(config) or {}).items()):
                    told = _Variable(value, f"data{field_name(key)}", str(config), f"{path}.envFrom", key)
                    env[text(entry, "prefix") + key] = told
        seen: dict[str, int] = {}
        for entry in maps(container, "env"):
            if name := text(entry, "name"):
                seen[name] = seen.get(name, 0) + 1
                mark = f"#{seen[name]}" if seen[name] > 1 else ""
                env[name] = self._variable(f"{path}.env{_item(name)}{mark}", name, entry, env, own)
        return env

    def _variable(self, path: str, name: str, entry: State, env: Mapping[str, _Variable], own: str) -> _Variable:
        source = entry.get("valueFrom")
        if not isinstance(source, dict):
            value, parts = _expanded(text(entry, "value"), env)
            if value.startswith("hmac:") and wants_host(name):
                self.unknown.append(Unknown(f"{path}.value", "hidden as a credential"))
            return _Variable(value, f"{path}.value", own, parts=parts)
        key = text(source, "configMapKeyRef", "key")
        if key:
            config = self._config(text(source, "configMapKeyRef", "name"))
            lent = (self.lender(config) or {}).get(key)
            if lent is None and wants_host(name):
                self.unknown.append(Unknown(path, f"{key} of ConfigMap {config.name} is not there"))
            return _Variable(lent, f"data{field_name(key)}", str(config), path, key)
        if "secretKeyRef" in source and wants_host(name):
            self.unknown.append(Unknown(path, f"from Secret {text(source, 'secretKeyRef', 'name')}"))
        return _Variable(None, path, own)

    def _words(self, path: str, words: list[Json], env: Mapping[str, _Variable], name: str) -> None:
        own, flag = str(self.template.key), ""
        for number, word in enumerate(words):
            if not isinstance(word, str):
                continue
            value, parts = _expanded(word, env)
            match = _FLAG.match(value)
            if match is not None and match[2] is None:
                flag = match[1]
                continue
            asked, value = (match[1], match[2]) if match else (flag, value)
            flag = ""
            spots = self._value(value, ("--host" if asked == "-h" else asked,), name)
            for spot in spots:
                self._add(spot, spot.port, f"{path}[i:{number}]", own, "", parts)

    def _value(self, value: str, fields: tuple[str, ...], container: str) -> list[Spot]:
        """What a value says under the names by which it goes: the one that asks for a host counts."""
        if any(listens(name) or is_of_names_only(name) for name in fields):
            return []
        asking = next((name for name in fields if wants_host(name)), fields[0])
        return self._kept(in_value(value, asking), container)

    def _kept(self, spots: Collection[Spot], container: str) -> list[Spot]:
        """Without bare words that are the workload's own name: they tell it who it is."""
        own = {self.template.key.name, container}
        return [spot for spot in spots if not (spot.form == "host" and spot.host in own)]

    def _add(self, spot: Spot, port: int | None, path: str, of: str, via: str, parts: tuple[str, ...]) -> None:
        self.addresses.append(Address(spot.host, port, spot.form, path, of, via, parts))

    def _config(self, name: str) -> Key:
        return self.template.key._replace(type="core/ConfigMap", name=name)


def _expanded(value: str, env: Mapping[str, _Variable]) -> tuple[str, tuple[str, ...]]:
    """A value with its `$(NAME)` replaced, and the fields that were put in. A port that is not known is left out; a
    variable that the kubelet makes of a Service (`$(CART_SERVICE_HOST)`) is that Service's name."""
    if "$(" not in value:
        return value, ()
    parts: list[str] = []

    def put(match: re.Match[str]) -> str:
        name = match[1]
        told = env.get(name) if name else None
        if told is not None and told.value is not None:
            parts.extend((f"{told.of} {told.path}", *told.parts))
            return told.value
        if name and told is None and name.endswith("_SERVICE_HOST"):
            return name.removesuffix("_SERVICE_HOST").lower().replace("_", "-")
        return match[0]

    return _UNSET_PORT.sub("", _REFERENCE.sub(put, value)), tuple(dict.fromkeys(parts))


def _uses(owner: Key, spec: Json) -> Iterator[tuple[str, str, Key, frozenset[str]]]:
    """(`env` or `volume`, the volume's path, the ConfigMap, the keys that are mounted: none named means all)."""
    named = owner._replace(type="core/ConfigMap")
    for part in _PARTS:
        for container in maps(spec, part):
            for entry in maps(container, "env"):
                if name := text(entry, "valueFrom", "configMapKeyRef", "name"):
                    yield "env", "", named._replace(name=name), frozenset()
            for entry in maps(container, "envFrom"):
                if name := text(entry, "configMapRef", "name"):
                    yield "env", "", named._replace(name=name), frozenset()
    for volume in maps(spec, "volumes"):
        path = f"volumes{_item(text(volume, 'name'))}"
        for source in (one.get("configMap") for one in (volume, *maps(volume, "projected", "sources"))):
            if name := text(source, "name"):
                items = frozenset(text(item, "key") for item in maps(source, "items"))
                yield "volume", path, named._replace(name=name), items


def _item(name: str) -> str:
    return f"[k:{canonical({'name': name}).decode()}]"

"""A seeded random writer: makes objects of many kinds, then changes, deletes and remakes them in every way there is.

Given one seed it asks the same in the same order, as far as the server's answers allow. One `Writer` is used by one
thread; several work beside each other in namespaces and under names of their own. What it knows for true it keeps in
`done`; which objects there are to choose from is `kinds`.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from tests.cluster.kinds import CONFIG_MAP, CRD, DEPLOYMENT, GROUP, HOLD, NAMESPACE, TEMPLATES, Template, custom
from tests.cluster.truth import Span, Write
from tests.services.api import PATCHES, Api, ApiError, Object, Resource

_NAMESPACES = 4
_PATIENCE = 60
"""Seconds that a writer waits for a server that does not answer."""

_GADGET = Template(
    Resource(GROUP, "v1", "gadgets", "Gadget", True),
    lambda rng: {"spec": {"size": rng.randrange(100)}},
    (lambda rng: {"spec": {"size": rng.randrange(100)}},),
    strategic=False,
)


@dataclass(slots=True)
class _Live:
    """An object that the writer made and has not deleted."""

    template: Template
    namespace: str | None
    name: str

    def path(self, sub: str | None = None) -> str:
        return self.template.resource.path(self.namespace, self.name, sub)


class Writer:
    """Writes as `number`, at most `rate` requests a second if that is given.

    `done` holds every write that succeeded; `refused` counts the others by HTTP status, which are few: somebody else,
    a controller, was quicker.
    """

    def __init__(self, api: Api, seed: int, number: int = 0, rate: float | None = None) -> None:
        self.done: list[Write] = []
        self.refused: Counter[int] = Counter()
        self._api = api
        self._rng = random.Random(f"{seed}/{number}")
        self._number = number
        self._pause = 0.0 if rate is None else 1 / rate
        self._next = 0.0
        self._names = 0
        self._size = 0
        self._spaces: list[str] = []
        self._live: list[_Live] = []
        self._held: list[_Live] = []
        self._gadgets: Template | None = None

    # -- what it does

    def populate(self, count: int) -> None:
        """Namespaces, the CRD of Widget and this many objects, all kinds in turn."""
        widgets = custom("widgets", "Widget")
        try:
            self._send("POST", CRD, CRD.path(), widgets)
        except ApiError as error:
            if error.code != 409:  # Another writer made it.
                raise
        self._established(widgets["metadata"]["name"])
        self._spaces = [self._name("space") for _ in range(_NAMESPACES)]
        for space in self._spaces:
            self._send("POST", NAMESPACE, NAMESPACE.path(), {"metadata": {"name": space}})
        self._size = count
        for index in range(count):
            self._make(TEMPLATES[index % len(TEMPLATES)])

    def write(self, count: int | None = None, until: Callable[[], bool] = lambda: False) -> None:
        """So many writes, or as many as come before `until` says that it is enough."""
        last = None if count is None else len(self.done) + count
        steps, weights = zip(*_STEPS, strict=True)
        while not until() and (last is None or len(self.done) < last):
            (step,) = self._rng.choices(steps, weights)
            try:
                step(self)
            except ApiError as error:
                self.refused[error.code] += 1
                if error.code not in (404, 409, 500, 503, 504, 429, 403):
                    raise
            except httpx.TransportError:
                self.refused[0] += 1
                self._await_server()

    def release(self) -> None:
        """Take away what still holds deleted objects, so that they can go."""
        while self._held:
            self._let_go()

    # -- steps

    def _create(self) -> None:
        if len(self._live) > self._size * 1.1:
            return self._delete()
        pool = (*TEMPLATES, self._gadgets) if self._gadgets is not None else TEMPLATES
        self._make(self._rng.choice(pool))
        return None

    def _delete(self) -> None:
        if len(self._live) < self._size * 0.9:
            return self._create()
        one = self._live.pop(self._rng.randrange(len(self._live)))
        options = {"propagationPolicy": self._rng.choice(("Background", "Foreground", "Background"))}
        self._send("DELETE", one.template.resource, one.path(), options)
        return None

    def _remake(self) -> None:
        """Gone and back under the same name; as soon as the name is free."""
        one = self._live.pop(self._rng.randrange(len(self._live)))
        self._send("DELETE", one.template.resource, one.path(), {"propagationPolicy": "Background"})
        self._make(one.template, one.namespace, one.name)

    def _strategic(self) -> None:
        one = self._pick(lambda one: one.template.strategic)
        self._patch(one, "strategic", self._edit(one))

    def _merge(self) -> None:
        one = self._pick()
        self._patch(one, "merge", self._edit(one))

    def _json(self) -> None:
        one = self._pick()
        operations = [
            {
                "op": "add",
                "path": "/" + "/".join(step.replace("~", "~0").replace("/", "~1") for step in path),
                "value": value,
            }
            for path, value in _leaves(self._edit(one))
        ]
        self._patch(one, "json", operations)

    def _apply(self) -> None:
        one = self._pick()
        resource = one.template.resource
        edit = self._edit(one)
        meta = {**edit.get("metadata", {}), "name": one.name}
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **edit, "metadata": meta}
        self._patch(one, "apply", whole, force="true")

    def _replace(self) -> None:
        one = self._pick()
        found = self._api.request("GET", one.path())
        _merge_into(found, self._edit(one))
        self._send("PUT", one.template.resource, one.path(), found)

    def _label(self) -> None:
        one = self._pick()
        self._patch(one, "merge", {"metadata": {"labels": {"tier": self._rng.choice(("front", "back", None))}}})

    def _status(self) -> None:
        one = self._pick(lambda one: one.template.status is not None)
        assert one.template.status is not None
        self._patch(one, "merge", one.template.status(self._rng), sub="status")

    def _scale(self) -> None:
        one = self._pick(lambda one: one.template.resource is DEPLOYMENT)
        self._patch(one, "merge", {"spec": {"replicas": self._rng.randrange(3)}}, sub="scale")

    def _twice(self) -> None:
        """An environment variable that is there already: the last one wins."""
        one = self._pick(lambda one: one.template.resource is DEPLOYMENT)
        path = "/spec/template/spec/containers/0/env/-"
        value = {"name": "MODE", "value": f"{self._rng.getrandbits(16):x}"}
        self._patch(one, "json", [{"op": "add", "path": path, "value": value}])

    def _hold(self) -> None:
        """Deleted, but held by a finalizer for a while."""
        if len(self._held) >= 3:
            return self._let_go()
        one = self._make(_template_of(CONFIG_MAP), finalizers=[HOLD])
        self._live.remove(one)
        self._send("DELETE", CONFIG_MAP, one.path())
        self._held.append(one)
        return None

    def _end_namespace(self) -> None:
        """A namespace with all that is in it, one object of which is held for a while; another takes its place."""
        if len(self._held) >= 3:
            return self._let_go()
        space = self._spaces.pop(self._rng.randrange(len(self._spaces)))
        held = self._make(_template_of(CONFIG_MAP), space, finalizers=[HOLD])
        self._live = [one for one in self._live if one.namespace != space]
        self._send("DELETE", NAMESPACE, NAMESPACE.path(name=space))
        self._held.append(held)
        self._spaces.append(self._name("space"))
        self._send("POST", NAMESPACE, NAMESPACE.path(), {"metadata": {"name": self._spaces[-1]}})
        return None

    def _let_go(self) -> None:
        one = self._held.pop(0)
        self._patch(one, "merge", {"metadata": {"finalizers": None}})

    def _custom(self) -> None:
        """A kind comes with a few objects, or goes with all of them."""
        plural, kind = f"gadgets{self._number}", f"Gadget{self._number}"
        if self._gadgets is None:
            self._send("POST", CRD, CRD.path(), custom(plural, kind))
            self._established(f"{plural}.{GROUP}")
            resource = Resource(GROUP, "v1", plural, kind, True)
            self._gadgets = Template(resource, _GADGET.body, _GADGET.edits, strategic=False)
            for _ in range(3):
                self._make(self._gadgets)
        else:
            self._live = [one for one in self._live if one.template is not self._gadgets]
            self._gadgets = None
            self._send("DELETE", CRD, CRD.path(name=f"{plural}.{GROUP}"))
            self._until(lambda: not self._found(CRD.path(name=f"{plural}.{GROUP}")))

    # -- how it does it

    def _make(
        self,
        template: Template,
        namespace: str | None = None,
        name: str | None = None,
        finalizers: list[str] | None = None,
    ) -> _Live:
        if template.resource.namespaced:
            namespace = namespace or self._rng.choice(self._spaces)
        one = _Live(template, namespace, name or self._name("one"))
        meta: Object = {"name": one.name, "labels": {"app": "main"}, "annotations": {"made": "first"}}
        if finalizers is not None:
            meta["finalizers"] = finalizers
        resource = template.resource
        head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        self._send("POST", resource, resource.path(namespace), head | template.body(self._rng))
        self._live.append(one)
        return one

    def _edit(self, one: _Live) -> Object:
        return self._rng.choice(one.template.edits)(self._rng)

    def _pick(self, fits: Callable[[_Live], bool] = lambda _: True) -> _Live:
        found = [one for one in self._live if fits(one)]
        return self._rng.choice(found) if found else self._make(_template_of(DEPLOYMENT))

    def _patch(self, one: _Live, form: str, body: Any, sub: str | None = None, **params: str) -> None:
        try:
            self._send(
                "PATCH", one.template.resource, one.path(sub), body, content_type=PATCHES[form],
                fieldManager=f"writer-{form}", **params,
            )  # fmt: skip
        except ApiError as error:
            if error.code == 404 and one in self._live:
                self._live.remove(one)
            raise

    def _send(self, method: str, resource: Resource, path: str, body: Any = None, **params: str) -> None:
        if self._pause:
            self._next = max(self._next + self._pause, time.monotonic() - 1)
            time.sleep(max(0.0, self._next - time.monotonic()))
        start = time.time_ns() // 1000
        answer = self._api.request(method, path, body, **params)
        end = time.time_ns() // 1000
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
        meta = answer["metadata"]
        status = answer.get("kind") == "Status"
        uid = answer["details"]["uid"] if status else meta["uid"]
        self.done.append(
            Write(
                resource.group_resource, verb, meta.get("namespace"), meta.get("name") or path.rpartition("/")[2], uid,
                meta.get("resourceVersion"), Span(start, end), status,
            )
        )  # fmt: skip

    def _name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}-{self._number}-{self._names}"

    def _established(self, name: str) -> None:
        def served() -> bool:
            status = self._api.request("GET", CRD.path(name=name)).get("status") or {}
            conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
            return conditions.get("Established") == "True"

        self._until(served)
        plural, _, group = name.partition(".")
        self._until(lambda: self._found(f"/apis/{group}/v1/{plural}"))

    def _found(self, path: str) -> bool:
        try:
            self._api.request("GET", path)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True

    def _await_server(self) -> None:
        self._until(self._api.ready)

    @staticmethod
    def _until(true: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE
        while not true():
            if time.monotonic() > end:
                raise TimeoutError("the server did not get there")
            time.sleep(0.05)


_STEPS: tuple[tuple[Callable[[Writer], None], float], ...] = (
    (Writer._create, 12),
    (Writer._delete, 8),
    (Writer._remake, 4),
    (Writer._strategic, 14),
    (Writer._merge, 14),
    (Writer._json, 14),
    (Writer._apply, 10),
    (Writer._replace, 10),
    (Writer._label, 6),
    (Writer._status, 8),
    (Writer._scale, 2),
    (Writer._twice, 2),
    (Writer._hold, 1),
    (Writer._end_namespace, 0.4),
    (Writer._custom, 0.4),
)


def _template_of(resource: Resource) -> Template:
    return next(one for one in TEMPLATES if one.resource is resource)


def _leaves(edit: Object, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in edit.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _merge_into(whole: Object, edit: Object) -> None:
    for name, value in edit.items():
        if isinstance(value, dict) and isinstance(whole.get(name), dict):
            _merge_into(whole[name], value)
        else:
            whole[name] = value

"""A small cluster in memory behind the recorder's transport, a clock that jumps over waits, and faults on demand.

It serves lists, watches and discovery as an API server does; what a test puts into `faults` is answered first. Real
servers are in tests/cluster: here is what they do not do when asked.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any

import orjson

from capture.kubernetes.live.clock import Clock
from capture.kubernetes.live.discovery import Found
from capture.kubernetes.live.inbox import Item
from capture.kubernetes.live.parts import Selection, Served
from capture.kubernetes.live.recorder import Recorder
from capture.kubernetes.live.transport import Lost
from capture.kubernetes.recording import Line
from capture.kubernetes.reflector import Reflector
from capture.redact import Redactor
from schema import instants
from schema.records import Change, Coverage, Record
from tests.live.served import CMS, DEPLOYMENTS, NAMESPACES, SECRETS, bookmark, event, status

T0 = instants.parse("2026-03-01T03:00:00Z")
Chunks = AsyncIterator[bytes]


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next thing that is to happen."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0
        select = self._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None) -> Any:
            if timeout is None:
                raise RuntimeError("nothing is to happen any more")
            self._now += max(timeout, 0)
            return select(0)

        self._selector.select = jump  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._now


def run(main: Coroutine[None, None, None]) -> None:
    loop = Loop()
    try:
        loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


class Answer:
    """A response. `script`: the chunks of its body, as they come."""

    def __init__(self, code: int, script: Callable[[], Chunks], **headers: str) -> None:
        self.status = code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.closed = False
        self._script = script

    def chunks(self) -> Chunks:
        return self._script()

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self._script()])

    async def close(self) -> None:
        self.closed = True


def answer(code: int, body: bytes | dict, **headers: str) -> Answer:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)

    async def script() -> Chunks:
        yield raw

    return Answer(code, script, **headers)


def refusal(code: int, reason: str = "", message: str = "", **headers: str) -> Answer:
    return answer(code, status(code, reason, message), **headers)


def stream(*steps: bytes | float, end: str | None = None) -> Answer:
    """Chunks, and seconds between them; then the end of the stream, or the connection is lost for a reason."""

    async def script() -> Chunks:
        for step in steps:
            if isinstance(step, float | int):
                await asyncio.sleep(step)
            else:
                yield step
        if end is not None:
            raise Lost(end)

    return Answer(200, script)


class World:
    """The cluster: transport and discovery in one. `faults`: by path, what the next requests get instead."""

    def __init__(self, *served: Served, streams: bool = False) -> None:
        self.kinds = list(served or (CMS, SECRETS, NAMESPACES, DEPLOYMENTS))
        self.streams = streams
        self.rv = 100
        self.faults: dict[str, deque[Answer | Exception]] = defaultdict(deque)
        self.asked: list[tuple[float, str, dict[str, str]]] = []
        self.failing: dict[str, str] = {}
        self.renewed = 0
        self.namespaces = {"shop"}
        self._objects: dict[str, dict[tuple[str, str], dict]] = defaultdict(dict)
        self._queues: dict[str, list[asyncio.Queue[bytes | None]]] = defaultdict(list)
        self._past: dict[str, list[tuple[int, bytes]]] = defaultdict(list)

    # -- what happens in the cluster

    def put(self, served: Served, name: str, namespace: str | None = "shop", **content: object) -> None:
        self.rv += 1
        path, key = f"/{served.root}/{served.resource.resource}", (namespace or "", name)
        was = self._objects[path].get(key)
        meta = {"name": name, "uid": f"uid-{name}-{self.rv}", "resourceVersion": str(self.rv)}
        if namespace:
            meta["namespace"] = namespace
        if was is not None:
            meta["uid"] = was["metadata"]["uid"]
        body = {"apiVersion": served.resource.api_version, "kind": served.resource.kind, "metadata": meta, **content}
        self._objects[path][key] = body
        self._say(path, event("ADDED" if was is None else "MODIFIED", body))

    def drop(self, served: Served, name: str, namespace: str | None = "shop") -> None:
        self.rv += 1
        path = f"/{served.root}/{served.resource.resource}"
        body = self._objects[path].pop((namespace or "", name))
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.rv)}}
        self._say(path, event("DELETED", body))

    def serve(self, served: Served, *, instead_of: Served) -> None:
        """The same objects, in another version of their resource."""
        self.kinds[self.kinds.index(instead_of)] = served
        old = self._objects.pop(f"/{instead_of.root}/{instead_of.resource.resource}")
        self._objects[f"/{served.root}/{served.resource.resource}"] = {
            key: {**body, "apiVersion": served.resource.api_version} for key, body in old.items()
        }
        self.close_watches(instead_of)

    def close_watches(self, served: Served) -> None:
        for queue in self._queues[f"/{served.root}/{served.resource.resource}"]:
            queue.put_nowait(None)

    def _say(self, path: str, line: bytes) -> None:
        self._past[path].append((self.rv, line))
        for queue in self._queues[path]:
            queue.put_nowait(line)

    # -- transport

    async def request(self, path: str, params: Mapping[str, str], accept: str, *, patience: float) -> Answer:
        await asyncio.sleep(0.001)
        self.asked.append((asyncio.get_running_loop().time(), path, dict(params)))
        if self.faults[path]:
            fault = self.faults[path].popleft()
            if isinstance(fault, Exception):
                raise fault
            return fault
        if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
            name = path.rpartition("/")[2]
            return answer(200, {"metadata": {"name": name}}) if name in self.namespaces else refusal(404)
        whole, namespace = _place(path)
        if not any(f"/{one.root}/{one.resource.resource}" == whole for one in self.kinds):
            return refusal(404, "NotFound", "the server could not find the requested resource")
        found = [
            body
            for (within, name), body in sorted(self._objects[whole].items())
            if namespace in (None, within) and _meets(params.get("fieldSelector", ""), body, name)
        ]
        if params.get("watch") != "true":
            body = {"kind": "List", "metadata": {"resourceVersion": str(self.rv)}, "items": found}
            return answer(200, body)
        if params.get("sendInitialEvents") == "true":
            if not self.streams:
                return refusal(422, "Invalid", "sendInitialEvents: Forbidden")
            first = [event("ADDED", body) for body in found] + [bookmark(str(self.rv), end=True)]
            return Answer(200, lambda: self._watch(whole, first, float(params["timeoutSeconds"])))
        since = int(params.get("resourceVersion") or self.rv)
        first = [line for rv, line in self._past[whole] if rv > since]
        return Answer(200, lambda: self._watch(whole, first, float(params["timeoutSeconds"])))

    async def _watch(self, path: str, first: list[bytes], timeout: float) -> Chunks:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queues[path].append(queue)
        until = loop.time() + timeout
        try:
            for line in first:
                yield line + b"\n"
            while (left := until - loop.time()) > 0:
                try:
                    line = await asyncio.wait_for(queue.get(), min(60.0, left))
                except TimeoutError:
                    line = bookmark(str(self.rv))
                if line is None:
                    return
                yield line + b"\n"
        finally:
            self._queues[path].remove(queue)

    async def renew(self) -> None:
        self.renewed += 1

    async def close(self) -> None:
        pass

    # -- discovery

    async def all(self) -> Found:
        return Found(tuple(self.kinds), dict(self.failing))

    async def scan(self, group: str) -> Found:
        served = tuple(one for one in self.kinds if (one.resource.group or "core") == group)
        return Found(served, {name: why for name, why in self.failing.items() if name == group})

    async def serves(self, served: Served) -> Served | None:
        return next((one for one in self.kinds if one.name == served.name), None)


class Run:
    """A recorder of a world, and what a reflector makes of its lines."""

    def __init__(self, world: World, selection: Selection | None = None, *, seed: int = 1) -> None:
        loop = asyncio.get_running_loop()
        clock = Clock(lambda: T0 + round(loop.time() * 1_000_000))
        selection = selection or Selection(kinds=("ConfigMap", "Deployment"))
        self.recorder = Recorder(world, world, selection, clock, random.Random(seed), {})
        self.items: list[Item] = []
        self.records: list[Record] = []
        self._reflector = Reflector("lab", Redactor(b"k" * 32), "e")
        self._clock = clock
        self._taking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Run:
        await self.recorder.start()
        self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hold()
        await self.recorder.stop()

    def take(self) -> None:
        """Lines are taken from now on."""
        self._taking = asyncio.create_task(self._take())

    def hold(self) -> None:
        """No lines are taken from now on."""
        assert self._taking is not None
        self._taking.cancel()

    async def _take(self) -> None:
        while True:
            items = await self.recorder.take(100, 1_000_000)
            for item in items:
                self.items.append(item)
                if isinstance(item.line, Line):
                    self.records += self._reflector.feed(item.line)
                else:
                    self.records += self._reflector.miss(item.line, self._clock.instant())
            await self.recorder.inbox.done(items)

    async def until(self, met: Callable[[], bool], seconds: float = 600.0) -> None:
        for _ in range(round(seconds * 20)):
            if met():
                return
            await asyncio.sleep(0.05)
        raise AssertionError("it did not happen in time")

    async def listed(self) -> None:
        await self.until(lambda: all(one.state == "watching" for one in self.recorder.vitals()))

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [(one.op, one.object.name) for one in self.records if isinstance(one, Change)]

    def coverage(self, resource: str) -> list[tuple[str, str | None]]:
        return [(o.state, o.reason) for o in self.records if isinstance(o, Coverage) and o.group_resource == resource]


def lived(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test that is a coroutine, in a loop that jumps over waits."""

    def wrapped() -> None:
        run(test())  # type: ignore[arg-type]

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


def _place(path: str) -> tuple[str, str | None]:
    head, found, rest = path.partition("/namespaces/")
    if not found:
        return path, None
    namespace, _, resource = rest.partition("/")
    return f"{head}/{resource}", namespace


def _meets(selector: str, body: dict, name: str) -> bool:
    for term in filter(None, selector.split(",")):
        field, unequal, value = term.partition("!=")
        if not unequal:
            field, _, value = term.partition("=")
        found = {"metadata.name": name, "metadata.namespace": body["metadata"].get("namespace", "")}.get(
            field, body.get(field, "")
        )
        if (found == value) == bool(unequal):
            return False
    return True

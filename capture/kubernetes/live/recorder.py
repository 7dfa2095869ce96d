"""All watches of one cluster: begun as discovery finds resources, kept alive, their lines handed out in order.

A resource that comes later (a CRD, an aggregated API) is found when its announcement passes by, or by a look at all of
them every few minutes. What lines mean, and where they go, is left to whoever takes them.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Protocol

from capture.kubernetes.live.clock import Clock
from capture.kubernetes.live.course import PATIENCE, Course
from capture.kubernetes.live.discovery import Found
from capture.kubernetes.live.follow import Follower
from capture.kubernetes.live.inbox import Inbox, Item
from capture.kubernetes.live.parts import Part, Selection, Served
from capture.kubernetes.live.transport import Lost, Transport
from capture.kubernetes.live.vitals import Vitals
from capture.kubernetes.recording import BadLine, Line
from schema.canonical import Json

LISTING = 6
"""How many parts list at once: a server and a recorder that start together should both survive it."""

AGAIN = 600.0
"""Seconds between looks at all that the server serves."""

_AFTER_NEWS = (1.0, 5.0, 30.0)
"""Seconds after the news of a CRD or an aggregated API at which its group is looked at: it takes a moment to be served.
"""

_FAILING = 30.0
_REVIVE = 5.0
_ANNOUNCE = frozenset({"customresourcedefinitions", "apiservices"})

_log = logging.getLogger("hindgraph.record")


class Discovery(Protocol):
    """What a server serves. All raise Lost."""

    async def all(self) -> Found: ...
    async def scan(self, group: str) -> Found: ...
    async def serves(self, served: Served) -> Served | None: ...


@dataclass(slots=True)
class _Watcher:
    follower: Follower
    task: asyncio.Task[None]


class Recorder:
    """`versions`: by part, how far an earlier run saw it."""

    def __init__(
        self,
        transport: Transport,
        discovery: Discovery,
        selection: Selection,
        clock: Clock,
        rng: random.Random,
        versions: Mapping[str, str | None],
    ) -> None:
        self.inbox = Inbox()
        self.served: list[Served] = []
        self.failing: dict[str, str] = {}
        self.rescans = 0
        self._transport = transport
        self._discovery = discovery
        self._selection = selection
        self._clock = clock
        self._rng = rng
        self._versions = dict(versions)
        self._slots = asyncio.Semaphore(LISTING)
        self._watchers: dict[str, _Watcher] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._news: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Find what is served and begin to watch it. Raises Lost where the server does not answer."""
        self._found(await self._discovery.all(), None)
        self._do(self._look_again())
        self._do(self._watch_over())

    async def stop(self) -> None:
        """Watch nothing any more. What was read stays in the inbox."""
        tasks = [*self._chores, *self._news.values(), *(one.task for one in self._watchers.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def take(self, lines: int, size: int) -> list[Item]:
        """The next lines, as soon as there are any; `inbox.done` makes room for others."""
        items = await self.inbox.take(lines, size)
        for item in items:
            self._notice(item.line)
        return items

    def vitals(self) -> list[Vitals]:
        return [one.follower.vitals for _, one in sorted(self._watchers.items())]

    def parts(self) -> list[Part]:
        return [one.follower.course.part for _, one in sorted(self._watchers.items())]

    # -- finding

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(_FAILING if self.failing else AGAIN * (0.9 + 0.2 * self._rng.random()))
            await self._scan(None)

    async def _scan(self, group: str | None) -> None:
        self.rescans += 1
        try:
            found = await (self._discovery.all() if group is None else self._discovery.scan(group))
        except Lost as error:
            _log.warning("cannot look at what %s serves: %s", group or "the server", error.reason)
            return
        self._found(found, group)

    def _found(self, found: Found, group: str | None) -> None:
        """Begin what is new. What is served no longer is found by its own watch."""
        self.served = [*(one for one in self.served if group not in (None, _group(one))), *found.served]
        for served in found.served:
            if self._selection.wants(served):
                for part in self._selection.parts(served):
                    self._begin(part)
        self._tell_failing(found.failing, group)

    def _begin(self, part: Part) -> None:
        if part.name in self._watchers:
            return
        course = Course(part, self._rng, floor=self._versions.get(part.name))
        follower = Follower(course, self._transport, self, self.inbox, self._clock, self._slots)
        self._watchers[part.name] = _Watcher(follower, asyncio.create_task(self._keep(follower), name=part.name))

    def _tell_failing(self, failing: Mapping[str, str], group: str | None) -> None:
        """Groups of which nobody can say what is in them are a gap of whatever it is."""
        t = self._clock.instant()
        for name in sorted(self.failing.keys() - failing.keys()):
            if group in (None, name):
                del self.failing[name]
                self.inbox.push(Item(f"{name}/*", Line(0, t, f"{name}/any/*", "LIST"), 0))
        for name, reason in sorted(failing.items()):
            if name not in self.failing:
                _log.warning("the API group %s cannot be looked at: %s", name, reason)
                self.inbox.push(Item(f"{name}/*", Line(0, t, f"{name}/any/*", "GAP", reason=reason), 0))
            self.failing[name] = reason

    def _notice(self, line: Line | BadLine) -> None:
        """News of what is served, and of namespaces that are there again."""
        if isinstance(line, BadLine):
            return
        resource = line.resource.rpartition("/")[2]
        if resource in _ANNOUNCE and line.type in ("ADDED", "MODIFIED", "DELETED"):
            group = _group_of(line.object)
            if group is not None:
                self._look_soon(group)
        elif line.resource == "v1/namespaces":
            for name in filter(None, map(_name_of, [line.object, *line.items])):
                self._nudge(name)

    def _look_soon(self, group: str) -> None:
        if group in self._news:
            self._news[group].cancel()
        self._news[group] = asyncio.create_task(self._look_at(group))

    async def _look_at(self, group: str) -> None:
        waited = 0.0
        for seconds in _AFTER_NEWS:
            await asyncio.sleep(seconds - waited)
            waited = seconds
            await self._scan(group)
        self._news.pop(group, None)

    def _nudge(self, namespace: str) -> None:
        for one in self._watchers.values():
            if one.follower.course.part.namespace == namespace and one.follower.course.state == "removed":
                one.follower.nudge()

    # -- asked by followers

    async def serves(self, served: Served) -> Served | None:
        """The resource as the server has it now. Raises Lost."""
        return await self._discovery.serves(served)

    async def has_namespace(self, name: str) -> bool:
        """Raises Lost where the server does not say."""
        path = f"/api/v1/namespaces/{name}"
        response = await self._transport.request(path, {}, "application/json", patience=PATIENCE)
        await response.close()
        if response.status not in (200, 404):
            raise Lost(f"{path}: {response.status}")
        return response.status == 200

    # -- keeping alive

    async def _keep(self, follower: Follower) -> None:
        """Follow one part until its resource is gone. An error of ours costs that watch a moment, and no other any."""
        name = follower.course.part.name
        while True:
            try:
                await follower.run()
            except Exception as error:  # Whatever it is, the watch has to go on, and people have to know.
                _log.error("the watch of %s failed and starts again: %s", name, _where(error))
                follower.vitals.crashes += 1
                await follower.crashed(type(error).__name__)
                await asyncio.sleep(_REVIVE)
                continue
            del self._watchers[name]
            self._look_soon(_group(follower.course.part.served))
            return

    async def _watch_over(self) -> None:
        """A watch that does not do what it promised is begun anew."""
        while True:
            await asyncio.sleep(_REVIVE)
            for name, one in list(self._watchers.items()):
                if one.follower.vitals.is_zombie(self._clock.steady):
                    _log.error("the watch of %s hangs and is begun anew", name)
                    one.task.cancel()
                    one.follower.vitals.crashes += 1
                    await one.follower.crashed("the watch hung")
                    one.task = asyncio.create_task(self._keep(one.follower), name=name)

    def _do(self, chore: Coroutine[None, None, None]) -> None:
        self._chores.add(asyncio.create_task(chore))


def _group(served: Served) -> str:
    return served.resource.group or "core"


def _group_of(body: Mapping[str, Json] | None) -> str | None:
    spec = body.get("spec") if body is not None else None
    group = spec.get("group") if isinstance(spec, dict) else None
    return group if isinstance(group, str) and group else None


def _name_of(body: Json) -> str | None:
    meta = body.get("metadata") if isinstance(body, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    return name if isinstance(name, str) else None


def _where(error: BaseException) -> str:
    """What failed and where. Not what the error says: it may quote what it stumbled over."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return type(error).__name__
    file = frame.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f"{type(error).__name__} in line {frame.tb_lineno} of {file}"

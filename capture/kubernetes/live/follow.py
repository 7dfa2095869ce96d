"""One part followed for ever: the requests that its course asks for, their answers read, time kept.

What to do next, and what an answer means, is the course's to say; the lines it gives go to the inbox. Where the inbox
has no room nothing is read, and lines that may be late for it are told to be.
"""

from __future__ import annotations

import asyncio
import email.utils
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Protocol

from capture.kubernetes.live.clock import Clock
from capture.kubernetes.live.course import PATIENCE, SILENCE, Ask, Confirm, Course, Told, Wait
from capture.kubernetes.live.inbox import Inbox, Item
from capture.kubernetes.live.parts import Served
from capture.kubernetes.live.splitter import Splitter
from capture.kubernetes.live.transport import Lost, Response, Transport
from capture.kubernetes.live.vitals import Vitals
from capture.kubernetes.recording import BadLine

SETTLE = 5.0
"""Seconds that a watch has to be open until it counts as going on though it said nothing."""

DRAINED = 0.05
"""A read that had to wait so many seconds found nothing that was held back."""

BEHIND = 2.0
"""Seconds that lines may be held back, in one go or several, until they are told to be late."""


class Cluster(Protocol):
    """What a watch that is refused has to know. Both raise Lost where it cannot be told."""

    async def serves(self, served: Served) -> Served | None:
        """The resource as the server has it now, perhaps in another version."""
        ...

    async def has_namespace(self, name: str) -> bool:
        """Whether there is such a namespace."""
        ...


class Follower:
    """Of one part; `run` ends when the resource is gone, or served in another version only. `slots`: how many may list
    at once."""

    def __init__(
        self,
        course: Course,
        transport: Transport,
        cluster: Cluster,
        inbox: Inbox,
        clock: Clock,
        slots: asyncio.Semaphore,
    ) -> None:
        self.course = course
        self.vitals = Vitals(course.part.name)
        self._transport = transport
        self._cluster = cluster
        self._inbox = inbox
        self._clock = clock
        self._slots = slots
        self._nudged = asyncio.Event()
        self._behind: float | None = None
        self._unsaid = 0
        self._lists = False

    async def run(self) -> None:
        """List, watch, recover, until cancelled or the resource is not served any more as it was."""
        try:
            while True:
                step = self.course.ask(self._clock.steady)
                self.vitals.state = self.course.state
                if isinstance(step, Wait):
                    await self._rest(step.seconds)
                elif isinstance(step, Ask):
                    await self._request(step)
                elif isinstance(step, Confirm) and not await self._is_served():
                    return
        finally:
            self.vitals.state = "stopped"

    def nudge(self) -> None:
        """Do not wait any longer to try again."""
        self.course.nudge()
        self._nudged.set()

    async def crashed(self, reason: str) -> None:
        """Its task ended by an error, or did not go on: the watch is lost until it is begun anew."""
        await self._tell(self.course.lost(self._clock.steady, self._clock.instant(), reason))

    async def _rest(self, seconds: float) -> None:
        self._promise(seconds)
        self._nudged.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._nudged.wait(), seconds)

    async def _is_served(self) -> bool:
        self._promise(PATIENCE)
        was = self.course.part.served
        try:
            now = await self._cluster.serves(was)
        except Lost:
            now = was
        if now is None:
            await self._tell(self.course.removed(self._clock.instant()))
        else:
            await self._tell(self.course.still_there(self._clock.steady, self._clock.instant()))
        return now == was

    async def _request(self, ask: Ask) -> None:
        if ask.kind == "watch":
            await self._ask(ask)
            return
        self.vitals.due = None  # As long as others list.
        await self._slots.acquire()
        self._lists = True
        try:
            await self._ask(ask)
        finally:
            self._let_others_list()

    def _let_others_list(self) -> None:
        if self._lists:
            self._lists = False
            self._slots.release()

    async def _ask(self, ask: Ask) -> None:
        try:
            response = await self._answer(ask)
            if response.status == 401:
                # Perhaps the token was replaced. Who is refused with the new one as well is refused.
                await response.close()
                await self._transport.renew()
                response = await self._answer(ask)
            try:
                await self._read(ask, response)
            finally:
                await response.close()
        except Lost as error:
            self.vitals.losses += 1
            await self._tell(self.course.lost(self._clock.steady, self._clock.instant(), error.reason))

    async def _answer(self, ask: Ask) -> Response:
        self._promise(PATIENCE)
        self.vitals.connections += 1
        response = await self._transport.request(ask.path, ask.params, ask.accept, patience=PATIENCE)
        with suppress(ValueError):
            told = email.utils.parsedate_to_datetime(response.headers.get("date", ""))
            # Told in whole seconds: half a second either way is none.
            self.vitals.skew = told.timestamp() + 0.5 - self._clock.instant() / 1e6
        return response

    async def _read(self, ask: Ask, response: Response) -> None:
        self._promise(PATIENCE * 5)
        part = self.course.part
        if response.status != 200:
            raw = await response.read()
            gone = part.namespace is not None and response.status in (403, 404) and await self._is_gone(part.namespace)
            await self._tell(
                self.course.refused(
                    response.status,
                    raw,
                    self._clock.steady,
                    self._clock.instant(),
                    retry_after=_seconds(response.headers.get("retry-after", "")),
                    namespace_gone=gone,
                )
            )
        elif ask.kind == "list":
            raw = await response.read()
            self._count(len(raw))
            await self._tell(self.course.page(raw, self._clock.steady, self._clock.instant()))
            self.vitals.lists = self.course.lists
        else:
            await self._watch(response)

    async def _is_gone(self, namespace: str) -> bool:
        try:
            return not await self._cluster.has_namespace(namespace)
        except Lost:
            return False

    async def _watch(self, response: Response) -> None:
        """One stream of lines, to its end."""
        chunks, splitter = response.chunks(), Splitter()
        opened = self._clock.steady
        settled = False
        while not self.course.is_over():
            asked = self._clock.steady
            reading = asyncio.ensure_future(_next(chunks))
            try:
                while not reading.done():
                    silent = asked + SILENCE - self._clock.steady
                    if silent <= 0:
                        raise Lost(f"silent for {SILENCE:.0f} s")
                    self._promise(silent)
                    wait = silent if settled else min(silent, max(0.0, opened + SETTLE - self._clock.steady))
                    await asyncio.wait({reading}, timeout=wait)
                    if not settled and self._clock.steady >= opened + SETTLE:
                        settled = True
                        await self._tell(self.course.settled(self._clock.instant()))
                chunk = reading.result()
            finally:
                reading.cancel()
            now, t = self._clock.steady, self._clock.instant()
            if now - asked >= DRAINED:
                self._behind, self.vitals.lag = None, 0.0
            if chunk is None:
                await self._tell(self.course.closed(now, t, within=splitter.held > 0))
                return
            for raw in splitter.feed(chunk):
                self._count(len(raw) if raw is not None else 0)
                self.vitals.oversize += raw is None
                await self._tell(self.course.heard(raw, now, t))
                if self.course.is_over():
                    return
            if self.course.lists > self.vitals.lists:
                self.vitals.lists = self.course.lists
                self._let_others_list()  # What is left of this stream is a watch.
            await self._admit()

    async def _admit(self) -> None:
        """Say so where what is read now waited for the log before."""
        if self._behind is None:
            return
        self.vitals.lag = self._clock.steady - self._behind
        if self.vitals.lag >= BEHIND:
            told = self.course.behind(self._clock.instant())
            self.vitals.losses += bool(told)
            self._behind = self._clock.steady
            await self._tell(told)

    async def _tell(self, told: Told) -> None:
        self.vitals.state = self.course.state
        for line in told:
            self.vitals.bad += isinstance(line, BadLine)
            item = Item(self.course.part.name, line, self._unsaid)
            self._unsaid = 0
            if self._inbox.has_room(item.part):
                self._inbox.push(item)
                continue
            since = self._clock.steady
            if self._behind is None:
                self._behind = since
            self.vitals.due = None  # Until whoever takes the lines takes some.
            await self._inbox.put(item)
            self.vitals.held += self._clock.steady - since

    def _count(self, size: int) -> None:
        self.vitals.heard = self._clock.steady
        self.vitals.lines += 1
        self.vitals.bytes += size
        self._unsaid += size

    def _promise(self, seconds: float) -> None:
        self.vitals.due = self._clock.steady + seconds


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


def _seconds(text: str) -> float:
    """A Retry-After in seconds; as a date it is not in use here."""
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0

"""A TCP relay that breaks connections: cut in the middle of what the server sends, or silent for a while.

It forwards bytes and knows nothing of TLS or HTTP, so what breaks is what a network would break. It listens on a free
port of this machine from `with` to the end of it, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

_CHUNK = 65_536
_PATIENCE = 0.2
"""Seconds that a cut waits for bytes to cut; an idle connection is cut where it is."""


class Relay:
    """Forwards to `address`; `port` is its own."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.port = 0
        self.cuts = 0
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self, rng: random.Random, share: float = 1.0) -> int:
        """Break about this share of the open connections, one at least if there is one; how many.

        Some are reset, some closed as if all had been said.
        """
        return self._run(self._cut(rng, share))

    def stall(self, seconds: float) -> None:
        """Forward nothing for a while; whatever is sent meanwhile arrives late. Returns at once."""
        self._loop.call_soon_threadsafe(self._stall, seconds)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection(*self._address)
        except OSError:
            writer.transport.abort()
            return
        link = _Link((reader, writer), upstream)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)

    async def _cut(self, rng: random.Random, share: float) -> int:
        chosen = [link for link in self._links if rng.random() < share]
        if not chosen and self._links:
            chosen = [rng.choice(list(self._links))]
        await asyncio.gather(*(link.cut(rng.random(), reset=rng.random() < 0.5) for link in chosen))
        self.cuts += len(chosen)
        return len(chosen)

    def _stall(self, seconds: float) -> None:
        for link in self._links:
            link.flowing.clear()
            self._loop.call_later(seconds, link.flowing.set)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in list(self._links):
            link.abort()
        while self._links:
            await asyncio.sleep(0.01)


_Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Link:
    """One connection of a client, and ours to the server for it."""

    def __init__(self, client: _Pair, server: _Pair) -> None:
        self._client, self._server = client, server
        self._cut_at: float | None = None
        self._reset = True
        self._gone = asyncio.Event()
        self.flowing = asyncio.Event()
        self.flowing.set()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._forward(self._client[0], self._server[1], cut=False))
                tasks.create_task(self._forward(self._server[0], self._client[1], cut=True))
        finally:
            self.abort()
            self._gone.set()

    async def cut(self, at: float, *, reset: bool) -> None:
        """Let this share of the next bytes pass, then no more."""
        self._cut_at, self._reset = at, reset
        try:
            await asyncio.wait_for(self._gone.wait(), _PATIENCE)
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        for _, writer in (self._client, self._server):
            raw: socket.socket | None = writer.get_extra_info("socket")
            if self._reset and raw is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, cut: bool) -> None:
        try:
            while data := await reader.read(_CHUNK):
                await self.flowing.wait()
                if cut and self._cut_at is not None:
                    writer.write(data[: int(self._cut_at * len(data))])
                    await writer.drain()
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        self.abort()

"""A server of raw sockets that breaks off, stalls and lies where it is told to, and certificates for it.

What it does with a connection is a function of the test. Nothing of HTTP is done for it: everything can be wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from capture.kubernetes.live.access import open_access
from capture.kubernetes.live.transport import HttpTransport

SERVER = "hindgraph-test.example"
"""What the certificates are made out to."""


class Wire:
    """One connection as the server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.line = ""
        self.headers: dict[str, str] = {}

    async def asked(self) -> bool:
        """Read the next request; False when there is none any more."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError):
            return False
        self.line, *rest = head.decode().rstrip().split("\r\n")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        return True

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def begin(self, status: int = 200, **headers: str) -> None:
        """The head of an answer in chunks."""
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await self.send(f"HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\n{more}\r\n".encode())

    async def chunk(self, data: bytes) -> None:
        """One chunk; an empty one ends the answer."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        await self.begin(status, **headers)
        if body:
            await self.chunk(body)
        await self.chunk(b"")

    def reset(self) -> None:
        raw: socket.socket = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Behaviour = Callable[[Wire], Awaitable[None]]


@asynccontextmanager
async def serving(behave: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on this port does so with each request, until the connection or the test ends."""
    open_: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_[asyncio.create_task(serve(Wire(reader, writer)))] = writer

    async def serve(wire: Wire) -> None:
        with contextlib.suppress(OSError):
            while await wire.asked():
                await behave(wire)
        wire.writer.transport.abort()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task, writer in open_.items():
            task.cancel()
            writer.transport.abort()
        for outcome in await asyncio.gather(*open_, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


@asynccontextmanager
async def transport(kubeconfig: Path) -> AsyncIterator[HttpTransport]:
    """By a kubeconfig."""
    found = HttpTransport(await open_access(kubeconfig))
    try:
        yield found
    finally:
        await found.close()


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that awaits, within half a minute."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 30))

    return run


def kubeconfig(
    folder: Path, server: str, *, user: dict[str, Any] | None = None, name: str = "lab", **cluster: Any
) -> Path:
    """A file with one context."""
    path = folder / f"{name}.conf"
    body = {
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": server, **cluster}}],
        "users": [{"name": name, "user": user or {}}],
    }  # fmt: skip
    path.write_text(json.dumps(body))
    return path


class Authority:
    """Signs certificates, by openssl. `ca`: its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.ca = folder / f"{name}.crt"
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt",
        )  # fmt: skip

    def signed(self, name: str, group: str = "nobody") -> tuple[Path, Path]:
        """Certificate and key, for a server of that name, or for a client of that group."""
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/O={group}/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
            "-CA", f"{self._name}.crt", "-CAkey", f"{self._name}.key", "-keyout", f"{name}.key", "-out", f"{name}.crt",
        )  # fmt: skip
        return self._folder / f"{name}.crt", self._folder / f"{name}.key"

    def serve(self, name: str = SERVER, *, clients: bool = False) -> ssl.SSLContext:
        """What a server needs; `clients`: they must have a certificate of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.signed(name))
        if clients:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _openssl(self, *args: str) -> None:
        subprocess.run(["openssl", *args], cwd=self._folder, check=True, capture_output=True)

"""Requests to an API server and what comes back, byte by byte: a protocol, so that faults can be replayed, and HTTP/1.1
by aiohttp.

Everything a network can do to a request is one error, Lost, with its reason. When to ask, again or not, what the bytes
say, and for how long a watch may be silent is left to whoever asks. Nothing is read ahead but a small buffer: who does
not read makes the server wait.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from typing import Protocol

import aiohttp

from capture.kubernetes.live.access import Access
from schema.errors import BadKubeconfig

CAP = 256 * 1024 * 1024
"""Longest answer that is read whole, in bytes, unpacked. A list in pages has a few MB."""

_BUFFER = 64 * 1024  # Bytes that are held of an answer before its connection is no longer read; twice that at most.


class Lost(Exception):
    """There is no answer, or no more of it: `reason` in a few words, without anything secret; `hint`: what to do."""

    def __init__(self, reason: str, *, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class Untrusted(Lost):
    """The server cannot prove to be who it should be. Waiting seldom helps."""


class TooLong(Lost):
    """The answer is longer than CAP."""


class Response(Protocol):
    """The beginning of an answer, and a way to the rest. To be closed, whatever happened."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises Lost. A wait for the next one may be given up, and taken up again."""

    async def read(self) -> bytes:
        """The rest of the body. Raises Lost, TooLong."""

    async def close(self) -> None:
        """Ends the connection, unless all was read."""


class Transport(Protocol):
    async def request(self, path: str, params: Mapping[str, str], accept: str, *, patience: float) -> Response:
        """GET. `path` begins with a slash, `accept` is a list of media types, `patience` the seconds within which the
        answer must begin. Any status is an answer, redirections too: nobody is sent elsewhere. Raises Lost, Untrusted.
        """

    async def renew(self) -> None:
        """Other credentials, after a 401. Raises Lost if there are none."""

    async def close(self) -> None: ...


class HttpTransport:
    """One API server, over connections of which each watch holds its own. Made and used in one event loop."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session = aiohttp.ClientSession(
            # As many connections as there are watches; how many that are is the selection's.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
            timeout=aiohttp.ClientTimeout(total=None),
            headers={"User-Agent": f"hindgraph/{version('hindgraph')}"},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_BUFFER,
        )

    async def request(self, path: str, params: Mapping[str, str], accept: str, *, patience: float) -> Response:
        try:
            async with asyncio.timeout(patience):
                headers = await self._access.headers()
                # What packs a watch holds lines back until it has enough of them.
                packed = "identity" if params.get("watch") == "true" else "gzip"
                answer = await self._session.get(
                    self._access.host + path,
                    params=params,
                    headers={**headers, "Accept": accept, "Accept-Encoding": packed},
                    ssl=self._access.tls or True,
                    server_hostname=self._access.server_name,
                    proxy=self._access.proxy,
                    allow_redirects=False,
                )
        except TimeoutError:
            raise Lost(f"no answer within {patience:g} s") from None
        except BadKubeconfig as error:
            raise Lost(error.message, hint=error.hint) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _lost(error, self._access) from None
        return _HttpResponse(answer, self._access)

    async def renew(self) -> None:
        try:
            await self._access.renew()
        except BadKubeconfig as error:
            raise Lost(error.message, hint=error.hint) from None

    async def close(self) -> None:
        await self._session.close()


class _HttpResponse:
    def __init__(self, answer: aiohttp.ClientResponse, access: Access) -> None:
        self._answer = answer
        self._access = access
        self.status = answer.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in answer.headers.items()}

    def chunks(self) -> AsyncIterator[bytes]:
        return _Chunks(self._answer, self._access)

    async def read(self) -> bytes:
        pieces: list[bytes] = []
        length = 0
        async for chunk in self.chunks():
            length += len(chunk)
            if length > CAP:
                self._answer.close()
                raise TooLong(f"the answer is longer than {CAP >> 20} MiB")
            pieces.append(chunk)
        return b"".join(pieces)

    async def close(self) -> None:
        self._answer.close()


class _Chunks:
    """No generator: one of those ends when a wait for its next is given up."""

    def __init__(self, answer: aiohttp.ClientResponse, access: Access) -> None:
        self._answer = answer
        self._access = access

    def __aiter__(self) -> _Chunks:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._answer.content.readany()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._answer.close()
            raise _lost(error, self._access) from None
        if not chunk:
            raise StopAsyncIteration
        return chunk


_UNTRUSTED = {
    10: "the certificate has expired: renew it on the server, or is this machine's clock wrong?",
    62: "set tls-server-name of the cluster to a name the certificate is made out to, or reach it under one",
    64: "set tls-server-name of the cluster to a name the certificate is made out to, or reach it under one",
}
_NOT_SIGNED = (
    "set certificate-authority of the cluster to who signed the server's certificate; write the kubeconfig anew"
)


def _lost(error: Exception, access: Access) -> Lost:
    """In our words: those of the libraries quote addresses, and may quote what a proxy's address holds."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = error.certificate_error
        code, said = getattr(why, "verify_code", 0), getattr(why, "verify_message", "") or "it does not verify"
        return Untrusted(
            f"the certificate of {access.host} is not trusted: {said}", hint=_UNTRUSTED.get(code, _NOT_SIGNED)
        )
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Lost(f"the name in {access.host} is not known", hint="is it right, and is there a network?")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Lost(f"the proxy answered {error.status}")
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return Lost("the server closed the connection")
    if isinstance(error, aiohttp.ClientPayloadError):
        return Lost("the connection ended within the answer")
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    where = "the proxy: " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
    if isinstance(cause, ssl.SSLError):
        return Lost(f"{where}TLS: {(cause.reason or 'failed').replace('_', ' ').lower()}")
    if isinstance(cause, OSError) and cause.errno:
        return Lost(where + os.strerror(cause.errno).lower())
    return Lost(f"{where}{type(error).__name__}")

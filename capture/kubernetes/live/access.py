"""How to reach an API server, kept fresh: headers that authenticate and what TLS needs, as of now.

Tokens and certificates in files are read again each minute, exec plugins run again before what they gave ends, and all
of it, the kubeconfig too, when the server says 401. What blocks runs aside, so that no watch waits for a plugin. Which
server and which user is decided once: a kubeconfig whose current context is changed meanwhile leads nobody elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from capture.kubernetes.live.kubeconfig import Login, find, from_files, from_pod
from capture.kubernetes.live.plugin import Issued
from schema.errors import BadKubeconfig

REREAD = 60.0
"""Seconds after which files are read again. A pod's token is replaced some ten minutes before it ends."""

AGAIN = 5.0
"""Seconds between two attempts to renew, however many ask."""

PLUGIN = 60.0
"""Seconds within which an exec plugin must have answered. It is not ended then: who asks next waits for that run."""

_MARGIN = 60.0  # Seconds before its end that what a plugin gave is renewed, or a fifth of its life.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Held:
    """What is in use. `files`: of what the TLS context was made. `due`: when to look again, of the steady clock."""

    headers: dict[str, str] = field(repr=False)
    files: tuple[bytes | None, ...] = field(repr=False)
    tls: ssl.SSLContext | None
    issued: Issued | None
    due: float

    @property
    def is_over(self) -> bool:
        return self.issued is not None and self.issued.expires is not None and self.issued.expires <= time.time()


class Access:
    """Of one cluster, made by `open_access`."""

    def __init__(self, login: Login, held: _Held) -> None:
        self._login = login
        self._held = held
        self._making: asyncio.Future[tuple[Login, _Held]] | None = None
        self._renewed: float | None = None

    def __repr__(self) -> str:
        return f"Access({self.context!r}, {self.host!r})"

    @property
    def context(self) -> str:
        """As the kubeconfig calls it; `in-cluster` in a pod."""
        return self._login.context

    @property
    def cluster(self) -> str:
        return self._login.cluster

    @property
    def host(self) -> str:
        """`https://10.0.0.1:6443`, with a path if there is one, without a slash at the end."""
        return self._login.host

    @property
    def server_name(self) -> str | None:
        """What the server's certificate is made out to, where that is not the name in `host`."""
        return self._login.server_name

    @property
    def proxy(self) -> str | None:
        """May hold a password."""
        return self._login.proxy

    @property
    def tls(self) -> ssl.SSLContext | None:
        """As of the last `headers`; another one when a certificate changed. None: the host is plain http."""
        return self._held.tls

    async def headers(self) -> dict[str, str]:
        """What authenticates a request that is made now. Raises BadKubeconfig when there is nothing that still does."""
        if time.monotonic() >= self._held.due:
            try:
                await self._make(anew=False)
            except BadKubeconfig:
                if self._held.is_over:
                    raise
                self._held = replace(self._held, due=time.monotonic() + AGAIN)
        return dict(self._held.headers)

    async def renew(self) -> None:
        """The server does not take what we have: read and run everything again. Raises BadKubeconfig."""
        if self._renewed is None or time.monotonic() >= self._renewed + AGAIN:
            await self._make(anew=True)
            self._renewed = time.monotonic()

    async def _make(self, *, anew: bool) -> None:
        if self._making is None or self._making.done():
            self._making = _aside(partial(_made, self._login, self._held, anew=anew))
        # Not awaited as it is: whoever is cancelled while waiting would take it from the others.
        done, _ = await asyncio.wait({self._making}, timeout=PLUGIN)
        if not done:
            raise BadKubeconfig(
                f"credentials of user {self._login.user} have not come for {PLUGIN:.0f} s",
                hint="does the exec plugin wait for somebody, or a file system for its server?",
            )
        self._login, self._held = self._making.result()


async def open_access(path: Path | None = None, context: str | None = None) -> Access:
    """By this kubeconfig and context, else where kubectl looks, else as the pod we are in. Raises BadKubeconfig."""

    def first() -> tuple[Login, _Held]:
        login = find(path, context)
        return login, _collected(login, None, anew=True)

    return Access(*await _aside(first))


def _made(login: Login, held: _Held, *, anew: bool) -> tuple[Login, _Held]:
    if anew:
        said = from_files(login.files, login.context) if login.files else from_pod()
        if (said.host, said.user) != (login.host, login.user):
            raise BadKubeconfig(
                f"context {login.context} leads to another server or user since", hint="start the recorder again"
            )
        login = said
    return login, _collected(login, held, anew=anew)


def _collected(login: Login, held: _Held | None, *, anew: bool) -> _Held:
    """Read the files, run the plugin if it is time. Blocks."""
    issued = held.issued if held is not None else None
    if login.plugin is not None and (anew or issued is None or _left(issued) <= 0):
        issued = login.plugin.run()
    token = issued.token if issued is not None else None
    if login.token is not None:
        token = _token(login.token.read(), login.token.what)
    ca, certificate, key = (
        source.read() if source is not None else None for source in (login.ca, login.certificate, login.key)
    )
    if issued is not None and issued.certificate is not None:
        certificate, key = issued.certificate, issued.key
    headers = {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    elif login.basic is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(login.basic).encode()).decode()
    files = (ca, certificate, key)
    same = held is not None and held.files == files
    tls = held.tls if same and held is not None else _tls(login, ca, certificate, key)
    wait = REREAD if issued is None else max(AGAIN, min(REREAD, _left(issued)))
    return _Held(headers, files, tls, issued, time.monotonic() + wait)


def _left(issued: Issued) -> float:
    """Seconds until it is time to ask for another; endless where it does not end."""
    if issued.expires is None:
        return float("inf")
    return issued.expires - min(_MARGIN, (issued.expires - issued.at) / 5) - time.time()


def _token(raw: bytes, what: str) -> str:
    token = raw.decode("utf-8", "replace").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise BadKubeconfig(f"{what} holds no token", hint="it is one line of letters, without spaces")
    return token


def _tls(login: Login, ca: bytes | None, certificate: bytes | None, key: bytes | None) -> ssl.SSLContext | None:
    if not login.host.startswith("https:"):
        return None
    context = ssl.create_default_context() if ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    # As Go judges: what is in the file is trusted, and may lack what newer Pythons ask of an authority.
    context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    if not login.verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif ca is not None and login.ca is not None:
        try:
            context.load_verify_locations(cadata=ca.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise BadKubeconfig(
                f"{login.ca.what} holds no certificate in PEM", hint="write the kubeconfig anew"
            ) from None
    if certificate is not None and key is not None:
        of = f"the client certificate of user {login.user}"
        try:
            _load_chain(context, certificate, key)
        except ssl.SSLError as error:
            raise BadKubeconfig(
                f"{of} cannot be used: {(error.reason or 'no PEM').replace('_', ' ').lower()}",
                hint="certificate and key must be in PEM, belong together, and the key not be encrypted",
            ) from None
        except OSError as error:
            raise BadKubeconfig(f"{of} cannot be loaded: {error.strerror}", hint="is TMPDIR writable?") from None
    return context


def _load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Python reads keys from files only: one that nobody else may read, there for as long as it takes."""
    with tempfile.TemporaryDirectory(prefix="hindgraph-") as folder:
        path = Path(folder) / "client.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate + b"\n" + key)
        context.load_cert_chain(path, password="")  # Not asked for at the terminal.


def _aside(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run what blocks in a thread that need not end before the program does: a plugin may hang."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    # Who asked may have given up; then nobody is to be told of an error.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def tell(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("T", result))

    def run() -> None:
        result: T | None = None
        failed: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody asks any more.
            loop.call_soon_threadsafe(tell, result, failed)

    threading.Thread(target=run, name="credentials", daemon=True).start()
    return future

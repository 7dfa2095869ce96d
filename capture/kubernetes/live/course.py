"""List, then watch, then go on: the state machine of one part, as client-go's reflector has it, without I/O and clock.

`ask` says what to do next, and what came of it is told back; each answer is the lines of a recording that it gives.
What the lines mean for objects is the reflector's; sending requests and keeping time is `follow`'s. The numbers in
the tests are the rows of the table of pitfalls. Sources: client-go tools/cache/reflector.go, KEP-3157, KEP-5504.
"""

from __future__ import annotations

import random
from typing import Literal, NamedTuple

from capture.kubernetes.live.backoff import SHORT, Backoff
from capture.kubernetes.live.parts import Part
from capture.kubernetes.live.status import asked_to_wait, is_expired, is_too_large, message_of, parsed
from capture.kubernetes.objects import older
from capture.kubernetes.recording import BadLine, Line
from schema.canonical import Json

PAGE = 500
"""Objects that are asked for, or held of a streamed list, at once."""

_PAGE_BYTES = 2 * 1024 * 1024

PATIENCE = 60.0
"""Seconds within which the answer to a request must begin."""

SILENCE = 70.0
"""Seconds of silence after which a watch is given up. Bookmarks come once a minute."""

_WATCH = (300, 600)
_RESTARTS = 3
_LIVED = 5.0
_START = 2.0
_END = "k8s.io/initial-events-end"
Kind = Literal["list", "stream", "watch"]


class Ask(NamedTuple):
    """A request to make."""

    path: str
    params: dict[str, str]
    accept: str
    kind: Kind


class Wait(NamedTuple):
    """Nothing to do for so many seconds."""

    seconds: float


class Confirm(NamedTuple):
    """The server does not know the resource: ask discovery, then tell `removed` or `still_there`."""


Step = Ask | Wait | Confirm
Told = list[Line | BadLine]


class Course:
    """One part. `now` is seconds of a steady clock, `t` the instant of the line, in microseconds.

    `floor`: the version up to which an earlier run saw this part. `state`: for people."""

    def __init__(self, part: Part, rng: random.Random, *, floor: str | None = None) -> None:
        self.part = part
        self.lists = 0
        self.state: Literal["starting", "listing", "watching", "lost", "forbidden", "removed"] = "starting"
        self._rng = rng
        self._over = False
        self._backoff = Backoff(rng)
        self._not_before = self._backoff.spread(_START)  # So that not all kinds are listed at once.
        self._started = False
        self._version: str | None = None
        self._floor = floor
        self._sure = True  # Whether the version came from something that is in order.
        self._token: str | None = None
        self._restarts = 0
        self._streams = True
        self._kind: Kind = "list"
        self._page: list[Json] = []
        self._page_bytes = 0
        self._partial = False
        self._gap = True
        self._resuming = False
        self._opened = 0.0
        self._spoke = False
        self._vanished = False
        self._number = 0

    def ask(self, now: float) -> Step:
        """What to do next."""
        if not self._started:
            self._started, self._not_before = True, self._not_before + now
        if now < self._not_before:
            return Wait(self._not_before - now)
        if self._vanished:
            return Confirm()
        self._opened, self._spoke, self._over = now, False, False
        params = dict(self.part.params)
        timeout = str(self._rng.randint(*_WATCH))
        if self._version is not None:
            self._kind = "watch"
            params |= {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": timeout}
            if self._version:
                params["resourceVersion"] = self._version
        elif self._streams and self._token is None:
            self._kind = "stream"
            self._take()
            params |= {
                "watch": "true", "allowWatchBookmarks": "true", "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan", "timeoutSeconds": timeout,
            }  # fmt: skip
        else:
            # Of no version: the newest there is, never older than what was recorded before.
            self._kind = "list"
            if self._restarts < _RESTARTS:
                params["limit"] = str(PAGE)
            if self._token is not None:
                params["continue"] = self._token
        return Ask(self.part.path, params, self.part.accept(watch=self._kind != "list"), self._kind)

    def page(self, raw: bytes, now: float, t: int) -> Told:
        """A page of a list was answered."""
        body = parsed(raw)
        items = body.get("items", []) if body is not None else None
        meta = body.get("metadata") if body is not None else None
        if body is None or not isinstance(items, list | None) or not isinstance(meta, dict):
            return self.lost(now, t, "what was answered is no list")
        version, token = meta.get("resourceVersion"), meta.get("continue")
        self._token = token if isinstance(token, str) and token else None
        told = self._list(items or [], version if isinstance(version, str) else "", t, more=self._token is not None)
        if self._token is None:
            self._listed(version if isinstance(version, str) else "")
        else:
            self.state = "listing"
        return told

    def heard(self, raw: bytes | None, now: float, t: int) -> Told:
        """A line of a watch; None is one that was longer than the cap."""
        if raw is not None and not raw.strip():
            return []
        if raw is None:
            return [self._bad("a line that is longer than the cap", t)]
        event = parsed(raw)
        if event is None:
            return [self._bad("not a JSON object", t)]
        kind, body = event.get("type"), event.get("object")
        if not isinstance(body, dict) or kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"):
            return [self._bad("no event of a watch", t)]
        if kind == "ERROR":
            return self._failed(body, now, t)
        self._spoke = True
        meta = body.get("metadata")
        found = meta.get("resourceVersion") if isinstance(meta, dict) else None
        version = found if isinstance(found, str) else ""
        if self._kind == "stream":
            self._page_bytes += len(raw)
            return self._initial(str(kind), body, version, now, t)
        told = self.settled(t)
        if kind != "ADDED":
            self._sure = True
        if version and self._sure:
            self._version = version
        return [*told, self._line(str(kind), t, object=self._whole(body))]

    def settled(self, t: int) -> Told:
        """The watch has been open for a while, or spoke: it goes on where it was."""
        if self._kind != "watch":
            return []
        self.state = "watching"
        if not self._resuming:
            return []
        self._resuming = self._gap = False
        return [self._line("RESUMED", t)]

    def closed(self, now: float, t: int, *, within: bool = False) -> Told:
        """The server ended a watch; `within` a line is not as it should be."""
        if within:
            return self.lost(now, t, "the connection ended within a line")
        if self._kind == "stream":
            return self.lost(now, t, "the stream of a list ended early")
        if now - self._opened < SHORT:
            self._wait(now, self._backoff.failed())  # A reconnect storm helps nobody.
        elif now - self._opened > _LIVED:
            self._backoff.worked()
        return self.settled(t) if self._spoke or now - self._opened >= SHORT else []

    def lost(self, now: float, t: int, reason: str) -> Told:
        """The connection failed, or was silent for too long. The version stays good."""
        if now - self._opened > _LIVED:
            self._backoff.worked()
        if self._kind == "stream" and self._backoff.failures >= 1:
            self._streams = False  # Perhaps it is the streaming that something in between cannot bear.
        self._take()
        self._wait(now, self._backoff.failed())
        if self._kind == "list":
            return []  # Not watched anyway; the token goes on where the list was.
        return self._lose(t, reason)

    def refused(
        self, status: int, raw: bytes, now: float, t: int, *, retry_after: float = 0.0, namespace_gone: bool = False
    ) -> Told:
        """A request was answered with an error."""
        body = parsed(raw) or {}
        if status == 403 or (status == 404 and namespace_gone):
            self._wait(now, self._backoff.forbidden())
            was, self.state = self.state, "removed" if namespace_gone else "forbidden"
            self._forget()
            if was == self.state:
                return []
            said = f"namespace {self.part.namespace} is gone" if namespace_gone else message_of(body)
            return self._status(404 if namespace_gone else 403, said, t)
        if status == 404:
            self._vanished = True
            return []
        if status == 410 and self._kind == "list":
            # The token ran out. What it would go on with inconsistently is not taken: from page one, at last unpaged.
            self._restarts += 1
            self._wait(now, self._backoff.failed())
            return self._abandon(t, "the list expired")
        if status in (400, 405, 415, 422) and self._kind == "stream":
            self._streams = False
            return []
        return self._failed({"code": status, **body}, now, t, retry_after)

    def removed(self, t: int) -> Told:
        """Discovery knows the resource no longer: whatever there was of it is gone."""
        self.state = "removed"
        return self._status(404, "the server does not serve it any more", t)

    def still_there(self, now: float, t: int) -> Told:
        """Discovery knows the resource: that it was not found is a failure like another."""
        self._vanished = False
        return self.lost(now, t, "404")

    def is_over(self) -> bool:
        """Whether what is still read of the answer is of no use any more."""
        return self._over

    def behind(self, t: int) -> Told:
        """What is read came late, as whoever takes the lines is slow: it may be older than such lines mostly are."""
        if self.state != "watching" or self._gap or self._kind != "watch":
            return []
        return [self._line("GAP", t, reason="the log is slow"), self._line("RESUMED", t)]

    def nudge(self) -> None:
        """Do not wait any longer."""
        self._not_before = 0.0

    def _failed(self, body: dict[str, Json], now: float, t: int, retry_after: float = 0.0) -> Told:
        code, reason = body.get("code"), body.get("reason")
        said = str(code) if isinstance(code, int) and code else reason if isinstance(reason, str) else "error"
        self._wait(now, self._backoff.failed(max(retry_after, asked_to_wait(body))))
        if is_expired(body) or is_too_large(body):
            told = self._lose(t, "410" if is_expired(body) else "the version is unknown to the server")
            self._forget()
            return told
        if code == 403:
            self._forget()
        return [] if self._kind == "list" else self._lose(t, said)

    def _initial(self, kind: str, body: dict[str, Json], version: str, now: float, t: int) -> Told:
        """A line of the stream that begins with what is there."""
        if kind == "ADDED":
            self.state = "listing"
            self._page.append(body)
            full = len(self._page) >= PAGE or self._page_bytes >= _PAGE_BYTES
            return self._list(self._take(), "", t, more=True) if full else []
        if kind != "BOOKMARK":
            told = self._list(self._take(), "", t, more=True) if self._page else []
            return [*told, self._line(kind, t, object=self._whole(body))]
        meta = body.get("metadata")
        notes = meta.get("annotations") if isinstance(meta, dict) else None
        if not isinstance(notes, dict) or notes.get(_END) != "true":
            # It does not know of streamed lists, and told what is there in no order and with no end.
            self._streams = False
            return self._abandon(t, "the server streams no lists")
        if older(version, self._floor):
            # The server went back. A list in pages tells its version first, so that what is in it is taken for news.
            self._streams = False
            return self._abandon(t, "the versions of the server went back")
        told = self._list(self._take(), version, t, more=False)
        self._kind, self._opened = "watch", now
        self._listed(version)
        self.state = "watching"
        return told

    def _take(self) -> list[Json]:
        page, self._page, self._page_bytes = self._page, [], 0
        return page

    def _list(self, items: list[Json], version: str, t: int, *, more: bool) -> Told:
        self._partial = more
        whole = tuple(self._whole(item) if isinstance(item, dict) else item for item in items)
        return [self._line("LIST", t, rv=version or None, items=whole, more=more)]

    def _listed(self, version: str) -> None:
        self.lists += 1
        self._version, self._sure = version, bool(version) and version != "0"
        self._floor = version or self._floor
        self._gap = self._resuming = False
        self._restarts = 0
        self._backoff.worked()

    def _lose(self, t: int, reason: str) -> Told:
        self._resuming, self._over = self._version is not None, True
        if self.state not in ("forbidden", "removed"):
            self.state = "lost"
        if self._partial:
            return self._abandon(t, reason)
        if self._gap:
            return []
        self._gap = True
        return [self._line("GAP", t, reason=reason)]

    def _abandon(self, t: int, reason: str) -> Told:
        """A list is begun anew: what came of it so far does not say what is missing."""
        self._forget()
        self._over = True
        if not self._partial:
            return []
        self._partial, self._gap = False, True
        return [self._line("GAP", t, reason=reason)]

    def _forget(self) -> None:
        if self._version:
            self._floor = self._version
        self._version = self._token = None
        self._resuming = False
        self._take()

    def _status(self, code: int, message: str, t: int) -> Told:
        self._gap, self._partial = True, False
        body: dict[str, Json] = {"kind": "Status", "apiVersion": "v1", "code": code, "message": message}
        return [self._line("ERROR", t, object=body)]

    def _wait(self, now: float, seconds: float) -> None:
        self._not_before = now + seconds

    def _whole(self, item: dict[str, Json]) -> dict[str, Json]:
        """What lists leave out, and what metadata alone calls otherwise."""
        resource = self.part.served.resource
        if self.part.metadata:
            return {**item, "kind": resource.kind, "apiVersion": resource.api_version, "type": self.part.type_}
        if "kind" in item and "apiVersion" in item:
            return item
        return {"kind": resource.kind, "apiVersion": resource.api_version, **item}

    def _line(
        self,
        kind: str,
        t: int,
        *,
        rv: str | None = None,
        items: tuple[Json, ...] = (),
        object: dict[str, Json] | None = None,
        reason: str | None = None,
        more: bool = False,
    ) -> Line:
        self._number += 1
        path = self.part.served.resource.path
        return Line(self._number, t, path, kind, rv, items, object, reason, more, self.part.label)

    def _bad(self, reason: str, t: int) -> BadLine:
        self._number += 1
        return BadLine(self._number, reason, self.part.served.resource.path, t, self.part.label)

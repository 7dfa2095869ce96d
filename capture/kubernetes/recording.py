"""Reader of recording files, format 1: JSON Lines, gzip or plain, as a kube-apiserver sent them.

A file is judged by its header alone (BadRecording); after that nothing raises: a line that cannot be used comes out as
a BadLine with its number and reason, and the next line is read. What lines mean is left to the reflector.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, cast

import orjson

from capture.kubernetes.skipped import is_skipped
from schema import instants
from schema.canonical import Json, hash128
from schema.errors import BadInstant, BadRecording

CAP = 64 * 1024 * 1024
"""Longest line that is parsed, in bytes."""

_START = re.compile(
    rb'\{"t":"([0-9T:.Z+-]{10,40})","r":"([a-z0-9./-]{3,300})",'
    rb'"type":"(LIST|ADDED|MODIFIED|DELETED|BOOKMARK|ERROR|GAP|RESUMED)"'
    rb'(?:,"part":"([ -!#-\[\]-~]{1,300})")?'
)
"""How our recorder begins every line; others may order the fields as they like."""

TYPES = frozenset({"LIST", "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "GAP", "RESUMED"})


@dataclass(frozen=True, slots=True)
class Resource:
    """One watched resource as the header names it."""

    group: str
    version: str
    resource: str
    kind: str

    @property
    def path(self) -> str:
        """How lines name it: `v1/pods`, `apps/v1/deployments`."""
        return "/".join(part for part in (self.group, self.version, self.resource) if part)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class Header:
    cluster: str
    server: str | None
    started: int
    resources: tuple[Resource, ...]

    @property
    def epoch(self) -> str:
        """Names this run of the recorder: the same file has the same epoch for ever."""
        return hash128(self.cluster, str(self.started))


class Line(NamedTuple):
    """One line that can be used. `items` and `more` (this list goes on in the next LIST of its resource and part)
    belong to LIST, `object` to events, `reason` to GAP; `part` names what part of its resource is watched
    (`namespace=shop`). RESUMED: the watch went on from its version, nothing was lost."""

    number: int
    t: int
    resource: str
    type: str
    rv: str | None = None
    items: tuple[Json, ...] = ()
    object: dict[str, Json] | None = None
    reason: str | None = None
    more: bool = False
    part: str | None = None


@dataclass(frozen=True, slots=True)
class BadLine:
    """One line that cannot be used. `resource`, `part`, `t`: what it was about and when it came, where that can be
    told."""

    number: int
    reason: str
    resource: str | None = None
    t: int | None = None
    part: str | None = None


def open_recording(path: str | Path, cap: int = CAP) -> tuple[Header, Iterator[Line | BadLine]]:
    """The header and the lines after it. Raises BadRecording when this is not a recording of format 1."""
    try:
        stream = _open(Path(path))
    except OSError as error:
        raise BadRecording(f"cannot read {path}: {error.strerror or error}") from None
    lines = _raw_lines(stream, cap)
    try:
        _, first = next(lines, (1, "the file is empty"))
        if isinstance(first, str):
            raise BadRecording(f"not a recording: {first}")
        return _header(first), _parsed(lines)
    except BadRecording:
        stream.close()
        raise


def _open(path: Path) -> IO[bytes]:
    stream = path.open("rb")
    magic = stream.read(2)
    stream.seek(0)
    if magic != b"\x1f\x8b":
        return stream
    stream.close()
    return cast("IO[bytes]", gzip.open(path, "rb"))


def _raw_lines(stream: IO[bytes], cap: int) -> Iterator[tuple[int, bytes | str]]:
    """Numbered lines; a string in place of the bytes says why there are none. A broken stream ends the reading."""
    number = 0
    with stream:
        while True:
            number += 1
            try:
                raw = stream.readline(cap + 1)
                if not raw:
                    return
                if len(raw) > cap and not raw.endswith(b"\n"):
                    while raw and not raw.endswith(b"\n"):
                        raw = stream.readline(cap)
                    yield number, f"longer than {cap} bytes"
                    continue
            except (EOFError, zlib.error, OSError) as error:
                yield number, f"the compressed stream is broken: {error}"
                return
            if raw.strip():
                yield number, raw


def _header(raw: bytes) -> Header:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadRecording(f"not a recording: the first line is not JSON: {error}") from None
    if not isinstance(body, dict) or "recording" not in body:
        raise BadRecording("not a recording: the first line has no `recording` version")
    if body["recording"] != 1:
        raise BadRecording(f"unknown recording version {body['recording']!r}", hint="upgrade Hindgraph")
    cluster, server, resources = body.get("cluster"), body.get("server"), body.get("resources", [])
    if not isinstance(cluster, str) or not cluster or not isinstance(resources, list):
        raise BadRecording("not a recording: the header needs `cluster` and a list of `resources`")
    try:
        started = instants.parse(str(body.get("started")))
    except BadInstant as error:
        raise BadRecording(f"not a recording: started: {error.message}") from None
    found: list[Resource] = []
    for entry in resources:
        parts = (
            [entry.get(name) for name in ("group", "version", "resource", "kind")] if isinstance(entry, dict) else []
        )
        if not parts or not all(isinstance(part, str) for part in parts):
            raise BadRecording(f"not a recording: not a resource: number {len(found) + 1}")
        found.append(Resource(*(str(part) for part in parts)))
    return Header(cluster, server if isinstance(server, str) else None, started, tuple(found))


def _parsed(lines: Iterator[tuple[int, bytes | str]]) -> Iterator[Line | BadLine]:
    for number, raw in lines:
        yield BadLine(number, raw) if isinstance(raw, str) else parse_line(number, raw)


def parse_line(number: int, raw: bytes) -> Line | BadLine:
    """One line after the header. Never raises. Of a skipped resource, a line in the usual spelling is not parsed."""
    start = _START.match(raw)
    about = start[2].decode() if start is not None else None
    within = start[4].decode() if start is not None and start[4] is not None else None
    if start is not None and about is not None and is_skipped(about) and raw.endswith((b"}", b"}\n")):
        try:
            return Line(number, instants.parse(start[1].decode()), about, start[3].decode())
        except BadInstant as error:
            return BadLine(number, error.message, about, part=within)
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return BadLine(number, f"not JSON: {error}", about, part=within)
    if not isinstance(body, dict):
        return BadLine(number, "not a JSON object")
    type_, resource, claimed = body.get("type"), body.get("r"), body.get("t")
    if not isinstance(resource, str) or not 2 <= len(resource.split("/")) <= 3:
        return BadLine(number, "no resource")
    named = body.get("part")
    part = named if isinstance(named, str) and named else None
    try:
        t = instants.parse(claimed if isinstance(claimed, str) else "")
    except BadInstant as error:
        return BadLine(number, error.message, resource, part=part)
    if not isinstance(type_, str) or type_ not in TYPES:
        told = type_[:64] if isinstance(type_, str) else None
        return BadLine(number, f"unknown line type {told!r}", resource, t, part)
    rv, items, object_, reason = body.get("rv"), body.get("items", []), body.get("object"), body.get("reason")
    if type_ == "LIST":
        # Go writes an empty list of no capacity as null.
        if items is not None and not isinstance(items, list):
            return BadLine(number, "LIST without a list of items", resource, t, part)
        version = rv if isinstance(rv, str) else None
        more = body.get("more") is True
        return Line(number, t, resource, type_, rv=version, items=tuple(items or ()), more=more, part=part)
    if type_ in ("GAP", "RESUMED"):
        return Line(number, t, resource, type_, reason=reason if isinstance(reason, str) else None, part=part)
    if not isinstance(object_, dict):
        return BadLine(number, f"{type_} without an object", resource, t, part)
    return Line(number, t, resource, type_, object=object_, part=part)

"""A recording of format 1 written while lines come, so that what was seen can be replayed anywhere.

Its objects are redacted by the rules of the log, unless it is asked for as it was sent. What a killed recorder wrote
can be read up to its last lines. Reading is `capture.kubernetes.recording`'s; the format is in docs/recordings.md.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, cast

import orjson

from capture.kubernetes.live.parts import Served
from capture.kubernetes.recording import BadLine, Line
from capture.normalise import prepare
from capture.redact import Redactor
from schema import instants
from schema.canonical import Json
from schema.errors import BadRecording, InputError

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class RawFile:
    """One file, made anew: where there is one of this name already, a number is put into the name. Without `redactor`
    objects are written as they were sent. Raises BadRecording where it cannot be made, OSError where it cannot go on.
    """

    def __init__(
        self, path: Path, cluster: str, started: int, served: Sequence[Served], redactor: Redactor | None
    ) -> None:
        self._cluster = cluster
        self._redactor = redactor
        try:
            self.path, self._below = _made(path)
        except OSError as error:
            raise BadRecording(f"cannot write {path}: {error.strerror}", hint="name a file that can be made") from None
        packed = path.suffix == ".gz"
        self._file = cast("IO[bytes]", gzip.GzipFile(fileobj=self._below, mode="wb")) if packed else self._below
        head: dict[str, Json] = {
            "recording": 1,
            "cluster": cluster,
            "server": None,
            "started": instants.show(started),
            "resources": [_described(one) for one in served],
        }
        self._put(head)

    def write(self, lines: Iterable[Line | BadLine]) -> None:
        """Some lines, in the order in which they came; they are in the file when this returns."""
        for line in lines:
            self._put(self._told(line))
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self._below.close()

    def _put(self, told: dict[str, Json]) -> None:
        self._file.write(orjson.dumps(told) + b"\n")

    def _told(self, line: Line | BadLine) -> dict[str, Json]:
        if isinstance(line, BadLine):
            # A type that no reader knows is what this line was: of no use.
            out: dict[str, Json] = {} if line.t is None else {"t": instants.show(line.t)}
            part: dict[str, Json] = {} if line.part is None else {"part": line.part}
            return out | {"r": line.resource, "type": "UNREADABLE"} | part | {"reason": line.reason}
        told: dict[str, Json] = {"t": instants.show(line.t), "r": line.resource, "type": line.type}
        if line.part is not None:
            told["part"] = line.part
        if line.type == "LIST":
            told["rv"] = line.rv
            if line.more:
                told["more"] = True
            told["items"] = [self._object(item) for item in line.items]
        elif line.type in ("GAP", "RESUMED"):
            if line.reason is not None:
                told["reason"] = line.reason if self._redactor is None else self._redactor.redact_text(line.reason)
        else:
            told["object"] = self._object(line.object)
        return told

    def _object(self, body: Json) -> Json:
        if self._redactor is None or not isinstance(body, dict):
            return body
        meta = body.get("metadata")
        try:
            found = prepare(body, scope=self._cluster, redactor=self._redactor)
        except InputError:
            # A Status, a bookmark; or what is no object to the log either.
            text, kept = body.get("message"), {k: v for k, v in body.items() if k in _OF_A_STATUS}
            return kept | ({"message": self._redactor.redact_text(text)} if isinstance(text, str) else {})
        state = dict(found.state)
        if isinstance(text := state.get("message"), str):
            state["message"] = self._redactor.redact_text(text)
        beside = {key: meta[key] for key in _BESIDE if key in meta} if isinstance(meta, dict) else {}
        stored = state.get("metadata")
        whole = {**(stored if isinstance(stored, dict) else {}), **beside}
        applied = found.source_version.last_applied
        if applied is not None:
            notes = whole.get("annotations")
            whole["annotations"] = {**(notes if isinstance(notes, dict) else {}), _APPLIED: applied}
        return {**state, "metadata": whole}


_BESIDE = ("resourceVersion", "generation", "managedFields")
_OF_A_STATUS = frozenset({"kind", "apiVersion", "status", "code", "reason", "metadata"})


def _described(one: Served) -> dict[str, Json]:
    found = one.resource
    return {
        "group": found.group, "version": found.version, "resource": found.resource, "kind": found.kind,
        "namespaced": one.namespaced,
    }  # fmt: skip


def _made(path: Path) -> tuple[Path, IO[bytes]]:
    name, dot, rest = path.name.partition(".")
    number = 0
    while True:
        here = path if number == 0 else path.with_name(f"{name}.{number}{dot}{rest}")
        try:
            file = os.fdopen(os.open(here, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        except FileExistsError:
            number += 1
            continue
        return here, file

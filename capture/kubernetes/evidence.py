"""Kubernetes Events to evidence: what was said about which object, when, and how many times since last heard.

An Event repeated in place raises its count: each rise is an occurrence of its own, and the same (uid, count, instant)
seen again after a restart or relist is none. The object need not be known. Redacting the text is left to the redactor.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson

from capture.kubernetes.actor import instant_of
from capture.kubernetes.objects import key_of
from capture.kubernetes.recent import Recent
from schema.canonical import Json, canonical, hash128
from schema.errors import BadRecord
from schema.kinds import class_of
from schema.records import Evidence, ObjectRef


class Events:
    """Turns Events of one scope into evidence, remembering what was heard."""

    def __init__(self, scope: str, redact_text: Callable[[str], str], heard: Recent[str, tuple[int, int]]) -> None:
        self._scope = scope
        self._redact_text = redact_text
        self._heard = heard

    def hear(self, event: dict[str, Json], received: int) -> Evidence | None:
        """The evidence of one Event as sent; None when it was heard before. Raises BadRecord when it has no name, names
        no object that can have a key, or cannot be stored."""
        meta, about = _map(event.get("metadata")), _map(event.get("involvedObject"))
        uid, name = _text(meta.get("uid")), _text(meta.get("name"))
        if uid is None and name is None:
            raise BadRecord("an Event without a name")
        uid = uid or f"{_text(meta.get('namespace'))}/{name}"
        try:
            canonical(event)
        except orjson.JSONEncodeError as error:
            raise BadRecord(f"an Event cannot be stored: {error}") from None
        key = key_of({**about, "metadata": about, "apiVersion": about.get("apiVersion") or "v1"}, self._scope)
        at, count = effective_time(event, received), _count(event)
        before = self._heard.get(uid)
        if before is not None and (count, at) <= before:
            return None
        self._heard[uid] = (count, at)
        message = _text(event.get("message"))
        source = _map(event.get("source"))
        return Evidence(
            id=hash128("event", self._scope, uid, str(count), str(at)),
            kind="event",
            object=ObjectRef(
                source="kubernetes",
                scope=self._scope,
                type=key.type,
                kind=key.kind,
                class_=class_of(key.type),
                namespace=key.namespace,
                name=key.name,
                uid=_text(about.get("uid")),
            ),
            at=at,
            observed_at=received,
            first_at=instant_of(event.get("firstTimestamp")),
            field_path=_text(about.get("fieldPath")),
            severity=_text(event.get("type")),
            reason=_text(event.get("reason")),
            message=None if message is None else self._redact_text(message),
            reporter=_text(event.get("reportingComponent")) or _text(source.get("component")),
            count=count,
            occurrences=max(1, count - before[0]) if before is not None else count,
            series=uid,
        )


def effective_time(event: dict[str, Json], received: int) -> int:
    """When it last happened: the first of the five places that says so, else when it was received."""
    for value in (
        _map(event.get("series")).get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        _map(event.get("metadata")).get("creationTimestamp"),
    ):
        at = instant_of(value)
        if at is not None:
            return at
    return received


def _count(event: dict[str, Json]) -> int:
    counts = (_map(event.get("series")).get("count"), event.get("count"))
    return max((value for value in counts if isinstance(value, int) and 0 < value < 2**31), default=1)


def _map(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None

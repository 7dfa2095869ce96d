"""With what tool a change was made, read from managedFields: only an entry that moved between two states says anything.

Entries are merged per manager, may lack a time, and the API server does not always move it, so what is said carries a
confidence. Who was behind the tool only the audit log knows; that is left to an amendment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from schema import instants
from schema.canonical import Json
from schema.errors import BadInstant
from schema.records import Actor, trusted

NOBODY = Actor()
"""Nothing is known of who made a change."""


def instant_of(value: Json) -> int | None:
    """The instant of a claimed time, None when there is none."""
    return _parsed(value) if isinstance(value, str) else None


@lru_cache(8192)
def _parsed(text: str) -> int | None:
    """Objects repeat their claims with every version."""
    try:
        return instants.parse(text)
    except BadInstant:
        return None


def attribute(before: Sequence[dict[str, Json]], after: Sequence[dict[str, Json]]) -> tuple[Actor, int | None]:
    """Who moved between two versions of one object, and the second the last of them claims."""
    pairs = [(entry, _same_manager(entry, index, before) if before else {}) for index, entry in enumerate(after)]
    moved = [entry for entry, was in pairs if entry.get("time") != was.get("time")]
    sure = 0.9
    if not moved:
        # Two writes within one second leave the time as it was; the owned fields may still tell.
        moved = [entry for entry, was in pairs if entry.get("fieldsV1") != was.get("fieldsV1")]
        sure = 0.6
    if not moved:
        return NOBODY, None
    latest = max(moved, key=lambda entry: instant_of(entry.get("time")) or 0)
    actor = trusted(
        Actor,
        {
            "manager": _text(latest.get("manager")),
            "user": None,
            "user_agent": None,
            "subresource": _text(latest.get("subresource")),
            "method": "managedFields",
            "confidence": sure if len(moved) == 1 else 0.5,
        },
    )
    return actor, instant_of(latest.get("time"))


def last_written(managed: Sequence[dict[str, Json]]) -> int | None:
    """The latest instant any manager claims."""
    return max((at for entry in managed if (at := instant_of(entry.get("time"))) is not None), default=None)


def _same_manager(entry: dict[str, Json], index: int, before: Sequence[dict[str, Json]]) -> dict[str, Json]:
    """The entry of this manager among earlier ones, most likely at the same place."""
    if index < len(before) and _is_same(entry, before[index]):
        return before[index]
    return next((was for was in before if _is_same(entry, was)), {})


def _is_same(one: dict[str, Json], other: dict[str, Json]) -> bool:
    return (
        one.get("manager") == other.get("manager")
        and one.get("operation") == other.get("operation")
        and one.get("subresource") == other.get("subresource")
        and one.get("apiVersion") == other.get("apiVersion")
    )


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None

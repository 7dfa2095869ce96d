"""With what tool a change was made, read from managedFields: only an entry that moved between two states says anything,
and where several did, the one that owns what changed.

Entries are merged per manager, may lack a time, and the API server does not always move it, so what is said carries a
confidence. Who was behind the tool only the audit log knows; that is left to an amendment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

import orjson

from capture.noise import is_noise
from schema import instants
from schema.canonical import Json
from schema.errors import BadInstant, BadPath
from schema.instants import SECOND
from schema.paths import Name, Step, parse
from schema.records import Actor, FieldChange, trusted

_Entry = dict[str, Json]
_MOST_FIELDS = 256  # Enough to tell whose they are; a list of thousands that changed is one manager's.

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


def attribute(
    before: Sequence[_Entry],
    after: Sequence[_Entry],
    type_: str = "",
    fields: Sequence[FieldChange] = (),
    *,
    relisted: bool = False,
    since: int = 0,
) -> tuple[Actor, int | None]:
    """Who made the change of `fields` between two versions of one object, and the second the last write claims.

    One entry that moved between two versions as they came is the one. Where several did, or `relisted`, so that several
    writes may lie between, it is one that owns what changed, if any. Without entries `before` those count that claim to
    be written since `since`."""
    pairs = [(entry, _same_manager(entry, index, before) if before else {}) for index, entry in enumerate(after)]
    moved = [pair for pair in pairs if pair[0].get("time") != pair[1].get("time")]
    sure = 0.9
    if not moved:
        # Two writes within one second leave the time as it was; the owned fields may still tell.
        moved = [pair for pair in pairs if _differ(pair[0].get("fieldsV1"), pair[1].get("fieldsV1"))]
        sure = 0.6
    if not before:
        moved = [pair for pair in moved if _claimed(pair[0]) + SECOND > since]
    if not moved:
        return NOBODY, None
    latest = max(moved, key=lambda pair: _claimed(pair[0]))[0]
    when = instant_of(latest.get("time"))
    if not (relisted or (len(moved) > 1 and fields)):
        return _actor(latest, sure if len(moved) == 1 else 0.5), when
    places = list(_places(type_, fields))
    ranked = sorted((((*_owned(*pair, places), _claimed(pair[0])), pair[0]) for pair in moved), key=lambda one: one[0])
    best, entry = ranked[-1]
    if not any(best[:-1]):
        return NOBODY, when
    if len(moved) > 1:
        # The runner-up owns something of what counts first too, or it does not.
        first = next(index for index, count in enumerate(best) if count)
        sure = 0.5 if ranked[-2][0][first] else 0.7
    return _actor(entry, sure), when


def creator(managed: Sequence[_Entry]) -> Actor:
    """Who made an object that is new: the first to write more than a subresource, as far as entries can tell."""
    writers = [entry for entry in managed if not entry.get("subresource")] or managed
    if not writers:
        return NOBODY
    return _actor(min(writers, key=_claimed), 0.9 if len(managed) == 1 else 0.5)


def last_written(managed: Sequence[_Entry]) -> int | None:
    """The latest instant any manager claims."""
    return max((at for entry in managed if (at := instant_of(entry.get("time"))) is not None), default=None)


def _same_manager(entry: _Entry, index: int, before: Sequence[_Entry]) -> _Entry:
    """The entry of this manager among earlier ones, most likely at the same place."""
    if index < len(before) and _is_same(entry, before[index]):
        return before[index]
    return next((was for was in before if _is_same(entry, was)), {})


def _is_same(one: _Entry, other: _Entry) -> bool:
    return (
        one.get("manager") == other.get("manager")
        and one.get("operation") == other.get("operation")
        and one.get("subresource") == other.get("subresource")
        and one.get("apiVersion") == other.get("apiVersion")
    )


def _actor(entry: _Entry, confidence: float) -> Actor:
    return trusted(
        Actor,
        {
            "manager": _text(entry.get("manager")),
            "user": None,
            "user_agent": None,
            "subresource": _text(entry.get("subresource")),
            "method": "managedFields",
            "confidence": confidence,
            "verb": None,
            "address": None,
            "impersonator": None,
        },
    )


def _claimed(entry: _Entry) -> int:
    return instant_of(entry.get("time")) or 0


def _places(type_: str, fields: Sequence[FieldChange]) -> Iterator[tuple[tuple[Step, ...], bool]]:
    """Where something changed that is news, or anything if nothing is, and whether it went."""
    found: list[tuple[tuple[Step, ...], bool]] = []
    for one in fields[:_MOST_FIELDS]:
        with suppress(BadPath):
            found.append((parse(one.path), one.effect == "removed"))
    news = [
        place
        for place in found
        if not is_noise(type_, tuple(step.text if isinstance(step, Name) else "*" for step in place[0]))
    ]
    yield from news or found


def _owned(entry: _Entry, was: _Entry, places: Sequence[tuple[tuple[Step, ...], bool]]) -> tuple[int, int, int, int]:
    """How much of what changed a writer owns, what counts most first: what was asked for, metadata that no subresource
    wrote, other metadata, what is reported."""
    asked = metadata = reported = 0
    for steps, removed in places:
        if not (_owns(entry.get("fieldsV1"), steps) or (removed and _owns(was.get("fieldsV1"), steps))):
            continue
        if steps[0] == Name("status"):
            reported += 1
        elif steps[0] == Name("metadata"):
            metadata += 1
        else:
            asked += 1
    return asked, 0 if entry.get("subresource") else metadata, metadata, reported


def _owns(fields: Json, steps: Sequence[Step]) -> bool:
    """Whether the owned fields hold this place, something in it, or something whole that it lies in."""
    node = fields
    for depth, step in enumerate(steps):
        if not isinstance(node, dict):
            return False
        if not node:
            return depth > 0  # A leaf: all below it is owned.
        if isinstance(step, Name):
            node = node.get(f"f:{step.text}")
        elif step.kind in ("k", "v"):
            node = node.get(f"{step.kind}:{step.value}") if step.kind == "v" else _item(node, step.value)
        else:
            return True  # Told apart by content here, by something else there.
    return isinstance(node, dict)


def _item(node: dict[str, Json], key: str) -> Json:
    """The item of a list by its key; it may be told apart by more keys here than there, or by fewer."""
    found = node.get(f"k:{key}")
    if found is not None:
        return found
    mine = orjson.loads(key)
    for name, below in node.items():
        if not name.startswith("k:"):
            continue
        try:
            other = orjson.loads(name[2:])
        except orjson.JSONDecodeError:
            continue
        shared = mine.keys() & other.keys() if isinstance(other, dict) else ()
        if shared and all(mine[one] == other[one] for one in shared):
            return below
    return None


def _differ(one: Json, other: Json) -> bool:
    try:
        return one != other
    except RecursionError:  # Nested by the thousand: nobody owns such fields.
        return False


def _text(value: Json) -> str | None:
    return value.encode(errors="replace").decode() if isinstance(value, str) and value else None

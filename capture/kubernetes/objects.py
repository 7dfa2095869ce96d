"""Small readings of objects as the API server sends them. Pure; what they mean for the record is `reflector`'s."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import orjson

from capture.kubernetes.actor import instant_of
from capture.kubernetes.recording import Resource
from capture.normalise import Prepared
from schema.canonical import Json
from schema.errors import BadRecord
from schema.identity import Key, type_of

LEVELS = 200
"""Deepest nesting that is recorded. Parsers of JSON end at 254 levels, of which a record needs some for itself."""

_LONGEST_VERSION = 256


def key_of(body: dict[str, Json], scope: str) -> Key:
    """The key of an object as sent. Raises BadRecord where it has none, or what is stored beside it cannot be."""
    told = body.get("metadata")
    if not isinstance(told, dict):
        raise BadRecord("an object without metadata")
    type_ = sound_type(body.get("apiVersion"), body.get("kind"))
    name, namespace = told.get("name"), told.get("namespace")
    if not isinstance(name, str) or not name:
        raise BadRecord(f"a {body['kind']} without a name")
    if namespace is not None and not isinstance(namespace, str):
        raise BadRecord(f"{type_} {name[:253]} has a namespace that is no text")
    version, generation = told.get("resourceVersion"), told.get("generation")
    if isinstance(version, str) and (len(version) > _LONGEST_VERSION or not version.isprintable()):
        raise BadRecord(f"{type_} {name[:253]} has a resourceVersion that is none, of {len(version)} characters")
    if isinstance(generation, int) and not -(2**63) <= generation < 2**63:
        raise BadRecord(f"{type_} {name[:253]} has a generation beyond 64 bits")
    return Key("kubernetes", scope, type_, namespace or None, name)


def sound_type(api_version: Json, kind: Json) -> str:
    """`group/Kind` of what an object says. Raises BadRecord where it would read back as another."""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise BadRecord("an object without apiVersion or kind")
    return _sound_type(api_version, kind)


@lru_cache(1024)
def _sound_type(api_version: str, kind: str) -> str:
    if not kind or "/" in kind:
        raise BadRecord(f"no kind of objects: {api_version[:100]!r}, {kind[:100]!r}")
    parts = api_version.split("/")
    if len(parts) > 2 or not all(parts):
        raise BadRecord(f"no API version: {api_version[:100]!r}")
    return type_of(api_version, kind)


def is_too_deep(state: dict[str, Json], last: Mapping[str, Json]) -> bool:
    """Whether something that is not of the last state already is nested beyond LEVELS."""
    nested: Json = [
        value for name, value in state.items() if isinstance(value, dict | list) and last.get(name) is not value
    ]
    for _ in range(254 - LEVELS):
        nested = [nested]
    try:
        orjson.dumps(nested)
    except orjson.JSONEncodeError:
        return True
    return False


def without_guesses(body: dict[str, Json], state: dict[str, Json]) -> dict[str, Json]:
    """A DELETED payload may lack its deletion mark and still list finalizers: both are taken from the last state."""
    mine, last = dict(meta(body)), meta(state)
    mine.pop("finalizers", None)
    if "finalizers" in last:
        mine["finalizers"] = last["finalizers"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in last and name not in mine:
            mine[name] = last[name]
    return {**body, "metadata": mine}


def named(item: dict[str, Json], resource: Resource | None) -> dict[str, Json]:
    """List items may lack what the list says once."""
    if resource is None or ("kind" in item and "apiVersion" in item):
        return item
    return {"apiVersion": resource.api_version, "kind": resource.kind, **item}


def incarnation(one: Prepared) -> str:
    return one.ref.uid or str(meta(one.state).get("creationTimestamp"))


def instant_of_birth(one: Prepared) -> int | None:
    """When the object says it was created."""
    return instant_of(meta(one.state).get("creationTimestamp"))


def compared(version: str | None, other: str | None) -> int | None:
    """The order of two versions of one resource, -1, 0 or 1: as integers, if they are any, else unknown (None)."""
    if not version or not other or len(version) > 40 or len(other) > 40:
        return None
    if not (version.isdecimal() and other.isdecimal() and version.isascii() and other.isascii()):
        return None
    mine, yours = int(version), int(other)
    return (mine > yours) - (mine < yours)


def older(version: str | None, than: str | None) -> bool:
    """Whether a version certainly comes before another of its resource."""
    return compared(version, than) == -1


def meta(state: dict[str, Json]) -> dict[str, Json]:
    found = state.get("metadata")
    return found if isinstance(found, dict) else {}

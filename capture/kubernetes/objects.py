"""Small readings of objects as the API server sends them. Pure; what they mean for the record is `reflector`'s."""

from __future__ import annotations

from capture.kubernetes.actor import instant_of
from capture.kubernetes.recording import Resource
from capture.normalise import Prepared
from schema.canonical import Json


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

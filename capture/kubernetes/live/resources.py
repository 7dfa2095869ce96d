"""What discovery documents say, and which of it is watched: each resource once, in its best version. Pure.

Both forms are read: the one document that lists everything (KEP-3352), and the older lists per group and version.
Getting them, and what to do where one is missing, is `discovery`'s. What is malformed is passed over, each for itself:
an aggregated API may say anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from capture.kubernetes.live.parts import Served
from capture.kubernetes.recording import Resource
from capture.kubernetes.skipped import is_skipped
from schema.canonical import Json

_WATCHABLE = frozenset({"list", "watch"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_VERSION = re.compile(r"v(\d{1,9})(?:(alpha|beta)(\d{1,9}))?\Z")
_STAGES = {None: 0, "beta": 1, "alpha": 2}


class Offer(NamedTuple):
    """A resource that can be listed and watched, as one version of its group serves it. `rank`: how many versions of
    the group are better. `storage`: names how it is stored; who shares it has the same objects; None if not told."""

    resource: Resource
    namespaced: bool
    rank: int
    storage: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """`versions`: best first. `offers`: of those versions whose resources were told with it; the others must be asked.
    The core group has no name."""

    name: str
    versions: tuple[str, ...]
    told: Mapping[str, tuple[Offer, ...]]


def groups(body: Json) -> list[Group] | None:
    """What `/api`, `/apis` or `/apis/<group>` answered, in either form; None if it is none of them."""
    document = _dict(body)
    match document.get("kind"):
        case "APIGroupDiscoveryList":
            told = [_aggregated(_dict(item)) for item in _list(document, "items")]
        case "APIGroupList":
            told = [_group(_dict(item)) for item in _list(document, "groups")]
        case "APIGroup":
            told = [_group(document)]
        case "APIVersions":
            versions = [str(version) for version in _list(document, "versions") if _is_name(version)]
            told = [Group("", _ordered(versions, None), {})]
        case _:
            return None
    return [group for group in told if group is not None]


def offers(group: Group, version: str, body: Json) -> tuple[Offer, ...] | None:
    """What `/apis/<group>/<version>` answered; None if it is no list of resources."""
    document = _dict(body)
    if document.get("kind") != "APIResourceList":
        return None
    rank = group.versions.index(version)
    return tuple(_offers(group.name, version, rank, map(_dict, _list(document, "resources")), "name"))


def chosen(found: Iterable[Offer], stored: Mapping[str, str] | None = None) -> tuple[Served, ...]:
    """Of each resource its best version, and of those that are stored as one only one: neither a skipped one nor one of
    `extensions`, from which others were moved, if it can be helped. `stored`: storage → what was chosen before."""
    best: dict[str, Offer] = {}
    for offer in sorted(found, key=lambda offer: offer.rank):
        best.setdefault(_name(offer), offer)
    owners = dict(stored or {})
    for offer in sorted(best.values(), key=_standing):
        if offer.storage is not None:
            owners.setdefault(offer.storage, _name(offer))
    return tuple(
        Served(offer.resource, offer.namespaced)
        for name, offer in best.items()
        if offer.storage is None or owners[offer.storage] == name
    )


def storages(found: Iterable[Offer], served: Sequence[Served]) -> dict[str, str]:
    """Storage → which of those that were chosen is stored so."""
    there = {one.name for one in served}
    return {offer.storage: _name(offer) for offer in found if offer.storage is not None and _name(offer) in there}


def _name(offer: Offer) -> str:
    return Served(offer.resource, offer.namespaced).name


def _standing(offer: Offer) -> tuple[bool, bool]:
    return is_skipped(offer.resource.path), offer.resource.group == "extensions"


def _ordered(versions: Iterable[str], preferred: str | None) -> tuple[str, ...]:
    """Best first: what the server prefers, then as Kubernetes orders versions: v2, v1, v1beta2, v1alpha1, others."""
    return tuple(sorted(dict.fromkeys(versions), key=lambda version: (version != preferred, *_priority(version))))


def _priority(version: str) -> tuple[int, int, int, str]:
    match = _VERSION.match(version)
    if match is None:
        return 3, 0, 0, version
    return _STAGES[match[2]], -int(match[1]), -int(match[3] or 0), ""


def _group(body: Mapping[str, Json]) -> Group | None:
    name, preferred = body.get("name"), _dict(body.get("preferredVersion")).get("version")
    versions = [version for one in _list(body, "versions") if _is_name(version := _dict(one).get("version"))]
    if not _is_name(name):
        return None
    return Group(str(name), _ordered(map(str, versions), preferred if isinstance(preferred, str) else None), {})


def _aggregated(body: Mapping[str, Json]) -> Group | None:
    name = _dict(body.get("metadata")).get("name", "")
    if not isinstance(name, str) or (name and not _is_name(name)):
        return None
    parts = {
        str(version): one for one in map(_dict, _list(body, "versions")) if _is_name(version := one.get("version"))
    }
    versions = _ordered(parts, next(iter(parts), None))
    told = {
        version: tuple(_offers(name, version, rank, map(_dict, _list(parts[version], "resources")), "resource"))
        for rank, version in enumerate(versions)
        # Of a stale one the server tells what it knew once, or nothing.
        if parts[version].get("freshness") != "Stale"
    }
    return Group(name, versions, told)


def _offers(group: str, version: str, rank: int, entries: Iterable[Mapping[str, Json]], called: str) -> Iterator[Offer]:
    for entry in entries:
        name, verbs = entry.get(called), entry.get("verbs")
        kind = entry.get("kind", _dict(entry.get("responseKind")).get("kind"))
        # Subresources have a slash in their names, or are below their resource.
        if not _is_name(name) or not isinstance(kind, str) or not kind or not isinstance(verbs, list):
            continue
        if not {verb for verb in verbs if isinstance(verb, str)} >= _WATCHABLE:
            continue
        storage = entry.get("storageVersionHash")
        yield Offer(
            Resource(group, version, str(name), kind),
            entry.get("namespaced") is True or entry.get("scope") == "Namespaced",
            rank,
            storage if isinstance(storage, str) and storage else None,
        )


def _is_name(value: Json) -> bool:
    return isinstance(value, str) and _NAME.match(value) is not None


def _dict(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _list(body: Mapping[str, Json], name: str) -> list[Json]:
    found = body.get(name)
    return found if isinstance(found, list) else []

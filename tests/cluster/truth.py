"""What really happened to a cluster, from the audit log: which request made which version, and who lived when.

Only what was answered with success counts. A span is the time for which the server had a request in hand, in µs. What a
recorder made of it is `judge`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from schema import instants
from schema.instants import MAX

_WRITING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_CRD = "apiextensions.k8s.io/customresourcedefinitions"


class Span(NamedTuple):
    """A request was received at `start` and answered at `end`: what it did, it did in between."""

    start: int
    end: int


class Write(NamedTuple):
    """One request about one object. `version`: the one that it made or left; None where that is not told. `vanished`:
    the object was gone when it was answered."""

    group_resource: str
    verb: str
    namespace: str | None
    name: str
    uid: str
    version: str | None
    span: Span
    vanished: bool = False


@dataclass(slots=True)
class Life:
    """One incarnation. `born` None: before the first line of the audit log. `gone` None: it lives."""

    group_resource: str
    namespace: str | None
    name: str
    born: Span | None = None
    gone: Span | None = None

    def __str__(self) -> str:
        return f"{self.group_resource} {self.namespace or '-'}/{self.name}"


@dataclass(slots=True)
class Truth:
    """`versions`: by (uid, version), what made it. `untold`: by uid, what may have made a version that
    no answer names."""

    versions: dict[tuple[str, str], Span] = field(default_factory=dict)
    lives: dict[str, Life] = field(default_factory=dict)
    untold: dict[str, list[Span]] = field(default_factory=dict)
    writes: int = 0


def read(path: Path) -> Truth:
    """The truth that an audit log tells."""
    with path.open("rb") as lines:
        return truth_of(one for line in lines for one in writes_of(orjson.loads(line)))


def truth_of(writes: Iterable[Write]) -> Truth:
    """Writes put together, in whatever order they come."""
    found = Truth()
    for one in writes:
        found.writes += 1
        life = found.lives.setdefault(one.uid, Life(one.group_resource, one.namespace, one.name))
        if one.verb == "create":
            life.born = one.span
        if one.vanished:
            life.gone = one.span
        if one.version is None:
            found.untold.setdefault(one.uid, []).append(one.span)
        else:
            # A request that changes nothing is answered with the version that is there: the first one made it.
            made = found.versions.get((one.uid, one.version))
            if made is None or one.span < made:
                found.versions[one.uid, one.version] = one.span
    _end_with_their_kind(found)
    _end_with_their_service(found)
    return found


def _end_with_their_kind(found: Truth) -> None:
    """Objects of a kind that is removed go without a request of their own, while the definition is going."""
    going: dict[str, int] = {}
    for (uid, _), span in found.versions.items():
        if found.lives[uid].group_resource == _CRD:
            going[uid] = max(going.get(uid, span.start), span.start)  # The last version is that of its finalizer.
    kinds = [
        (f"{group}/{plural}", life.born, Span(going.get(uid, life.gone.start), life.gone.end))
        for uid, life in found.lives.items()
        if life.group_resource == _CRD and life.gone is not None
        for plural, _, group in [life.name.partition(".")]
    ]
    for life in found.lives.values():
        if life.gone is None and life.born is not None:
            ends = [
                gone
                for name, born, gone in kinds
                if name == life.group_resource
                and (born is None or born.end <= life.born.end)
                and life.born.start < gone.end
            ]
            life.gone = min(ends, default=None)


def _end_with_their_service(found: Truth) -> None:
    """The API server takes the Endpoints of a Service away with it."""
    services = {
        (life.namespace, life.name, life.gone)
        for life in found.lives.values()
        if life.group_resource == "core/services" and life.gone is not None
    }
    ends: dict[tuple[str | None, str], list[Span]] = {}
    for namespace, name, gone in services:
        ends.setdefault((namespace, name), []).append(gone)
    for life in found.lives.values():
        if life.group_resource == "core/endpoints" and life.gone is None and life.born is not None:
            after = [gone for gone in ends.get((life.namespace, life.name), ()) if life.born.start < gone.end]
            life.gone = min(after, default=None)


def writes_of(event: dict[str, Any]) -> Iterator[Write]:
    """The writes that one audit event tells of: none, one, or as many as were deleted together."""
    ref, answer = event.get("objectRef") or {}, event.get("responseObject") or {}
    verb, sub = event["verb"], ref.get("subresource")
    if verb not in _WRITING or not 200 <= event.get("responseStatus", {}).get("code", 0) < 300:
        return
    if "dryRun=" in event["requestURI"] or sub in ("token", "eviction"):
        return
    span = Span(instants.parse(event["requestReceivedTimestamp"]), instants.parse(event["stageTimestamp"]))
    group_resource = f"{ref.get('apiGroup') or 'core'}/{ref['resource']}"

    def write(meta: dict[str, Any], version: str | None, *, vanished: bool) -> Write:
        namespace, name = meta.get("namespace") or ref.get("namespace"), meta.get("name") or ref.get("name", "")
        return Write(group_resource, verb, namespace, name, meta["uid"], version, span, vanished)

    if sub == "binding":
        meta = (event.get("requestObject") or {}).get("metadata") or {}
        if meta.get("uid"):
            yield write(meta, None, vanished=False)._replace(verb="update")
    elif verb == "deletecollection":
        # They are told as they were before.
        for one in answer.get("items") or ():
            yield write(one["metadata"], None, vanished=not _held(one))
    elif answer.get("kind") == "Status":
        if (answer.get("details") or {}).get("uid"):
            yield write(answer["details"], None, vanished=True)
    elif answer.get("metadata", {}).get("uid"):
        meta = answer["metadata"]
        asked = verb == "delete" or "deletionTimestamp" in meta
        vanished = asked and not _held(answer)
        yield write(meta, None if vanished else meta["resourceVersion"], vanished=vanished)


def _held(one: dict[str, Any]) -> bool:
    """Whether an object whose deletion is asked for stays for now: by a finalizer, or to end in good order."""
    meta = one["metadata"]
    spec = one.get("spec")
    inner = spec.get("finalizers") if isinstance(spec, dict) and one.get("kind") == "Namespace" else None
    return bool(meta.get("finalizers") or inner or meta.get("deletionGracePeriodSeconds"))


def lived(life: Life) -> tuple[int, int]:
    """From when to when it certainly lived."""
    return (
        life.born.end if life.born is not None else 0,
        life.gone.start if life.gone is not None else MAX,
    )

"""One function per question, each giving an `Answer`; faces translate arguments in and the answer out.

Nothing here asks a live system. Which rows answer is decided in `store.rewind`; here the instants are settled, and
every answer told how well the asked time was watched. What changed before an instant is `api.changes`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from api.answer import (
    Answer,
    change_item,
    covered_item,
    edge_item,
    evidence_item,
    moment_item,
    object_item,
    version_item,
)
from capture.diff import diff as compare
from schema import instants
from schema.canonical import Json
from schema.errors import BadInstant, InputError, InTheFuture, UnknownObject, UnknownScope
from schema.identity import Key
from schema.instants import MAX, SECOND
from schema.paths import matches, parse
from store.past import Covered, Version
from store.rewind import Rewind


@dataclass(frozen=True, slots=True)
class Moment:
    """What every question is asked at: a scope, valid time, system time.

    `fixed`: a known_at was asked for and lies in the recorded past, so that the answer can never change.
    """

    scope: str
    at: int
    known_at: int
    fixed: bool = False


def scope_of(key: Key | None, scope: str | None = None) -> str | None:
    """The scope of the object that is asked about; where none is, the one that was named."""
    return scope if key is None else key.source_scope


def settle(rewind: Rewind, scope: str | None = None, at: str | None = None, known_at: str | None = None) -> Moment:
    """The moment that people mean; `at` is by default the end of coverage, `known_at` all that was recorded.

    Ages count back from the end of coverage, so that an old recording answers `-15m` as it did on its day.
    """
    if scope is None:
        scopes = rewind.scopes()
        if len(scopes) != 1:
            there = f"choose one of: {', '.join(scopes)}" if scopes else "record or replay something first"
            raise UnknownScope("which scope?" if scopes else "nothing was recorded yet", hint=there)
        scope = scopes[0]
    scope = rewind.named(scope)
    top = rewind.watermark(scope)
    asked = None if known_at is None else instants.parse_relative(known_at, top)
    known = top if asked is None else min(asked, top)
    end = end_of_coverage(rewind, scope, known)
    instant = end if at is None else instants.parse_relative(at, end)
    if instant > max(end, top):
        raise InTheFuture(
            f"{instants.show(instant)} lies after everything recorded", hint=f"coverage ends at {instants.show(end)}"
        )
    rewind.above(scope, instant)
    return Moment(scope, instant, known, fixed=asked is not None and asked <= top)


def begin(rewind: Rewind, moment: Moment, since: int) -> int:
    """From when on something is asked for; -MAX is the horizon. Raises InputError where that is after the moment."""
    if since > moment.at:
        asked = f"since {instants.show(since)}, up to {instants.show(moment.at)}"
        raise InputError(f"{asked}: there is no such time", hint="`since` is the earlier instant, `at` the later")
    return rewind.horizon(moment.scope) if since == -MAX else since


def known(rewind: Rewind, scope: str, namespace: str | None = None, kind: str | None = None) -> None:
    """Raises UnknownObject where a namespace or kind that one filters by was never recorded, with near names."""
    for what, wanted, column in (("namespace", namespace, "namespace"), ("kind", kind, "kind")):
        if wanted is None:
            continue
        there = rewind.names(scope, column)
        if wanted.lower() not in [name.lower() for name in there]:
            near = difflib.get_close_matches(wanted, there, n=3, cutoff=0.4) or there[:5]
            raise UnknownObject(f"no {what} {wanted!r} was {rewind.ever}", hint=f"there is: {', '.join(near)}")


def end_of_coverage(rewind: Rewind, scope: str, known_at: int) -> int:
    """The last instant until which something was watched, be it for that instant only."""
    ends = [{"watching": row.vt, "ended": row.vf}.get(row.state) for row in rewind.coverage(scope, known_at)]
    watched = [end for end in ends if end is not None]
    return min(max(watched, default=known_at), known_at)


def show(rewind: Rewind, moment: Moment, key: Key) -> Answer:
    """One object with its state and edges; no item where it did not exist.

    `uncertain` bounds the instant of a change that may have come before the asked one already. Where the object was
    there but had not been looked at yet, `state` is null and `existed` true; null where it may have come later.
    """
    version = rewind.as_of(key, moment.at, moment.known_at)
    items: list[dict[str, Json]] = []
    if version is not None:
        edges = rewind.edges(moment.scope, moment.at, moment.known_at, key)
        unsure = version.ends_not_before <= moment.at < version.vt
        items.append(
            {
                **version_item(version),
                "existed": True,
                "uncertain": moment_item(version.ends_not_before, version.vt) if unsure else None,
                "state": _as_sent(rewind, version, moment.known_at),
                "edges": [edge_item(edge) for edge in edges],
            }
        )
    elif (first := _first_look(rewind, moment, key)) is not None:
        there = _created(rewind.state(first)) < moment.at
        bounds = None if there else moment_item(first.not_before, first.vf)
        existed = True if there else None
        items.append({**version_item(first), "existed": existed, "uncertain": bounds, "state": None, "edges": []})
    return tell(rewind, moment, moment.at, items)


def history(rewind: Rewind, moment: Moment, key: Key) -> Answer:
    """Every version of an object up to the moment, oldest first, each with the change that made it."""
    items: list[dict[str, Json]] = []
    versions = [one for one in rewind.versions(key, moment.known_at) if one.vf <= moment.at]
    for version in versions:
        told = None if version.change_id is None else rewind.change(version.change_id, moment.known_at)
        items.append({**version_item(version), "change": None if told is None else change_item(told.change)})
    return tell(rewind, moment, max(versions[0].vf, rewind.horizon(moment.scope)) if versions else moment.at, items)


def fields(rewind: Rewind, moment: Moment, key: Key, path: str) -> Answer:
    """How the fields of an object that meet a pattern changed, up to the moment, oldest first. Raises BadPath."""
    parse(path)
    found = rewind.changes(moment.scope, key=key, until=moment.at, known_at=moment.known_at, noise=True, limit=-1)
    items: list[dict[str, Json]] = []
    for one in reversed(found):
        told = change_item(one.change)
        whole = {name: told[name] for name in ("op", "valid", "observed_at", "actor")} | {"change": told["id"]}
        items.extend(
            {"path": row.path, "effect": row.effect, "before": row.before, "after": row.after, **whole}
            for row in one.change.fields
            if matches(row.path, path)
        )
    return tell(rewind, moment, found[-1].vf if found else moment.at, items)


def difference(
    rewind: Rewind, moment: Moment, before: int, *, namespace: str | None = None, kind: str | None = None,
    key: Key | None = None,
) -> Answer:  # fmt: skip
    """How the scope at the moment differs from the scope at `before`: objects added, removed, and fields changed.

    An object that was merely first seen since, so that it may have been there all along, is `first_seen`, not `added`.
    """
    known(rewind, moment.scope, namespace, kind)
    old, new = (
        {
            one.key: one
            for one in _objects(rewind, moment.scope, at, moment.known_at, key)
            if (namespace is None or one.key.namespace == namespace)
            and (kind is None or one.kind.lower() == kind.lower())
        }
        for at in (before, moment.at)
    )
    items: list[dict[str, Json]] = []
    for one in sorted({*old, *new}, key=str):
        was, now = old.get(one), new.get(one)
        if was is not None and now is not None:
            if was.seq == now.seq and was.uid == now.uid:
                continue
            told = compare(rewind.state(was), rewind.state(now), one.type)
            rows = [
                {"path": row.path, "effect": row.effect, "before": row.before, "after": row.after}
                for row in told.fields
            ]
            if rows:
                effect = "changed" if was.uid == now.uid else "replaced"
                items.append({"object": _named(now), "effect": effect, "fields": [*rows]})
        elif (found := now or was) is not None:
            effect = "removed" if now is None else _came(rewind, now, before, moment.known_at)
            items.append({"object": _named(found), "effect": effect, "fields": []})
    return tell(rewind, moment, before, items)


def evidence(
    rewind: Rewind, moment: Moment, *, since: int = -MAX, namespace: str | None = None, key: Key | None = None,
    limit: int = 100,
) -> Answer:  # fmt: skip
    """What was recorded that bears on objects, such as Kubernetes Events, in (since, at]; newest first.

    A `since` of -MAX is the horizon.
    """
    since = begin(rewind, moment, since)
    heard = [
        one
        for one in reversed(rewind.evidence(moment.scope, since, moment.at))
        if one.observed_at <= moment.known_at
        and namespace in (None, one.object.namespace)
        and key in (None, one.object.key)
    ]
    return tell(rewind, moment, since, [evidence_item(one) for one in heard[:limit]])


def dead_letters(rewind: Rewind, moment: Moment) -> Answer:
    """The records that could not be applied, each with its log position and reason."""
    items: list[dict[str, Json]] = [
        {"position": one.position, "reason": one.reason, "detail": one.detail}
        for one in rewind.dead_letters()
        if one.scope == moment.scope
    ]
    return tell(rewind, moment, moment.at, items)


def coverage(rewind: Rewind, moment: Moment) -> Answer:
    """How every group-resource was watched, over time, up to the moment."""
    rows = rewind.coverage(moment.scope, moment.known_at)
    return tell(rewind, moment, moment.at, [covered_item(row) for row in rows if row.vf <= moment.at])


def _objects(rewind: Rewind, scope: str, at: int, known_at: int, key: Key | None) -> list[Version]:
    if key is None:
        return rewind.objects(scope, at, known_at)
    one = rewind.as_of(key, at, known_at)
    return [] if one is None else [one]


def _as_sent(rewind: Rewind, version: Version, known_at: int) -> dict[str, Json]:
    """The state with what travels beside it put back: resourceVersion and generation."""
    state = rewind.state(version)
    meta = state.get("metadata")
    if not isinstance(meta, dict):
        return state
    beside = rewind.source_version(version, known_at)
    back: dict[str, Json] = {}
    if beside.version is not None:
        back["resourceVersion"] = beside.version
    if beside.generation is not None:
        back["generation"] = beside.generation
    return {**state, "metadata": {**meta, **back}}


def _first_look(rewind: Rewind, moment: Moment, key: Key) -> Version | None:
    """The first version after the moment, if it may have begun before it."""
    after = [one for one in rewind.versions(key, moment.known_at) if one.vf > moment.at]
    return after[0] if after and after[0].not_before <= moment.at else None


def _created(state: dict[str, Json]) -> int:
    """The end of the second in which the source says that the object was made; MAX where it says nothing."""
    meta = state.get("metadata")
    told = meta.get("creationTimestamp") if isinstance(meta, dict) else None
    try:
        return instants.parse(told) + SECOND if isinstance(told, str) else MAX
    except BadInstant:
        return MAX


def _came(rewind: Rewind, version: Version, before: int, known_at: int) -> str:
    first = next(one for one in rewind.versions(version.key, known_at) if one.vf > before)
    told = None if first.change_id is None else rewind.change(first.change_id, known_at)
    return "added" if told is not None and told.change.op == "create" else "first_seen"


def _named(version: Version) -> dict[str, Json]:
    return object_item(version.key, version.kind, version.class_, version.uid)


def tell(
    rewind: Rewind, moment: Moment, since: int, items: list[dict[str, Json]], following: str | None = None
) -> Answer:
    """The answer object: `items`, and how well the time from `since` to the moment was watched."""
    rows = rewind.coverage(moment.scope, moment.known_at)
    here = [covered_item(row) for row in rows if _watched(row, moment.at)]
    unknown = [
        covered_item(row)
        for row in rows
        if row.state != "watching" and row.vf < moment.at and row.vt > min(since, moment.at - 1)
    ]
    unknown.extend(
        {
            "group_resource": one.key.type, "namespaces": None if one.key.namespace is None else [one.key.namespace],
            "state": "broken", "from": instants.show(one.since),
            "to": None if one.until == MAX else instants.show(one.until),
            "reason": f"{one.key}: {one.reason} at log position {one.position}, see the dead letters",
        }
        for one in rewind.broken(moment.scope, moment.known_at)
        if one.since <= moment.at and one.until > min(since, moment.at - 1)
    )  # fmt: skip
    begins: dict[str, int] = {}
    for row in rows:
        begins[row.group_resource] = min(row.vf, begins.get(row.group_resource, MAX))
    if since > -MAX:
        unknown.extend(
            {"group_resource": name, "namespaces": None, "state": "unwatched", "from": None, "to": instants.show(first),
             "reason": "not recorded before"}
            for name, first in sorted(begins.items())
            if first > since
        )  # fmt: skip
    horizon = rewind.horizon(moment.scope)
    return Answer(moment.at, moment.known_at, moment.scope, here, unknown, items, following, moment.fixed, horizon)


def _watched(row: Covered, at: int) -> bool:
    """Whether a span was being watched when `at` came; its own last instant still counts."""
    return row.state == "watching" and row.vf <= at <= row.vt

"""One function per question, each giving an `Answer`; faces translate arguments in and the answer out.

Nothing here asks a live system. Which rows answer is decided in `store.rewind`; here the instants are settled, results
filtered, folded and paged, and every answer told how well the asked time was watched.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import astuple, dataclass

import orjson

from api.answer import Answer, change_item, covered_item, edge_item, object_item, version_item
from api.cascade import WINDOW, Group, fold
from capture.diff import diff as compare
from schema import instants
from schema.canonical import Json, hash128
from schema.errors import BadCursor, InTheFuture, UnknownScope
from schema.identity import Key, type_of
from schema.instants import MAX
from store.rewind import Covered, Recorded, Rewind, Version

_CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """What every question is asked at: a scope, valid time, system time."""

    scope: str
    at: int
    known_at: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Which changes; None asks for all. `actor` is a part of manager or user."""

    namespace: str | None = None
    kind: str | None = None
    object: Key | None = None
    actor: str | None = None


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
    top = rewind.watermark(scope)
    known = top if known_at is None else min(instants.parse_relative(known_at, top), top)
    end = end_of_coverage(rewind, scope, known)
    instant = end if at is None else instants.parse_relative(at, end)
    if instant > max(end, top):
        raise InTheFuture(
            f"{instants.show(instant)} lies after everything recorded", hint=f"coverage ends at {instants.show(end)}"
        )
    return Moment(scope, instant, known)


def end_of_coverage(rewind: Rewind, scope: str, known_at: int) -> int:
    """The last instant until which something was watched."""
    watched = [row.vt for row in rewind.coverage(scope, known_at) if row.state == "watching"]
    return min(max(watched, default=known_at), known_at)


def show(rewind: Rewind, moment: Moment, key: Key) -> Answer:
    """One object with its state and edges; no item where it did not exist."""
    version = rewind.as_of(key, moment.at, moment.known_at)
    items: list[dict[str, Json]] = []
    if version is not None:
        edges = rewind.edges(moment.scope, moment.at, moment.known_at, key)
        items.append(
            {**version_item(version), "state": rewind.state(version), "edges": [edge_item(edge) for edge in edges]}
        )
    return _answer(rewind, moment, moment.at, items)


def history(rewind: Rewind, moment: Moment, key: Key) -> Answer:
    """Every version of an object up to the moment, oldest first, each with the change that made it."""
    items: list[dict[str, Json]] = []
    versions = [one for one in rewind.versions(key, moment.known_at) if one.vf <= moment.at]
    for version in versions:
        told = None if version.change_id is None else rewind.change(version.change_id, moment.known_at)
        items.append({**version_item(version), "change": None if told is None else change_item(told.change)})
    return _answer(rewind, moment, versions[0].vf if versions else moment.at, items)


def changes(
    rewind: Rewind,
    moment: Moment,
    *,
    since: int = -MAX,
    where: Filter | None = None,
    noise: bool = False,
    limit: int = 100,
    cursor: str | None = None,
) -> Answer:
    """What changed in (since, at], newest first, consequences folded under the change that led to them.

    A group is given when its head or any of its members fits the filter.
    """
    wanted = where or Filter()
    asked = hash128(moment.scope, str(since), repr(astuple(wanted)), str(noise))
    below, moment = (None, moment) if cursor is None else _resumed(cursor, asked, moment)
    # A page may begin in the middle of a cascade: read from above it, so that members find the same heads again.
    until = moment.at if below is None else min(moment.at, below[0] + 2 * WINDOW)
    roots = _Roots(rewind, moment.known_at)
    read: list[Recorded] = []
    while True:
        last = (read[-1].vf, read[-1].seq) if read else None
        chunk = rewind.changes(
            moment.scope, since=since, until=until, known_at=moment.known_at, noise=noise, limit=_CHUNK,
            before_cursor=last,
        )  # fmt: skip
        read.extend(chunk)
        done = len(chunk) < _CHUNK
        settled = -MAX if done else read[-1].vf + WINDOW
        groups = [
            group
            for group in fold(read, roots.root_of)
            if group.head.vf > settled
            and (below is None or (group.head.vf, group.head.seq) < below)
            and any(_fits(one, wanted) for one in (group.head, *group.members))
        ]
        if done or len(groups) > limit:
            break
    page = groups[:limit]
    following = _cursor(page[-1], asked, moment) if len(groups) > limit else None
    items = [change_item(group.head.change, [one.change for one in group.members]) for group in page]
    return _answer(rewind, moment, since, items, following)


def difference(rewind: Rewind, moment: Moment, before: int, where: Filter | None = None) -> Answer:
    """How the scope at the moment differs from the scope at `before`: objects added, removed, and fields changed.

    An object that was merely first seen since, so that it may have been there all along, is `first_seen`, not `added`.
    """
    wanted = where or Filter()
    old = _objects(rewind, moment.scope, before, moment.known_at, wanted)
    new = _objects(rewind, moment.scope, moment.at, moment.known_at, wanted)
    items: list[dict[str, Json]] = []
    for key in sorted({*old, *new}, key=str):
        was, now = old.get(key), new.get(key)
        if was is not None and now is not None:
            if was.seq == now.seq and was.uid == now.uid:
                continue
            told = compare(rewind.state(was), rewind.state(now), key.type)
            rows = [
                {"path": one.path, "effect": one.effect, "before": one.before, "after": one.after}
                for one in told.fields
            ]
            if rows:
                effect = "changed" if was.uid == now.uid else "replaced"
                items.append({"object": _named(now), "effect": effect, "fields": [*rows]})
        elif (found := now or was) is not None:
            effect = "removed" if now is None else _came(rewind, now, before, moment.known_at)
            items.append({"object": _named(found), "effect": effect, "fields": []})
    return _answer(rewind, moment, before, items)


def coverage(rewind: Rewind, moment: Moment) -> Answer:
    """How every group-resource was watched, over time, up to the moment."""
    rows = rewind.coverage(moment.scope, moment.known_at)
    return _answer(rewind, moment, moment.at, [covered_item(row) for row in rows if row.vf <= moment.at])


class _Roots:
    """The top of each object's chain of controllers, remembered for one question."""

    def __init__(self, rewind: Rewind, known_at: int) -> None:
        self._rewind = rewind
        self._known_at = known_at
        self._owners: dict[tuple[Key, str | None], Key | None] = {}

    def root_of(self, one: Recorded) -> Key:
        key, uid = one.change.object.key, one.change.object.uid
        seen: set[Key] = set()
        # A delete ends the version that names the owner.
        at = one.vf - 1 if one.change.op == "delete" else one.vf
        while key not in seen:
            seen.add(key)
            owner = self._owner(key, uid, at)
            if owner is None:
                break
            key, uid = owner, None
        return key

    def _owner(self, key: Key, uid: str | None, at: int) -> Key | None:
        if (key, uid) in self._owners:
            return self._owners[key, uid]
        version = self._rewind.as_of(key, at, self._known_at)
        if version is None:
            return None
        found = _controller(key, self._rewind.state(version))
        self._owners[key, uid] = found
        return found


def _controller(key: Key, state: dict[str, Json]) -> Key | None:
    metadata = state.get("metadata")
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    for owner in owners if isinstance(owners, list) else []:
        if isinstance(owner, dict) and owner.get("controller") is True:
            version, kind, name = owner.get("apiVersion"), owner.get("kind"), owner.get("name")
            if isinstance(version, str) and isinstance(kind, str) and isinstance(name, str):
                # Owners of namespaced objects live in the same namespace, but for Node, whose pods have no root else.
                space = None if kind == "Node" else key.namespace
                return Key(key.source, key.scope, type_of(version, kind), space, name)
    return None


def _fits(one: Recorded, wanted: Filter) -> bool:
    change = one.change
    ref, actor = change.object, change.actor
    if wanted.object is not None and ref.key != wanted.object:
        return False
    if wanted.namespace is not None and ref.namespace != wanted.namespace:
        return False
    if wanted.kind is not None and ref.kind.lower() != wanted.kind.lower():
        return False
    return wanted.actor is None or any(
        wanted.actor.lower() in name.lower() for name in (actor.manager, actor.user) if name
    )


def _objects(rewind: Rewind, scope: str, at: int, known_at: int, wanted: Filter) -> dict[Key, Version]:
    if wanted.object is not None:
        one = rewind.as_of(wanted.object, at, known_at)
        return {} if one is None else {one.key: one}
    return {
        one.key: one
        for one in rewind.objects(scope, at, known_at)
        if (wanted.namespace is None or one.key.namespace == wanted.namespace)
        and (wanted.kind is None or one.kind.lower() == wanted.kind.lower())
    }


def _came(rewind: Rewind, version: Version, before: int, known_at: int) -> str:
    first = next(one for one in rewind.versions(version.key, known_at) if one.vf > before)
    told = None if first.change_id is None else rewind.change(first.change_id, known_at)
    return "added" if told is not None and told.change.op == "create" else "first_seen"


def _named(version: Version) -> dict[str, Json]:
    return object_item(version.key, version.kind, version.class_, version.uid)


def _answer(
    rewind: Rewind, moment: Moment, since: int, items: list[dict[str, Json]], following: str | None = None
) -> Answer:
    rows = rewind.coverage(moment.scope, moment.known_at)
    here = [covered_item(row) for row in rows if _watched(row, moment.at)]
    unknown = [
        covered_item(row)
        for row in rows
        if row.state != "watching" and row.vf < moment.at and row.vt > min(since, moment.at - 1)
    ]
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
    return Answer(moment.at, moment.known_at, moment.scope, here, unknown, items, following)


def _watched(row: Covered, at: int) -> bool:
    """Whether a span was being watched when `at` came; its own last instant still counts."""
    return row.state == "watching" and row.vf <= at <= row.vt


def _cursor(group: Group, asked: str, moment: Moment) -> str:
    told = [group.head.vf, group.head.seq, moment.at, moment.known_at, asked]
    return base64.urlsafe_b64encode(orjson.dumps(told)).decode().rstrip("=")


def _resumed(cursor: str, asked: str, moment: Moment) -> tuple[tuple[int, int], Moment]:
    """Where a page goes on, at the instants of its first page: records that came since do not shift it."""
    try:
        told = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        raise BadCursor("not a cursor of ours", hint="hand back `next` unchanged") from None
    if not (isinstance(told, list) and len(told) == 5 and _integers(told[:4])):
        raise BadCursor("not a cursor of ours", hint="hand back `next` unchanged")
    if told[4] != asked:
        raise BadCursor("this cursor belongs to another question", hint="ask with the same filters as for page one")
    return (told[0], told[1]), Moment(moment.scope, told[2], told[3])


def _integers(values: Iterable[object]) -> bool:
    return all(isinstance(one, int) and abs(one) <= MAX for one in values)

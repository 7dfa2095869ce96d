"""The question `changes`: what changed before an instant, consequences folded under their head, filtered and paged.

Reading goes newest first in chunks; a group is complete once everything within the folding window above its head was
read, and leaves the buffer then, so that memory and time grow with the page and not with the past. Which rows there
are is `store.rewind`'s business, who follows from whom `api.cascade`'s.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import astuple, dataclass

import orjson

from api.answer import Answer, change_item
from api.cascade import WINDOW, Group, fold
from api.questions import Moment, tell
from schema.canonical import Json, hash128
from schema.errors import BadCursor
from schema.identity import Key, type_of
from schema.instants import MAX
from schema.paths import matches, parse
from store.rewind import Recorded, Rewind

_CHUNK = 1000
_NEAR = 12 * WINDOW
"""A neighbour of the asked instant or of the hour before it counts: what was cut off is near as well."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which changes; None asks for all. `actor` is a part of manager or user, `path` a pattern of `schema.paths`.

    `near` limits to objects at most `hops` edges from that object.
    """

    namespace: str | None = None
    kind: str | None = None
    object: Key | None = None
    actor: str | None = None
    path: str | None = None
    near: Key | None = None
    hops: int = 2


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

    A group is given when its head or any of its members fits the filter. Raises BadPath, BadCursor.
    """
    wanted = where or Filter()
    if wanted.path is not None:
        parse(wanted.path)
    asked = hash128(moment.scope, str(since), repr(astuple(wanted)), str(noise))
    below, moment = (None, moment) if cursor is None else _resumed(cursor, asked, moment)
    close = None if wanted.near is None else neighbourhood(rewind, moment, wanted.near, wanted.hops, since)
    # A page may begin in the middle of a cascade: read from above it, so that members find the same heads again.
    until = moment.at if below is None else min(moment.at, below[0] + 2 * WINDOW)
    roots = _Roots(rewind, moment.known_at)
    groups: list[Group] = []
    pending: list[Recorded] = []
    last: tuple[int, int] | None = None
    while True:
        chunk = rewind.changes(
            moment.scope, namespace=wanted.namespace, since=since, until=until, known_at=moment.known_at, noise=noise,
            limit=_CHUNK, before_cursor=last,
        )  # fmt: skip
        done = len(chunk) < _CHUNK
        last = (chunk[-1].vf, chunk[-1].seq) if chunk else last
        settled = -MAX if done or last is None else last[0] + WINDOW
        folded = fold([*pending, *chunk], roots.root_of)
        pending = [one for group in folded if group.head.vf <= settled for one in (group.head, *group.members)]
        groups.extend(
            group
            for group in folded
            if group.head.vf > settled
            and (below is None or (group.head.vf, group.head.seq) < below)
            and any(_fits(one, wanted, close) for one in (group.head, *group.members))
        )
        if done or len(groups) > limit:
            break
    page = groups[:limit]
    following = _cursor(page[-1], asked, moment) if len(groups) > limit else None
    items = [change_item(group.head.change, [one.change for one in group.members]) for group in page]
    return tell(rewind, moment, since, items, following)


def neighbourhood(rewind: Rewind, moment: Moment, key: Key, hops: int, since: int = -MAX) -> set[Key]:
    """The objects at most `hops` edges away, in either direction, at the moment or in the hour before it.

    Being in one namespace (CONTAINS) does not make neighbours.
    """
    start = max(since, moment.at - _NEAR)
    found, edge_of_it = {key}, {key}
    for _ in range(hops):
        edge_of_it = {
            other for one in edge_of_it for other in rewind.neighbours(one, start, moment.at, moment.known_at)
        } - found
        found |= edge_of_it
    return found


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


def _fits(one: Recorded, wanted: Filter, close: set[Key] | None) -> bool:
    change = one.change
    ref, actor = change.object, change.actor
    if wanted.object is not None and ref.key != wanted.object:
        return False
    if wanted.namespace is not None and ref.namespace != wanted.namespace:
        return False
    if wanted.kind is not None and ref.kind.lower() != wanted.kind.lower():
        return False
    if close is not None and ref.key not in close:
        return False
    if wanted.path is not None and not any(matches(field.path, wanted.path) for field in change.fields):
        return False
    return wanted.actor is None or any(
        wanted.actor.lower() in name.lower() for name in (actor.manager, actor.user) if name
    )


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

"""The question `changes`: what changed before an instant, consequences folded under their head, filtered and paged.

What fits the filter is read newest first; around each such change only its folding window is read to find its head
and what else follows from that, so that time and memory grow with the page and not with the past. Which rows there are
is `store.rewind`'s business, who follows from whom `api.cascade`'s.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

import orjson

from api.answer import Answer, change_item
from api.cascade import REACH, WINDOW, Group, fold
from api.questions import Moment, begin, known, tell
from schema.canonical import hash128
from schema.errors import BadCursor
from schema.identity import Key
from schema.identity import oid as oid_of
from schema.instants import MAX
from schema.kinds import class_of
from schema.paths import matches, parse
from store.chronicle import Told
from store.past import Recorded
from store.rewind import Rewind

_NEAR = 12 * WINDOW
"""A neighbour of the asked instant or of the hour before it counts: what was cut off is near as well."""

_WALKED = frozenset(
    {
        "Workload",
        "Pod",
        "Service",
        "EndpointSet",
        "Route",
        "Config",
        "Secret",
        "Volume",
        "Role",
        "Binding",
        "Autoscaler",
    }
)
"""The classes through which neighbours are found."""


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

    A group is given when its head or any of its members fits the filter. A `since` of -MAX is the horizon. Raises
    BadPath, BadCursor.
    """
    wanted = where or Filter()
    since = begin(rewind, moment, since)
    if wanted.path is not None:
        parse(wanted.path)
    known(rewind, moment.scope, wanted.namespace, wanted.kind)
    asked = hash128(moment.scope, str(since), repr(astuple(wanted)), str(noise))
    below, moment = (None, moment) if cursor is None else _resumed(rewind, cursor, asked, moment)
    close = None if wanted.near is None else neighbourhood(rewind, moment, wanted.near, wanted.hops, since)
    windows = _Windows(rewind, moment, since, noise, wanted.namespace)
    groups: list[Group] = []
    waiting: dict[int, Group] = {}
    for seed in _seeds(rewind, moment, since, wanted, close, noise, None if below is None else below[0] + WINDOW):
        # Heads of all that is still to come lie at or before it: what lies after it is in its final order.
        ready = sorted((g for g in waiting.values() if g.head.vf > seed.vf), key=_newest)
        groups.extend(ready)
        if len(groups) > limit:
            break
        waiting = {seq: group for seq, group in waiting.items() if group.head.vf <= seed.vf}
        group = windows.group_of(seed)
        if below is None or (group.head.vf, group.head.seq) < below:
            waiting[group.head.seq] = group
    else:
        groups.extend(sorted(waiting.values(), key=_newest))
    page = groups[:limit]
    following = _cursor(page[-1], asked, moment) if len(groups) > limit else None
    items = [change_item(group.head.change, [one.change for one in group.members]) for group in page]
    return tell(rewind, moment, since, items, following)


def neighbourhood(rewind: Rewind, moment: Moment, key: Key, hops: int, since: int = -MAX) -> set[Key]:
    """The objects at most `hops` edges away, in either direction, at the moment or in the hour before it.

    Being in one namespace does not make neighbours, but what constrains a namespace is a neighbour of all in it. What
    joins strangers (a node, an image, a policy, an identity) is a neighbour, but nothing is reached through it.
    """
    start = max(since, moment.at - _NEAR, rewind.horizon(moment.scope))
    found, edge_of_it = {key}, {key}
    for _ in range(hops):
        reached: set[Key] = set()
        for one in edge_of_it:
            if one != key and class_of(one.type) not in _WALKED:
                continue
            reached.update(rewind.neighbours(one, start, moment.at, moment.known_at))
            if one.namespace is not None:
                space = Key(one.source, one.scope, "core/Namespace", None, one.namespace)
                reached.update(rewind.constraints(space, start, moment.at, moment.known_at))
        edge_of_it = reached - found
        found |= edge_of_it
    return found


def _seeds(
    rewind: Rewind, moment: Moment, since: int, wanted: Filter, close: set[Key] | None, noise: bool, until: int | None
) -> Iterator[Recorded]:
    """The changes that fit the filter, newest first."""
    among = None if close is None else {oid_of(key) for key in close}
    return rewind.newest(
        moment.scope, key=wanted.object, namespace=wanted.namespace, kind=wanted.kind, since=since,
        until=moment.at if until is None else min(until, moment.at), known_at=moment.known_at, noise=noise,
        fits=lambda oid, told: (among is None or oid in among) and _fits(told, wanted),
    )  # fmt: skip


class _Windows:
    """Folded stretches of the past, by namespace; each is read once and serves the changes that lie well inside it."""

    def __init__(self, rewind: Rewind, moment: Moment, since: int, noise: bool, namespace: str | None) -> None:
        self._rewind = rewind
        self._moment = moment
        self._since = since
        self._noise = noise
        self._namespace = namespace
        self._owners: dict[tuple[Key, str | None], Key | None] = {}
        self._about: dict[Key, list[Key]] = {}
        self._read: dict[str | None, tuple[int, dict[int, Group]]] = {}

    def group_of(self, one: Recorded) -> Group:
        """The group that a change belongs to, whole."""
        # Controllers act within the namespace of what they own; only what belongs to a node may cross it.
        space = self._namespace or one.change.object.namespace
        floor, groups = self._read.get(space, (MAX, {}))
        if max(one.vf - REACH, self._since) < floor or one.seq not in groups:
            floor = max(one.vf - REACH - WINDOW, self._since)
            rows = self._rewind.changes(
                self._moment.scope, namespace=space, since=floor, until=min(one.vf + WINDOW, self._moment.at),
                known_at=self._moment.known_at, noise=self._noise, limit=-1,
            )  # fmt: skip
            groups = {row.seq: group for group in fold(rows, self._roots_of) for row in (group.head, *group.members)}
            self._read[space] = (floor, groups)
        return groups[one.seq]

    def _roots_of(self, one: Recorded) -> list[Key]:
        """The top of an object's chain of controllers, and the workloads that this is about."""
        root = self._root_of(one)
        if root.type == "core/Endpoints":
            root = root._replace(type="core/Service")  # they carry the name of their Service, not an owner
        if root not in self._about:
            self._about[root] = self._rewind.concerns(root, one.vf, self._moment.known_at)
        return [root, *self._about[root]]

    def _root_of(self, one: Recorded) -> Key:
        key, uid = one.change.object.key, one.change.object.uid
        seen: set[Key] = set()
        # A delete ends the version that names the owner.
        at = one.vf - 1 if one.change.op == "delete" else one.vf
        while key not in seen:
            seen.add(key)
            if (key, uid) not in self._owners:
                self._owners[key, uid] = self._rewind.controller(key, at, self._moment.known_at)
            owner = self._owners[key, uid]
            if owner is None:
                break
            key, uid = owner, None
        return key


def _newest(group: Group) -> tuple[int, int]:
    return -group.head.vf, -group.head.seq


def _fits(told: Told, wanted: Filter) -> bool:
    """Whether one of the fields and the actor of a change, as the ledger keeps them, are those that are asked for."""
    if wanted.path is not None:
        rows = told.get("fields")
        paths = [str(row.get("path")) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        if not any(matches(path, wanted.path) for path in paths):
            return False
    if wanted.actor is None:
        return True
    actor = told.get("actor")
    names = [actor.get(name) for name in ("manager", "user", "impersonator")] if isinstance(actor, dict) else []
    return any(wanted.actor.lower() in str(name).lower() for name in names if name)


def _cursor(group: Group, asked: str, moment: Moment) -> str:
    told = [group.head.vf, group.head.seq, moment.at, moment.known_at, asked]
    return base64.urlsafe_b64encode(orjson.dumps(told)).decode().rstrip("=")


def _resumed(rewind: Rewind, cursor: str, asked: str, moment: Moment) -> tuple[tuple[int, int], Moment]:
    """Where a page goes on, at the instants of its first page: records that came since do not shift it."""
    try:
        told = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        raise BadCursor("not a cursor of ours", hint="hand back `next` unchanged") from None
    if not (isinstance(told, list) and len(told) == 5 and _integers(told[:4])):
        raise BadCursor("not a cursor of ours", hint="hand back `next` unchanged")
    if told[4] != asked:
        raise BadCursor("this cursor belongs to another question", hint="ask with the same filters as for page one")
    if told[3] > rewind.watermark(moment.scope) or told[2] > max(told[3], moment.at):
        raise BadCursor("this cursor is of a time that was not recorded", hint="hand back `next` unchanged")
    return (told[0], told[1]), Moment(moment.scope, told[2], told[3])


def _integers(values: Iterable[object]) -> bool:
    return all(type(one) is int and abs(one) < MAX for one in values)

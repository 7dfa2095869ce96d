"""Which request made which change of one object: by what answers name, by who owns what changed, or by time alone.

A request that names the version it made, or the incarnation it made or ended, is certain. Where time decides, a change
was made by the one request that was in hand when it happened; where several were, by the one whose tool also stands in
managedFields; where that does not tell either, nobody is said to have made it. Pure; what is remembered, and for how
long it is waited, is `audit`'s.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from capture.kubernetes.audit_event import Request
from capture.kubernetes.telling import LAG
from schema.instants import MAX, SECOND
from schema.records import Actor, Change, Op, Valid

SLACK = SECOND // 4
"""How far the clocks of API server and recorder may differ where time decides."""

SKEW = 60 * SECOND
"""And where a version or uid does: the same version of a restored backup is another."""

WORTH = 2 * SECOND
"""A change known to be within this is not told more narrowly: moving it costs rows, and nobody asks."""

CERTAIN = 1.0
ALONE_AND_AGREED = 0.9
ALONE = 0.8
AMONG_SEVERAL = 0.6
BY_COLLECTION = 0.5
"""How sure a match is; docs/recording-live.md says when which."""


class Told(NamedTuple):
    """What is remembered of a change. `marks`: a deletion was asked for; `status`: nothing but status changed, or what
    can only be written otherwise, or that cannot be told; `several`: more than one request may have made it."""

    id: str
    op: Op
    uid: str | None
    version: str | None
    since: int
    until: int
    clock: str
    actor: Actor
    marks: bool
    status: bool | None
    several: bool
    observed_at: int

    @property
    def lookup(self) -> str:
        """The name under which requests that are certain are looked up; see `names_of`."""
        return self.op if self.op != "update" else f"version {self.version}"


class Match(NamedTuple):
    """A request made a change, so surely; `valid`: when, if that is known better now."""

    change: Told
    request: Request
    confidence: float
    valid: Valid | None = None


def told_of(change: Change) -> Told:
    """What a change is remembered by."""
    valid = change.valid
    wide = "from_relist" in change.flags or valid.not_after - valid.not_before > LAG
    return Told(
        change.id, change.op, change.object.uid, change.source_version.version, valid.not_before, valid.not_after,
        valid.clock, change.actor, any(one.path == "metadata.deletionTimestamp" for one in change.fields),
        _status(change), change.op == "update" and wide, change.observed_at,
    )  # fmt: skip


def _status(change: Change) -> bool | None:
    parts = {one.path.partition(".")[0] for one in change.fields}
    if change.op != "update" or change.object.class_ == "CustomResource" or not parts:
        return None  # A custom resource need not have a subresource for it.
    return True if parts == {"status"} else False if parts - {"status", "metadata"} else None


def names_of(request: Request) -> list[str]:
    """What a request names with certainty; without any, only time puts it to a change."""
    if request.uid is None:
        return []
    made = [op for op in ("create", "delete") if request.ops == {op}]
    return made if request.version is None else [*made, f"version {request.version}"]


def certain(change: Told, named: Iterable[Request]) -> Match | None:
    """The request that made a change for certain, among those that name what it is looked up by."""
    fits = [one for one in named if one.uid == change.uid and change.op in one.ops and _meets(change, one, SKEW)]
    if not fits:
        return None
    # A request that changes nothing is answered with the version that is there: the first one made it.
    request = min(fits, key=lambda one: (one.start, one.id))
    exact = change.op == "delete" or request.version == change.version
    return Match(change, request, CERTAIN, narrowed(change, request) if exact else None)


def of_several(change: Told, requests: Iterable[Request], seen: frozenset[str | None], *, whole: bool) -> Match | None:
    """Who made what was found by listing, in which the work of several may look like one change: `seen` are the
    versions of other changes; `whole`: all requests are there."""
    fits = [
        one
        for one in requests
        if one.version not in seen and "update" in one.ops and one.uid in (None, change.uid) and _meets(change, one)
    ]
    agreed = [one for one in fits if _agrees(change, one)]
    if len({_who(one) for one in agreed}) != 1:
        return None
    request = max(agreed, key=lambda one: (one.start, one.id))
    if len(fits) > 1 or not whole:
        return Match(change, request, AMONG_SEVERAL)
    # Unless only one entry moved, somebody else may have written too, of whom the audit log does not tell.
    exact = request.version == change.version and change.actor.confidence >= 0.9
    return Match(change, request, ALONE_AND_AGREED, narrowed(change, request) if exact else None)


def apart(changes: Iterable[Told], requests: Iterable[Request]) -> Iterator[tuple[list[Told], list[Request], int]]:
    """Changes and requests in groups that have no time in common, with the last instant of each."""
    spans: list[tuple[int, int, str, Told | Request]] = sorted(
        [(one.since - SLACK, one.until, one.id, one) for one in changes]
        + [(one.start - SLACK, one.end, one.id, one) for one in requests]
    )
    group: tuple[list[Told], list[Request]] = ([], [])
    last = -MAX
    for start, end, _, one in spans:
        if start > last + SLACK and (group[0] or group[1]):
            yield *group, last
            group = ([], [])
        if isinstance(one, Told):
            group[0].append(one)
        else:
            group[1].append(one)
        last = max(last, end)
    if group[0] or group[1]:
        yield *group, last


def by_time(changes: Sequence[Told], requests: Sequence[Request]) -> list[Match]:
    """The pairs of one group that time tells: each change and each request once."""
    ordered = sorted(requests, key=lambda one: (one.start, one.id))
    starts = [one.start for one in ordered]
    longest = max((one.end - one.start for one in ordered), default=0)

    def near(change: Told) -> Sequence[Request]:
        first = bisect_left(starts, change.since - SLACK - longest)
        return ordered[first : bisect_right(starts, change.until + SLACK)]

    may = {change.id: [one for one in near(change) if _may(change, one)] for change in changes}
    wanted = Counter(one.id for some in may.values() for one in some)
    told = {change.id: change for change in changes}
    found: list[Match] = []
    for id_, request in _only(may):
        alone = len(may[id_]) == 1 and wanted[request.id] == 1
        agreed = ALONE_AND_AGREED if _agrees(told[id_], request) else ALONE
        found.append(Match(told[id_], request, agreed if alone else AMONG_SEVERAL))
    taken = {one.request.id for one in found}
    for one in found:
        del may[one.change.id]
    left = {id_: [one for one in some if one.id not in taken and _agrees(told[id_], one)] for id_, some in may.items()}
    found += (Match(told[id_], request, AMONG_SEVERAL) for id_, request in _only(left))
    return [*found, *_of_one(changes, may, {one.change.id for one in found}, {one.request.id for one in found})]


def _of_one(changes: Sequence[Told], may: dict[str, list[Request]], done: set[str], taken: set[str]) -> Iterator[Match]:
    """Changes for which several requests are left, all of them somebody's and enough for all: in the order of both."""
    theirs: dict[tuple[str | None, ...], list[tuple[Told, list[Request]]]] = {}
    for change in sorted(changes, key=lambda one: (one.until, one.id)):
        if change.id in done:
            continue
        left = [one for one in may[change.id] if one.id not in taken]
        agreed = [one for one in left if _agrees(change, one)] or left
        if len(names := {_who(one) for one in agreed}) == 1:
            theirs.setdefault(names.pop(), []).append((change, agreed))
    for wanting in theirs.values():
        if len({one.id for _, some in wanting for one in some}) < len(wanting):
            continue  # Some of the changes were made otherwise.
        for change, some in wanting:
            free = [one for one in some if one.id not in taken]
            if free:
                request = min(free, key=lambda one: (one.start, one.id))
                taken.add(request.id)
                yield Match(change, request, AMONG_SEVERAL)


def by_collection(change: Told, requests: Iterable[Request]) -> Match | None:
    """Who deleted all objects of a resource in a namespace, while one of them went: one, or always the same."""
    fits = [one for one in requests if _may(change, one)]
    if len({_who(one) for one in fits}) != 1 or not (change.op == "delete" or change.marks):
        return None
    return Match(change, min(fits, key=lambda one: (one.start, one.id)), BY_COLLECTION)


def narrowed(change: Told, request: Request) -> Valid | None:
    """When the change took place, by the clock of the API server; None where that is no news, or cannot be."""
    since, until = max(change.since, request.start), min(change.until, request.end)
    if since > until or change.until - change.since <= WORTH:
        return None
    return Valid(not_before=since, not_after=until, clock="audit")


def _only(may: dict[str, list[Request]]) -> list[tuple[str, Request]]:
    """Pairs of a change and the one request that is left for it, and for no other change that has one left. What is
    found leaves less to the others."""
    left = {id_: {one.id: one for one in some} for id_, some in may.items()}
    found: list[tuple[str, Request]] = []
    while True:
        single = {id_: one for id_, some in left.items() if len(some) == 1 for one in some.values()}
        claims = Counter(one.id for one in single.values())
        fresh = [(id_, one) for id_, one in single.items() if claims[one.id] == 1]
        if not fresh:
            return found
        found += fresh
        for id_, one in fresh:
            del left[id_]
            for some in left.values():
                some.pop(one.id, None)


def _may(change: Told, request: Request) -> bool:
    """Whether a request can have made a change, as far as time and what is known of both go."""
    if change.op not in request.ops or not _meets(change, request):
        return False
    if request.uid is not None and change.uid is not None and request.uid != change.uid:
        return False
    if request.version is not None and change.version is not None and request.version != change.version:
        return False
    if change.op == "delete":
        return True
    if change.op == "update" and change.marks != request.marks:
        return False
    if change.status is not None and change.status != (request.actor.subresource == "status") and not request.marks:
        return False
    # One entry of managedFields moved alone: it is that of whoever wrote, unless that is what nobody signs.
    return (
        request.marks
        or request.actor.subresource == "binding"
        or change.actor.confidence < 0.9
        or _agrees(change, request)
    )


def _agrees(change: Told, request: Request) -> bool:
    """Whether the tool of a request is the one in managedFields."""
    if change.actor.manager is None or change.actor.manager != request.actor.manager:
        return False
    return (change.actor.subresource == "status") == (request.actor.subresource == "status")


def _meets(change: Told, request: Request, slack: int = SLACK) -> bool:
    return request.start <= change.until + slack and change.since - slack <= request.end


def _who(request: Request) -> tuple[str | None, ...]:
    actor = request.actor
    return actor.user, actor.impersonator, actor.user_agent

"""Who made a change, as the API server saw it: requests of the audit log meet the changes that the watches told.

Both come in any order and late; what is undecided is remembered for a bounded time and in bounded number. Which request
made which change is `attribution`'s to say, what an audit event tells `audit_event`'s, where events come from
`audit_file`'s. Pure: the clock is the caller's.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from capture.kubernetes.attribution import (
    ALONE,
    ALONE_AND_AGREED,
    AMONG_SEVERAL,
    BY_COLLECTION,
    CERTAIN,
    Match,
    Told,
    apart,
    by_collection,
    by_time,
    certain,
    names_of,
    of_several,
    told_of,
)
from capture.kubernetes.audit_event import Request, requests_of
from capture.kubernetes.recording import Resource
from capture.kubernetes.skipped import group_resource
from schema.canonical import Json, hash128
from schema.errors import BadAudit
from schema.instants import MAX, SECOND
from schema.records import Actor, Amend, Change, Record, trusted

HOLD = 5 * SECOND
"""So long after a change a request is awaited that is earlier than the one that names its version: the later one may
have changed nothing."""

PATIENCE = 120 * SECOND
"""So long after a change its request is awaited before time decides."""

WINDOW = 600 * SECOND
"""So long changes and requests are remembered."""

MOST = 65_536
"""How many of each are remembered: about 1 KB for a change, 3 KB for a request."""

_HOW = {
    CERTAIN: "certain", ALONE_AND_AGREED: "by time", ALONE: "by time", AMONG_SEVERAL: "among several",
    BY_COLLECTION: "by collection",
}  # fmt: skip

_Object = tuple[str, str, str]
"""(group-resource, namespace, name); empty for none."""


@dataclass(slots=True)
class _Bucket:
    """Changes of one object and requests about it. `best`: how sure an actor of a change was told; `named`: requests by
    what they name for certain; `loose`: those that name nothing; `due`: when to look at them next."""

    changes: dict[str, Told] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    named: dict[str, dict[str, Request]] = field(default_factory=dict)
    loose: dict[str, Request] = field(default_factory=dict)
    due: int = MAX

    def add(self, request: Request) -> None:
        for name in names_of(request):
            self.named.setdefault(name, {})[request.id] = request
        if not names_of(request):
            self.loose[request.id] = request

    def remove(self, request: Request) -> None:
        for name in names_of(request):
            del self.named[name][request.id]
            if not self.named[name]:
                del self.named[name]
        self.loose.pop(request.id, None)

    def requests(self) -> list[Request]:
        return [*{one.id: one for some in (*self.named.values(), self.loose) for one in some.values()}.values()]

    def told(self) -> list[Told]:
        """Its changes; the order in which they came says nothing."""
        return sorted(self.changes.values(), key=lambda one: (one.until, one.id))

    def open(self) -> list[Told]:
        return [one for one in self.told() if one.id not in self.best]


class Audit:
    """The changes and requests of one scope. `counts`: what came of them, and why others came to nothing.

    Whoever was killed may tell the same changes and events again: amendments of the same pair have the same id.
    """

    def __init__(
        self, scope: str, redact_text: Callable[[str], str], resources: Iterable[Resource] = (), most: int = MOST
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._scope = scope
        self._redact_text = redact_text
        self._most = most
        self._resources: dict[str, str] = {}
        self._buckets: dict[_Object, _Bucket] = {}
        self._changes: OrderedDict[str, _Object] = OrderedDict()
        self._requests: OrderedDict[str, _Object] = OrderedDict()
        self._heard: OrderedDict[str, None] = OrderedDict()
        self._collected: set[str] = set()
        self._due: list[tuple[int, _Object]] = []
        self._forgotten = -MAX  # What ended up to here may be remembered no more.
        self.learn(resources)

    def learn(self, resources: Iterable[Resource]) -> None:
        """What is watched: kinds, and what requests call them by."""
        self._resources.update({f"{one.group or 'core'}/{one.kind}": group_resource(one.path) for one in resources})

    def told(self, records: Iterable[Record]) -> None:
        """Records on their way to the log; of these the changes count."""
        for one in records:
            if not isinstance(one, Change) or one.op == "observe" or one.id in self._changes:
                continue
            resource = self._resources.get(one.object.type)
            if resource is None:
                self.counts["changes of an unknown kind"] += 1
                continue
            where = (resource, one.object.namespace or "", one.object.name)
            self._changes[one.id] = where
            self._bucket(where, one.valid.not_after).changes[one.id] = told_of(one)
            self.counts["changes"] += 1
            if len(self._changes) > self._most:
                self._drop(next(iter(self._changes)), "changes crowded out")

    def heard(self, event: Json) -> None:
        """An event of the audit log."""
        try:
            found = requests_of(event, self._redact_text)
        except BadAudit as error:
            self.counts[error.message] += 1
            return
        if isinstance(found, str):
            self.counts[found] += 1
            return
        for one in found:
            if one.id in self._heard:
                self.counts["repeated"] += 1
                continue
            self._heard[one.id] = None
            if len(self._heard) > 2 * self._most:
                self._heard.popitem(last=False)
            where = (one.group_resource, one.namespace or "", one.name or "")
            self._requests[one.id] = where
            self._bucket(where, one.end).add(one)
            self.counts["requests"] += 1
            if len(self._requests) > self._most:
                self._forget(next(iter(self._requests)), "requests crowded out")

    def settle(self, now: int) -> Iterator[Amend]:
        """What can be said by `now`, on the clock of the recorder. The end of all is at `schema.instants.MAX`."""
        ripe: set[_Object] = set()
        while self._due and self._due[0][0] <= now:
            due, where = heapq.heappop(self._due)
            if where in self._buckets and self._buckets[where].due == due:
                ripe.add(where)
        for where in sorted(ripe):
            bucket = self._buckets[where]
            for match in self._decided(where, bucket, now):
                yield self._amended(bucket, match)
        for where in ripe:
            self._expire(self._buckets[where], now)
            self._look_again(where, now)

    @property
    def waiting(self) -> tuple[int, int]:
        """How many changes and requests are remembered."""
        return len(self._changes), len(self._requests)

    # -- what is remembered

    def _bucket(self, where: _Object, t: int) -> _Bucket:
        """The bucket of an object, to be looked at again after something of `t` came."""
        bucket = self._buckets.setdefault(where, _Bucket())
        if t + HOLD < bucket.due:
            bucket.due = t + HOLD
            heapq.heappush(self._due, (bucket.due, where))
        return bucket

    def _look_again(self, where: _Object, now: int) -> None:
        bucket = self._buckets[where]
        if not (bucket.changes or bucket.named or bucket.loose):
            del self._buckets[where]
            return
        ends = [one.end for one in bucket.requests()]
        dues = [end + WINDOW for end in (*ends, *(one.until for one in bucket.changes.values()))]
        left = bucket.open()
        for one in left:
            dues += (one.until + HOLD, one.until + PATIENCE, one.until + 2 * PATIENCE)
        if left:
            dues += (end + PATIENCE for end in ends)
        bucket.due = min(due for due in dues if due > now)
        heapq.heappush(self._due, (bucket.due, where))

    def _expire(self, bucket: _Bucket, now: int) -> None:
        for change in [*bucket.changes.values()]:
            if change.until + WINDOW <= now:
                self._drop(change.id, "changes without a request")
        for request in bucket.requests():
            if request.end + WINDOW <= now:
                self._forget(request.id, "requests without a change")

    def _drop(self, id_: str, why: str) -> None:
        bucket = self._buckets[self._changes.pop(id_)]
        del bucket.changes[id_]
        if bucket.best.pop(id_, None) is None:
            self.counts[why] += 1

    def _forget(self, id_: str, why: str) -> None:
        request = self._taken(id_)
        self._forgotten = max(self._forgotten, request.end)
        if id_ in self._collected:
            self._collected.remove(id_)
        else:
            self.counts[why] += 1

    def _taken(self, id_: str) -> Request:
        bucket = self._buckets[self._requests.pop(id_)]
        request = next(one for one in bucket.requests() if one.id == id_)
        bucket.remove(request)
        return request

    # -- what it says

    def _decided(self, where: _Object, bucket: _Bucket, now: int) -> Iterator[Match]:
        for change in bucket.told():
            if change.several or bucket.best.get(change.id) == CERTAIN or change.until + HOLD > now:
                continue
            match = certain(change, bucket.named.get(change.lookup, {}).values())
            if match is not None:
                yield match
        for change in bucket.open():
            if change.several and change.until + PATIENCE <= now:
                seen = frozenset(
                    one.version for one in bucket.changes.values() if one is not change and one.op != "delete"
                )
                match = of_several(change, bucket.requests(), seen, whole=self._forgotten < change.since)
                if match is not None:
                    yield match
        left = [one for one in bucket.open() if not one.several]
        for changes, requests, last in apart(left, bucket.loose.values()) if left else ():
            # One that is written to without a pause has no last request: what is ripe by far is decided.
            if last + PATIENCE <= now or any(one.until + 2 * PATIENCE <= now for one in changes):
                found = by_time(changes, requests)
                yield from found
                done = {one.change.id for one in found}
                whole = self._buckets.get((*where[:2], ""))
                if whole is not None:
                    for change in changes:
                        match = None if change.id in done else by_collection(change, whole.loose.values())
                        if match is not None:
                            yield match

    def _amended(self, bucket: _Bucket, match: Match) -> Amend:
        change, request = match.change, match.request
        bucket.best[change.id] = match.confidence
        if request.name is None:
            self._collected.add(request.id)  # It may have deleted more than this.
        elif request.id in self._requests:
            self._taken(request.id)
        self.counts[_HOW[match.confidence]] += 1
        said = {**vars(request.actor), "confidence": match.confidence}
        said["manager"] = request.actor.manager or change.actor.manager
        return Amend(
            id=hash128("amend", change.id, request.id),
            source="kubernetes",
            scope=self._scope,
            amends=change.id,
            observed_at=max(request.end, change.observed_at),
            valid=match.valid,
            actor=trusted(Actor, said),
        )

"""The state machine between watch lines and records, without I/O: a live watch and a replayed file go through it alike.

It knows what a line says of its watch: a gap from a deletion, a list from a relist, a page of a list from the whole.
What a state says of an object is left to `lives`, what was not seen to `losses`, redaction and normal form to
`capture.normalise`, Events to `evidence`, the making of records to `telling`, reading files to `recording`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from capture.kubernetes.evidence import Events
from capture.kubernetes.gone import Gone
from capture.kubernetes.lives import Lives
from capture.kubernetes.losses import EVERYTHING, Losses
from capture.kubernetes.objects import LEVELS, is_too_deep, key_of, named, older, without_guesses
from capture.kubernetes.recording import BadLine, Line, Resource
from capture.kubernetes.selection import is_helm
from capture.kubernetes.skipped import group_resource, is_skipped
from capture.kubernetes.telling import LAG, Seen, Teller
from capture.kubernetes.watched import InMemory, Known, Memory, Pages, Watch, Watches
from capture.normalise import Prepared, prepare
from capture.redact import Redactor
from schema.canonical import Json
from schema.errors import BadRecord, InputError
from schema.records import Change, Flag, Record

_EVENTS = "core/events"


class Reflector:
    """All resources of one scope. Feed it lines in arrival order; `counts` tells what gave no record, and why."""

    def __init__(
        self,
        scope: str,
        redactor: Redactor,
        epoch: str,
        resources: Sequence[Resource] = (),
        memory: Memory | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        memory = InMemory() if memory is None else memory
        self._scope = scope
        self._redactor = redactor
        self._resources = {resource.path: resource for resource in resources}
        self._watches = Watches(memory)
        tell = Teller(scope, epoch, redactor.key_id)
        self._losses = Losses(tell, self._watches, redactor)
        self._lives = Lives(tell, self._watches, Gone(memory.deaths, memory.predecessors), self.counts)
        self._events = Events(scope, redactor.redact_text, memory.heard)

    def lost(self, names: Iterable[str], t: int, reason: str) -> list[Record]:
        """The recorder itself was away until `t`: these watches are lost since they were last heard of."""
        return [*self._losses.lose_all(names, t, reason)]

    def ended(self, names: Iterable[str], t: int, reason: str) -> list[Record]:
        """These are watched no longer, on purpose: what they hold stays as it was last known."""
        return [*self._losses.lose_all(names, t, reason, "ended")]

    def end(self, t: int) -> list[Record]:
        """The recording ends here: nothing is known of any watched resource from `t` on."""
        return [*self._losses.end(t, "end of recording", heard=True)]

    def stop(self, t: int, reason: str) -> list[Record]:
        """The recorder stops here; what a watch that was about to be lost did not bring is found by the next list."""
        return [*self._losses.end(t, reason, heard=False)]

    def goes_on(self, names: Iterable[str], since: int, t: int) -> list[Record]:
        """What was told to have ended at `since` had not: the recording was read to there only."""
        return [*self._losses.goes_on(names, since, t)]

    def feed(self, line: Line) -> list[Record]:
        """The records of one line."""
        if is_skipped(line.resource):
            self.counts["skipped"] += 1
            return [*self._losses.good(self._watches.find(EVERYTHING), line.t)]
        watch = self._watches.of(_watched(line.resource, line.part))
        if line.type == "GAP":
            return [*self._losses.lose(watch, line.t, line.reason or "disconnect")]
        out: list[Record] = [*self._losses.good(self._watches.find(EVERYTHING), line.t)]
        if line.type == "RESUMED":
            return [*out, *self._losses.resume(watch, line.t)]
        if line.type == "LIST":
            return out + self._list(watch, line)
        body = line.object or {}
        if line.type == "ERROR" or (body.get("kind") == "Status" and body.get("apiVersion", "v1") == "v1"):
            return out + self._error(watch, body, line.t)
        told: list[Record] = []
        if line.type != "BOOKMARK":
            try:
                told = self._event(watch, body, line, Seen(line.t, watch.since(line.t)))
            except InputError as error:
                self.counts["malformed"] += 1
                return [*out, *self._losses.miss(watch, line.t, error.message)]
        if watch.hole is not None:
            out += self._losses.good(watch, line.t)
        out += told
        watch.unread = None
        watch.heard(line.t, all_of_it=line.type == "BOOKMARK")
        return out

    def miss(self, line: BadLine, t: int) -> list[Record]:
        """A line came at about `t` that is of no use: what it said is missing."""
        if line.resource is not None and is_skipped(line.resource):
            self.counts["skipped"] += 1
            return []
        reason = f"line {line.number}: {line.reason}"
        name = EVERYTHING if line.resource is None else _watched(line.resource, line.part)
        # Of which part, if there are any, a line without one does not say.
        watches = (self._watches.parts(name) if line.part is None else []) or [self._watches.of(name)]
        return [one for watch in watches for one in self._losses.unread(watch, t, reason)]

    def _error(self, watch: Watch, body: dict[str, Json], t: int) -> list[Record]:
        code, reason, message = body.get("code"), body.get("reason"), body.get("message")
        if code == 429:  # Too many requests: the version stays good, nothing is lost.
            self.counts["throttled"] += 1
            return []
        told_why = message if isinstance(message, str) else ""
        if code == 403:
            return [*self._losses.lose(watch, t, told_why or "403", "forbidden")]
        if code == 404:
            seen = Seen(t, watch.sure(t))
            told = self._losses.lose(watch, t, told_why or "404", "removed")
            watch.listed, watch.last = True, max(t, watch.last or t)  # What comes later was not there now.
            return [*told, *self._lives.missing(watch, set(), seen, watch.version)]
        said = str(code) if isinstance(code, int) and code else reason if isinstance(reason, str) else ""
        return [*self._losses.lose(watch, t, said or "error")]

    def _event(self, watch: Watch, body: dict[str, Json], line: Line, seen: Seen) -> list[Record]:
        """What one event says. Raises InputError when its object cannot be used."""
        if watch.resource == _EVENTS:
            return self._hear(body, line) if line.type != "DELETED" else []
        known = self._known_of(watch, body)
        if line.type == "DELETED" and known is not None:
            body = without_guesses(body, known.prepared.state)
        prepared = self._prepare(body, known)
        watch.advance(prepared.source_version.version)
        if self._lives.is_late(watch, prepared, ended=line.type == "DELETED"):
            return []
        if line.type != "DELETED":
            return self._lives.put(watch, prepared, seen, observing=not watch.listed)
        out: list[Record] = []
        if known is None or known.prepared.digest != prepared.digest:
            out = [one for one in self._lives.put(watch, prepared, seen, observing=False) if isinstance(one, Change)]
        return [*out, self._lives.drop(watch, prepared.key, seen, prepared.source_version.version, body=body)]

    def _list(self, watch: Watch, line: Line) -> list[Record]:
        """A list, or a page of one: what it shows is told at once, what it lacks with its last page."""
        resource = self._resources.get(line.resource)
        items = [named(item, resource) for item in line.items if isinstance(item, dict)]
        missed = ["not an object"] * (len(line.items) - len(items))
        out: list[Record] = []
        prepared: list[Prepared] = []
        for item in items:
            try:
                if watch.resource == _EVENTS:
                    out += self._hear(item, line)
                else:
                    prepared.append(self._prepare(item, self._known_of(watch, item)))
            except InputError as error:
                missed.append(error.message)
        keys = {one.key for one in prepared}
        pages = watch.pages
        if pages is None or pages.is_begun_anew(line.rv, keys):
            pages = watch.pages = self._begun(watch, line)
            if watch.unread is not None:
                # What comes may be the second page of a list that cannot be told from a whole one.
                pages.unread.append(watch.unread)
                watch.unread = None
        pages.there |= keys
        pages.helm = pages.helm or any(map(is_helm, prepared))
        pages.missed += missed
        pages.total += len(line.items)
        seen = Seen(line.t, pages.since, pages.flags)
        if not line.more:
            out = [*self._losses.listed(watch, line.t), *out]
            if not pages.missed and not pages.unread and watch.resource != _EVENTS:
                # Never delete by "not in this list" unless the whole list was understood.
                out += self._lives.missing(watch, pages.there, seen, line.rv, helm=pages.helm, left=pages.left)
        for one in prepared:
            out += self._lives.put(watch, one, seen, observing=not pages.relist)
        return out if line.more else out + self._whole(watch, pages, line)

    def _begun(self, watch: Watch, line: Line) -> Pages:
        relist = watch.listed
        since = watch.sure(line.t)
        flags: tuple[Flag, ...] = ("from_relist",) if relist else ()
        if any(older(line.rv, one.version) for one in (watch, *self._watches.over(watch)) if one.listed):
            flags = (*flags, "epoch_break")  # Another server, or a restored backup: versions start anew.
        if watch.last is None:
            watch.last = line.t  # Should this list come to nothing, the next tells what happened since.
        return Pages(line.t, line.rv, relist, since, flags, watch.lost == "ended")

    def _whole(self, watch: Watch, pages: Pages, line: Line) -> list[Record]:
        """The last page came: what is not known from now on is still to come."""
        watch.pages = None
        if "epoch_break" in pages.flags:
            for one in (watch, *self._watches.over(watch)):
                one.version = line.rv
            self._lives.break_epoch(watch.resource)
        watch.advance(line.rv)
        if pages.started < line.t:
            # All of it shows what was there when the first page came; the watch begins there.
            watch.last = max(pages.started, watch.last or pages.started)
            watch.late = (pages.started - LAG, line.t + LAG)
        else:
            watch.last, watch.late = max(line.t, watch.last or line.t), None
        self.counts["malformed"] += len(pages.missed)
        reasons: list[str] = []
        if pages.missed:
            reasons.append(f"{len(pages.missed)} of {pages.total} objects of a list cannot be used: {pages.missed[0]}")
        if pages.unread:
            reasons.append(f"a list may lack a page that cannot be read: {pages.unread[0]}")
        if reasons:
            return [*self._losses.miss(watch, line.t, "; ".join(reasons))]
        watch.doubt = None
        return []

    def _hear(self, body: dict[str, Json], line: Line) -> list[Record]:
        heard = self._events.hear(body, line.t)
        if heard is None:
            self.counts["repeated_events"] += 1
            return []
        return [heard]

    def _prepare(self, body: dict[str, Json], known: Known | None) -> Prepared:
        last = known.prepared if known is not None else None
        try:
            prepared = prepare(body, scope=self._scope, redactor=self._redactor, last=last)
        except RecursionError:
            raise BadRecord(f"an object that is nested beyond {LEVELS} levels") from None
        if is_too_deep(prepared.state, last.state if last is not None else {}):
            raise BadRecord(f"{prepared.ref.type} {prepared.ref.name} is nested beyond {LEVELS} levels")
        return prepared

    def _known_of(self, watch: Watch, body: dict[str, Json]) -> Known | None:
        return watch.known.get(key_of(body, self._scope))


def _watched(resource: str, part: str | None) -> str:
    """The name of the watch that a line is of."""
    name = group_resource(resource)
    return name if part is None else f"{name} {part}"

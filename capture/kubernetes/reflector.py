"""The state machine between watch lines and records, without I/O: a live watch and a replayed file go through it alike.

It knows what a line says of its watch: a gap from a deletion, a list from a relist, a hole and what is in doubt since.
What a state says of an object is left to `lives`, redaction and normal form to `capture.normalise`, Events to
`evidence`, the making of records to `telling`, reading files to `recording`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from capture.kubernetes.evidence import Events
from capture.kubernetes.lives import Lives
from capture.kubernetes.objects import LEVELS, is_too_deep, key_of, named, without_guesses
from capture.kubernetes.recording import BadLine, Line, Resource
from capture.kubernetes.skipped import group_resource, is_skipped
from capture.kubernetes.telling import Seen, Teller
from capture.kubernetes.watched import Known, Watch
from capture.normalise import Prepared, prepare
from capture.redact import Redactor
from schema.canonical import Json
from schema.errors import BadRecord, InputError
from schema.instants import SECOND
from schema.records import Change, Flag, Record, Valid

LAG = 10 * SECOND
"""A watch delivers a change within this time; measured: 1.3 s at most."""

EVERYTHING = "*"
"""The group-resource of a line that does not say what it was about."""

_LONGEST_REASON = 1000

GOES_ON = "the recording goes on"


class Reflector:
    """All resources of one scope. Feed it lines in arrival order; `counts` tells what gave no record, and why."""

    def __init__(self, scope: str, redactor: Redactor, epoch: str, resources: Sequence[Resource] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._scope = scope
        self._redactor = redactor
        self._tell = Teller(scope, epoch, redactor.key_id)
        self._resources = {resource.path: resource for resource in resources}
        self._lives = Lives(self._tell, self.counts)
        self._watches: dict[str, Watch] = {}
        self._events = Events(scope, redactor.redact_text)

    def recall(self, objects: Iterable[tuple[Prepared, Valid]], ended: Mapping[str, int]) -> None:
        """Go on where an earlier run ended: what was alive then, and until when each group-resource was watched.

        The first LIST of each is then a relist over the time between.
        """
        resources = {(one.group, one.kind): f"{one.group or 'core'}/{one.resource}" for one in self._resources.values()}
        for prepared, valid in objects:
            group, _, kind = prepared.ref.type.rpartition("/")
            name = resources.get(("" if group == "core" else group, kind))
            if name is not None and name in ended:
                watch = self._watches.setdefault(name, Watch())
                self._lives.recall(watch, Known(prepared, valid, valid.not_after))
        for name, last in ended.items():
            watch = self._watches.setdefault(name, Watch())
            watch.listed, watch.gap, watch.last = True, True, last

    def feed(self, line: Line) -> list[Record]:
        """The records of one line."""
        if is_skipped(line.resource):
            self.counts["skipped"] += 1
            return self._resume(EVERYTHING, line.t)
        name = group_resource(line.resource)
        watch = self._watches.setdefault(name, Watch())
        if line.type == "GAP":
            return self._lose(name, watch, line.t, line.reason or "disconnect")
        out = self._resume(EVERYTHING, line.t)
        if line.type == "RESUMED":
            return out
        if line.type == "LIST":
            return out + self._list(name, watch, line)
        body = line.object or {}
        if line.type == "ERROR" or (body.get("kind") == "Status" and body.get("apiVersion", "v1") == "v1"):
            code = body.get("code")
            if code == 429:  # Too many requests: the version stays good, nothing is lost.
                self.counts["throttled"] += 1
                return out
            reason = body.get("reason")
            said = str(code) if isinstance(code, int) and code else reason if isinstance(reason, str) else ""
            return out + self._lose(name, watch, line.t, said or "error")
        told: list[Record] = []
        if line.type != "BOOKMARK":
            since = line.t - LAG if not watch.gap else min(line.t - LAG, watch.last or line.t)
            try:
                told = self._event(watch, name, body, line, Seen(line.t, since))
            except InputError as error:
                self.counts["malformed"] += 1
                return out + self._miss(name, line.t, error.message)
        if watch.hole:
            out += self._resume(name, line.t)
        out += told
        watch.last = max(line.t, watch.last or line.t)
        return out

    def miss(self, line: BadLine, t: int) -> list[Record]:
        """A line came at about `t` that is of no use: what it said is missing."""
        if line.resource is not None and is_skipped(line.resource):
            self.counts["skipped"] += 1
            return []
        name = EVERYTHING if line.resource is None else group_resource(line.resource)
        return self._miss(name, t, f"line {line.number}: {line.reason}")

    def end(self, t: int) -> list[Record]:
        """The recording ends here: nothing is known of any watched resource from `t` on."""
        watches = sorted(name for name, watch in self._watches.items() if not watch.gap)
        return [self._tell.coverage(name, "ended", t, t, "end of recording") for name in watches]

    def goes_on(self, names: Iterable[str], since: int, t: int) -> list[Record]:
        """What was told to have ended at `since` had not: the recording was read to there only."""
        return [self._tell.coverage(name, "watching", since, t, GOES_ON) for name in names]

    def _lose(self, name: str, watch: Watch, t: int, reason: str) -> list[Record]:
        if watch.gap:
            return []
        watch.gap = True
        since = watch.last if watch.last is not None else t
        return [self._tell.coverage(name, "gap", since, t, self._said(reason))]

    def _miss(self, name: str, t: int, reason: str) -> list[Record]:
        watch = self._watches.setdefault(name, Watch())
        for one in self._watches.values() if name == EVERYTHING else (watch,):
            since = min(t, one.last if one.last is not None else t, one.doubt[0] if one.doubt is not None else t)
            one.doubt = (since, t)
        if watch.hole or watch.gap:
            return []
        watch.hole = True
        return [self._tell.coverage(name, "gap", t, t, self._said(reason))]

    def _said(self, reason: str) -> str:
        """A reason that came from outside, without secrets, of a length to be read and in whole characters."""
        return self._redactor.redact_text(reason)[:_LONGEST_REASON].encode(errors="replace").decode()

    def _resume(self, name: str, t: int) -> list[Record]:
        watch = self._watches.get(name)
        if watch is None or not watch.hole or not (watch.listed or name == EVERYTHING):
            return []
        watch.hole = False
        return [] if watch.gap else [self._tell.coverage(name, "watching", t, t, "the next good line")]

    def _event(self, watch: Watch, name: str, body: dict[str, Json], line: Line, seen: Seen) -> list[Record]:
        """What one event says. Raises InputError when its object cannot be used."""
        if name == "core/events":
            return self._hear(body, line) if line.type != "DELETED" else []
        known = self._known_of(watch, body)
        if line.type == "DELETED" and known is not None:
            body = without_guesses(body, known.prepared.state)
        prepared = self._prepare(body, known)
        if self._lives.is_late(watch, prepared, ended=line.type == "DELETED"):
            return []
        if line.type != "DELETED":
            return self._lives.put(watch, prepared, seen, observing=not watch.listed)
        out: list[Record] = []
        if known is None or known.prepared.digest != prepared.digest:
            out = [one for one in self._lives.put(watch, prepared, seen, observing=False) if isinstance(one, Change)]
        return [*out, self._lives.drop(watch, prepared.key, seen, prepared.source_version.version, body=body)]

    def _list(self, name: str, watch: Watch, line: Line) -> list[Record]:
        resource = self._resources.get(line.resource)
        items = [named(item, resource) for item in line.items if isinstance(item, dict)]
        relist = watch.listed
        flags: tuple[Flag, ...] = ("from_relist",) if relist else ()
        if relist and watch.runs_back(line.rv):
            flags = (*flags, "epoch_break")  # Another server, or a restored backup: versions start anew.
        seen = Seen(line.t, watch.last if relist and watch.last is not None else line.t, flags)
        out: list[Record] = []
        if not relist or watch.gap or watch.hole:
            out.append(self._tell.coverage(name, "watching", line.t, line.t, "relist" if relist else "list"))
        missed = ["not an object"] * (len(line.items) - len(items))
        if name == "core/events":
            for item in items:
                try:
                    out += self._hear(item, line)
                except InputError as error:
                    missed.append(error.message)
        else:
            prepared: list[Prepared] = []
            for item in items:
                try:
                    prepared.append(self._prepare(item, self._known_of(watch, item)))
                except InputError as error:
                    missed.append(error.message)
            if not missed:
                # Never delete by "not in this list" unless the whole list was understood.
                out += self._lives.missing(watch, {one.key for one in prepared}, seen, line.rv)
            for one in prepared:
                out += self._lives.put(watch, one, seen, observing=not relist)
        watch.listed, watch.gap, watch.hole, watch.version = True, False, False, line.rv or watch.version
        watch.last = max(line.t, watch.last or line.t)
        if missed:
            self.counts["malformed"] += len(missed)
            reason = f"{len(missed)} of {len(line.items)} objects of a list cannot be used: {missed[0]}"
            return out + self._miss(name, line.t, reason)
        watch.doubt = None
        return out

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

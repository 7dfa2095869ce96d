"""The state machine between watch lines and records, without I/O: a live watch and a replayed file go through it alike.

It keeps the last prepared state of every object per resource, tells a change from a repetition, a gap from a deletion
and an incarnation from its successor. Redaction and normal form are left to `capture.normalise`, what differs to
`capture.diff`, the tool behind a change to `actor`, Events to `evidence`, the making of records to `telling`, reading
files to `recording`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from capture.diff import diff
from capture.keys import NOTHING_DECLARED, Declared, declared_by
from capture.kubernetes.actor import attribute, creator, instant_of, last_written
from capture.kubernetes.evidence import Events
from capture.kubernetes.gone import Gone
from capture.kubernetes.objects import (
    LEVELS,
    incarnation,
    is_too_deep,
    key_of,
    meta,
    named,
    older,
    without_guesses,
)
from capture.kubernetes.recording import BadLine, Line, Resource
from capture.kubernetes.skipped import group_resource, is_skipped
from capture.kubernetes.telling import Seen, Teller, anew, between, bounds, marked
from capture.kubernetes.watched import Known, Watch
from capture.normalise import Prepared, prepare
from capture.redact import Redactor
from schema.canonical import Json
from schema.errors import BadRecord, InputError
from schema.identity import Key
from schema.instants import SECOND
from schema.records import Change, Flag, Record, Valid

LAG = 10 * SECOND
"""A watch delivers a change within this time; measured: 1.3 s at most."""

CHECKPOINT_CHANGES = 64
CHECKPOINT_AGE = 24 * 60 * 60 * SECOND
"""After so many changes, or so long since its last whole state, the next change of an object is followed by one."""

EVERYTHING = "*"
"""The group-resource of a line that does not say what it was about."""

_LONGEST_REASON = 1000

GOES_ON = "the recording goes on"

_CRD = "apiextensions.k8s.io/CustomResourceDefinition"


class Reflector:
    """All resources of one scope. Feed it lines in arrival order; `counts` tells what gave no record, and why."""

    def __init__(self, scope: str, redactor: Redactor, epoch: str, resources: Sequence[Resource] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._scope = scope
        self._redactor = redactor
        self._tell = Teller(scope, epoch, redactor.key_id)
        self._resources = {resource.path: resource for resource in resources}
        self._watches: dict[str, Watch] = {}
        self._gone = Gone()
        self._events = Events(scope, redactor.redact_text)
        self._declared: dict[tuple[str, str], Declared] = {}

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
                watch.known[prepared.key] = Known(prepared, valid, valid.not_after)
                self._learn(prepared)
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
            return out + self._lose(name, watch, line.t, str(code or body.get("reason") or "error"))
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
        holder = known.prepared if known is not None else None
        another = holder is None or incarnation(holder) != incarnation(prepared)
        # The end of an incarnation whose successor is here already is late whatever it says.
        if another and ((line.type == "DELETED" and holder is not None) or self._gone.is_late(prepared, holder)):
            self.counts["stale"] += 1
            return []
        if line.type != "DELETED":
            return self._put(watch, prepared, seen, observing=not watch.listed)
        out: list[Record] = []
        if known is None or known.prepared.digest != prepared.digest:
            out = [one for one in self._put(watch, prepared, seen, observing=False) if isinstance(one, Change)]
        return [*out, self._drop(watch, prepared.key, seen, prepared.source_version.version, body=body)]

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
                out += self._missing(watch, {one.key for one in prepared}, seen, line.rv)
            for one in prepared:
                out += self._put(watch, one, seen, observing=not relist)
        watch.listed, watch.gap, watch.hole, watch.version = True, False, False, line.rv or watch.version
        watch.last = max(line.t, watch.last or line.t)
        if missed:
            self.counts["malformed"] += len(missed)
            reason = f"{len(missed)} of {len(line.items)} objects of a list cannot be used: {missed[0]}"
            return out + self._miss(name, line.t, reason)
        watch.doubt = None
        return out

    def _missing(self, watch: Watch, there: set[Key], seen: Seen, version: str | None) -> list[Record]:
        """The ends of what a whole LIST of some version does not have any more."""
        since = seen.since if watch.last is None else min(seen.since, watch.last)
        gone = Seen(seen.t, since, ("final_state_unknown", *seen.flags))
        keys = sorted(watch.known.keys() - there, key=str)
        return [self._drop(watch, key, watch.doubted(gone, watch.known[key]), version) for key in keys]

    def _put(self, watch: Watch, new: Prepared, seen: Seen, *, observing: bool) -> list[Record]:
        """A state of an object that is there: first seen, changed, made anew, or nothing new."""
        known = watch.known.get(new.key)
        out: list[Record] = []
        born = instant_of(meta(new.state).get("creationTimestamp"))
        seen = watch.doubted(seen, known)
        if known is not None and incarnation(known.prepared) != incarnation(new):
            # Claimed in whole seconds: the predecessor was gone before the end of that second.
            until = seen.t if born is None else max(min(seen.t, born + SECOND), known.valid.not_after)
            flags: list[Flag] = [flag for flag in seen.flags if flag != "final_state_unknown"]
            gone = Seen(until, min(seen.since, until), ("final_state_unknown", *flags))
            out.append(self._drop(watch, new.key, gone, new.source_version.version, observed=seen.t))
            known = None
        if known is None:
            return [*out, self._open(watch, new, seen, born, observing=observing)]
        old = known.prepared
        version, last = new.source_version.version, old.source_version
        if version is not None and version == last.version and new.digest == old.digest:
            self.counts["unchanged"] += 1
            return out
        if "epoch_break" not in seen.flags and older(version, last.version):
            self.counts["stale"] += 1
            return out
        if not older(last.version, version):
            new = anew(new, seen.t, last.anew)
        elif last.anew is not None:
            new = anew(new, last.anew, None)
        self._learn(new)
        found = diff(old.state, new.state, new.ref.type, self._declared_for(new))
        lower = max(seen.since, known.valid.not_before)
        # Over a gap several writes may lie; the last of them bounds nothing from below.
        several = "from_relist" in seen.flags or watch.in_doubt(known)
        actor, claimed = attribute(old.managed, new.managed, new.ref.type, found.fields, relisted=several, since=lower)
        valid = between(lower, seen.t, None if several else claimed, "managedFields")
        known.prepared, known.valid, known.changes = new, valid, known.changes + 1
        out.append(self._tell.change("update", new, valid, seen, base=old.digest, found=found, actor=actor))
        if known.changes >= CHECKPOINT_CHANGES or seen.t - known.whole_at >= CHECKPOINT_AGE:
            known.changes, known.whole_at = 0, seen.t
            out.append(self._tell.state(new, valid, seen.t))
        return out

    def _open(self, watch: Watch, new: Prepared, seen: Seen, born: int | None, *, observing: bool) -> Change:
        self._learn(new)
        death, before = self._gone.death_of(new), self._gone.predecessor(new.key)
        observing = observing and death is None
        written = last_written(new.managed)
        if observing:
            valid = (
                bounds(min(born, seen.t), seen.t, "creationTimestamp") if born is not None else bounds(seen.t, seen.t)
            )
        else:
            valid = between(seen.since, seen.t, born, "creationTimestamp")
            if death is not None or valid.clock == "recorder":
                # Not born since it was not there: nobody knows what it was before.
                new = anew(new, seen.t, None if death is None else death.anew)
        watch.known[new.key] = Known(new, valid, seen.t)
        found = None
        if before is not None:
            found = diff(before.state, new.state, new.ref.type, self._declared_for(new))
        actor = attribute((), new.managed)[0] if observing else creator(new.managed)
        return self._tell.change(
            "observe" if observing else "create", new, valid, seen, found=found, actor=actor,
            replaced=before is not None, last_written=written if observing else None,
        )  # fmt: skip

    def _drop(
        self,
        watch: Watch,
        key: Key,
        seen: Seen,
        version: str | None,
        *,
        body: dict[str, Json] | None = None,
        observed: int | None = None,
    ) -> Change:
        known = watch.known.pop(key)
        self._gone.add(known.prepared, version, sure=body is not None)
        lower = max(seen.since, min(known.valid.not_before, seen.t))
        valid = between(lower, seen.t, marked(meta(body)) if body is not None else None, "deletionTimestamp")
        return self._tell.change("delete", known.prepared, valid, seen, base=known.prepared.digest, observed=observed)

    def _learn(self, new: Prepared) -> None:
        """A CustomResourceDefinition tells how the lists of its objects are keyed."""
        if new.ref.type == _CRD:
            self._declared.update(declared_by(new.state))

    def _declared_for(self, one: Prepared) -> Declared:
        return self._declared.get((one.source_version.served or "", one.ref.kind), NOTHING_DECLARED)

    def _hear(self, body: dict[str, Json], line: Line) -> list[Record]:
        heard = self._events.hear(body, line.t)
        if heard is None:
            self.counts["repeated_events"] += 1
            return []
        return [heard]

    def _prepare(self, body: dict[str, Json], known: Known | None) -> Prepared:
        last = known.prepared if known is not None else None
        prepared = prepare(body, scope=self._scope, redactor=self._redactor, last=last)
        if is_too_deep(prepared.state, last.state if last is not None else {}):
            raise BadRecord(f"{prepared.ref.type} {prepared.ref.name} is nested beyond {LEVELS} levels")
        return prepared

    def _known_of(self, watch: Watch, body: dict[str, Json]) -> Known | None:
        return watch.known.get(key_of(body, self._scope))

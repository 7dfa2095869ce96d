"""The state machine between watch lines and records, without I/O: a live watch and a replayed file go through it alike.

It keeps the last prepared state of every object per resource, tells a change from a repetition, a gap from a deletion
and an incarnation from its successor. Redaction and normal form are left to `capture.normalise`, what differs to
`capture.diff`, the tool behind a change to `actor`, Events to `evidence`, reading files to `recording`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from capture.diff import Diff, diff
from capture.kubernetes.actor import attribute, instant_of, last_written
from capture.kubernetes.evidence import Events
from capture.kubernetes.recording import Line, Resource
from capture.normalise import Prepared, prepare
from capture.redact import Redactor
from schema.canonical import Json, hash128
from schema.errors import InputError
from schema.identity import Key, change_id, type_of
from schema.instants import MAX, SECOND
from schema.patch import PatchOp
from schema.records import Actor, Change, Coverage, FieldChange, Flag, Op, Provenance, Record, Span, Valid

LAG = 10 * SECOND
"""A watch delivers a change within this time; measured: 1.3 s at most."""

_OBSERVED = Provenance()  # One for all: pydantic would copy its default into every change.

_GONE_REMEMBERED = 4096  # Predecessors kept for comparing a recreated object; pods never reuse a name.

SKIPPED = frozenset(
    {
        "coordination.k8s.io/leases",
        "certificates.k8s.io/certificatesigningrequests",
        "cert-manager.io/certificaterequests",
        "metrics.k8s.io/pods",
        "metrics.k8s.io/nodes",
        "cilium.io/ciliumendpoints",
        "cilium.io/ciliumidentities",
    }
)
_SKIPPED_GROUPS = frozenset(
    {
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "wgpolicyk8s.io",
        "reports.kyverno.io",
    }
)


@dataclass(slots=True)
class _Known:
    prepared: Prepared
    valid: Valid


@dataclass(slots=True)
class _Watch:
    """One group-resource. `last`: when something was last really received; `gap`: the watch is lost since then."""

    listed: bool = False
    last: int | None = None
    gap: bool = False
    version: str | None = None
    known: dict[Key, _Known] = field(default_factory=dict)


class _Seen(NamedTuple):
    """How a state came in: bounds of when it can have become true, and what to flag."""

    t: int
    since: int
    flags: tuple[Flag, ...] = ()


class Reflector:
    """All resources of one scope. Feed it lines in arrival order; `counts` tells what gave no record, and why."""

    def __init__(self, scope: str, redactor: Redactor, epoch: str, resources: Sequence[Resource] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._scope = scope
        self._redactor = redactor
        self._epoch = epoch
        self._resources = {resource.path: resource for resource in resources}
        self._watches: dict[str, _Watch] = {}
        self._gone: OrderedDict[Key, Prepared] = OrderedDict()
        self._events = Events(scope, redactor.redact_text)

    def feed(self, line: Line) -> list[Record]:
        """The records of one line."""
        parts = line.resource.split("/")
        name = f"{parts[0]}/{parts[2]}" if len(parts) == 3 else f"core/{parts[-1]}"
        if name in SKIPPED or parts[0] in _SKIPPED_GROUPS:
            self.counts["skipped"] += 1
            return []
        watch = self._watches.setdefault(name, _Watch())
        if line.type == "GAP":
            return self._lose(name, watch, line.t, line.reason or "disconnect")
        if line.type == "LIST":
            return self._list(name, watch, line)
        body = line.object or {}
        if line.type == "ERROR" or body.get("kind") == "Status":
            code = body.get("code")
            if code == 429:  # Too many requests: the version stays good, nothing is lost.
                self.counts["throttled"] += 1
                return []
            return self._lose(name, watch, line.t, str(code or body.get("reason") or "error"))
        out: list[Record] = []
        if line.type != "BOOKMARK":
            since = line.t - LAG if not watch.gap else min(line.t - LAG, watch.last or line.t)
            out = self._event(watch, name, body, line, _Seen(line.t, since))
        watch.last = max(line.t, watch.last or line.t)
        return out

    def end(self, t: int) -> list[Record]:
        """The recording ends here: nothing is known of any watched resource from `t` on."""
        return [self._coverage(name, "ended", t, t, "end of recording") for name in sorted(self._watches)]

    def _lose(self, name: str, watch: _Watch, t: int, reason: str) -> list[Record]:
        if watch.gap:
            return []
        watch.gap = True
        since = watch.last if watch.last is not None else t
        return [self._coverage(name, "gap", since, t, reason)]

    def _event(self, watch: _Watch, name: str, body: dict[str, Json], line: Line, seen: _Seen) -> list[Record]:
        if name == "core/events":
            return self._hear(body, line) if line.type != "DELETED" else []
        known = self._known_of(watch, body)
        if line.type == "DELETED" and known is not None:
            body = _without_guesses(body, known.prepared.state)
        prepared = self._prepare(body, known)
        if prepared is None:
            return []
        if line.type != "DELETED":
            return self._put(watch, prepared, seen, observing=not watch.listed)
        if known is not None and known.prepared.ref.uid != prepared.ref.uid:
            self.counts["stale"] += 1  # The end of an incarnation whose successor is here already.
            return []
        out: list[Record] = []
        if known is None or known.prepared.digest != prepared.digest:
            out = self._put(watch, prepared, seen, observing=False)
        return [*out, self._drop(watch, prepared.key, seen, ordinal=1 if out else 0, body=body)]

    def _list(self, name: str, watch: _Watch, line: Line) -> list[Record]:
        resource = self._resources.get(line.resource)
        items = [_named(item, resource) for item in line.items if isinstance(item, dict)]
        relist = watch.listed
        flags: tuple[Flag, ...] = ("from_relist",) if relist else ()
        if relist and _older(line.rv, watch.version):
            flags = (*flags, "epoch_break")  # Another server, or a restored backup: versions start anew.
        seen = _Seen(line.t, watch.last if relist and watch.last is not None else line.t, flags)
        out: list[Record] = []
        if not relist or watch.gap:
            out.append(self._coverage(name, "watching", line.t, line.t, "relist" if relist else "list"))
        if name == "core/events":
            out += [record for item in items for record in self._hear(item, line)]
        else:
            out += self._relist(watch, items, seen, relist=relist, whole=len(items) == len(line.items))
        watch.listed, watch.gap, watch.version = True, False, line.rv or watch.version
        watch.last = max(line.t, watch.last or line.t)
        return out

    def _relist(
        self, watch: _Watch, items: list[dict[str, Json]], seen: _Seen, *, relist: bool, whole: bool
    ) -> list[Record]:
        out: list[Record] = []
        prepared = [self._prepare(item, self._known_of(watch, item)) for item in items]
        if relist and whole and all(one is not None for one in prepared):
            # Never delete by "not in this list" unless the whole list was understood.
            living = {one.key for one in prepared if one is not None}
            unsure: tuple[Flag, ...] = ("final_state_unknown",)
            gone = _Seen(seen.t, seen.since, (*unsure, *seen.flags))
            out += [self._drop(watch, key, gone) for key in sorted(set(watch.known) - living)]
        for one in prepared:
            if one is not None:
                out += self._put(watch, one, seen, observing=not relist)
        return out

    def _put(self, watch: _Watch, new: Prepared, seen: _Seen, *, observing: bool) -> list[Record]:
        """A state of an object that is there: first seen, changed, made anew, or nothing new."""
        known = watch.known.get(new.key)
        out: list[Record] = []
        born = instant_of(_meta(new.state).get("creationTimestamp"))
        if known is not None and _incarnation(known.prepared) != _incarnation(new):
            # Claimed in whole seconds: the predecessor was gone before the end of that second.
            until = seen.t if born is None else max(min(seen.t, born + SECOND), known.valid.not_after)
            flags: list[Flag] = [flag for flag in seen.flags if flag != "final_state_unknown"]
            gone = _Seen(until, min(seen.since, until), ("final_state_unknown", *flags))
            out.append(self._drop(watch, new.key, gone, observed=seen.t))
            known = None
        if known is None:
            return [*out, self._open(watch, new, seen, born, observing=observing)]
        old = known.prepared
        if new.source_version.version is not None and new.source_version.version == old.source_version.version:
            self.counts["unchanged"] += 1
            return out
        if "epoch_break" not in seen.flags and _older(new.source_version.version, old.source_version.version):
            self.counts["stale"] += 1
            return out
        found = diff(old.state, new.state, new.ref.type)
        actor, claimed = attribute(old.managed, new.managed)
        lower = max(seen.since, known.valid.not_before)
        # Over a gap several writes may lie; the last of them bounds nothing from below.
        valid = _valid(lower, seen.t, claimed if "from_relist" not in seen.flags else None, "managedFields")
        known.prepared, known.valid = new, valid
        change = self._change("update", new, valid, seen, base=old.digest, found=found, actor=actor)
        return [*out, change]

    def _open(self, watch: _Watch, new: Prepared, seen: _Seen, born: int | None, *, observing: bool) -> Change:
        before = self._gone.pop(new.key, None)
        written = last_written(new.managed)
        if observing:
            valid = Valid(not_before=min(born if born is not None else seen.t, seen.t), not_after=seen.t)
            if born is not None:
                valid.clock = "creationTimestamp"
        else:
            valid = _valid(seen.since, seen.t, born, "creationTimestamp")
        watch.known[new.key] = _Known(new, valid)
        found = diff(before.state, new.state, new.ref.type) if before is not None else None
        actor, _ = attribute((), new.managed)
        return self._change(
            "observe" if observing else "create", new, valid, seen, found=found, actor=actor,
            flag="replaced" if before is not None else None, last_written=written if observing else None,
        )  # fmt: skip

    def _drop(
        self,
        watch: _Watch,
        key: Key,
        seen: _Seen,
        *,
        ordinal: int = 0,
        body: dict[str, Json] | None = None,
        observed: int | None = None,
    ) -> Change:
        known = watch.known.pop(key)
        self._gone[key] = known.prepared
        if len(self._gone) > _GONE_REMEMBERED:
            self._gone.popitem(last=False)
        lower = max(seen.since, min(known.valid.not_before, seen.t))
        valid = _valid(lower, seen.t, _marked(body) if body is not None else None, "deletionTimestamp")
        return self._change(
            "delete", known.prepared, valid, seen, base=known.prepared.digest, ordinal=ordinal, observed=observed
        )

    def _change(
        self,
        op: Op,
        new: Prepared,
        valid: Valid,
        seen: _Seen,
        *,
        base: str | None = None,
        found: Diff | None = None,
        actor: Actor | None = None,
        ordinal: int = 0,
        observed: int | None = None,
        flag: Flag | None = None,
        last_written: int | None = None,
    ) -> Change:
        flags: list[Flag] = list(seen.flags)
        fields: list[FieldChange] = found.fields if found is not None else []
        if new.redacted:
            flags.append("redacted")
        if found is not None and found.duplicate_keys:
            flags.append("duplicate_keys")
        if op == "update" and found is not None and (found.noise or not fields):
            flags.append("noise")
        if flag is not None:
            flags.append(flag)
        patch: list[PatchOp] = []
        if op == "update" and found is not None:
            patch = found.patch
        elif op in ("create", "observe"):
            patch = [{"op": "add", "path": "", "value": new.state}]
        beside = {} if last_written is None else {"last_written": last_written}
        return Change(
            id=change_id(new.key, new.ref.uid, op, new.source_version.version, ordinal),
            op=op,
            object=new.ref,
            valid=valid,
            observed_at=seen.t if observed is None else observed,
            source_version=new.source_version,
            base=base,
            digest=None if op == "delete" else new.digest,
            patch=patch,
            fields=fields,
            actor=actor or Actor(),
            provenance=_OBSERVED,
            flags=flags,
            redaction_key=self._redactor.key_id if new.redacted else None,
            **beside,
        )

    def _hear(self, body: dict[str, Json], line: Line) -> list[Record]:
        heard = self._events.hear(body, line.t)
        if heard is None:
            self.counts["repeated_events"] += 1
            return []
        return [heard]

    def _prepare(self, body: dict[str, Json], known: _Known | None) -> Prepared | None:
        last = known.prepared if known is not None else None
        try:
            return prepare(body, scope=self._scope, redactor=self._redactor, last=last)
        except InputError:
            self.counts["malformed"] += 1
            return None

    def _known_of(self, watch: _Watch, body: dict[str, Json]) -> _Known | None:
        meta = _meta(body)
        type_ = type_of(str(body.get("apiVersion")), str(body.get("kind")))
        namespace = meta.get("namespace")
        return watch.known.get(
            Key("kubernetes", self._scope, type_, str(namespace) if namespace else None, str(meta.get("name")))
        )

    def _coverage(self, name: str, state: str, since: int, t: int, reason: str) -> Coverage:
        return Coverage.model_validate(
            {
                "id": hash128("coverage", self._scope, name, state, str(since), self._epoch),
                "source": "kubernetes",
                "scope": self._scope,
                "group_resource": name,
                "state": state,
                "valid": Span(from_=since, to=MAX),
                "epoch": self._epoch,
                "observed_at": t,
                "reason": reason,
            }
        )


def _valid(lower: int, received: int, claimed: int | None, clock: str) -> Valid:
    """The bounds, tightened by what the object claims if that lies within them; else the claim is kept beside them."""
    if claimed is None or claimed <= lower:
        return Valid(not_before=min(lower, received), not_after=received)
    if claimed > received:
        return Valid.model_validate({"not_before": min(lower, received), "not_after": received, "claimed": claimed})
    return Valid(not_before=claimed, not_after=received, clock=clock)


def _marked(body: dict[str, Json]) -> int | None:
    """When deletion was asked for: the timestamp lies a grace period after it."""
    meta = _meta(body)
    at, grace = instant_of(meta.get("deletionTimestamp")), meta.get("deletionGracePeriodSeconds")
    return at - grace * SECOND if at is not None and isinstance(grace, int) else at


def _without_guesses(body: dict[str, Json], state: dict[str, Json]) -> dict[str, Json]:
    """A DELETED payload may lack its deletion mark and still list finalizers: both are taken from the last state."""
    meta, last = dict(_meta(body)), _meta(state)
    meta.pop("finalizers", None)
    if "finalizers" in last:
        meta["finalizers"] = last["finalizers"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in last and name not in meta:
            meta[name] = last[name]
    return {**body, "metadata": meta}


def _named(item: dict[str, Json], resource: Resource | None) -> dict[str, Json]:
    """List items may lack what the list says once."""
    if resource is None or ("kind" in item and "apiVersion" in item):
        return item
    return {"apiVersion": resource.api_version, "kind": resource.kind, **item}


def _incarnation(one: Prepared) -> str:
    return one.ref.uid or str(_meta(one.state).get("creationTimestamp"))


def _older(version: str | None, than: str | None) -> bool:
    """Versions of one resource compare as integers, if they are any."""
    return bool(version and than and version.isdecimal() and than.isdecimal() and int(version) < int(than))


def _meta(state: dict[str, Json]) -> dict[str, Json]:
    meta = state.get("metadata")
    return meta if isinstance(meta, dict) else {}

"""What an earlier run knew, put into a memory before a reflector goes on from it: what was alive when it ended, and
records that it told which the memory may not have seen. Pure.

Records say less than the run knew: who owned which field, and the bookmarks that were heard. So `last`, before which
nothing of a watch was missed, is never later than they prove, and what happens next may be told within wider bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeGuard

from capture.kubernetes.gone import Gone
from capture.kubernetes.lives import CRD
from capture.kubernetes.losses import EVERYTHING
from capture.kubernetes.objects import older
from capture.kubernetes.recording import Resource
from capture.kubernetes.selection import shows
from capture.kubernetes.telling import LAG, name_of
from capture.kubernetes.watched import Known, Memory, Watch, Watches
from capture.normalise import Prepared, recalled
from schema.canonical import Json
from schema.errors import StoreCorrupt
from schema.identity import Key
from schema.patch import apply
from schema.records import Change, Coverage, Evidence, Record, State, Valid


class Recall:
    """Fills the memory of one scope. `resources`: by which a kind is known to be of a watch; `names`: watches to be
    there in any case. `unplaced`: objects of which no watch could be told."""

    def __init__(self, memory: Memory, resources: Iterable[Resource] = (), names: Iterable[str] = ()) -> None:
        self.unplaced: set[Key] = set()
        self._heard = memory.heard
        self._gone = Gone(memory.deaths, memory.predecessors)
        self._watches = Watches(memory)
        self._resources = {f"{one.group or 'core'}/{one.kind}": _name(one.group, one.resource) for one in resources}
        for name in names:
            self._watches.of(name)
        for watch in self._watches:
            for key in watch.known.keys() if watch.resource == _name("apiextensions.k8s.io", _CRDS) else ():
                self._learn(watch.known.get(key))

    def living(
        self, objects: Iterable[tuple[Prepared, Valid]], until: Mapping[str, int], going_on: Collection[str] = ()
    ) -> None:
        """What was alive when a run ended, and until when each watch went; those `going_on` were not told to end.

        The first LIST of each is then a relist over the time between.
        """
        for name, last in until.items():
            watch = self._watches.of(name)
            watch.listed, watch.last = True, last
            if name not in going_on:
                watch.lost, watch.lost_since = "ended", last
        for prepared, valid in objects:
            self._put(self._place(prepared), Known(prepared, valid, valid.not_after))

    def apply(self, record: Record) -> None:
        """One record of the scope, in the order of the log. Raises StoreCorrupt where it does not fit what is known."""
        if isinstance(record, Change):
            self._change(record)
        elif isinstance(record, State):
            self._state(record)
        elif isinstance(record, Coverage):
            self._coverage(record)
        elif isinstance(record, Evidence) and record.series is not None:
            self._heard[record.series] = (record.count, record.at)

    def _change(self, told: Change) -> None:
        key = told.object.key
        watch = self._holder(key)
        known = None if watch is None else watch.known.get(key)
        version = told.source_version.version
        if watch is not None and "epoch_break" in told.flags:
            if older(version, watch.version):
                self._gone.uncount(watch.resource)
            watch.version = version
        if told.op == "delete":
            if watch is not None and known is not None:
                watch.known.pop(key)
                self._gone.add(known.prepared, watch.name, version, sure="final_state_unknown" not in told.flags)
                _seen(watch, told.observed_at)
        elif told.op != "update":
            self._gone.predecessor(key)
            new = self._told(told, apply(None, told.patch), told.digest)
            self._put(watch or self._place(new) or self._begun(new), Known(new, told.valid, told.observed_at))
        elif known is not None and known.prepared.digest == told.base:
            new = self._told(told, apply(known.prepared.state, told.patch), told.digest)
            self._put(watch, Known(new, told.valid, known.whole_at, known.changes + 1))
        elif key not in self.unplaced:
            raise _misfit(told, "changes a state that is not known")

    def _state(self, told: State) -> None:
        if told.late or told.broken is not None:
            return
        new = self._told(told, told.state, told.digest)
        self._put(self._holder(new.key) or self._place(new), Known(new, told.valid, told.observed_at))

    def _told(self, told: Change | State, state: Json, digest: str | None) -> Prepared:
        if not isinstance(state, dict):
            raise _misfit(told, "leaves no object")
        new = recalled(told.object, state, told.source_version)
        if new.digest != digest:
            raise _misfit(told, "does not lead to the state that it tells of")
        return new

    def _put(self, watch: Watch | None, known: Known) -> None:
        one = known.prepared
        if watch is None:
            self.unplaced.add(one.key)
            return
        before = watch.known.get(one.key)
        if before is not None and before.prepared.digest == one.digest:
            known.prepared = one._replace(managed=before.prepared.managed)
        watch.known[one.key] = known
        watch.advance(one.source_version.version)
        _seen(watch, known.valid.not_after)
        self._learn(known)

    def _coverage(self, told: Coverage) -> None:
        watch = self._watches.of(name_of(told.group_resource, told.namespaces))
        since, t = told.valid.from_, told.observed_at
        if told.state == "watching":
            if watch.lost is not None:
                # Whether it was listed anew or went on: what it owed is still to come.
                watch.late = (watch.sure(t) if watch.late is None else min(watch.sure(t), watch.late[0]), t + LAG)
            watch.listed, watch.lost, watch.hole = True, None, None
            _seen(watch, t)
        elif told.state == "gap" and watch.lost is None and (since == t or watch.name == EVERYTHING):
            # Something was of no use; or it was lost just when it was last heard of, which is told alike.
            watch.hole = (since, told.reason or "")
            for one in self._watches if watch.name == EVERYTHING else (watch,):
                one.doubt = (min(t, one.sure(t), one.doubt[0] if one.doubt is not None else t), t)
        else:
            if watch.lost is None:
                watch.last, watch.lost_since = max(since, watch.last or since), since
            watch.lost = told.state
            if told.state == "removed":
                watch.listed, watch.last = True, max(t, watch.last or t)

    def _holder(self, key: Key) -> Watch | None:
        """The watch that holds an object."""
        name = self._resources.get(key.type)
        watches = self._watches if name is None else self._watches.parts(name)
        return next((one for one in watches if one.known.get(key) is not None), None)

    def _place(self, one: Prepared) -> Watch | None:
        """The watch that an object is of: of those that would show it, the one that is or was watched last; else one
        of which that is not known."""
        name = self._resources.get(one.ref.type, "")
        parts = [(shows(each.name, one), each) for each in self._watches.parts(name)]
        held = [
            (not each.is_over, sure or False, each.last or 0, each.name) for sure, each in parts if sure is not False
        ]
        return self._watches.find(max(held)[-1]) if held else None

    def _begun(self, one: Prepared) -> Watch | None:
        """The watch of all of its resource: pages of a first list come before what is said of the list."""
        name = self._resources.get(one.ref.type)
        return None if name is None else self._watches.of(name)

    def _learn(self, known: Known | None) -> None:
        """A CustomResourceDefinition tells what its kind is called in the plural."""
        if known is None or known.prepared.ref.type != CRD:
            return
        spec = known.prepared.state.get("spec")
        if _is_map(spec) and _is_map(names := spec.get("names")):
            group, kind, plural = spec.get("group"), names.get("kind"), names.get("plural")
            self._resources.setdefault(f"{group}/{kind}", f"{group}/{plural}")


_CRDS = "customresourcedefinitions"


def _name(group: str, resource: str) -> str:
    return f"{group or 'core'}/{resource}"


def _is_map(value: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(value, dict)


def _seen(watch: Watch, t: int) -> None:
    """The first that is known of a new watch: its list began then, at the latest."""
    if watch.last is None:
        watch.last = t


def _misfit(told: Change | State, why: str) -> StoreCorrupt:
    return StoreCorrupt(f"record {told.id} of {told.object.key} {why}")

"""The lives of objects: what a state that was seen, or missed, says of one, after what was known of it.

A change is told from a repetition, an incarnation from its successor, late news from news; who made a change is left to
`actor`, what is remembered of the dead to `gone`. Which states come in, and how sure that is, is the reflector's.
"""

from __future__ import annotations

from collections import Counter

from capture.diff import diff
from capture.keys import NOTHING_DECLARED, Declared, declared_by
from capture.kubernetes.actor import attribute, creator, last_written
from capture.kubernetes.gone import Gone
from capture.kubernetes.objects import incarnation, instant_of_birth, meta, older
from capture.kubernetes.selection import is_apart, shows
from capture.kubernetes.telling import Seen, Teller, anew, between, bounds, marked
from capture.kubernetes.watched import Known, Watch, Watches
from capture.normalise import Prepared
from schema.canonical import Json
from schema.identity import Key
from schema.instants import SECOND
from schema.records import Change, Flag, Record

CHECKPOINT_CHANGES = 64
CHECKPOINT_AGE = 24 * 60 * 60 * SECOND
"""After so many changes, or so long since its last whole state, the next change of an object is followed by one."""

CRD = "apiextensions.k8s.io/CustomResourceDefinition"
_CRDS = "apiextensions.k8s.io/customresourcedefinitions"


class Lives:
    """All objects of one scope; those that are alive are held by their watches. `counts`: what gave no record."""

    def __init__(self, tell: Teller, watches: Watches, gone: Gone, counts: Counter[str]) -> None:
        self._tell = tell
        self._watches = watches
        self._counts = counts
        self._gone = gone
        self._declared: dict[tuple[str, str], Declared] = {}
        for watch in watches.parts(_CRDS):  # Those of an earlier run: no line need come of them again.
            for known in filter(None, map(watch.known.get, watch.known.keys())):
                self._learn(known.prepared)

    def is_late(self, watch: Watch, new: Prepared, *, ended: bool) -> bool:
        """Whether an event, of its end or not, is of an incarnation that is over already; it is counted."""
        known = watch.known.get(new.key)
        if known is not None and incarnation(known.prepared) == incarnation(new):
            return False
        elsewhere = known is None and self._watches.holder(watch, new.key)
        if elsewhere:
            known = elsewhere.known.get(new.key)
            if known is not None and incarnation(known.prepared) == incarnation(new):
                last = known.prepared.source_version.version
                if not ended or (elsewhere.is_over and not older(new.source_version.version, last)):
                    return False  # It moved here; whether that is news is seen when it is put.
        # The end of an incarnation whose successor is here already is late whatever it says.
        late = known is not None and ended
        if not late and not self._gone.is_late(
            new, known.prepared if known is not None else None, watch.name, ended=ended
        ):
            return False
        self._counts["stale"] += 1
        return True

    def missing(
        self, watch: Watch, there: set[Key], seen: Seen, version: str | None, *, helm: bool = True, left: bool = False
    ) -> list[Record]:
        """The ends of what a whole LIST of some version does not have any more: of the watch's own, and of what is left
        of ended ones and would be shown by this. `left`: its own is left as well; `helm`: it shows Helm's Secrets."""
        gone: dict[Key, tuple[Watch, Seen]] = {}
        for holder in (watch, *self._watches.over(watch)):
            own = holder is watch
            news = seen if own else _anew(seen, holder)
            for key in set(holder.known.keys()) - there:
                known = holder.known.get(key)
                if known is None:
                    continue
                if own and not (left and not helm and is_apart(watch.name, known.prepared)):
                    judged: bool | None = True
                else:
                    judged = shows(watch.name, known.prepared, helm=helm)
                if judged:
                    gone[key] = holder, holder.doubted(news, known)
        return [
            self.drop(holder, key, news._replace(flags=("final_state_unknown", *news.flags)), version, by=watch.name)
            for key, (holder, news) in sorted(gone.items(), key=lambda one: str(one[0]))
        ]

    def put(self, watch: Watch, new: Prepared, seen: Seen, *, observing: bool) -> list[Record]:
        """A state of an object that is there: first seen, changed, made anew, or nothing new."""
        known = watch.known.get(new.key)
        holder = self._watches.holder(watch, new.key) if known is None else None
        if holder is not None:
            other = holder.known.get(new.key)
            if other is not None and self._is_stale(new, other, seen):
                self._counts["stale"] += 1
                return []
            # It moved here from another part of the resource.
            watch.known[new.key] = known = holder.known.pop(new.key)
        if holder is not None and holder.is_over:
            seen = holder.doubted(_anew(seen, holder), known)
        else:
            seen = watch.doubted(seen, known)
        if known is None:
            left = self._unseen_before(watch, new, seen)
            if left is not None and (observing or left.since > seen.since):
                seen, observing = left, False
        out: list[Record] = []
        born = instant_of_birth(new)
        if known is not None and incarnation(known.prepared) != incarnation(new):
            # Claimed in whole seconds: the predecessor was gone before the end of that second.
            until = seen.t if born is None else max(min(seen.t, born + SECOND), known.valid.not_after)
            flags: list[Flag] = [flag for flag in seen.flags if flag != "final_state_unknown"]
            gone = Seen(until, min(seen.since, until), ("final_state_unknown", *flags))
            out.append(self.drop(watch, new.key, gone, new.source_version.version, observed=seen.t))
            known = None
        if known is None:
            return [*out, self._open(watch, new, seen, born, observing=observing)]
        old = known.prepared
        version, last = new.source_version.version, old.source_version
        if version is not None and version == last.version and new.digest == old.digest:
            self._counts["unchanged"] += 1
            return out
        if self._is_stale(new, known, seen):
            self._counts["stale"] += 1
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
        watch.known[new.key] = known
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

    def drop(
        self,
        watch: Watch,
        key: Key,
        seen: Seen,
        version: str | None,
        *,
        body: dict[str, Json] | None = None,
        observed: int | None = None,
        by: str | None = None,
    ) -> Change:
        """The end of a living object, as of `version` of its resource; `body`: what the watch said of it, if it did;
        `by`: the watch that tells it, if it is another."""
        known = watch.known.pop(key)
        self._gone.add(known.prepared, by or watch.name, version, sure=body is not None)
        lower = max(seen.since, min(known.valid.not_before, seen.t))
        valid = between(lower, seen.t, marked(meta(body)) if body is not None else None, "deletionTimestamp")
        return self._tell.change("delete", known.prepared, valid, seen, base=known.prepared.digest, observed=observed)

    def break_epoch(self, resource: str) -> None:
        """The versions of a resource start anew."""
        self._gone.uncount(resource)

    def _unseen_before(self, watch: Watch, new: Prepared, seen: Seen) -> Seen | None:
        """Since when it may have come to be, where a watch that is over would have shown it before."""
        found = [
            one.doubted(_anew(seen, one), None)
            for one in self._watches.over(watch)
            if one.listed and shows(one.name, new)
        ]
        return max(found, key=lambda one: one.since, default=None)

    def _is_stale(self, new: Prepared, known: Known, seen: Seen) -> bool:
        is_older = older(new.source_version.version, known.prepared.source_version.version)
        return is_older and "epoch_break" not in seen.flags

    def _learn(self, new: Prepared) -> None:
        """A CustomResourceDefinition tells how the lists of its objects are keyed."""
        if new.ref.type == CRD:
            self._declared.update(declared_by(new.state))

    def _declared_for(self, one: Prepared) -> Declared:
        return self._declared.get((one.source_version.served or "", one.ref.kind), NOTHING_DECLARED)


def _anew(seen: Seen, holder: Watch) -> Seen:
    """How news of an object come in that was last seen by a watch that is over."""
    flags: list[Flag] = [flag for flag in seen.flags if flag != "from_relist"]
    return Seen(seen.t, holder.sure(seen.t), ("from_relist", *flags))

"""What was not seen: coverage of each watch, from what its lines say of gaps, holes, refusals and ends.

It keeps the state of watches that are lost and tells it, each turn once; what the objects of a lost watch went through
is told by `lives` when a list comes.
"""

from __future__ import annotations

from collections.abc import Iterable

from capture.kubernetes.telling import LAG, Teller
from capture.kubernetes.watched import Lost, Watch, Watches
from capture.redact import Redactor
from schema.records import Coverage

EVERYTHING = "*"
"""The group-resource of a line that does not say what it was about."""

_LONGEST_REASON = 1000

GOES_ON = "the recording goes on"


class Losses:
    """The coverage of one scope."""

    def __init__(self, tell: Teller, watches: Watches, redactor: Redactor) -> None:
        self._tell = tell
        self._watches = watches
        self._redactor = redactor

    def lose(self, watch: Watch, t: int, reason: str, how: Lost = "gap") -> list[Coverage]:
        """It is not watched since it was last heard of, or from now on if it was lost already and is lost otherwise."""
        watch.pages, watch.unread = None, None
        if watch.lost is not None and how in ("gap", watch.lost):
            return []
        # Lost again before anything was heard that a resumed watch owed: the same loss is told twice.
        again = watch.late is not None or watch.lost is not None
        since = t if watch.lost is not None or watch.last is None else watch.last
        if watch.lost is None:
            watch.lost_since = since
        watch.lost = how
        return [self._tell.coverage(watch.name, how, since, t, self._said(reason), again=again)]

    def lose_all(self, names: Iterable[str], t: int, reason: str, how: Lost = "gap") -> list[Coverage]:
        """The same of each of these watches that there is."""
        watches = [watch for watch in map(self._watches.find, sorted(names)) if watch is not None]
        return [one for watch in watches for one in self.lose(watch, t, reason, how)]

    def resume(self, watch: Watch, t: int) -> list[Coverage]:
        """The watch went on from its version: what happened meanwhile is still to come."""
        if watch.lost is None or watch.lost == "removed" or not watch.listed:
            return []
        since = watch.lost_since
        watch.late = (min(watch.sure(t), watch.late[0]) if watch.late is not None else watch.sure(t), t + LAG)
        watch.lost = None
        out = [self._tell.coverage(watch.name, "watching", since, t, "resumed", again=True)]
        if watch.hole is not None:
            out.append(self._tell.coverage(watch.name, "gap", watch.hole[0], t, watch.hole[1], again=True))
        return out

    def miss(self, watch: Watch, t: int, reason: str) -> list[Coverage]:
        """A line or an object of this watch, or of any (EVERYTHING), was of no use."""
        for one in self._meant(watch):
            one.doubt = (min(t, one.sure(t), one.doubt[0] if one.doubt is not None else t), t)
        if watch.hole is not None or watch.lost is not None:
            return []
        watch.hole = (t, self._said(reason))
        return [self._tell.coverage(watch.name, "gap", t, t, watch.hole[1])]

    def unread(self, watch: Watch, t: int, reason: str) -> list[Coverage]:
        """A whole line of this watch, or of any (EVERYTHING), was of no use: it may have been a page of a list."""
        for one in self._meant(watch):
            one.unread = reason
            if one.pages is not None:
                one.pages.unread.append(reason)
        return self.miss(watch, t, reason)

    def good(self, watch: Watch | None, t: int) -> list[Coverage]:
        """A line of this watch, or of any, was of use: what was missing is over."""
        if watch is None or watch.hole is None or not (watch.listed or watch.name == EVERYTHING):
            return []
        watch.hole = None
        if watch.lost is not None:
            return []
        return [self._tell.coverage(watch.name, "watching", t, t, "the next good line")]

    def listed(self, watch: Watch, t: int) -> list[Coverage]:
        """A whole list came: it is watched from now on."""
        if watch.listed and watch.lost is None and watch.hole is None:
            return []
        reason = "relist" if watch.listed else "list"
        watch.listed, watch.lost, watch.hole = True, None, None
        return [self._tell.coverage(watch.name, "watching", t, t, reason)]

    def end(self, t: int, reason: str, *, heard: bool) -> list[Coverage]:
        """Nothing is known of any watch from `t` on, or since it was last heard of if that is before a loss. `heard`:
        whatever happened up to `t` came in; else it may still be found later."""
        out: list[Coverage] = []
        for watch in sorted(self._watches, key=lambda one: one.name):
            if watch.lost is None:
                watch.lost, watch.lost_since = "ended", t
                if heard:
                    watch.last = max(t, watch.last or t)
                out.append(self._tell.coverage(watch.name, "ended", t, t, reason))
        return out

    def goes_on(self, names: Iterable[str], since: int, t: int) -> list[Coverage]:
        """What was told to have ended at `since` had not: the recording was read to there only."""
        return [self._tell.coverage(name, "watching", since, t, GOES_ON) for name in names]

    def _meant(self, watch: Watch) -> Iterable[Watch]:
        return self._watches if watch.name == EVERYTHING else (watch,)

    def _said(self, reason: str) -> str:
        """A reason that came from outside, without secrets, of a length to be read and in whole characters."""
        return self._redactor.redact_text(reason)[:_LONGEST_REASON].encode(errors="replace").decode()

"""The one writer of a ledger: reads the log in order, plans, executes, and moves the position in the same transaction.

A record that cannot be applied goes to the dead letters with its reason and leaves a gap marker on its object; all
others keep flowing. Killed anywhere, it goes on from the position that was committed: nothing is lost or doubled.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from schema.canonical import Json
from schema.errors import ApplyError, BadRecord, BelowHorizon, HindgraphError, StoreCorrupt
from schema.records import Change, Evidence, Record, State, load, parse_body
from store.ledger import SqliteLedger
from store.planner import Planner
from store.rows import ChangeRow, Insert, RowOp

BATCH = 1000
_LOOK = 100
"""How many records are parsed, and their ids looked up, at a time: enough to share a look-up, few to hold."""
_ID = re.compile("[0-9a-f]{32}")
_IDS = {"amend": ("id", "amends"), "retract": ("id", "retracts")}


class LogEntry(Protocol):
    """One record as the log keeps it."""

    @property
    def position(self) -> int: ...
    @property
    def s(self) -> int: ...
    @property
    def scope(self) -> str: ...
    @property
    def raw(self) -> bytes: ...


class ReadableLog(Protocol):
    """What the projector needs of a log."""

    def read(self, after: int = 0, limit: int = 1000) -> Sequence[LogEntry]: ...


@dataclass(slots=True)
class ProjectStats:
    """Counts of one run; `position` is the last log position seen."""

    applied: int = 0
    dead: int = 0
    duplicates: int = 0
    position: int = 0


def project(log: ReadableLog, ledger: SqliteLedger, progress: Callable[[int], None] | None = None) -> ProjectStats:
    """Bring the ledger up to the end of the log. `progress` is told after each batch how many records it had."""
    return Projector(log, ledger).run(progress)


class Projector:
    """Projects one log into one ledger, and between runs keeps in memory what the next records will need."""

    def __init__(self, log: ReadableLog, ledger: SqliteLedger) -> None:
        self._log = log
        self._ledger = ledger
        self._planners: dict[str, Planner] = {}

    def run(self, progress: Callable[[int], None] | None = None) -> ProjectStats:
        """Go on to the end of the log."""
        stats = ProjectStats()
        floor = self._ledger.floor()
        self._compare()
        while batch := self._log.read(after=floor, limit=BATCH):
            try:
                with _uncollected(), self._ledger.transaction():
                    self._batch(batch, stats)
            except BaseException:
                self._planners.clear()
                raise
            floor = stats.position = batch[-1].position
            if progress is not None:
                progress(len(batch))
        return stats

    def _compare(self) -> None:
        """Raises StoreCorrupt where this is not the log that the ledger was made of."""
        for scope, position, s in self._ledger.positions():
            found = self._log.read(after=position - 1, limit=1)
            if not found or (found[0].position == position and (found[0].scope, found[0].s) != (scope, s)):
                raise StoreCorrupt(
                    f"the ledger is at log position {position}, where the log has no such record of {scope}",
                    hint="restore the log from a copy; or, to begin anew, use another home",
                )

    def _batch(self, batch: Sequence[LogEntry], stats: ProjectStats) -> None:
        done = {scope: self._ledger.position(scope)[0] for scope in {entry.scope for entry in batch}}
        for scope, position in done.items():
            planner = self._planners.get(scope)
            if planner is None or planner.position != position:
                # Nothing was read of this scope yet, or another process moved on since we last looked.
                self._planners[scope] = Planner(self._ledger, scope)
        fresh = [entry for entry in batch if entry.position > done[entry.scope]]
        last: dict[str, LogEntry] = {}
        seen: set[str] = set()
        for start in range(0, len(fresh), _LOOK):
            some = [understand(entry) for entry in fresh[start : start + _LOOK]]
            seen |= self._ledger.seen([one.record.id for one in some if isinstance(one.record, Change | State)])
            for one in some:
                planner = self._planners[one.entry.scope]
                self._apply(one, planner, seen, stats)
                planner.position = one.entry.position
                last[one.entry.scope] = one.entry
        for scope, entry in last.items():
            self._ledger.set_position(scope, entry.position, entry.s, self._planners[scope].top)

    def _apply(self, one: Read, planner: Planner, seen: set[str], stats: ProjectStats) -> None:
        entry, record = one.entry, one.record
        try:
            if isinstance(record, BadRecord):
                raise record
            if isinstance(record, Evidence):
                new = self._ledger.add_evidence(record, entry.scope, entry.position)
            elif new := record.id not in seen:
                ops = planner.plan(record, one.told, entry.position, entry.s)
                self._ledger.execute(ops)
                # A state that says what is known already leaves no row: said again later, it may be news.
                if isinstance(record, Change) or (isinstance(record, State) and any(map(_tells, ops))):
                    seen.add(record.id)
        except (ApplyError, BadRecord) as error:
            self._bury(entry, record, error, planner)
            stats.dead += 1
        else:
            stats.applied += new
            stats.duplicates += not new

    def _bury(self, entry: LogEntry, record: Record | BadRecord, error: HindgraphError, planner: Planner) -> None:
        reason = type(error).__name__
        self._ledger.add_dead_letter(entry.position, entry.scope, entry.s, reason, error.message)
        if isinstance(record, Change | State) and not isinstance(error, BelowHorizon):
            self._ledger.execute(planner.gap(record.object, entry.position, entry.s, reason))


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for cycles meanwhile: a batch makes many trees and no cycle, and the search costs it a tenth."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Read(NamedTuple):
    """One entry with what it holds: JSON as the log keeps it, and the record, or why it is none."""

    entry: LogEntry
    told: dict[str, Json]
    record: Record | BadRecord


def _tells(op: RowOp) -> bool:
    return isinstance(op, Insert) and isinstance(op.row, ChangeRow)


def understand(entry: LogEntry) -> Read:
    told: dict[str, Json] = {}
    try:
        told = load(entry.raw)
        record = parse_body(told)
        for name in _IDS.get(record.type, ("id",)):
            if not _ID.fullmatch(getattr(record, name)):
                raise BadRecord(f"not a valid record: {name}: not 32 hex digits")
        return Read(entry, told, record)
    except BadRecord as error:
        return Read(entry, told, error)

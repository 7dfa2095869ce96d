"""The one writer of a ledger: reads the log in order, plans, executes, and moves the position in the same transaction.

A record that cannot be applied goes to the dead letters with its reason and leaves a gap marker on its object; all
others keep flowing. Killed anywhere, it goes on from the position that was committed: nothing is lost or doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from schema.errors import ApplyError, BadRecord, HindgraphError
from schema.records import Change, Evidence, Record, State, parse
from store.ledger import SqliteLedger
from store.planner import Planner
from store.rows import RowOp

BATCH = 1000


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
    stats = ProjectStats()
    planners: dict[str, Planner] = {}
    floor = min([row[0] for row in ledger.connection.execute("SELECT position FROM position")], default=0)
    while batch := log.read(after=floor, limit=BATCH):
        try:
            with ledger.transaction():
                for entry in batch:
                    _apply(entry, ledger, planners, stats)
        except BaseException:
            planners.clear()
            raise
        floor = stats.position = batch[-1].position
        if progress is not None:
            progress(len(batch))
    return stats


def _apply(entry: LogEntry, ledger: SqliteLedger, planners: dict[str, Planner], stats: ProjectStats) -> None:
    done, _ = ledger.position(entry.scope)
    if entry.position <= done:
        return
    planner = planners.get(entry.scope)
    if planner is None:
        planner = planners[entry.scope] = Planner(ledger, entry.scope)
    record: Record | None = None
    ops: list[RowOp] | None = []
    try:
        record = parse(entry.raw)
        ops = planner.plan(record, entry.position, entry.s)
        if isinstance(record, Evidence):
            ops = [] if ledger.add_evidence(record, entry.scope, entry.position) else None
    except (ApplyError, BadRecord) as error:
        _bury(entry, record, error, ledger, planner)
        stats.dead += 1
    else:
        if isinstance(record, Change | State):
            ledger.add_object(record.object)
        if ops is None:
            stats.duplicates += 1
        else:
            ledger.execute(ops)
            stats.applied += 1
    ledger.set_position(entry.scope, entry.position, entry.s, planner.top)


def _bury(
    entry: LogEntry, record: Record | None, error: HindgraphError, ledger: SqliteLedger, planner: Planner
) -> None:
    ledger.add_dead_letter(entry.position, entry.scope, entry.s, type(error).__name__, error.message)
    if isinstance(record, Change | State):
        ledger.add_object(record.object)
        ledger.execute(planner.gap(record.object, entry.position, entry.s, type(error).__name__))

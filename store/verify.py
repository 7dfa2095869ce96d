"""Is the ledger what the log says? Replays the log into a fresh ledger and compares digests of all logical rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from store.ledger import SqliteLedger
from store.projector import LogEntry, ReadableLog, project


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ok` iff both digests are equal; `records` were replayed, `behind` more of the log are not projected yet."""

    ok: bool
    ledger_digest: str
    replay_digest: str
    records: int
    behind: int


class _Projected:
    """The part of a log that a ledger was made of."""

    def __init__(self, log: ReadableLog, ledger: SqliteLedger) -> None:
        self._log = log
        self._done = {scope: position for scope, position, _ in ledger.positions()}
        self.behind = 0
        self._counted = 0

    def read(self, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        while batch := self._log.read(after=after, limit=limit):
            known = [entry for entry in batch if entry.position <= self._done.get(entry.scope, 0)]
            self.behind += sum(one.position > self._counted for one in batch) - len(known)
            self._counted = max(self._counted, batch[-1].position)
            if known:
                return known
            after = batch[-1].position
        return []


def verify(log: ReadableLog, ledger: SqliteLedger, progress: Callable[[int], None] | None = None) -> Verdict:
    """Compare the ledger with a clean replay of the part of the log it was made of. Leaves both as they are."""
    fresh = SqliteLedger(":memory:")
    part = _Projected(log, ledger)
    try:
        stats = project(part, fresh, progress)
        ours, replayed = ledger.digest(), fresh.digest()
    finally:
        fresh.close()
    return Verdict(ours == replayed, ours, replayed, stats.applied + stats.dead + stats.duplicates, part.behind)

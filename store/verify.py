"""Is the ledger what the log says? Replays the log into a fresh ledger and compares digests of all logical rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from store.ledger import SqliteLedger
from store.projector import ReadableLog, project


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ok` iff both digests are equal; `records` were replayed."""

    ok: bool
    ledger_digest: str
    replay_digest: str
    records: int


def verify(log: ReadableLog, ledger: SqliteLedger, progress: Callable[[int], None] | None = None) -> Verdict:
    """Compare the ledger with a clean replay of the log. Leaves both as they are."""
    fresh = SqliteLedger(":memory:")
    try:
        stats = project(log, fresh, progress)
        ours, replayed = ledger.digest(), fresh.digest()
    finally:
        fresh.close()
    return Verdict(ours == replayed, ours, replayed, stats.applied + stats.dead + stats.duplicates)

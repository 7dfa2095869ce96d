"""kill -9 at every write boundary of the projector: nothing lost, nothing doubled, the digest of a clean replay."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from store.ledger import SqliteLedger
from store.projector import project
from tests.bitemporal.histories import Entry, MemoryLog, random_history


class SmallBatches(MemoryLog):
    """Hands out a few records a time, so that kills fall before, in and after many transactions."""

    def read(self, after: int = 0, limit: int = 1000) -> list[Entry]:
        return super().read(after, min(limit, 7))


class KillingConnection:
    """A connection whose process dies before its n-th statement."""

    def __init__(self, connection: object, statements: int) -> None:
        self._connection = connection
        self._left = statements

    def execute(self, *args: object) -> object:
        self._count()
        return self._connection.execute(*args)  # type: ignore[attr-defined]

    def executemany(self, *args: object) -> object:
        self._count()
        return self._connection.executemany(*args)  # type: ignore[attr-defined]

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def run_and_die(path: Path, log: MemoryLog, statements: int) -> bool:
    """Project in a child that is killed before its n-th statement; False if it reached the end."""
    child = os.fork()
    if child == 0:
        ledger = SqliteLedger(path)
        ledger.connection = KillingConnection(ledger.connection, statements)  # type: ignore[assignment]
        project(log, ledger)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_killed_at_every_write_boundary(tmp_path: Path) -> None:
    log = SmallBatches()
    for record, at in random_history(11, 60):
        log.append(record, at)
    clean = SqliteLedger(":memory:")
    project(log, clean)
    digest = clean.digest()

    kills, step, statements = 0, 5, 1
    while True:
        path = tmp_path / f"ledger-{statements}.db"
        if not run_and_die(path, log, statements):
            break
        kills += 1
        # A second death on the way back, then the rest in peace.
        kills += run_and_die(path, log, statements // 2 + 1)
        ledger = SqliteLedger(path)
        project(log, ledger)
        assert ledger.digest() == digest, f"killed before statement {statements}"
        ledger.close()
        path.unlink()
        statements += step
    assert kills >= 200
    print(f"{kills} kills, digest equal each time")

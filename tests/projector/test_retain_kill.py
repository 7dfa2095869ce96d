"""kill -9 before any statement of a retention: the past answers as before, and the next run ends where it would have.

`make test` kills at a part of the statements, and at all of the last; HINDGRAPH_FULL=1 (make test-full) at each.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from store.keep import plan
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.projector import project
from store.retain import mend, outdated, retain
from store.rewind import Rewind
from store.verify import verify
from tests.bitemporal.histories import SCOPE
from tests.bitemporal.test_oracle import FULL
from tests.bitemporal.test_retain import told

HORIZON = 150
CONNECT = sqlite3.connect


def silent(_: int) -> None:
    pass


class Deadly:
    """Connections of one process, which dies before the n-th call on any file."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def connect(self, path: object, **named: object) -> object:
        made = CONNECT(path, **named)  # type: ignore[call-overload]
        return made if path == ":memory:" else _Watched(self, made)

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


class _Watched:
    def __init__(self, death: Deadly, connection: sqlite3.Connection) -> None:
        self._death = death
        self._connection = connection

    def __getattr__(self, name: str) -> object:
        found = getattr(self._connection, name)
        if not callable(found):
            return found

        def call(*args: object) -> object:
            self._death.count()
            return found(*(one._connection if isinstance(one, _Watched) else one for one in args))

        return call


def run(home: Path) -> None:
    """What `hindgraph retain` does."""
    scratch = home / "next.db"
    with SqliteLog(home / "log.db") as log, closing(SqliteLedger(home / "ledger.db")) as ledger:
        mend(log, ledger, scratch, silent)
        project(log, ledger)
        if Rewind(ledger).horizon(SCOPE) < HORIZON:
            retain(log, ledger, lambda: plan(log, ledger, {SCOPE: HORIZON}, silent), scratch, silent)


def dies(home: Path, calls: int) -> bool:
    """Run in a process that is killed before its n-th call; False when it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            sqlite3.connect = Deadly(calls).connect  # type: ignore[assignment]
            run(home)
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def answers(home: Path) -> list[object]:
    with closing(SqliteLedger(home / "ledger.db", readonly=True)) as ledger:
        rewind = Rewind(ledger)
        end = rewind.watermark(SCOPE)
        return [
            [(one.key, one.uid, one.vf, one.vt, rewind.state(one)) for one in rewind.objects(SCOPE, at, known_at)]
            for at, known_at in ((HORIZON, HORIZON), (HORIZON, end), (end, end))
        ]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    home = tmp_path / "made"
    home.mkdir()
    with SqliteLog(home / "log.db") as log, closing(SqliteLedger(home / "ledger.db")) as ledger:
        log.append(told(11, 60), epoch="file")
        project(log, ledger)
    return home


def test_killed_before_every_statement(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = shutil.copytree(made, tmp_path / "clean")
    before = answers(made)
    living = Deadly(10**9)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", living.connect)
        run(clean)
    total = 10**9 - living.left
    assert answers(clean) == before
    with SqliteLog(clean / "log.db") as log, closing(SqliteLedger(clean / "ledger.db")) as ledger:
        raws, digest = log.read(), ledger.digest()
        assert len(raws) < log.end()
    kills, halfway = 0, 0
    for calls in sorted({*range(0, total, 1 if FULL else 40), *range(total - 20, total)}):
        home = shutil.copytree(made, tmp_path / "home")
        assert dies(home, calls)
        kills += 1
        assert answers(home) == before, f"killed before call {calls}"
        with SqliteLog(home / "log.db") as log, closing(SqliteLedger(home / "ledger.db")) as ledger:
            left = log.read()
            if stale := outdated(log, ledger):
                halfway += 1
            assert left == raws or (log.cut().position == 0 and not stale), f"killed before call {calls}"
        # A second death on the way back, then the rest in peace.
        kills += dies(home, calls // 2)
        run(home)
        with SqliteLog(home / "log.db") as log, closing(SqliteLedger(home / "ledger.db")) as ledger:
            assert (log.read(), ledger.digest()) == (raws, digest), f"killed before call {calls}"
            assert verify(log, ledger).ok
            assert log.resume("file") == len(told(11, 60))
        assert not list(home.glob("next*"))
        shutil.rmtree(home)
    assert kills > 40
    assert halfway > 0
    print(f"{kills} kills, {halfway} between log and ledger")

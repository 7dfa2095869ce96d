"""Killed anywhere, the log holds each batch whole or not at all, and a replay of the input ends with one of each."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from schema.records import dump
from store.log import SqliteLog
from tests.log.records import SCOPE, change

EPOCH = "file"
RECORDS = [change(n, n) for n in range(12)]
BATCH = 4


class Deadly:
    """A connection that kills its process before its n-th call."""

    def __init__(self, connection: sqlite3.Connection, calls: int) -> None:
        self._connection = connection
        self._calls = calls

    def __getattr__(self, name: str) -> object:
        found = getattr(self._connection, name)
        if not callable(found):
            return found

        def call(*args: object) -> object:
            self._calls -= 1
            if self._calls < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return found(*args)

        return call


def replay(log: SqliteLog) -> None:
    """What a replay does: skip what is there, append the rest in batches."""
    for start in range(log.resume(EPOCH), len(RECORDS), BATCH):
        log.append([(record, 0) for record in RECORDS[start : start + BATCH]], epoch=EPOCH)


def in_child(work: Callable[[], None]) -> bool:
    """Run it in a process of its own; True when that was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def rows(path: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT * FROM entry ORDER BY position").fetchall()
    finally:
        connection.close()


@pytest.fixture
def clean(tmp_path: Path) -> list[tuple[object, ...]]:
    with SqliteLog(tmp_path / "clean.db") as log:
        replay(log)
    return rows(tmp_path / "clean.db")


def test_killed_before_every_statement_and_replayed(tmp_path, clean):
    path = tmp_path / "log.db"
    boundaries = 0
    while True:
        for file in tmp_path.glob("log.db*"):
            file.unlink()
        with SqliteLog(path):
            pass

        def work(boundary: int = boundaries) -> None:
            log = SqliteLog(path)
            log._connection = Deadly(log._connection, boundary)  # type: ignore[assignment]
            replay(log)

        if not in_child(work):
            break
        with SqliteLog(path) as log:
            there = log.resume(EPOCH)
            assert there % BATCH == 0
            assert len(log.read()) == log.end() == log.count(SCOPE) == there
            replay(log)
            replay(log)
        assert rows(path) == clean
        boundaries += 1
    # One resume, then per batch: BEGIN, the rows, two counts, COMMIT, and the names in the first.
    assert boundaries >= 1 + 3 * 5 + 2


def test_killed_while_migrating(tmp_path, clean, monkeypatch):
    path = tmp_path / "log.db"
    connect = sqlite3.connect
    for boundary in range(30):
        for file in tmp_path.glob("log.db*"):
            file.unlink()

        def work(boundary: int = boundary) -> None:
            monkeypatch.setattr(sqlite3, "connect", lambda *args, **named: Deadly(connect(*args, **named), boundary))
            SqliteLog(path)

        killed = in_child(work)
        with SqliteLog(path) as log:
            replay(log)
        assert rows(path) == clean
        if not killed:
            break
    else:
        pytest.fail("opening takes more statements than were tried")


def test_killed_at_any_moment(tmp_path):
    path = tmp_path / "log.db"
    rng = random.Random(1)
    acknowledged = 0
    for _ in range(6):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            log = SqliteLog(path)
            while True:
                start = log.resume(EPOCH)
                log.append([(change(n, n), 0) for n in range(start, start + 20)], epoch=EPOCH)
                os.write(writer, b".")
        os.close(writer)
        os.read(reader, 1)
        time.sleep(rng.random() * 0.05)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        acknowledged += 20
        while answer := os.read(reader, 65536):
            acknowledged += 20 * len(answer)
        os.close(reader)
        with SqliteLog(path) as log:
            there = log.resume(EPOCH)
            # Nothing acknowledged is lost; at most one batch a round was written and not yet acknowledged.
            assert there >= acknowledged
            assert there - acknowledged in (0, 20)
            acknowledged = there
            raws = [entry.raw for entry in log.read(limit=10**6)]
        assert raws == [dump(change(n, n)) for n in range(there)]

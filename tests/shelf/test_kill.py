"""Killed before any statement of log or shelf and started again: nothing is lost, doubled or made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from capture.kubernetes.recalling import Recall
from capture.kubernetes.recording import Line
from capture.kubernetes.shelf import Shelf
from capture.redact import Redactor
from schema.records import Change, parse
from store.log import SqliteLog
from tests.log.test_kill import Deadly, in_child
from tests.reflector.lines import RESOURCES, S, reflector
from tests.reflector.test_ids import world
from tests.shelf.test_shelf import held
from tests.shelf.world import NAMES, Server

CMS = NAMES[0]
REDACTOR = Redactor(b"k" * 32)


def script() -> tuple[Server, list[list[Line]]]:
    """What a server says, batch by batch: lists, changes, an object made anew, one that goes."""
    server = Server()
    batches: list[list[Line]] = []
    for n, what in enumerate(["write", "write", "list", "write", "deliver", "again", "delete", "write", "deliver"]):
        said = [line for line in server.step(CMS, what, n) if isinstance(line, Line)]
        batches += [said] if said else []
    return server, batches


def record(home: Path, batches: list[list[Line]], deadly: int | None = None) -> None:
    """A run of a recorder over what it is given, killed before its n-th statement."""
    log, shelf = SqliteLog(home / "log"), Shelf(home / "shelf", "lab", REDACTOR.redact_text, ready=0)
    if deadly is not None:
        # One count for both: they write in turn.
        dying = Deadly(log._connection, deadly)
        log._connection = dying  # type: ignore[assignment]
        shelf._file._connection = Sharing(shelf._file._connection, dying)  # type: ignore[assignment]
    recall = Recall(shelf, RESOURCES, NAMES)
    for entry in log.read(after=shelf.position):
        recall.apply(parse(entry.raw))
    shelf.commit(log.end())
    core = reflector(shelf)
    out = core.lost(NAMES, batches[0][0].t, "the recorder was not running") if shelf.position else []
    for lines in batches:
        for line in lines:
            out += core.feed(line)
        positions = log.append([(one, lines[-1].t) for one in out])
        shelf.commit(positions[-1] if positions else shelf.position)
        out = []
    shelf.close()
    log.close()


def states(shelf: Shelf) -> dict:
    return {key: (one.prepared.digest, one.prepared.source_version, one.valid) for key, one in held(shelf).items()}


class Sharing:
    """A connection that dies when another has had so many calls, its own among them."""

    def __init__(self, connection: object, dying: Deadly) -> None:
        self._connection, self._dying = connection, dying

    def __getattr__(self, name: str) -> object:
        found = getattr(self._connection, name)
        if not callable(found):
            return found

        def call(*args: object) -> object:
            self._dying.execute("SELECT 1")  # type: ignore[operator]
            return found(*args)

        return call


def test_killed_before_every_statement_and_started_again(tmp_path: Path) -> None:
    server, batches = script()
    server.t += 60 * S
    last = [line for line in server.step(CMS, "list", 0) if isinstance(line, Line)]
    boundary = 0
    while True:
        home = tmp_path / str(boundary)
        home.mkdir()
        record(home, batches[:1])

        def work(home: Path = home, boundary: int = boundary) -> None:
            record(home, batches[1:], boundary)

        killed = in_child(work)
        record(home, [last])
        with SqliteLog(home / "log", readonly=True) as log:
            told = [parse(entry.raw) for entry in log.read(limit=10_000)]
        changes = [one for one in told if isinstance(one, Change)]
        assert len({one.id for one in changes}) == len(changes)
        # Each change goes on from the state before it, and what is there at the end is what the server has.
        there = {key.name: state["data"]["size"] for key, (_, state) in world(told).items()}
        assert there == {name: one["data"]["size"] for name, one in server.objects[CMS].items()}
        with Shelf(home / "shelf", "lab", REDACTOR.redact_text) as shelf:
            assert {key.name for key in states(shelf)} == {*there}
        if not killed:
            break
        boundary += 1
    assert boundary > 30


@pytest.mark.parametrize("kept", [0, 1])
def test_commits_that_a_power_cut_took_back_are_caught_up(tmp_path: Path, kept: int) -> None:
    """Without a sync after each commit the file may be an older one than was written."""
    _, batches = script()
    with SqliteLog(tmp_path / "log"):
        pass
    record(tmp_path, batches[: kept + 1])
    old = (tmp_path / "shelf").read_bytes()
    record(tmp_path, batches[kept + 1 :])
    with Shelf(tmp_path / "shelf", "lab", REDACTOR.redact_text) as shelf:
        known = states(shelf)
    (tmp_path / "shelf").write_bytes(old)
    with SqliteLog(tmp_path / "log", readonly=True) as log, Shelf(tmp_path / "shelf", "lab", str) as shelf:
        assert shelf.position < log.end()
        recall = Recall(shelf, RESOURCES, NAMES)
        for entry in log.read(after=shelf.position):
            recall.apply(parse(entry.raw))
        assert states(shelf) == known

"""A home that is damaged, half there, of another version, full or held by somebody: a named error that says what to do,
nothing stored is lost, and what can be answered is answered."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api import home as homes
from api.cli import app
from api.replaying import replay
from api.settings import Settings
from schema.errors import (
    BadRecord,
    HindgraphError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreMissing,
    StoreVersion,
)
from store.ledger import SqliteLedger
from store.log import SqliteLog
from tests.api.test_going_on import at, listing, pod, t, write
from tests.bitemporal.test_oracle import FULL

STORY = Path(__file__).parents[1] / "recordings" / "long_story.jsonl.gz"
GAP = Path(__file__).parents[1] / "recordings" / "watch_gap.jsonl.gz"
REPLAYED = [GAP]


def run(home: Path, *arguments: str) -> HindgraphError | None:
    """What a command raised; None if it went well."""
    error = CliRunner().invoke(app, ["--home", str(home), *arguments]).exception
    assert error is None or isinstance(error, HindgraphError), error
    return error


def sql(file: Path, statement: str) -> None:
    connection = sqlite3.connect(file)
    with connection:
        assert connection.execute(statement).rowcount != 0
    connection.close()


def halve(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 8192 * 4096)


NEWER = "INSERT INTO migration VALUES ('{}', 99, 'later', x'00')"
DAMAGE: dict[str, tuple[Callable[[Path], object], type[StoreError], str, bool]] = {
    # what was done, what writing and verifying say, and whether questions are still answered
    "a row of the log": (
        lambda home: sql(home / "log.sqlite", "UPDATE entry SET body = zeroblob(40) WHERE position = 70"),
        StoreCorrupt, "position 70", True,
    ),
    "half a log": (lambda home: halve(home / "log.sqlite"), StoreCorrupt, "log", True),
    "no log": (lambda home: (home / "log.sqlite").unlink(), StoreError, "log", True),
    "a log of a newer version": (
        lambda home: sql(home / "log.sqlite", NEWER.format("log")), StoreVersion, "this log has migration 99", True,
    ),
    "half a ledger": (lambda home: halve(home / "ledger.sqlite"), StoreCorrupt, "damaged", False),
    "a ledger of a newer version": (
        lambda home: sql(home / "ledger.sqlite", NEWER.format("ledger")), StoreVersion, "this ledger has", False,
    ),
    "a log for a ledger": (
        lambda home: shutil.copy(home / "log.sqlite", home / "ledger.sqlite"), StoreCorrupt, "is a log", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "error", "words", "answers"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_said_and_the_rest_answers(home, damage, error, words, answers) -> None:
    before = CliRunner().invoke(app, ["--home", str(home), "changes"]).stdout
    damage(home)
    there = {path.name for path in home.glob("*.sqlite")}
    for command in (["verify"], ["replay", str(GAP)], ["retain", "--older-than", "1s"]):
        told = run(home, *command)
        assert isinstance(told, error), (command, told)
        assert words in str(told)
        assert told.hint, command
    assert {path.name for path in home.glob("*.sqlite")} >= there
    if answers:
        assert CliRunner().invoke(app, ["--home", str(home), "changes"]).stdout == before
        return
    told = run(home, "changes")
    assert isinstance(told, error)
    if "hindgraph project" in str(told):
        for file in home.glob("ledger.sqlite*"):
            file.unlink()
        assert run(home, "project") is None
        assert CliRunner().invoke(app, ["--home", str(home), "changes"]).stdout == before


def test_a_ledger_that_is_gone_is_made_anew_from_the_log(home) -> None:
    before = CliRunner().invoke(app, ["--home", str(home), "changes"]).stdout
    (home / "ledger.sqlite").unlink()
    for command in ("changes", "verify"):
        told = run(home, command)
        assert isinstance(told, StoreMissing)
        assert "hindgraph project" in str(told)
    assert run(home, "project") is None
    assert run(home, "verify") is None
    assert CliRunner().invoke(app, ["--home", str(home), "changes"]).stdout == before
    assert run(home, "project") is None


def test_nothing_recorded_cannot_be_projected(tmp_path) -> None:
    assert isinstance(run(tmp_path / "none", "project"), StoreMissing)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("full", ["log", "ledger"])
def test_a_full_disk_loses_nothing_and_replaying_again_goes_on(home, monkeypatch, full) -> None:
    monkeypatch.setattr(f"store.{full}.connect", narrow(f"store.{full}", 40))
    told = run(home, "replay", str(STORY), "--scope", "story")
    assert isinstance(told, StoreError)
    assert "full" in str(told)
    assert "disk" in (told.hint or "")
    monkeypatch.undo()
    assert run(home, "verify") is None
    assert run(home, "replay", str(STORY), "--scope", "story") is None
    assert run(home, "verify") is None
    at_once = Settings(home=home.parent / "once")
    shutil.copytree(home, at_once.home, ignore=shutil.ignore_patterns("*.sqlite*"))
    replay(at_once, [GAP])
    replay(at_once, [STORY], scope="story")
    assert homes.check(at_once).ledger_digest == homes.check(Settings(home=home)).ledger_digest


def narrow(module: str, pages: int) -> Callable[..., sqlite3.Connection]:
    """Opens files that may grow by so many pages and no more: a disk with little left."""
    from importlib import import_module

    real = import_module(module).connect

    def opened(path: Path, *, readonly: bool) -> sqlite3.Connection:
        connection: sqlite3.Connection = real(path, readonly=readonly)
        if str(path).endswith(".sqlite"):
            size = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {size + pages}")
        return connection

    return opened


@pytest.mark.parametrize(
    "raw", [b'{"v":2,"type":"change","id":"x"}', b'{"v":1,"type":"rumour","id":"x"}', b"not JSON", b"\xff\xfe", b"[]"]
)
def test_a_record_of_a_newer_kind_is_a_dead_letter_and_the_rest_goes_on(home, raw) -> None:
    with SqliteLog(home / "log.sqlite") as log, log._writing():
        log._write([("kubernetes/shop", 0, raw)], "")
    assert run(home, "project") is None
    assert run(home, "verify") is None
    letters = CliRunner().invoke(app, ["--home", str(home), "dead-letters", "--scope", "shop"])
    assert "BadRecord" in letters.stdout
    assert run(home, "replay", str(STORY), "--scope", "story") is None
    assert run(home, "retain", "--older-than", "1s") is None
    assert run(home, "verify") is None


def test_a_file_that_a_newer_one_replayed_is_not_compared_by_guess(home, tmp_path) -> None:
    file = write(tmp_path / "a.gz", 0, listing(1, 10, pod("a", 5)))
    with SqliteLog(home / "log.sqlite") as log:
        assert run(tmp_path / "other", "replay", str(file)) is None
        epoch = SqliteLog(tmp_path / "other" / "log.sqlite", readonly=True).runs()[0]
        with log._writing():
            log._write([("kubernetes/lab", 0, b'{"v":2}')], epoch)
    assert isinstance(run(home, "replay", str(file)), BadRecord)
    assert run(home, "verify") is None


def test_two_writers_on_one_home(home, tmp_path) -> None:
    with SqliteLog(home / "log.sqlite"):
        for command in (["replay", str(STORY)], ["retain", "--older-than", "1s"], ["project"]):
            told = run(home, *command)
            assert isinstance(told, StoreBusy)
            assert told.hint
        assert run(home, "changes") is None
        assert run(home, "verify") is None
    assert run(home, "replay", str(STORY), "--scope", "story") is None


def test_a_clock_that_runs_back_keeps_the_order_of_the_log(tmp_path) -> None:
    lines = [
        listing(20, 10, pod("a", 5)),
        {"t": t(5), "r": "v1/pods", "type": "MODIFIED", "object": pod("a", 11, image="a:2")},
        {"t": t(21), "r": "v1/pods", "type": "MODIFIED", "object": pod("a", 12, image="a:3")},
    ]
    home = tmp_path / "home"
    assert run(home, "replay", str(write(tmp_path / "a.gz", 0, *lines))) is None
    with SqliteLog(home / "log.sqlite", readonly=True) as log:
        times = [entry.s for entry in log.read()]
    assert times == sorted(set(times))
    with homes.past(Settings(home=home)) as rewind:
        (version,) = rewind.objects("kubernetes/lab", at(21), rewind.watermark("kubernetes/lab"))
        assert rewind.state(version)["spec"]["containers"][0]["image"] == "a:3"
    assert run(home, "verify") is None


def test_a_huge_object_is_kept_and_shown(tmp_path) -> None:
    """20 MB in `make test-full`, a tenth in `make test`."""
    large = pod("a", 11)
    large["spec"]["notes"] = [f"{number:020000}" for number in range(1000 if FULL else 100)]
    lines = [listing(1, 10, pod("a", 5)), {"t": t(2), "r": "v1/pods", "type": "MODIFIED", "object": large}]
    home = tmp_path / "home"
    assert run(home, "replay", str(write(tmp_path / "a.gz", 0, *lines))) is None
    assert run(home, "verify") is None
    with homes.past(Settings(home=home)) as rewind:
        (version,) = rewind.objects("kubernetes/lab", at(2), rewind.watermark("kubernetes/lab"))
        assert rewind.state(version)["spec"]["notes"] == large["spec"]["notes"]
    assert run(home, "changes") is None


def test_a_migration_that_was_killed_is_done_again(home) -> None:
    script = (
        "import os, sys, sqlite3, migrations.runner as runner\n"
        "real = runner._statements\n"
        "def half(sql):\n"
        "    for one in real(sql):\n"
        "        yield one\n"
        "        os._exit(9)\n"
        "runner._statements = half\n"
        "runner.migrate(sqlite3.connect(sys.argv[1], isolation_level=None), 'ledger')\n"
    )
    connection = sqlite3.connect(home / "ledger.sqlite")
    with connection:
        connection.executescript("DELETE FROM migration WHERE number >= 5; DROP INDEX object_namespace;")
    connection.close()
    assert isinstance(run(home, "changes"), StoreMissing)
    killed = subprocess.run([sys.executable, "-c", script, str(home / "ledger.sqlite")], check=False)
    assert killed.returncode == 9
    told = run(home, "changes")
    assert isinstance(told, StoreMissing)
    assert "hindgraph project" in str(told)
    assert run(home, "project") is None
    assert run(home, "changes") is None
    assert run(home, "verify") is None
    SqliteLedger(home / "ledger.sqlite", readonly=True).close()

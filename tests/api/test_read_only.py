"""A home that may only be read, of another user or on a read-only mount, answers all questions and takes no writes."""

from __future__ import annotations

import json
import os
import pwd
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from warnings import catch_warnings, simplefilter

import httpx
import pytest
import uvicorn  # noqa: F401  a command imports it, and who has no rights may not be able to read it
from anyio import run as run_async
from typer.testing import CliRunner

from api.cli import app
from api.replaying import replay
from api.rest import build
from api.settings import Settings
from schema.errors import HindgraphError, StoreError
from store.ledger import SqliteLedger
from store.log import SqliteLog

STORY = Path(__file__).parents[1] / "recordings" / "long_story.jsonl.gz"
QUESTIONS = (
    ("show", "Deployment/shop/cart"), ("history", "Deployment/shop/cart"), ("changes",),
    ("diff", "2026-12-01T05:04:50Z"), ("symptoms",), ("evidence",), ("dead-letters",), ("coverage",), ("verify",),
    ("retain", "--older-than", "18s", "--dry-run"),
)  # fmt: skip
PATHS = ("/healthz", "/metrics", "/v1/changes", "/v1/objects/Deployment/shop/cart", "/v1/coverage")


def shut(home: Path) -> None:
    """Leave nobody the right to write."""
    for file in home.iterdir():
        file.chmod(0o444)
    home.chmod(0o555)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may look into, which pytest's own is not."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        for each in Path(name).iterdir():
            each.chmod(0o755)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Settings:
    settings = Settings(home=tmp_path_factory.mktemp("recorded"))
    replay(settings, [STORY])
    return settings


def as_nobody(task: Callable[[], dict]) -> dict:
    """What a task gives that runs as a user without rights."""
    reading, writing = os.pipe()
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)  # forking beside threads: the child takes no lock of theirs
        child = os.fork()
    if child == 0:
        told = {}
        with suppress(BaseException):
            if os.getuid() == 0:
                user = pwd.getpwnam("nobody")
                os.setgroups([])
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
            try:
                told = task()
            except BaseException as error:
                told = {"failed": repr(error)}
            os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told)


def asked(home: Path) -> dict[str, str | int]:
    """Each question of the command line and its exit code, each path and its status."""
    found: dict[str, str | int] = {}
    for question in QUESTIONS:
        result = CliRunner().invoke(app, ["--home", str(home), *question, "--json"])
        found[question[0]] = result.exit_code if result.exception is None else repr(result.exception)

    async def ask() -> None:
        transport = httpx.ASGITransport(build(Settings(home=home)))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            for path in PATHS:
                found[path] = (await client.get(path)).status_code

    run_async(ask)
    return found


def written(home: Path) -> dict[str, list[str | None]]:
    """What each way to write says."""
    found: dict[str, list[str | None]] = {}
    tries: dict[str, Callable[[], object]] = {
        "replay": lambda: replay(Settings(home=home), [STORY]),
        "log": lambda: SqliteLog(home / "log.sqlite"),
        "ledger": lambda: SqliteLedger(home / "ledger.sqlite"),
    }
    for name, write in tries.items():
        try:
            write()
        except HindgraphError as error:
            found[name] = [type(error).__name__, error.hint]
    result = CliRunner().invoke(app, ["--home", str(home), "retain", "--older-than", "18s"])
    assert isinstance(result.exception, StoreError)
    found["retain"] = [type(result.exception).__name__, result.exception.hint]
    return found


GOOD = {question[0]: 0 for question in QUESTIONS} | dict.fromkeys(PATHS, 200)


def test_what_may_only_be_read_answers_and_is_left_alone(recorded: Settings, folder: Path) -> None:
    home = shutil.copytree(recorded.home, folder / "home")
    shut(home)
    before = {file.name: file.read_bytes() for file in home.iterdir()}
    assert as_nobody(lambda: asked(home)) == GOOD
    assert {file.name: file.read_bytes() for file in home.iterdir()} == before


def test_what_is_in_the_write_ahead_log_is_read_as_well(recorded: Settings, folder: Path, tmp_path: Path) -> None:
    writer = Settings(home=shutil.copytree(recorded.home, tmp_path / "home"))
    with SqliteLog(writer.log) as log, closing(SqliteLedger(writer.ledger)) as ledger:
        ledger.add_dead_letter(10**6, "kubernetes/lab", 0, "BadPatch", "only in the write-ahead log")
        home = shutil.copytree(writer.home, folder / "home")
        assert log.end()
    assert (home / "ledger.sqlite-wal").stat().st_size > 0
    shut(home)

    def letters() -> dict:
        told = CliRunner().invoke(app, ["--home", str(home), "dead-letters", "--json"])
        return {"details": [one["detail"] for one in json.loads(told.stdout)["items"]]}

    assert as_nobody(letters)["details"] == ["only in the write-ahead log"]
    assert as_nobody(lambda: asked(home)) == GOOD | {"verify": "SystemExit(1)", "retain": 0}


def test_writing_says_what_is_in_the_way(recorded: Settings, folder: Path) -> None:
    home = shutil.copytree(recorded.home, folder / "home")
    shut(home)
    told = as_nobody(lambda: written(home))
    assert set(told) == {"replay", "log", "ledger", "retain"}
    assert all(name == "StoreError" and "another home" in hint for name, hint in told.values()), told


def test_a_home_that_may_not_even_be_looked_into_is_said_so(recorded: Settings, folder: Path) -> None:
    home = shutil.copytree(recorded.home, folder / "home")
    home.chmod(0)
    told = as_nobody(lambda: asked(home))
    assert {told["/healthz"], told["/v1/changes"]} == {503}

"""What people and programs get wrong when they ask: told what to do, never a bug and never a wrong answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from api.cli import app
from api.replaying import replay
from api.rest import build
from api.settings import Settings
from schema.errors import HindgraphError

STORY = Path(__file__).parents[1] / "recordings" / "long_story.jsonl.gz"
COMMANDS = sorted(one.name or (one.callback.__name__ if one.callback else "") for one in app.registered_commands)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    replay(Settings(home=home), [STORY])
    return home


@pytest.fixture(scope="module")
def client(home) -> Iterator[httpx.Client]:
    application = build(Settings(home=home))

    class Direct(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            async def ask() -> httpx.Response:
                answer = await httpx.ASGITransport(application).handle_async_request(request)
                return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

            return asyncio.run(ask())

    with httpx.Client(transport=Direct(), base_url="http://test") as made:
        yield made


BADLY = {
    "ten thousand unknown parameters": ("/v1/changes?" + "&".join(f"{n}" for n in range(10_000)), 400, "InputError"),
    "an endless limit": ("/v1/changes?limit=1" + "0" * 5000, 400, "InputError"),
    "a negative limit": ("/v1/changes?limit=-5", 400, "InputError"),
    "too many hops": ("/v1/changes?near=Service/shop/cart&hops=1000000", 400, "InputError"),
    "a number that is none": ("/v1/changes?limit=NaN", 400, "InputError"),
    "NUL in a name": ("/v1/objects/Deployment/shop/%00", 404, "UnknownObject"),
    "NUL for a name": ("/v1/objects/%00", 400, "BadKey"),
    "NUL for a namespace": ("/v1/changes?namespace=%00", 404, "UnknownObject"),
    "NUL for an instant": ("/v1/changes?at=%00", 400, "BadInstant"),
    "NUL for a cursor": ("/v1/changes?cursor=%00", 400, "BadCursor"),
    "NUL for a scope": ("/v1/coverage?scope=%00", 404, "UnknownScope"),
    "not UTF-8": ("/v1/objects/Deployment/shop/%ff%fe", 404, "UnknownObject"),
    "an endless path": ("/v1/changes?path=" + "a." * 20_000 + "b", 400, "BadPath"),
    "an endless name": ("/v1/objects/Pod/" + "x" * 60_000, 404, "UnknownObject"),
    "an endless cursor": ("/v1/changes?cursor=" + "A" * 60_000, 400, "BadCursor"),
    "an age beyond the calendar": ("/v1/changes?at=-99999999999d", 400, "BadInstant"),
    "a start before the calendar": ("/v1/diff?before=-99999999d", 400, "BadInstant"),
    "a time that ends before it begins": (
        "/v1/changes?since=2026-12-01T05:05:10Z&at=2026-12-01T05:05:00Z",
        400,
        "InputError",
    ),
    "evidence of no time": ("/v1/evidence?since=2026-12-01T05:05:10Z&at=2026-12-01T05:05:00Z", 400, "InputError"),
}


@pytest.mark.parametrize(("path", "status", "title"), BADLY.values(), ids=BADLY)
def test_over_rest(client, path, status, title) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["title"]) == (status, title)
    assert len(answer.content) < 2000
    assert client.get("/healthz").status_code == 200


def test_one_parameter_many_times_and_none_is_the_last(client) -> None:
    assert client.get("/v1/changes?" + "&".join(["limit=7"] * 5000 + ["limit=1"])).json()["items"][1:] == []


def test_other_methods_are_refused(client) -> None:
    assert {client.request(one, "/v1/changes").status_code for one in ("POST", "PUT", "DELETE")} == {405}


WRONG = {
    "retain --older-than 30": "as 30d",
    "retain --older-than -3d": "as 30d",
    "changes --at yesterday": "RFC 3339",
    "changes --since 2026-12-01T05:05:10Z --at -10s": "earlier instant",
    "show Deployment/shop/crat": "near: Deployment/shop/cart",
    "show x": "KIND/NAMESPACE/NAME",
    "replay no-such-file.gz": "docs/recordings.md",
    "replay pyproject.toml": "docs/recordings.md",
    "coverage --scope nope": "there is: kubernetes/lab",
    "changes --cursor abc": "next",
    "history Deployment/shop/cart --path spec[": "write names joined by dots",
}


@pytest.mark.parametrize(("command", "words"), WRONG.items(), ids=WRONG)
def test_on_the_command_line(home, command, words) -> None:
    error = CliRunner().invoke(app, ["--home", str(home), *command.split()]).exception
    assert isinstance(error, HindgraphError)
    assert words in str(error)
    assert 2 <= error.exit_code < 70


def test_an_age_may_be_the_first_instant_of_a_diff_and_a_misspelt_option_may_not(home) -> None:
    assert CliRunner().invoke(app, ["--home", str(home), "diff", "-20s", "now", "--kind", "Service"]).exit_code == 0
    for wrong in (["-20s", "--kidn=Service"], ["--kidn", "-20s"], ["-20s", "now", "--kidn"]):
        assert CliRunner().invoke(app, ["--home", str(home), "diff", *wrong]).exit_code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_shows_an_example_that_names_it(command) -> None:
    told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert told.exit_code == 0
    assert re.search(rf"Examples?: .*hindgraph .*\b{command}\b", told.stdout)
    assert "--json" in told.stdout or command in ("serve", "demo")

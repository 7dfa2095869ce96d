"""The demo: the story of a recording told from its symptoms and changes, with commands that answer."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from api.cli import app
from api.demo import STORIES, tell

RECORDINGS = Path(__file__).parents[1] / "recordings"


def told(place: Path, stories: tuple[Path, ...] = STORIES, width: int = 120) -> str:
    out = io.StringIO()
    tell(Console(file=out, width=width), place, stories)
    return out.getvalue()


def recording(name: str) -> Path:
    return RECORDINGS / f"{name}.jsonl.gz"


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> str:
    return told(tmp_path_factory.mktemp("demo"))


def test_it_names_what_is_wrong_and_the_change_that_the_truth_file_names(story) -> None:
    truth = json.loads((RECORDINGS / "long_story.truth.json").read_text())
    name = "/".join(truth["symptom"][part] for part in ("kind", "namespace", "name"))
    (cause,) = truth["causes"]
    wrong, near, then, difference, *_ = story.split("\n\n")[1:]
    assert name in wrong
    for part in (near, difference):
        assert f"{cause['before']} → {cause['after']}" in part
    assert f"doing: {name}" in near
    assert name in then


def test_the_second_recording_shows_what_the_first_cannot(story) -> None:
    first, second = story.split("A second recording has what follows.")
    assert "two lives" not in first
    assert "interval" not in first
    assert "Deployment/shop/stock-probe is not the object it was." in second
    assert "cache-v2.data.svc.cluster.local" in second
    assert "it may have changed by then" in second


def test_its_next_commands_answer(story) -> None:
    lines = story.split("Ask on\n")[1].splitlines()
    home = shlex.split(lines[0])[1].removeprefix("HINDGRAPH_HOME=")
    commands = [shlex.split(line)[1:] for line in lines[1:]]
    assert commands.pop() == ["serve"]
    assert len(commands) == 7
    for command in commands:
        result = CliRunner().invoke(app, [*command, "--json"], env={"HINDGRAPH_HOME": home}, catch_exceptions=False)
        assert result.exit_code == ("check" in command)  # which has found something
        assert json.loads(result.stdout)["items"], command


def test_a_recording_that_has_everything_needs_no_second(tmp_path) -> None:
    story = told(tmp_path, (recording("watch_gap"), recording("env_twice")))
    assert "two lives" in story
    assert "env_twice" not in story


@pytest.mark.parametrize("name", ["long_story", "healthy_rotation"])
def test_it_tells_any_recording(tmp_path, name) -> None:
    story = told(tmp_path, (recording(name),))
    assert ("nothing is wrong as far as is known" in story) == name.startswith("healthy")
    assert "The difference" in story


def test_it_fits_a_narrow_terminal_and_has_no_colour_in_a_file(tmp_path) -> None:
    story = told(tmp_path, width=40)
    assert "\x1b[" not in story
    assert max(len(line) for line in story.split("Ask on")[0].splitlines()) <= 40


def test_the_command_tells_it_from_a_folder_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("api.cli.serving.mkdtemp", lambda prefix: str(tmp_path))
    result = CliRunner().invoke(app, ["demo"], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"export HINDGRAPH_HOME={tmp_path / 'long_story'}" in result.stdout

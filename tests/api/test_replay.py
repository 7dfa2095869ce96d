"""A recording file through the whole spine: replayed once, replayed again, and asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.cli import app
from schema.errors import BadRecording

STORY = Path(__file__).parents[2] / "demo" / "long_story.jsonl.gz"


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    told = run(home, "replay", str(STORY))
    assert told["dead"] == 0
    assert told["files"][0]["added"] == told["position"] > 0
    return home


def run(home: Path, *arguments: str) -> dict:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_a_second_replay_adds_nothing(home) -> None:
    before = run(home, "changes", "--limit", "1000")
    told = run(home, "replay", str(STORY))
    assert told["files"][0]["added"] == 0
    assert told["files"][0]["known"] > 0
    assert run(home, "changes", "--limit", "1000") == before


def test_the_ledger_is_what_the_log_says(home) -> None:
    assert run(home, "verify")["ok"] is True


def test_every_update_is_the_difference_around_it(home) -> None:
    items = run(home, "changes", "--kind", "Deployment", "--limit", "20")["items"]
    updates = [item for item in items if item["op"] == "update" and item["object"]["kind"] == "Deployment"]
    assert updates
    for item in updates[:3]:
        name = "/".join((item["object"]["kind"], item["object"]["namespace"], item["object"]["name"]))
        versions = run(home, "history", name)["items"]
        here = next(n for n, one in enumerate(versions) if (one["change"] or {}).get("id") == item["id"])
        before, after = versions[here - 1]["valid"]["not_after"], item["valid"]["not_after"]
        told = run(home, "diff", before, after, "--object", name)["items"]
        assert [one["path"] for one in told[0]["fields"]] == [one["path"] for one in item["fields"]]


def test_what_was_there_before_the_recording_is_not_called_added(home) -> None:
    told = run(home, "diff", "2000-01-01T00:00:00Z")
    assert {item["effect"] for item in told["items"]} == {"added", "first_seen"}
    assert {row["state"] for row in told["unknown"]} == {"unwatched"}


def test_a_file_that_is_no_recording_leaves_the_past_alone(home, tmp_path) -> None:
    before = run(home, "coverage")
    other = tmp_path / "notes.txt"
    other.write_text("not a recording\n")
    with pytest.raises(BadRecording):
        CliRunner().invoke(app, ["--home", str(home), "replay", str(STORY), str(other)], catch_exceptions=False)
    assert run(home, "coverage") == before

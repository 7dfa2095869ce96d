"""`check` and `eval` on the command line: what they print, and what their exit codes say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.cli import app
from schema.errors import InputError

RECORDINGS = Path(__file__).parents[1] / "recordings"


def run(home: Path, *words: str):
    return CliRunner().invoke(app, ["--home", str(home), *words])


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("home")
    assert run(place, "replay", str(RECORDINGS / "long_story.jsonl.gz")).exit_code == 0
    return place


def test_a_finding_names_the_change_that_made_it_so(home) -> None:
    told = run(home, "check")
    assert told.exit_code == 1
    assert "Service/shop/payment  service-port-unserved, since 2026-12-01T05:04:41" in told.stdout
    assert "made so by Service/shop/payment update by kubectl-edit" in told.stdout
    assert "https → 8444" in told.stdout
    (item,) = json.loads(run(home, "check", "--json").stdout)["items"]
    assert item["changes"][0]["fields"][0]["after"] == 8444
    assert run(home, "check", "-n", "shop").exit_code == 1


def test_where_nothing_is_wrong_the_exit_code_is_nought(home) -> None:
    for words in (["--at", "2026-12-01T05:04:40Z"], ["-n", "data"]):
        told = run(home, "check", *words)
        assert (told.exit_code, told.stdout.splitlines()[0].partition(";")[0]) == (
            0,
            "nothing is wrong as far as is known",
        )


def test_marks_are_a_table_and_json_and_a_bar(tmp_path) -> None:
    for name in ("long_story.jsonl.gz", "long_story.truth.json"):
        shutil.copy(RECORDINGS / name, tmp_path)
    told = run(tmp_path, "eval", str(tmp_path), "--min", "1")
    assert told.exit_code == 0
    assert "right: 1 of 1" in told.stdout
    truth = tmp_path / "long_story.truth.json"
    wrong = json.loads(truth.read_text())
    wrong["causes"][0]["after"] = 1
    truth.write_text(json.dumps(wrong))
    told = run(tmp_path, "eval", str(tmp_path), "--json", "--min", "0.5")
    assert told.exit_code == 1
    page = json.loads(told.stdout)
    assert page["right"] == 0
    assert {name: page["items"][0][name] for name in ("at_1", "causes", "of", "rank", "right")} == {
        "at_1": True, "causes": 0, "of": 1, "rank": None, "right": False,
    }  # fmt: skip
    assert isinstance(run(tmp_path, "eval", str(tmp_path / "nowhere")).exception, InputError)

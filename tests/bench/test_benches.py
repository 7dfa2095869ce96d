"""Every bench runs, at a tiny size: each compares what it times with its alternative, and prints a table."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDING = str(ROOT / "tests/recordings/env_twice.jsonl.gz")
TINY = {
    "answers": ["--objects", "40", "--changes", "200", "--runs", "1"],
    "as_of": ["--depth", "40", "--probes", "20"],
    "capture": [RECORDING, "--rounds", "1"],
    "memory": ["--objects", "40"],
    "projection": [RECORDING, "--apps", "4", "--changes", "50", "--rounds", "1"],
}
MADE = {"day", "estate"}
"""What benches run on."""


@pytest.mark.parametrize("name", TINY)
def test_it_runs_and_prints_ratios(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    import_module(f"bench.{name}").main(TINY[name])
    table = capsys.readouterr().out
    assert " x " in table
    assert len(table.splitlines()) > 4


def test_no_bench_is_left_out() -> None:
    assert {path.stem for path in (ROOT / "bench").glob("*.py")} - {"__init__"} == {*TINY} | MADE
    made = (ROOT / "Makefile").read_text()
    assert all(f"-m bench.{name}" in made for name in TINY)

"""What the truth names is what `changes --json` answers: object, field, before, after, and when; little beside it.

Runs over the bundled recordings, or over the folder named by HINDGRAPH_RECORDINGS. Each home is verified as well, and
every stored state is compared with the one computed straight from the recording.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.cli import app
from api.home import past
from api.settings import Settings
from capture.kubernetes.recording import BadLine, open_recording
from capture.normalise import prepare
from capture.redact import Redactor
from schema import instants
from schema.errors import BadRecording
from schema.paths import matches
from store.ledger import SqliteLedger

FOLDER = Path(os.environ.get("HINDGRAPH_RECORDINGS", Path(__file__).parents[1] / "recordings"))
RECORDINGS = sorted(FOLDER.rglob("*.jsonl.gz"))
RECORDINGS = [path for path in RECORDINGS if path.with_name(path.name.replace(".jsonl.gz", ".truth.json")).exists()]
SLACK = 2_000_000


def run(home: Path, *words: str) -> dict:
    result = CliRunner().invoke(app, ["--home", str(home), *words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def told(item: dict) -> list[dict]:
    return [item, *item["members"]]


def value_fits(recorded: object, wanted: object) -> bool:
    """Redacted values and nulls are not compared, maps as a subset."""
    if wanted is None or wanted == "(redacted)":
        return True
    if isinstance(wanted, dict) and isinstance(recorded, dict):
        return "cut" in recorded or all(value_fits(recorded.get(name), value) for name, value in wanted.items())
    if isinstance(recorded, dict) and "cut" in recorded:
        return str(wanted).startswith(recorded["cut"])
    if isinstance(wanted, list) and isinstance(recorded, list):
        return len(wanted) == len(recorded) and all(map(value_fits, recorded, wanted))
    return recorded == wanted


def is_cause(item: dict, cause: dict) -> bool:
    named = item["object"]
    if (named["kind"], named["namespace"], named["name"]) != (cause["kind"], cause["namespace"], cause["name"]):
        return False
    at = instants.parse(cause["at"])
    bounds = (instants.parse(item["valid"][name]) for name in ("not_before", "not_after"))
    first, last = bounds
    if first > at + SLACK or last < at:
        return False
    if cause["path"] is None:
        return item["op"] == cause["op"]
    return any(
        matches(field["path"], cause["path"])
        and value_fits(field["before"], cause["before"])
        and value_fits(field["after"], cause["after"])
        for field in item["fields"]
    )


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.relative_to(FOLDER).as_posix().partition(".")[0])
def test_each_cause_is_answered_and_the_past_is_right(path: Path, tmp_path: Path) -> None:
    run(tmp_path, "replay", str(path))
    answer = run(tmp_path, "changes", "--limit", "1000")
    truth = json.loads(path.with_name(path.name.replace(".jsonl.gz", ".truth.json")).read_text())
    everything = [one for item in answer["items"] for one in told(item)]
    for cause in truth["causes"]:
        assert any(is_cause(one, cause) for one in answer["items"]), cause
    for one in everything:
        assert one["op"] != "observe"
        assert "noise" not in one["flags"]
        assert one["object"]["kind"] not in ("Lease", "Event")
    assert run(tmp_path, "verify")["ok"]
    assert_states_are_those_of_the_recording(path, Settings(home=tmp_path))
    print(f"{path.name}: {len(answer['items'])} changes with {len(everything) - len(answer['items'])} members")


def assert_states_are_those_of_the_recording(path: Path, settings: Settings) -> None:
    """Every state that a line of the recording shows is, at that instant, the state that is answered."""
    redactor = Redactor(settings.redaction_key())
    header, lines = open_recording(path)
    wanted: dict[tuple, str] = {}
    for line in lines:
        if isinstance(line, BadLine) or line.type not in ("LIST", "ADDED", "MODIFIED"):
            continue
        for item in [*line.items, *([line.object] if line.object else [])]:
            try:
                prepared = prepare(item, scope=header.cluster, redactor=redactor)
            except BadRecording:
                continue
            wanted[prepared.ref.key, line.t] = prepared.digest
    probes = 0
    with past(settings) as rewind, closing(SqliteLedger(settings.ledger, readonly=True)) as ledger:
        for (key, at), state in wanted.items():
            version = rewind.as_of(key, at, instants.MAX - 1)
            if version is None:
                continue  # kinds that are not kept: leases, events
            found = ledger.connection.execute(
                "SELECT digest FROM content JOIN object USING (oid) WHERE key = ? AND n = ?", (str(key), version.n)
            ).fetchone()
            assert found[0].hex() == state, f"{key} at {instants.show(at)}"
            probes += 1
    assert probes > 300

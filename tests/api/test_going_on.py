"""Recordings that go on: one file that grew or was torn, one after another, one that is not what it seems."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from pathlib import Path

import pytest

from api import changes as changed
from api import home, questions
from api.replaying import replay
from api.settings import Settings
from schema import instants
from schema.errors import BadRecording, StoreCorrupt
from schema.records import Change, ObjectRef, Valid
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.projector import project
from store.rewind import Rewind
from tests.api.test_truth import assert_states_are_those_of_the_recording

STORY = Path(__file__).parents[1] / "recordings" / "long_story.jsonl.gz"
RESOURCES = [{"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": True}]


def t(second: int) -> str:
    return f"2026-03-01T03:00:{second:02d}.000000Z"


def pod(name: str, version: int, uid: str = "u", image: str = "a:1") -> dict:
    meta = {"name": name, "namespace": "shop", "uid": f"{uid}-{name}", "resourceVersion": str(version)}
    spec = {"containers": [{"name": "main", "image": image}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "creationTimestamp": t(0)[:19] + "Z"}, "spec": spec}


def listing(second: int, version: int, *pods: dict) -> dict:
    return {"t": t(second), "r": "v1/pods", "type": "LIST", "rv": str(version), "items": [*pods]}


def write(path: Path, started: int, *lines: dict) -> Path:
    header = {"recording": 1, "cluster": "lab", "server": "v1", "started": t(started), "resources": RESOURCES}
    path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in (header, *lines))))
    return path


def at(second: int) -> int:
    return instants.parse(t(second))


def alive(rewind: Rewind, second: int) -> dict[str, str]:
    scope = "kubernetes/lab"
    versions = rewind.objects(scope, at(second), rewind.watermark(scope))
    return {one.key.name: rewind.state(one)["spec"]["containers"][0]["image"] for one in versions}


@pytest.mark.parametrize("torn", [False, True])
def test_a_file_that_grew_is_continued(tmp_path: Path, torn: bool) -> None:
    lines = gzip.decompress(STORY.read_bytes()).splitlines(keepends=True)
    made = Settings(home=tmp_path / "home")
    for part in (120, 121, 400, len(lines)):
        some = b"".join(lines[:part])
        path = tmp_path / "growing.jsonl.gz"
        path.write_bytes(gzip.compress(some[:-40] if torn and part < len(lines) else some))
        replay(made, [path])
    (told,), _ = replay(made, [path])
    assert told.added == 0
    at_once = Settings(home=tmp_path / "once")
    at_once.home.mkdir()
    (at_once.home / "redaction.key").write_bytes(made.redaction_key())
    replay(at_once, [STORY])
    assert_states_are_those_of_the_recording(STORY, made)
    with home.past(made) as one, home.past(at_once) as other:
        answers = []
        for rewind in (one, other):
            moment = questions.settle(rewind)
            answers.append(changed.changes(rewind, moment, limit=1000).items)
            assert not [row for row in rewind.coverage(moment.scope, moment.known_at) if row.state == "gap"]
        assert answers[0] == answers[1]
    assert home.check(made).ok


def test_what_happened_between_two_recordings_is_told_as_over_a_lost_watch(tmp_path: Path) -> None:
    made = Settings(home=tmp_path / "home")
    first = write(tmp_path / "a.gz", 0, listing(1, 10, pod("a", 5), pod("b", 6)))
    second = write(tmp_path / "b.gz", 20, listing(21, 20, pod("a", 15, image="a:2"), pod("c", 16)))
    replay(made, [first, second])
    with home.past(made) as rewind:
        assert alive(rewind, 5) == {"a": "a:1", "b": "a:1"}
        assert alive(rewind, 21) == {"a": "a:2", "c": "a:1"}
        moment = questions.settle(rewind)
        found = changed.changes(rewind, moment, limit=10).items
        told = {(item["op"], item["object"]["name"]): item for item in found}
        assert set(told) == {("update", "a"), ("delete", "b"), ("create", "c")}
        assert "final_state_unknown" in told["delete", "b"]["flags"]
        assert {name: told["update", "a"]["valid"][name] for name in ("not_before", "not_after")} == {
            "not_before": instants.show(at(0)),  # When it was made: the watch may have owed ten seconds.
            "not_after": instants.show(at(21)),
        }
    (one, two), _ = replay(made, [first, second])
    assert (one.added, two.added) == (0, 0)
    assert home.check(made).ok


def test_an_older_recording_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    made = Settings(home=tmp_path / "home")
    replay(made, [write(tmp_path / "b.gz", 20, listing(21, 20, pod("a", 15, image="a:2")))])
    with pytest.raises(BadRecording, match="oldest first"):
        replay(made, [write(tmp_path / "a.gz", 0, listing(1, 10, pod("a", 5)))])
    with home.past(made) as rewind:
        assert alive(rewind, 21) == {"a": "a:2"}


def test_another_recording_of_the_same_start_is_refused(tmp_path: Path) -> None:
    made = Settings(home=tmp_path / "home")
    replay(made, [write(tmp_path / "a.gz", 0, listing(1, 10, pod("a", 5), pod("b", 6)))])
    with pytest.raises(BadRecording, match="is not the recording"):
        replay(made, [write(tmp_path / "x.gz", 0, listing(1, 10, pod("z", 5), pod("b", 6)))])
    assert home.check(made).ok


def test_a_log_that_was_lost_under_its_ledger_is_said_so(tmp_path: Path) -> None:
    made = Settings(home=tmp_path / "home")
    file = write(tmp_path / "a.gz", 0, listing(1, 10, pod("a", 5)))
    replay(made, [file])
    for name in ("log.sqlite", "log.sqlite-wal", "log.sqlite-shm"):
        (made.home / name).unlink(missing_ok=True)
    with pytest.raises(StoreCorrupt, match="no such record"):
        replay(made, [file])


def test_a_record_that_does_not_fit_is_in_every_answer_about_its_time(tmp_path: Path) -> None:
    made = Settings(home=tmp_path / "home")
    replay(made, [write(tmp_path / "a.gz", 0, listing(1, 10, pod("a", 5)))])
    with home.past(made) as rewind:
        key = rewind.find("Pod/shop/a")
        told = rewind.versions(key, rewind.watermark("kubernetes/lab"))[-1]
    wrong = Change(
        id="f" * 32, op="update", object=ObjectRef(
            source="kubernetes", scope="lab", type="core/Pod", kind="Pod", class_="Pod", namespace="shop", name="a",
            uid=told.uid,
        ),
        valid=Valid(not_before=at(1), not_after=at(2)), observed_at=at(2), base="0" * 32, digest="1" * 32, patch=[],
    )  # fmt: skip
    with SqliteLog(made.log) as log:
        log.append([(wrong, at(2))])
    behind = home.check(made)
    assert (behind.ok, behind.behind) == (True, 1)
    with SqliteLog(made.log) as log, closing(SqliteLedger(made.ledger)) as ledger:
        project(log, ledger)
    assert home.check(made).behind == 0
    with home.past(made) as rewind:
        moment = questions.settle(rewind)
        answer = questions.show(rewind, questions.Moment(moment.scope, at(2), moment.known_at), key)
        (row,) = [row for row in answer.unknown if row["state"] == "broken"]
        assert "WrongBase" in row["reason"]
        assert row["to"] is None
        (letter,) = questions.dead_letters(rewind, moment).items
        assert letter["reason"] == "WrongBase"

"""The judge finds nothing in a true record of a small story, and finds each lie told about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.replaying import replay
from api.settings import Settings
from capture.normalise import prepare
from capture.redact import Redactor
from schema import instants
from tests.cluster.judge import Past, Standing, Verdict, judge, past_of
from tests.cluster.test_truth import event
from tests.cluster.truth import truth_of, writes_of

Line = dict[str, Any]
R = "v1/configmaps"


def at(second: float) -> str:
    return instants.show(instants.parse("2026-03-01T03:00:00Z") + int(second * instants.SECOND))


def thing(name: str, version: int, data: str = "1", **meta: Any) -> dict[str, Any]:
    whole = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": str(version), **meta}
    whole.setdefault("creationTimestamp", "2026-03-01T03:00:00Z")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": whole, "data": {"size": data}}


def line(second: float, type_: str, **more: Any) -> Line:
    return {"t": at(second), "r": R, "type": type_, **more}


A1, A2, A3, A4 = (thing("a", version, str(version)) for version in (10, 20, 30, 41))
B1 = thing("b", 21, creationTimestamp="2026-03-01T03:00:22Z")
C1 = thing("c", 31, creationTimestamp="2026-03-01T03:00:31Z")
D1 = thing("d", 42, creationTimestamp="2026-03-01T03:00:42Z")

# a is there and changes; b comes and goes; c is made; then nobody watches while a changes twice, c goes, e comes and
# goes and d comes.
LINES: list[Line] = [
    line(11, "LIST", rv="10", items=[A1]),
    line(20.6, "MODIFIED", object=A2),
    line(22.6, "ADDED", object=B1),
    line(23.6, "DELETED", object=B1),
    line(30.6, "MODIFIED", object=A3),
    line(31.6, "ADDED", object=C1),
    line(35, "BOOKMARK", object={"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "31"}}),
    line(45, "GAP", reason="disconnect"),
    line(50, "LIST", rv="42", items=[A4, D1]),
]
WRITES = [
    ("create", A1, 10), ("patch", A2, 20), ("create", B1, 22), ("delete", B1, 23), ("patch", A3, 30),
    ("create", C1, 31), ("patch", thing("a", 40), 40), ("patch", A4, 41), ("delete", C1, 41), ("create", D1, 42),
    ("create", thing("e", 43), 43), ("delete", thing("e", 43), 44),
]  # fmt: skip


def audit() -> list[Line]:
    return [event(verb, {"resource": "configmaps", "namespace": "shop"}, one, second) for verb, one, second in WRITES]


class Story:
    """What the judge is given, each part open to lies."""

    def __init__(self, folder: Path) -> None:
        self.lines = list(LINES)
        self.audit = audit()
        self.there = [A4, D1]
        self.doctor: Callable[[Past], None] = lambda _: None
        self._folder = folder

    def verdict(self) -> Verdict:
        header = {"recording": 1, "cluster": "lab", "server": "v1.36.3", "started": at(0)}
        resources = [{"group": "", "version": "v1", "resource": "configmaps", "kind": "ConfigMap", "namespaced": True}]
        file = self._folder / "story.jsonl"
        file.write_text("".join(json.dumps(one) + "\n" for one in [header | {"resources": resources}, *self.lines]))
        home = self._folder / "home"
        replay(Settings(home=home), [file])
        past = past_of(home, "lab")
        self.doctor(past)
        redactor = Redactor(Settings(home=home).redaction_key())
        ready = [prepare(one, scope="lab", redactor=redactor) for one in self.there]
        now = {one.key: Standing(one.ref.uid, one.source_version.version, one.digest) for one in ready}
        return judge(past, now, truth_of(one for each in self.audit for one in writes_of(each)))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def without(lines: list[Line], **marks: Any) -> list[Line]:
    return [one for one in lines if not all(one.get(name) == value for name, value in marks.items())]


def test_the_truth_passes(story):
    verdict = story.verdict()
    assert verdict.faults == {}
    assert (verdict.objects, verdict.versions, verdict.lives) == (2, 9, 5)
    assert verdict.excused == 2  # The first of two changes of a, and e.
    assert verdict.placed == verdict.changes == 9
    assert [len(found) for found in verdict.widths.values()] == [5, 3]
    assert "2 objects alike now" in str(verdict)


def test_a_change_that_was_dropped_is_lost(story):
    story.lines = without(story.lines, object=A2)
    assert list(story.verdict().faults) == ["lost"]


def test_an_object_that_was_dropped_is_unseen(story):
    story.lines = without(story.lines, object=B1)
    assert list(story.verdict().faults) == ["lost", "unseen"]


def test_a_gap_that_is_not_admitted_excuses_nothing(story):
    story.lines = without(story.lines, type="GAP")
    faults = story.verdict().faults
    assert (len(faults["lost"]), len(faults["unseen"])) == (2, 1)


def test_a_gap_that_is_said_to_begin_late_excuses_only_what_is_in_it(story):
    late = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "40"}}
    story.lines.insert(-2, line(40.9, "BOOKMARK", object=late))
    (lost,) = story.verdict().faults["lost"]
    assert "version 40" in lost


@pytest.mark.parametrize(
    "there", [[D1], [A4, D1, thing("x", 9)], [thing("a", 41, "other"), D1], [thing("a", 42, "41"), D1]],
    ids=["gone", "unknown", "otherwise", "of another version"],
)  # fmt: skip
def test_another_state_than_the_recorded_one_differs(story, there):
    story.there = there
    assert list(story.verdict().faults) == ["differing"]


def test_what_nobody_did_is_invented(story):
    story.audit = [one for one in story.audit if one["responseObject"] not in (A2, B1)]
    (update, create, delete) = story.verdict().faults["invented"]
    assert "update" in update
    assert "create" in create
    assert "delete" in delete


@pytest.mark.parametrize("second", [6, 21], ids=["before", "after"])
def test_a_change_at_another_time_is_misplaced(story, second):
    story.audit[1] = event("patch", {"resource": "configmaps"}, A2, second)
    assert list(story.verdict().faults) == ["misplaced"]


def test_a_deletion_at_another_time_is_misplaced(story):
    story.audit[8] = event("delete", {"resource": "configmaps"}, C1, 52)
    (found,) = story.verdict().faults["misplaced"]
    assert found.startswith("delete")


def test_what_is_told_twice_is_doubled(story):
    def double(past: Past) -> None:
        deletion = next(one for one in past.told if one.op == "delete")
        past.told += [past.told[1], past.told[2]._replace(id="other"), deletion._replace(id="another")]

    story.doctor = double
    faults = story.verdict().faults
    assert list(faults) == ["doubled"]
    assert [one.partition(":")[0][:12] for one in faults["doubled"]] == [
        "id " + past_id(story)[:9], "version told", "version told", "gone twice",
    ]  # fmt: skip


def past_id(story: Story) -> str:
    return past_of(story._folder / "home", "lab").told[1].id


def test_what_could_not_be_applied_is_unfit(story):
    story.doctor = lambda past: past.unfit.append("position 3: digest: it does not fit")
    assert list(story.verdict().faults) == ["unfit"]

"""Recordings of a real API server: every cause that the truth names is among the changes, and replay is a function."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from capture.kubernetes.replay import capture_file
from capture.kubernetes.telling import LAG
from capture.redact import Redactor
from schema import instants
from schema.canonical import digest
from schema.patch import apply
from schema.records import Change, Coverage, dump, parse

RECORDINGS = sorted((Path(__file__).parents[1] / "recordings").glob("*.jsonl.gz"))
KEY = b"k" * 32


def replayed(path):
    return list(capture_file(path, redactor=Redactor(KEY)))


def changes(path) -> list[Change]:
    return [record for record, _ in replayed(path) if isinstance(record, Change)]


def pattern(path: str) -> re.Pattern[str]:
    """`ports[port=8443].x` as a regular expression over full paths, whose selectors may name more keys."""
    pieces = re.split(r"\[(\w+)=([^\]]*)\]", path)
    text = re.escape(pieces[0])
    for key, value, rest in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        text += rf'\[k:\{{[^}}]*"{key}":"?{re.escape(value)}"?[,}}][^\]]*\]' + re.escape(rest)
    return re.compile(text + r"\Z")


def shows(change: Change, cause: dict[str, object]) -> bool:
    if cause["path"] is None:  # The object came or went as a whole.
        return change.op == cause["op"]
    wanted = pattern(str(cause["path"]))
    return any(
        wanted.match(field.path) and (field.before, field.after) == (cause["before"], cause["after"])
        for field in change.fields
    )


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_every_cause_is_found(path):
    truth = json.loads(path.with_name(path.name.replace(".jsonl.gz", ".truth.json")).read_text())
    recorded = [change for change in changes(path) if change.op != "observe"]
    for cause in truth["causes"]:
        at = instants.parse(cause["at"])
        found = [
            change
            for change in recorded
            if (change.object.kind, change.object.namespace, change.object.name)
            == (cause["kind"], cause["namespace"], cause["name"])
            and shows(change, cause)
        ]
        assert found, cause
        # The truth's instant is when the client asked; a lower bound of whole seconds lies before the write itself.
        assert any(change.valid.not_before <= at <= change.valid.not_after for change in found), found[0].valid


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_patches_chain_to_the_digests_and_ids_are_unique(path):
    states: dict[str, object] = {}
    seen = set()
    for change in changes(path):
        assert change.id not in seen
        seen.add(change.id)
        key = str(change.object.key)
        assert change.valid.not_before <= change.valid.not_after
        if change.op == "delete":
            assert digest(states.pop(key)) == change.base
            continue
        if change.op == "update":
            assert digest(states[key]) == change.base
        states[key] = apply(states.get(key) if change.op == "update" else None, change.patch)
        assert digest(states[key]) == change.digest


def test_the_same_file_gives_the_same_records():
    first, second = ([(dump(record), t) for record, t in replayed(RECORDINGS[0])] for _ in range(2))
    assert first == second
    assert all(dump(parse(raw)) == raw for raw, _ in first)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_what_is_made_without_checks_is_what_checks_would_make(path):
    for record, _ in replayed(path):
        assert parse(dump(record)) == record
        assert type(record).model_validate(record.model_dump(by_alias=True)) == record


def named(stem):
    return next(path for path in RECORDINGS if path.name.startswith(stem))


def test_the_gap_gives_up_what_happened_in_it():
    records = [record for record, _ in replayed(named("watch_gap"))]
    (lost,) = [record for record in records if isinstance(record, Coverage) and record.state == "gap"]
    inside = [r for r in records if isinstance(r, Change) and "from_relist" in r.flags]
    told = [
        (change.op, change.object.name, "replaced" in change.flags) for change in inside if "noise" not in change.flags
    ]
    assert ("delete", "price-probe", False) in told
    assert ("delete", "stock-probe", False) in told
    assert ("create", "stock-probe", True) in told
    assert ("update", "cart", False) in told
    assert all(change.valid.not_before >= lost.valid.from_ - LAG for change in inside)


def test_what_happened_in_the_gap_is_told_of_who_asked_for_it_not_of_who_reported_last():
    inside = {
        (change.op, change.object.kind, change.object.name): change.actor
        for change in changes(named("watch_gap"))
        if "from_relist" in change.flags and change.op != "delete"
    }
    asked = inside["update", "Deployment", "cart"]
    assert (asked.manager, asked.subresource, asked.confidence) == ("kubectl-set", None, 0.7)
    assert inside["create", "Deployment", "stock-probe"].manager == "kubectl-client-side-apply"


def test_a_workload_applied_again_differs_from_its_predecessor_in_one_place_of_its_spec():
    (made,) = [change for change in changes(named("reapply_host")) if "replaced" in change.flags]
    assert made.op == "create"
    assert [field.path for field in made.fields if field.path.startswith("spec")] == [
        'spec.template.spec.containers[k:{"name":"inventory"}].env[k:{"name":"DB_HOST"}].value'
    ]

"""What a real API server wrote of two users and its controllers, beside what a recorder saw: everybody is told right.

`tests/cluster/two_users.py` made the files; the same is done anew by `tests/cluster/test_audit.py`.
"""

from __future__ import annotations

import gzip
from collections import Counter
from functools import cache
from pathlib import Path

import orjson
import pytest

from capture.kubernetes.audit import Audit
from capture.kubernetes.audit_event import event_of
from capture.kubernetes.replay import Replay
from capture.redact import Redactor
from schema.instants import MAX
from schema.records import Amend, Change, dump
from tests.cluster.two_users import ALICE, BOB, PLANTED, Truth

HERE = Path(__file__).parent
RECORDING = HERE / "two_users.jsonl.gz"
TRUTH = Truth(**orjson.loads((HERE / "two_users.truth.json").read_bytes()))


@cache
def story(level: str = "RequestResponse") -> tuple[list[Change], dict[str, Amend], Counter[str]]:
    redactor = Redactor(b"k" * 32)
    run = Replay(RECORDING, redactor)
    records = [record for record, _ in run]
    core = Audit(run.scope, redactor.redact_text, run.header.resources)
    core.told(records)
    for line in gzip.decompress((HERE / "two_users.audit.jsonl.gz").read_bytes()).splitlines():
        event = event_of(line)
        assert isinstance(event, dict)
        if level == "Metadata":
            event.pop("requestObject", None)
            event.pop("responseObject", None)
        core.heard(event)
    told = {one.amends: one for one in core.settle(MAX)}
    return [one for one in records if isinstance(one, Change) and one.op != "observe"], told, core.counts


def test_each_user_is_named_for_what_they_did_and_nobody_else() -> None:
    changes, told, _ = story()
    assert TRUTH.judge(changes, told) == {"right": len([one for one in changes if TRUTH.maker(one)])}


def test_controllers_are_told_apart() -> None:
    changes, told, _ = story()
    users = {one.actor.user for one in told.values() if one.actor}
    named = {"replicaset-controller", "deployment-controller", "namespace-controller"}
    assert {f"system:serviceaccount:kube-system:{one}" for one in named} | {"system:kube-scheduler"} <= users
    # A pod's last mark is written by the very request that takes it away.
    assert {one.object.kind for one in changes if one.id not in told} == {"Pod"}
    assert len(told) > 0.95 * len(changes)


def test_both_wrote_ten_times_within_a_second() -> None:
    changes, told, _ = story()
    both = Counter(
        told[one.id].actor.user
        for one in changes
        if one.object.name == "settings" and any(field.path in ("data.ali", "data.bob") for field in one.fields)
    )
    assert both == {ALICE: 10, BOB: 10}


def test_without_bodies_nobody_is_told_wrong() -> None:
    changes, told, counts = story("Metadata")
    judged = TRUTH.judge(changes, told)
    assert judged["wrong"] == 0
    assert judged["right"] > 25
    assert all(one.actor.confidence <= 0.9 for one in told.values())
    assert counts["names none"] > 0


def test_what_is_told_of_the_gap() -> None:
    changes, told, _ = story()
    found = {one.object.name: (one, told[one.id]) for one in changes if "from_relist" in one.flags}
    assert {name: one.actor.user for name, (_, one) in found.items()} == {
        "only": BOB, "shared": ALICE, "lost": BOB, "found": ALICE,
    }  # fmt: skip
    for name in ("only", "lost"):
        change, amend = found[name]
        assert amend.valid is not None
        assert (
            amend.valid.not_after - amend.valid.not_before
            < 1_000_000
            < change.valid.not_after - change.valid.not_before
        )
    assert found["shared"][1].valid is None


def test_whoever_acts_as_another_is_told() -> None:
    _, told, _ = story()
    assert {one.actor.impersonator for one in told.values() if one.actor.user in (ALICE, BOB)} == {"kubernetes-admin"}


@pytest.mark.parametrize("level", ["RequestResponse", "Metadata"])
def test_no_planted_secret_is_told(level) -> None:
    assert PLANTED.encode() in gzip.decompress((HERE / "two_users.audit.jsonl.gz").read_bytes())
    _, told, counts = story(level)
    assert PLANTED.encode() not in b"".join(map(dump, told.values())) + repr(counts).encode()

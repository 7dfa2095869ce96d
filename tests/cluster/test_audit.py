"""Requests of two users and of controllers at a real API server: the audit log names the right one for each change."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import orjson
import pytest

from capture.kubernetes.audit import Audit
from capture.kubernetes.audit_event import event_of
from capture.kubernetes.audit_file import AuditFile
from capture.kubernetes.replay import Replay
from capture.redact import Redactor
from schema.instants import MAX
from schema.records import Change, dump
from tests.cluster.two_users import PLANTED, recorded

pytestmark = pytest.mark.cluster


def test_the_right_user_is_named_for_each_change(tmp_path):
    with recorded(tmp_path / "plane") as (plane, recorder, story):
        (tmp_path / "recording.jsonl").write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in recorder.lines))
        with closing(AuditFile(plane.audit_log)) as log:
            lines = [line for some in iter(partial(log.poll, 0), []) for line in some]
    redactor = Redactor(b"k" * 32)
    run = Replay(tmp_path / "recording.jsonl", redactor)
    core = Audit(run.scope, redactor.redact_text, run.header.resources)
    records = [record for record, _ in run]
    core.told(records)
    for line in lines:
        core.heard(event_of(line))
    told = {one.amends: one for one in core.settle(MAX)}
    changes = [one for one in records if isinstance(one, Change) and one.op != "observe"]
    judged = story.judge(changes, told)
    assert judged == {"right": judged["right"]}
    assert judged["right"] > 40
    assert core.counts["certain"] > 0.8 * len(changes)
    assert PLANTED.encode() not in b"".join(map(dump, told.values()))
    print(f"{len(changes)} changes, {len(told)} amended, {judged['right']} by one of two users: {dict(core.counts)}")

"""An audited actor in answers: on both faces, beside what was believed before, and when it took place."""

from __future__ import annotations

import gzip
from contextlib import closing

import orjson
import pytest
from typer.testing import CliRunner

from api.cli import app
from api.replaying import catch_up, replay
from api.settings import Settings
from capture.kubernetes.audit import Audit
from capture.kubernetes.recording import open_recording
from capture.redact import Redactor
from schema import instants
from schema.instants import MAX, SECOND
from schema.records import Amend, Change, parse
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.verify import verify
from tests.api.test_answers import Client
from tests.audit.test_two_users import HERE, RECORDING
from tests.cluster.two_users import ALICE, BOB

KEY = "kubernetes/two-users/core/ConfigMap/shop"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """(settings, an instant between the recording and what the audit log said of it)"""
    settings = Settings(home=tmp_path_factory.mktemp("audited"))
    replay(settings, [RECORDING])
    with SqliteLog(settings.log) as log:
        entries = log.read(limit=100_000)
        core = Audit(
            "two-users", Redactor(settings.redaction_key()).redact_text, open_recording(RECORDING)[0].resources
        )
        core.told(parse(entry.raw) for entry in entries)
        for line in gzip.decompress((HERE / "two_users.audit.jsonl.gz").read_bytes()).splitlines():
            core.heard(orjson.loads(line))
        between = max(entry.s for entry in entries) + SECOND
        amends = [(one, between + SECOND) for one in core.settle(MAX)]
        assert len(amends) > 100
        log.append(amends)
        log.append(amends)  # A recorder that was killed may say it again.
    told = catch_up(settings)
    assert (told.dead, told.applied >= len(amends)) == (0, True)
    return settings, instants.show(between)


def on(face: str, home, command: str, path: str, **asked: str):
    settings, _ = home
    if face == "rest":
        return Client(settings).get(path, params=asked).json()["items"]
    options = [f"--{name.replace('_', '-')}={value}" for name, value in asked.items()]
    given = ["--home", str(settings.home), *command.split(), *options, "--json"]
    return orjson.loads(CliRunner().invoke(app, given, catch_exceptions=False).stdout)["items"]


FACES = pytest.mark.parametrize("face", ["cli", "rest"])


@FACES
def test_changes_name_the_user_and_what_was_believed_before_is_still_to_be_had(home, face):
    now = on(face, home, "changes", "/v1/changes", actor="alice")
    assert now
    assert {one["actor"]["user"] for one in now} == {ALICE}
    one = next(one for one in now if one["object"]["name"] == "web" and one["op"] == "create")
    assert one["actor"] == {
        "manager": "tool-of-alice", "user": ALICE, "user_agent": one["actor"]["user_agent"], "subresource": None,
        "method": "audit", "confidence": 1.0, "verb": "create", "address": "127.0.0.1",
        "impersonator": "kubernetes-admin",
    }  # fmt: skip
    assert one["provenance"] == {"basis": "observed", "confidence": 1.0, "rule": None}
    before = on(face, home, "changes", "/v1/changes", known_at=home[1])
    (same,) = [was for was in before if was["id"] == one["id"]]
    assert (same["actor"]["user"], same["actor"]["method"]) == (None, "managedFields")
    assert on(face, home, "changes", "/v1/changes", actor="alice@", known_at=home[1]) == []


@FACES
def test_history_names_the_user_of_each_change(home, face):
    key = f"{KEY}/settings"
    told = on(face, home, f"history {key}", f"/v1/objects/{key}/history")
    users = [one["change"]["actor"]["user"] for one in told if one["change"]]
    assert users.count(ALICE) >= 10
    assert users.count(BOB) >= 10
    was = on(face, home, f"history {key}", f"/v1/objects/{key}/history", known_at=home[1])
    assert {one["change"]["actor"]["user"] for one in was if one["change"]} == {None}
    assert [one["change"]["id"] for one in was if one["change"]] == [
        one["change"]["id"] for one in told if one["change"]
    ]


@FACES
def test_a_delete_in_a_gap_is_told_to_the_request(home, face):
    def gone(**more):
        found = on(face, home, "changes", "/v1/changes", kind="ConfigMap", namespace="shop", **more)
        (one,) = [one for one in found if one["op"] == "delete" and one["object"]["name"] == "lost"]
        first, last = (instants.parse(one["valid"][name]) for name in ("not_before", "not_after"))
        return one["actor"]["user"], last - first

    user, width = gone()
    assert (user, width < SECOND) == (BOB, True)
    before, wide = gone(known_at=home[1])
    assert (before, wide > 2 * SECOND) == (None, True)


def test_text_names_user_and_tool(home):
    told = CliRunner().invoke(app, ["--home", str(home[0].home), "changes", "--actor", "alice"], env={"COLUMNS": "200"})
    assert f"by {ALICE} with tool-of-alice" in told.stdout


def test_log_and_ledger_agree(home):
    with SqliteLog(home[0].log) as log, closing(SqliteLedger(home[0].ledger)) as ledger:
        assert verify(log, ledger).ok
        records = [parse(entry.raw) for entry in log.read(limit=100_000)]
    assert {one.actor.method for one in records if isinstance(one, Change)} <= {"managedFields", "none"}
    assert {one.actor.method for one in records if isinstance(one, Amend)} == {"audit"}

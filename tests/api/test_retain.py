"""Retention of a recorded home on all faces: at or above the horizon all answers as before, below it nothing does."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from api import home as homes
from api import retaining
from api.cli import app
from api.replaying import replay
from api.rest import build
from api.settings import Settings
from schema import instants
from schema.errors import BadInstant, BadRecording, BeyondHorizon, InTheFuture, StoreCorrupt
from store.ledger import SqliteLedger
from store.rewind import Rewind
from tests.api.test_going_on import listing, pod, t, write

RECORDINGS = Path(__file__).parents[1] / "recordings"
STORY = RECORDINGS / "long_story.jsonl.gz"
LAB = "kubernetes/lab"
REPLAYED = [STORY]


def run(home: Path, *arguments: str) -> dict:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def retained(whole, tmp_path_factory) -> tuple[Path, str, dict]:
    """The same home, cut half-way; the horizon; what was told."""
    home = shutil.copytree(whole, tmp_path_factory.mktemp("retained") / "home")
    told = run(home, "retain", "--older-than", "18s")
    return home, told["horizons"][LAB], told


def test_it_tells_what_it_did_and_the_files_are_smaller(retained) -> None:
    home, horizon, told = retained
    with homes.past(Settings(home=home)) as rewind:
        assert instants.show(rewind.horizon(LAB)) == horizon
    assert told["dropped"]["change"] > 20
    assert told["dropped"]["evidence"] > 5
    assert told["states"] > 400
    assert told["bytes"]["after"] < told["bytes"]["before"]
    assert run(home, "verify")["ok"] is True


def test_a_dry_run_says_the_same_and_writes_nothing(whole, retained) -> None:
    before = {path.name: path.read_bytes() for path in whole.iterdir() if path.suffix == ".sqlite"}
    told = run(whole, "retain", "--older-than", "18s", "--dry-run")
    assert {**told, "dry_run": False, "bytes": None} == {**retained[2], "bytes": None}
    assert {path.name: path.read_bytes() for path in whole.iterdir() if path.suffix == ".sqlite"} == before


def test_a_second_replay_of_the_file_still_adds_nothing(home) -> None:
    run(home, "retain", "--older-than", "18s")
    told = run(home, "replay", str(STORY))
    assert (told["files"][0]["added"], told["applied"]) == (0, 0)
    assert told["files"][0]["known"] > 900
    assert run(home, "verify")["ok"] is True


def part(path: Path, lines: int, *, torn: bool = False) -> Path:
    """The story up to a line."""
    some = b"".join(gzip.decompress(STORY.read_bytes()).splitlines(keepends=True)[:lines])
    path.write_bytes(gzip.compress(some[:-40] if torn else some))
    return path


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("older_than", ["3s", "0s"])
def test_a_file_that_grew_goes_on_behind_what_is_left_of_it(whole, tmp_path, older_than, torn) -> None:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(whole / "redaction.key", home)
    growing = tmp_path / "growing.gz"
    horizon = ""
    for lines in (300, 500, 10_000):
        told = run(home, "replay", str(part(growing, lines, torn=torn and lines < 10_000)))
        assert told["files"][0]["added"] > 0
        assert told["dead"] == 0
        assert run(home, "replay", str(growing))["files"][0]["added"] == 0
        if lines < 10_000:
            horizon = run(home, "retain", "--older-than", older_than)["horizons"][LAB]
            assert run(home, "replay", str(growing))["files"][0]["added"] == 0
    assert run(home, "verify")["ok"] is True
    with homes.past(Settings(home=whole)) as before, homes.past(Settings(home=home)) as after:
        end, start = before.watermark(LAB), instants.parse(horizon)
        for at in (start, (start + end) // 2, end):
            was, now = (rewind.objects(LAB, at, rewind.watermark(LAB)) for rewind in (before, after))
            assert [(one.key, before.state(one)) for one in was] == [(one.key, after.state(one)) for one in now]
        told, same_told = (
            {one.change.id for one in rewind.changes(LAB, since=start, until=end, known_at=end, noise=True, limit=-1)}
            for rewind in (before, after)
        )
        assert told == same_told
        assert len(told) > 20


def test_a_file_that_grew_is_refused_where_it_went_on_from_what_was_dropped(tmp_path) -> None:
    home = tmp_path / "home"
    lines = [listing(1, 10, pod("a", 5)), listing(2, 12, pod("a", 11, image="a:2")), listing(3, 14, pod("a", 13))]
    first = write(tmp_path / "a.gz", 0, *lines[:1])
    second = write(tmp_path / "b.gz", 10, *[{**line, "t": t(10 + n)} for n, line in enumerate(lines[:2])])
    run(home, "replay", str(first), str(second))
    run(home, "retain", "--older-than", "0s")
    assert [one["added"] for one in run(home, "replay", str(first), str(second))["files"]] == [0, 0]
    write(second, 10, *[{**line, "t": t(10 + n)} for n, line in enumerate(lines)])
    with pytest.raises(BadRecording, match=r"has grown.*another file"):
        run(home, "replay", str(second))
    assert run(home, "verify")["ok"] is True
    third = write(tmp_path / "c.gz", 20, listing(21, 20, pod("a", 15, image="a:3")))
    assert run(home, "replay", str(third))["files"][0]["added"] > 0
    assert run(home, "show", "Pod/shop/a")["items"][0]["state"]["spec"]["containers"][0]["image"] == "a:3"


def test_another_file_of_the_same_start_is_refused_after_retention_too(tmp_path) -> None:
    home = tmp_path / "home"
    grown = [listing(1, 10, pod("a", 5)), listing(3, 14, pod("a", 13, image="a:2"))]
    run(home, "replay", str(write(tmp_path / "a.gz", 0, *grown)))
    run(home, "retain", "--older-than", "1s")
    other = [listing(1, 10, pod("a", 5)), listing(4, 14, pod("z", 13))]
    with pytest.raises(BadRecording, match="is not the recording"):
        run(home, "replay", str(write(tmp_path / "x.gz", 0, *other)))


def same(answer: dict) -> dict:
    """An answer without what retention is allowed to alter: the horizon, and how long ago an edge began."""
    told = {name: value for name, value in answer.items() if name not in ("horizon", "known_at")}
    for item in told["items"]:
        for edge in item.get("edges", ()):
            edge["valid"].pop("from")
    return told


def test_every_object_and_every_change_answers_as_before(whole, retained) -> None:
    home, horizon, _ = retained
    start = instants.parse(horizon)
    known = run(whole, "coverage")["known_at"]
    compared = 0
    with homes.past(Settings(home=whole)) as before, homes.past(Settings(home=home)) as after:
        end = before.watermark(LAB)
        for at in range(start, end + 1, 1_500_000):
            for known_at in (max(start, at), end):
                was, now = before.objects(LAB, at, known_at), after.objects(LAB, at, known_at)
                assert [(one.key, one.uid, one.vf, one.vt, before.state(one)) for one in was] == [
                    (one.key, one.uid, one.vf, one.vt, after.state(one)) for one in now
                ]
                assert [(one.predicate, one.src, one.dst, one.attrs, one.rule, one.vt) for one in before.edges(
                    LAB, at, known_at)] == [(one.predicate, one.src, one.dst, one.attrs, one.rule, one.vt)
                                            for one in after.edges(LAB, at, known_at)]  # fmt: skip
                assert before.changes(LAB, since=start, until=at, known_at=known_at, noise=True, limit=-1) == (
                    after.changes(LAB, until=at, known_at=known_at, noise=True, limit=-1)
                )
                assert before.evidence(LAB, start, at) == after.evidence(LAB, start, at)
                compared += len(was)
    assert compared > 5000
    for question in (
        ["changes", "--since", horizon, "--limit", "1000"], ["changes", "--since", horizon, "--noise", "--limit", "7"],
        ["show", "Service/shop/payment"], ["show", "Deployment/shop/cart", "--at", horizon], ["coverage"],
        ["diff", horizon], ["changes", "--since", horizon, "--near", "Deployment/shop/cart"],
        ["evidence", "--since", horizon],
    ):  # fmt: skip
        until = [] if question[0] == "evidence" else ["--known-at", known]
        old, new = (run(place, *question, *until) for place in (whole, home))
        assert new["horizon"] == horizon
        if question[0] == "coverage":
            old["items"] = [row for row in old["items"] if row["to"] is None or row["to"] >= horizon]
        assert same(old) == same(new), question


def test_history_and_changes_begin_at_the_horizon(whole, retained) -> None:
    home, horizon, _ = retained
    answer = run(home, "history", "Deployment/shop/cart")
    first = answer["items"][0]
    assert first["change"] is None
    assert first["valid"]["not_after"] <= horizon
    assert (first["valid"]["to"] or horizon) >= horizon
    shown = run(whole, "show", "Deployment/shop/cart", "--at", horizon)["items"][0]["valid"]
    assert first["valid"] == shown
    changes = run(home, "changes", "--limit", "1000")["items"]
    assert changes == run(whole, "changes", "--since", horizon, "--limit", "1000")["items"]


@pytest.mark.parametrize(
    "question",
    [
        ["show", "Deployment/shop/cart", "--at"], ["show", "Deployment/shop/cart", "--known-at"], ["diff"],
        ["history", "Deployment/shop/cart", "--at"], ["changes", "--since"], ["changes", "--at"],
        ["changes", "--near", "Deployment/shop/cart", "--since"], ["coverage", "--at"], ["coverage", "--known-at"],
        ["evidence", "--since"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_below_the_horizon_there_is_no_answer(retained, question) -> None:
    home, horizon, _ = retained
    below = instants.show(instants.parse(horizon) - 1)
    with pytest.raises(BeyondHorizon, match="horizon"):
        run(home, *question, below)
    run(home, *question, horizon)


def test_symptoms_need_five_minutes_above_the_horizon(retained) -> None:
    with pytest.raises(BeyondHorizon):
        run(retained[0], "symptoms")


def test_below_the_horizon_rest_says_gone(retained) -> None:
    home, horizon, _ = retained
    below = instants.show(instants.parse(horizon) - 1)

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(build(Settings(home=home)))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return [
                await client.get(path, params={name: when})
                for when in (below, horizon)
                for path, name in (
                    ("/v1/changes", "since"), ("/v1/changes", "at"), ("/v1/coverage", "known_at"),
                    ("/v1/objects/Deployment/shop/cart", "at"), ("/v1/objects/Deployment/shop/cart/history", "at"),
                    ("/v1/diff", "before"),
                )
            ]  # fmt: skip

    told = asyncio.run(ask())
    assert [(one.status_code, one.json()["title"]) for one in told[:6]] == [(410, "BeyondHorizon")] * 6
    assert [one.status_code for one in told[6:]] == [200] * 6


def test_no_scope_is_cut_behind_its_own_end_and_a_file_that_comes_too_late_is_refused(tmp_path) -> None:
    settings = Settings(home=tmp_path)
    replay(settings, [RECORDINGS / "watch_gap.jsonl.gz"], scope="idle")
    replay(settings, [STORY], scope="live")
    with homes.past(settings) as rewind:
        ends = {scope: rewind.watermark(scope) for scope in rewind.scopes()}
        asked = retaining.horizons(rewind, "0s")
    assert all(asked[scope] <= end for scope, end in ends.items())
    run(tmp_path, "retain", "--older-than", "0s")
    for scope in ends:
        assert run(tmp_path, "diff", instants.show(asked[scope]), "--scope", scope)["items"] == []
        assert run(tmp_path, "changes", "--scope", scope)["items"] == []
    before = run(tmp_path, "show", "Service/shop/payment", "--scope", "kubernetes/live")
    with pytest.raises(BadRecording):
        replay(settings, [RECORDINGS / "env_twice.jsonl.gz"], scope="live")
    assert run(tmp_path, "verify")["ok"] is True
    assert run(tmp_path, "show", "Service/shop/payment", "--scope", "kubernetes/live")["items"] == before["items"]


def test_a_retention_that_was_killed_before_its_last_step_is_finished_by_project(whole, home) -> None:
    horizon = run(home, "retain", "--older-than", "18s")["horizons"][LAB]
    for file in home.glob("ledger.sqlite*"):
        file.unlink()
    shutil.copy(whole / "ledger.sqlite", home)
    with pytest.raises(StoreCorrupt, match="hindgraph project"):
        run(home, "verify")
    run(home, "project")
    assert run(home, "verify")["ok"] is True
    assert run(home, "coverage")["horizon"] == horizon


def test_nothing_below_is_nothing_to_do(home) -> None:
    told = run(home, "retain", "--older-than", "30d")
    assert (told["horizons"], told["dropped"]) == ({}, {})
    assert run(home, "show", "Service/shop/payment")["horizon"] is None


def test_what_cannot_be_meant_is_refused(home) -> None:
    for text, error in (
        ("30", BadInstant),
        ("-30d", BadInstant),
        ("", BadInstant),
        ("2099-01-01T00:00:00Z", InTheFuture),
    ):
        with pytest.raises(error):
            run(home, "retain", "--older-than", text)


def test_a_damaged_ledger_is_found_before_anything_goes(home) -> None:
    settings = Settings(home=home)
    ledger = SqliteLedger(settings.ledger)
    oid = ledger.connection.execute("SELECT oid FROM version LIMIT 1").fetchone()[0]
    ledger.connection.execute("UPDATE version SET lo = lo - 1 WHERE oid = ?", (oid,))
    ledger.close()
    with pytest.raises(StoreCorrupt, match="nothing was dropped"):
        run(home, "retain", "--older-than", "18s")
    assert Rewind(SqliteLedger(settings.ledger)).horizon(LAB) < 0

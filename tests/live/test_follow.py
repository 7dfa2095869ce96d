"""Connections that break, stall, are refused or are too slow to be read: what the recorder makes of them."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from capture.kubernetes.live.inbox import Inbox, Item
from capture.kubernetes.live.transport import Lost
from capture.kubernetes.recording import Line
from tests.live.served import CMS, DEPLOYMENTS, cm, event
from tests.live.world import Run, World, answer, lived, refusal, stream

CM = "/api/v1/configmaps"


@lived
async def test_what_happens_is_recorded_list_and_watch():
    world = World()
    world.put(CMS, "a", data={"x": "1"})
    async with Run(world) as run:
        await run.listed()
        world.put(CMS, "a", data={"x": "2"})
        world.put(DEPLOYMENTS, "d")
        world.drop(CMS, "a")
        await run.until(lambda: len(run.changes) == 4)
    assert sorted(run.changes) == [("create", "d"), ("delete", "a"), ("observe", "a"), ("update", "a")]


@lived
async def test_a_day_of_quiet_watches_is_covered_without_a_gap():
    world = World(streams=True)
    world.put(CMS, "a")
    async with Run(world) as run:
        await run.listed()
        await asyncio.sleep(86_400)
        world.put(CMS, "a", data={"x": "2"})
        await run.until(lambda: len(run.changes) == 2)
        assert run.coverage("core/configmaps") == [("watching", "list")]
        assert all(one.lists == 1 and one.connections > 100 for one in run.recorder.vitals())
        assert not any(one.is_zombie(asyncio.get_running_loop().time()) for one in run.recorder.vitals())


@lived
async def test_18_21_a_watch_that_is_silent_is_given_up_after_70_s():
    world = World(CMS)
    world.put(CMS, "a")
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].append(stream(event("MODIFIED", cm("b", "500")) + b"\n", 100_000.0))
        world.close_watches(CMS)
        await run.until(lambda: ("create", "b") in run.changes)
        heard = asyncio.get_running_loop().time()
        await run.until(lambda: len(run.coverage("core/configmaps")) == 3)
        assert 70 <= asyncio.get_running_loop().time() - heard <= 80
    assert run.coverage("core/configmaps")[1:] == [("gap", "silent for 70 s"), ("watching", "resumed")]


@lived
async def test_20_a_watch_that_says_something_each_minute_is_kept():
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        before = len(world.asked)
        await asyncio.sleep(290)
        assert len(world.asked) == before
        assert run.coverage("core/configmaps") == [("watching", "list")]


@lived
async def test_a_connection_that_is_cut_in_a_line_is_resumed_and_nothing_is_lost_or_doubled():
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        whole, world.rv = event("ADDED", cm("a", "101")) + b"\n", 101
        world.faults[CM].append(stream(whole + whole[:40], end="connection reset"))
        world.close_watches(CMS)
        await run.until(lambda: ("create", "a") in run.changes)
        world.put(CMS, "b")
        await run.until(lambda: ("create", "b") in run.changes)
    assert run.changes == [("create", "a"), ("create", "b")]
    assert [state for state, _ in run.coverage("core/configmaps")] == ["watching", "gap", "watching"]


@lived
async def test_an_end_within_a_line_is_a_loss_as_well():
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].append(stream(b'{"type":"ADDED","obj', 1.0))
        world.close_watches(CMS)
        await run.until(lambda: len(run.coverage("core/configmaps")) == 3)
    assert ("gap", "the connection ended within a line") in run.coverage("core/configmaps")


@lived
async def test_25_26_a_line_of_5_mb_in_chunks_that_cut_characters():
    text = "Grüße – 日本語 " * 250_000
    line = event("ADDED", cm("big", "101", text=text)) + b"\n"
    chunks = [line[at : at + 4093] for at in range(0, len(line), 4093)]
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].append(stream(*chunks, 30.0))
        world.close_watches(CMS)
        await run.until(lambda: run.changes == [("create", "big")])
    (last,) = [item for item in run.items if isinstance(item.line, Line) and item.line.type == "ADDED"]
    assert last.line.object["data"]["text"] == text
    assert last.size > 5_000_000


@lived
async def test_2_410_in_the_stream_with_status_200_is_listed_anew():
    world = World(CMS)
    world.put(CMS, "a")
    async with Run(world) as run:
        await run.listed()
        gone = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
        world.faults[CM].append(stream(gone, 10.0))
        world.close_watches(CMS)
        world.drop(CMS, "a")
        await run.until(lambda: ("delete", "a") in run.changes)
        await run.listed()
    assert [state for state, _ in run.coverage("core/configmaps")] == ["watching", "gap", "watching"]


@lived
async def test_23_too_many_requests_is_waited_for_as_long_as_the_server_says():
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].append(refusal(429, "TooManyRequests", retry_after="17"))
        world.close_watches(CMS)
        before = len(world.asked)
        await run.until(lambda: len(world.asked) == before + 2)
        (refused, again) = world.asked[-2:]
        assert again[0] - refused[0] >= 17
        assert again[2]["resourceVersion"] == refused[2]["resourceVersion"]


@lived
async def test_10_a_version_too_large_for_the_server_is_listed_anew():
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].append(refusal(504, "Timeout", "Too large resource version: 900, current: 7"))
        world.close_watches(CMS)
        before = run.recorder.vitals()[0].lists
        await run.until(lambda: run.recorder.vitals()[0].lists == before + 1)


@lived
async def test_12_an_expired_page_token_starts_the_list_again():
    world = World(CMS)
    world.put(CMS, "a")
    page = {"kind": "List", "metadata": {"resourceVersion": "50", "continue": "t"}, "items": [cm("old", "3")]}
    world.faults[CM].extend([refusal(422), answer(200, page), refusal(410, "Expired")])
    async with Run(world) as run:
        await run.listed()
    assert run.changes == [("observe", "old"), ("delete", "old"), ("observe", "a")]


@lived
async def test_27_a_token_that_was_rotated_is_read_again_and_costs_no_gap():
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].append(refusal(401, "Unauthorized"))
        world.close_watches(CMS)
        world.put(CMS, "a")
        await run.until(lambda: ("create", "a") in run.changes)
    assert world.renewed == 1
    assert run.coverage("core/configmaps") == [("watching", "list")]


@lived
async def test_27_credentials_that_are_refused_for_good_are_tried_again_and_the_gap_is_told():
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].extend(refusal(401, "Unauthorized") for _ in range(6))
        world.close_watches(CMS)
        await run.until(lambda: not world.faults[CM])
        await run.listed()
    assert run.coverage("core/configmaps")[1:] == [("gap", "401"), ("watching", "resumed")]
    assert world.renewed == 3


@lived
async def test_24_a_server_that_ends_each_watch_at_once_is_not_asked_in_a_storm():
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].extend(stream() for _ in range(1000))
        world.close_watches(CMS)
        before = len(world.asked)
        await asyncio.sleep(600)
        assert len(world.asked) - before < 50


@lived
async def test_35_a_kind_that_is_forbidden_stops_no_other():
    world = World(CMS, DEPLOYMENTS)
    world.put(DEPLOYMENTS, "d")
    path = "/apis/apps/v1/deployments"
    world.faults[path].extend(refusal(403, "Forbidden", "deployments is forbidden: User x") for _ in range(3))
    async with Run(world) as run:
        await run.until(lambda: bool(run.coverage("apps/deployments") and run.coverage("core/configmaps")))
        world.put(CMS, "a")
        await run.until(lambda: ("create", "a") in run.changes)
        await run.listed()
    assert [state for state, _ in run.coverage("apps/deployments")] == ["forbidden", "watching"]
    assert ("observe", "d") in run.changes
    asked = [at for at, where, _ in world.asked if where == path][:4]
    assert all(b - a >= 45 for a, b in pairwise(asked[1:]))


@lived
async def test_28_a_slow_log_stops_that_watch_and_no_other_and_drops_nothing():
    world = World(CMS, DEPLOYMENTS)
    async with Run(world) as run:
        await run.listed()
        run.hold()
        large = "x" * 300_000
        for n in range(40):
            world.put(CMS, f"big{n}", data={"text": large})
        await asyncio.sleep(30)
        held = run.recorder.inbox.held
        assert held["core/configmaps"] <= 2.5 * 1024 * 1024
        world.put(DEPLOYMENTS, "d")
        await asyncio.sleep(1)
        assert held["apps/deployments"] > 0
        run.take()
        await run.until(lambda: len(run.changes) == 41)
        await asyncio.sleep(10)
    assert sorted(run.changes) == sorted([("create", "d"), *(("create", f"big{n}") for n in range(40))])
    assert ("gap", "the log is slow") in run.coverage("core/configmaps")
    assert ("gap", "the log is slow") not in run.coverage("apps/deployments")
    assert run.recorder.inbox.held["core/configmaps"] == 0


@lived
async def test_28_the_inbox_lets_one_line_in_however_long():
    inbox = Inbox(of_one=10, of_all=100)
    line = Line(0, 0, "v1/configmaps", "BOOKMARK")
    await inbox.put(Item("a", line, 50))
    assert not inbox.has_room("a")
    assert inbox.has_room("b")
    waiting = asyncio.create_task(inbox.put(Item("a", line, 1)))
    await asyncio.sleep(1)
    assert not waiting.done()
    taken = await inbox.take(10, 1000)
    assert not waiting.done()
    await inbox.done(taken)
    await waiting
    assert inbox.held["a"] == 1


@lived
async def test_22_a_watch_that_fails_by_an_error_of_ours_starts_again():
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].append(ZeroDivisionError("a bug with a secret in it"))
        world.close_watches(CMS)
        world.put(CMS, "a")
        await run.until(lambda: ("create", "a") in run.changes)
        assert run.recorder.vitals()[0].crashes == 1
    assert ("gap", "ZeroDivisionError") in run.coverage("core/configmaps")


@lived
async def test_22_a_watch_that_hangs_is_a_zombie_and_is_begun_anew():
    class Hanging(World):
        async def request(self, path, params, accept, *, patience):
            if self.faults[path] and isinstance(self.faults[path][0], asyncio.Event):
                await self.faults[path].popleft().wait()
            return await super().request(path, params, accept, patience=patience)

    world = Hanging(CMS)
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].append(asyncio.Event())
        world.close_watches(CMS)
        world.put(CMS, "a")
        began = asyncio.get_running_loop().time()
        await run.until(lambda: run.recorder.vitals()[0].is_zombie(asyncio.get_running_loop().time()))
        assert 90 <= asyncio.get_running_loop().time() - began <= 100
        await run.until(lambda: ("create", "a") in run.changes)
        assert not run.recorder.vitals()[0].is_zombie(asyncio.get_running_loop().time())


@lived
async def test_a_server_that_is_away_is_asked_ever_less_often():
    world = World(CMS)
    async with Run(world) as run:
        await run.listed()
        world.faults[CM].extend(Lost("connection refused") for _ in range(100))
        world.close_watches(CMS)
        before = len(world.asked)
        await asyncio.sleep(600)
        assert 15 < len(world.asked) - before < 60
        assert run.recorder.vitals()[0].state == "lost"
        world.faults[CM].clear()
        await run.listed()
    assert run.coverage("core/configmaps")[1:] == [("gap", "connection refused"), ("watching", "resumed")]


@lived
async def test_44_a_clock_that_differs_from_the_servers_is_told():
    world = World(CMS)
    world.faults[CM].extend(
        [
            refusal(422),
            answer(200, {"metadata": {"resourceVersion": "5"}, "items": []}, date="Sun, 01 Mar 2026 04:00:00 GMT"),
        ]
    )
    async with Run(world) as run:
        await run.until(lambda: run.recorder.vitals()[0].skew is not None)
        assert 2500 < run.recorder.vitals()[0].skew < 2700

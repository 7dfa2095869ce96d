"""Resources that come and go while they are watched, groups that fail, namespaces that are deleted."""

from __future__ import annotations

import asyncio

from capture.kubernetes.live.parts import Selection, Served
from capture.kubernetes.recording import Resource
from schema.records import Change
from tests.live.served import CMS, NAMESPACES
from tests.live.world import Run, World, lived, refusal

CRDS = Served(Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"), False)
WIDGETS = Served(Resource("acme.io", "v1", "widgets", "Widget"), True)
WIDGETS_V2 = Served(Resource("acme.io", "v2", "widgets", "Widget"), True)
SPEC = {"group": "acme.io", "names": {"plural": "widgets", "kind": "Widget"}, "scope": "Namespaced", "versions": []}
ALL = Selection()


def names(run: Run) -> list[str]:
    return [one.part for one in run.recorder.vitals()]


@lived
async def test_31_a_kind_that_comes_is_watched_and_one_that_goes_is_removed():
    world = World(CRDS, CMS)
    async with Run(world, ALL) as run:
        await run.listed()
        scans = run.recorder.rescans
        world.put(CRDS, "widgets.acme.io", None, spec=SPEC)
        await asyncio.sleep(1.5)
        assert run.recorder.rescans == scans + 1
        world.kinds.append(WIDGETS)  # Served a moment later than announced.
        world.put(WIDGETS, "w")
        await run.until(lambda: ("observe", "w") in run.changes, 10)
        world.drop(CRDS, "widgets.acme.io", None)
        world.kinds.remove(WIDGETS)
        world.close_watches(WIDGETS)
        await run.until(lambda: ("delete", "w") in run.changes, 10)
        await asyncio.sleep(60)
        assert names(run) == ["apiextensions.k8s.io/customresourcedefinitions", "core/configmaps"]
    assert [state for state, _ in run.coverage("acme.io/widgets")] == ["watching", "removed"]


@lived
async def test_31_a_kind_that_nobody_announced_is_found_within_minutes():
    world = World(CMS)
    async with Run(world, ALL) as run:
        await run.listed()
        world.kinds.append(WIDGETS)
        await run.until(lambda: "acme.io/widgets" in names(run), 700)


@lived
async def test_31_a_kind_that_is_made_anew_at_once_is_listed_anew():
    world = World(CRDS, WIDGETS)
    world.put(WIDGETS, "w")
    async with Run(world, ALL) as run:
        await run.listed()
        world.drop(WIDGETS, "w")
        world.faults["/apis/acme.io/v1/widgets"].append(refusal(404, "NotFound"))
        world.close_watches(WIDGETS)
        await run.until(lambda: ("delete", "w") in run.changes)
        await run.listed()


@lived
async def test_34_a_version_that_is_served_no_longer_is_watched_in_another_and_nothing_changed():
    world = World(CRDS, WIDGETS)
    world.put(WIDGETS, "w")
    async with Run(world, ALL) as run:
        await run.listed()
        world.serve(WIDGETS_V2, instead_of=WIDGETS)
        world.put(CRDS, "widgets.acme.io", None, spec=SPEC)
        await run.until(lambda: any(path.startswith("/apis/acme.io/v2") for _, path, _ in world.asked))
        await run.listed()
        await asyncio.sleep(60)
    told = [one for one in run.records if isinstance(one, Change) and "noise" not in one.flags]
    assert [(one.op, one.object.name) for one in told] == [("observe", "w"), ("create", "widgets.acme.io")]


@lived
async def test_30_a_group_that_cannot_be_looked_at_is_a_gap_and_the_rest_is_watched():
    world = World(CMS)
    world.failing["metrics.k8s.io"] = "503 Service Unavailable"
    async with Run(world, ALL) as run:
        await run.listed()
        assert run.coverage("metrics.k8s.io/*") == [("gap", "503 Service Unavailable")]
        world.failing.clear()
        await run.until(lambda: len(run.coverage("metrics.k8s.io/*")) == 2, 60)
    assert [state for state, _ in run.coverage("metrics.k8s.io/*")] == ["gap", "watching"]


@lived
async def test_36_a_namespace_that_is_deleted_takes_its_objects_along_and_is_watched_when_it_is_back():
    world = World(CMS, NAMESPACES)
    world.put(NAMESPACES, "shop", None)
    world.put(CMS, "a")
    path = "/api/v1/namespaces/shop/configmaps"
    async with Run(world, Selection(namespaces=("shop",))) as run:
        await run.listed()
        assert names(run) == ["core/configmaps namespace=shop", "core/namespaces namespace=shop"]
        world.namespaces.clear()
        world.faults[path].extend(refusal(403, "Forbidden", "its roles went first") for _ in range(2))
        world.drop(NAMESPACES, "shop", None)
        world.drop(CMS, "a")
        world.close_watches(CMS)
        await run.until(lambda: bool(world.asked) and len(world.faults[path]) < 2)
        await asyncio.sleep(5)
        assert ("delete", "a") in run.changes
        world.faults[path].clear()
        world.namespaces.add("shop")
        world.put(NAMESPACES, "shop", None)
        world.put(CMS, "b")
        await run.until(lambda: ("create", "b") in run.changes, 10)


@lived
async def test_37_a_namespace_marked_for_deletion_is_watched_to_the_end():
    world = World(CMS, NAMESPACES)
    world.put(NAMESPACES, "shop", None)
    world.put(CMS, "a")
    async with Run(world, Selection(namespaces=("shop",))) as run:
        await run.listed()
        world.put(NAMESPACES, "shop", None, status={"phase": "Terminating"})
        world.put(CMS, "a", data={"finalizer": "works"})
        await run.until(lambda: ("update", "a") in run.changes, 10)
        world.drop(CMS, "a")
        world.drop(NAMESPACES, "shop", None)
        await run.until(lambda: ("delete", "shop") in run.changes, 10)
    assert ("delete", "a") in run.changes


@lived
async def test_39_streamed_lists_that_are_there_let_others_list():
    kinds = [Served(Resource("acme.io", "v1", f"kind{n}s", f"Kind{n}"), True) for n in range(60)]
    world = World(*kinds, streams=True)
    async with Run(world, ALL) as run:
        await run.listed()
        await asyncio.sleep(3600)
        assert {one.state for one in run.recorder.vitals()} == {"watching"}
        assert all(one.lists == 1 for one in run.recorder.vitals())


@lived
async def test_39_as_many_list_at_once_as_a_server_bears():
    class Counting(World):
        listing = most = 0

        async def request(self, path, params, accept, *, patience):
            if params.get("watch") != "true":
                self.listing += 1
                self.most = max(self.most, self.listing)
                await asyncio.sleep(1)
                self.listing -= 1
            return await super().request(path, params, accept, patience=patience)

    kinds = [Served(Resource("acme.io", "v1", f"kind{n}s", f"Kind{n}"), True) for n in range(60)]
    world = Counting(*kinds)
    async with Run(world, ALL) as run:
        await run.listed()
        assert len(run.recorder.vitals()) == 60
    assert 1 < world.most <= 6

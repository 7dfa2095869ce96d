"""Asking a server what it serves: one that answers by a table, and a real one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing

import orjson
import pytest

from capture.kubernetes.live import discovery as module
from capture.kubernetes.live.discovery import Discovery
from capture.kubernetes.live.parts import Served
from capture.kubernetes.live.transport import Lost
from capture.kubernetes.recording import Resource
from schema.errors import BadKubeconfig
from tests.live.server import Authority, Wire, in_loop, kubeconfig, serving, transport
from tests.live.test_resources import aggregated, described, listed, paths, resource
from tests.services.api import Api
from tests.services.clusters import own_cluster
from tests.services.control_plane import ControlPlane, Options

GROUPS = {
    "kind": "APIGroupList",
    "groups": [
        {"name": "apps", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}},
        {"name": "metrics.k8s.io", "versions": [{"version": "v1"}, {"version": "v1beta1"}]},
    ],
}
OLD = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": listed(resource("pods", "Pod")),
    "/apis": GROUPS,
    "/apis/apps": {"kind": "APIGroup", **GROUPS["groups"][0]},
    "/apis/apps/v1": listed(resource("deployments", "Deployment")),
    "/apis/metrics.k8s.io": {"kind": "APIGroup", **GROUPS["groups"][1]},
    "/apis/metrics.k8s.io/v1": 503,
    "/apis/metrics.k8s.io/v1beta1": listed(resource("pods", "PodMetrics")),
    "/version": {"major": "1", "minor": "36+"},
    "/readyz": 200,
}
DEPLOYMENTS = Served(Resource("apps", "v1", "deployments", "Deployment"), namespaced=True)


def by(table: dict, asked: list[str] | None = None) -> Callable[[Wire], Awaitable[None]]:
    """Answers what the table has for the path: a body or a status, 404 for nothing."""

    async def behave(wire: Wire) -> None:
        path = wire.line.split()[1]
        if asked is not None:
            asked.append(path)
        answer = table.get(path, 404)
        if isinstance(answer, float):
            await asyncio.sleep(answer)
        elif isinstance(answer, int):
            await wire.answer(b"no", answer)
        else:
            await wire.answer(orjson.dumps(answer))

    return behave


async def of(tmp_path, table: dict, ask: Callable[[Discovery], Awaitable], asked: list[str] | None = None):
    async with (
        serving(by(table, asked)) as port,
        transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}", user={"token": "x"})) as session,
    ):
        return await ask(Discovery(session))


@in_loop
async def test_30_a_group_that_does_not_answer_is_told_and_the_others_go_on(tmp_path):
    found = await of(tmp_path, OLD, Discovery.all)
    assert paths(found.served) == ["v1/pods", "apps/v1/deployments", "metrics.k8s.io/v1beta1/pods"]
    assert found.failing == {"metrics.k8s.io": "v1: 503 service unavailable"}


@in_loop
async def test_30_nor_does_one_that_hangs_or_talks_nonsense(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    broken = {**OLD, "/apis/metrics.k8s.io/v1": 5.0, "/apis/apps/v1": ["nonsense"]}
    found = await of(tmp_path, broken, Discovery.all)
    assert paths(found.served) == ["v1/pods", "metrics.k8s.io/v1beta1/pods"]
    assert found.failing == {
        "metrics.k8s.io": "v1: no answer within 0.3 s",
        "apps": "v1: what was answered is no discovery",
    }


@in_loop
async def test_one_document_is_enough_where_the_server_has_it_but_for_what_is_stale_in_it(tmp_path):
    one = aggregated("apps", v1=[described("deployments", "Deployment")])
    for name in ("m1.example", "m2.example"):
        (group,) = aggregated(name, v1=[described("old")])["items"]
        group["versions"][0]["freshness"] = "Stale"
        one["items"].append(group)
    table = {
        "/api": aggregated("", v1=[described("pods", "Pod")]), "/apis": one,
        "/apis/m1.example/v1": 503, "/apis/m2.example/v1": listed(resource("things")),
    }  # fmt: skip
    asked: list[str] = []
    found = await of(tmp_path, table, Discovery.all, asked)
    assert paths(found.served) == ["v1/pods", "apps/v1/deployments", "m2.example/v1/things"]
    assert found.failing == {"m1.example": "v1: 503 service unavailable"}
    assert sorted(asked) == ["/api", "/apis", "/apis/m1.example/v1", "/apis/m2.example/v1"]


@pytest.mark.parametrize("status", [403, 429, 500])
@in_loop
async def test_without_the_groups_nothing_is_known(tmp_path, status):
    with pytest.raises(Lost, match=f"/apis: {status}"):
        await of(tmp_path, {**OLD, "/apis": status}, Discovery.all)


@in_loop
async def test_31_one_group_is_looked_at_again_alone(tmp_path):
    asked: list[str] = []
    found = await of(tmp_path, OLD, lambda discovery: discovery.scan("apps"), asked)
    assert (paths(found.served), found.failing) == (["apps/v1/deployments"], {})
    assert asked == ["/apis/apps", "/apis/apps/v1"]
    core = await of(tmp_path, OLD, lambda discovery: discovery.scan("core"))
    assert paths(core.served) == ["v1/pods"]
    gone = await of(tmp_path, OLD, lambda discovery: discovery.scan("gone.example"))
    assert (gone.served, gone.failing) == ((), {})
    failing = await of(tmp_path, {"/apis/apps": 500}, lambda discovery: discovery.scan("apps"))
    assert failing.failing == {"apps": "/apis/apps: 500 internal server error"}


@in_loop
async def test_31_a_resource_is_gone_only_when_its_group_says_so_and_the_server_is_ready(tmp_path):
    def still(discovery: Discovery) -> Awaitable[Served | None]:
        return discovery.serves(DEPLOYMENTS)

    assert await of(tmp_path, OLD, still) == DEPLOYMENTS
    moved = {**OLD, "/apis/apps": {"kind": "APIGroup", "name": "apps", "versions": [{"version": "v2"}]}}
    moved["/apis/apps/v2"] = OLD["/apis/apps/v1"]
    now = await of(tmp_path, moved, still)
    assert now is not None
    assert now.resource.path == "apps/v2/deployments"
    for without in ({"/apis/apps": 404}, {"/apis/apps/v1": listed()}, {"/apis/apps/v1": 404}, {"/readyz": 403}):
        assert await of(tmp_path, {**OLD, "/apis/apps": 404, **without}, still) is None
    for unsure in ({"/apis/apps": 503}, {"/apis/apps/v1": 503}, {"/apis/apps": 404, "/readyz": 500}):
        with pytest.raises(Lost):
            await of(tmp_path, {**OLD, **unsure}, still)


@in_loop
async def test_27_discovery_renews_credentials(tmp_path):
    (tmp_path / "token").write_text("old")

    async def behave(wire: Wire) -> None:
        if wire.headers["authorization"] == "Bearer old":
            (tmp_path / "token").write_text("new")
            await wire.answer(b"", 401)
        else:
            await by(OLD)(wire)

    async with (
        serving(behave) as port,
        transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}", user={"tokenFile": "token"})) as session,
    ):
        assert len((await Discovery(session).all()).served) == 3


@in_loop
async def test_a_server_is_reached_or_it_is_told_what_to_do(tmp_path):
    assert await of(tmp_path, OLD, Discovery.reach) == "1.36"
    assert await of(tmp_path, {"/version": 403}, Discovery.reach) is None
    with pytest.raises(BadKubeconfig, match="does not take the credentials") as caught:
        await of(tmp_path, {"/version": 401}, Discovery.reach)
    assert caught.value.hint
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    async with serving(by(OLD), theirs.serve()) as port:
        trusting = {"certificate-authority": str(ours.ca)}
        async with transport(kubeconfig(tmp_path, f"https://127.0.0.1:{port}", **trusting)) as session:
            with pytest.raises(BadKubeconfig, match="is not trusted") as caught:
                await Discovery(session).reach()
    assert "certificate-authority" in (caught.value.hint or "")


# -- a real server

GROUP = "disco.hindgraph.dev"


@pytest.fixture(scope="module")
def plane(tmp_path_factory) -> Iterator[ControlPlane]:
    with own_cluster(tmp_path_factory.mktemp("plane"), Options()) as found:
        yield found


@pytest.fixture
def api(plane) -> Iterator[Api]:
    with closing(Api(plane.kubeconfig)) as found:
        yield found


def crd(**versions: bool) -> dict:
    """Widgets in these versions, served or not; the first is stored."""
    any_ = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": name, "served": served, "storage": place == 0, "schema": any_}
                for place, (name, served) in enumerate(versions.items())
            ],
        },
    }  # fmt: skip


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
BROKEN = {
    "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.broken.hindgraph.dev"},
    "spec": {
        "group": "broken.hindgraph.dev", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "insecureSkipTLSVerify": True, "service": {"name": "nowhere", "namespace": "default", "port": 443},
    },
}  # fmt: skip


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + 20
    while not await true():
        assert time.monotonic() < end
        await asyncio.sleep(0.2)


@pytest.mark.cluster
@in_loop
async def test_30_31_33_a_real_server_with_a_broken_api_and_a_kind_that_comes_moves_and_goes(plane, api):
    async with transport(plane.kubeconfig_for("recorder")) as session:
        discovery = Discovery(session)
        assert (await discovery.reach() or "").startswith("1.")
        before = await discovery.all()
        assert before.failing == {}
        names = {one.name for one in before.served}
        assert names == {one.group_resource for one in api.resources()}
        api.request("POST", CRDS, crd(v1alpha1=True, v1beta1=True))
        api.request("POST", SERVICES, BROKEN)
        widgets = Served(Resource(GROUP, "v1beta1", "widgets", "Widget"), namespaced=True)

        async def came() -> bool:
            return (await discovery.scan(GROUP)).served == (widgets,)

        await until(came)

        async def broken() -> bool:
            found = await discovery.all()
            there = {one.name for one in found.served}
            return bool(found.failing) and there == {*names, widgets.name}

        await until(broken)
        assert (await discovery.all()).failing == {"broken.hindgraph.dev": "v1: 503 service unavailable"}
        assert (await discovery.scan("broken.hindgraph.dev")).failing
        with pytest.raises(Lost, match="503"):
            await discovery.serves(Served(Resource("broken.hindgraph.dev", "v1", "a", "A"), namespaced=True))
        there = api.request("GET", f"{CRDS}/widgets.{GROUP}")
        there["spec"]["versions"][1]["served"] = False
        api.request("PUT", f"{CRDS}/widgets.{GROUP}", there)

        async def moved() -> bool:
            now = await discovery.serves(widgets)
            return now is not None and now.resource.version == "v1alpha1"

        await until(moved)
        api.request("DELETE", f"{CRDS}/widgets.{GROUP}")
        api.request("DELETE", f"{SERVICES}/v1.broken.hindgraph.dev")

        async def gone() -> bool:
            return await discovery.serves(widgets) is None

        await until(gone)
        assert {one.name for one in (await discovery.all()).served} == names


@pytest.mark.cluster
@in_loop
async def test_both_forms_of_discovery_of_a_real_server_say_the_same(plane, monkeypatch):
    async with transport(plane.kubeconfig) as session:
        new = await Discovery(session).all()
        monkeypatch.setattr(module, "_AGGREGATED", "application/json")
        old = await Discovery(session).all()
    second = {"events.k8s.io/events"}  # Known to be the same only where the server tells how it is stored.
    assert {one for one in new.served if one.name not in second} == set(old.served)
    assert len(old.served) > 40


@pytest.mark.cluster
@in_loop
async def test_a_real_server_that_does_not_know_us(plane, tmp_path):
    path = tmp_path / "stranger.conf"
    path.write_text(plane.kubeconfig.read_text().replace('"token": "', '"token": "not-'))
    async with transport(path) as session:
        with pytest.raises(BadKubeconfig, match="does not take the credentials"):
            await Discovery(session).reach()

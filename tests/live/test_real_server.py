"""Requests to a real API server: with every kind of credential, and over a network that breaks."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import closing

import orjson
import pytest

from capture.kubernetes.live.splitter import Splitter
from capture.kubernetes.live.transport import Lost, Transport
from tests.cluster.faulty import Relay
from tests.live.server import Authority, in_loop, kubeconfig, transport
from tests.services.api import Api
from tests.services.clusters import own_cluster
from tests.services.control_plane import ControlPlane, Options

pytestmark = pytest.mark.cluster

MAPS = "/api/v1/namespaces/default/configmaps"
JSON = "application/json"


@pytest.fixture(scope="module")
def clients(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("clients"), "clients")


@pytest.fixture(scope="module")
def plane(tmp_path_factory, clients) -> Iterator[ControlPlane]:
    with own_cluster(tmp_path_factory.mktemp("plane"), Options(clients=clients.ca)) as found:
        yield found


@pytest.fixture
def api(plane) -> Iterator[Api]:
    with closing(Api(plane.kubeconfig)) as found:
        yield found


async def who(session: Transport) -> list[str]:
    """Names of what is in a namespace: only somebody with rights gets any."""
    answer = await session.request(MAPS, {}, JSON, patience=10)
    body = orjson.loads(await answer.read())
    assert answer.status == 200, body
    return [item["metadata"]["name"] for item in body["items"]]


@in_loop
async def test_each_kind_of_credential(plane, clients, tmp_path):
    host, port = plane.address
    ca = {"certificate-authority": str(plane.folder / "certs/apiserver.crt")}
    token = json.loads(plane.kubeconfig.read_text())["users"][0]["user"]["token"]
    (tmp_path / "token").write_text(token + "\n")
    certificate, key = clients.signed("recorder", "system:masters")
    status = {"clientCertificateData": certificate.read_text(), "clientKeyData": key.read_text()}
    issued = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (tmp_path / "issued").write_text(json.dumps(issued))
    entry = {"apiVersion": issued["apiVersion"], "command": "cat", "args": ["issued"]}
    for user in (
        {"token": token},
        {"tokenFile": "token"},
        {"client-certificate": str(certificate), "client-key": str(key)},
        {"exec": entry},
    ):
        async with transport(kubeconfig(tmp_path, f"https://{host}:{port}", user=user, **ca)) as session:
            assert "kube-root-ca.crt" in await who(session)


@in_loop
async def test_a_large_list_is_packed_and_a_watch_is_not(plane, api):
    for number in range(3):
        api.request("POST", MAPS, {"metadata": {"name": f"large-{number}"}, "data": {"text": "x" * 500_000}})
    async with transport(plane.kubeconfig) as session:
        listed = await session.request(MAPS, {}, JSON, patience=10)
        assert listed.headers["content-encoding"] == "gzip"
        assert listed.headers["date"]
        assert len(await listed.read()) > 1_500_000
        watch = await session.request(MAPS, {"watch": "true", "timeoutSeconds": "1"}, JSON, patience=10)
        assert "content-encoding" not in watch.headers
        splitter = Splitter()
        events = [orjson.loads(line) async for chunk in watch.chunks() for line in splitter.feed(chunk) if line]
    assert {event["object"]["metadata"]["name"] for event in events} >= {"large-0", "large-1", "large-2"}


@in_loop
async def test_18_a_watch_over_a_network_that_is_silent_goes_on_and_one_that_is_cut_is_lost(plane, api):
    with Relay(plane.address) as relay:
        async with transport(plane.kubeconfig_for("recorder", relay.port)) as session:
            watch = await session.request(MAPS, {"watch": "true"}, JSON, patience=10)
            chunks, splitter = watch.chunks(), Splitter()
            heard: list[str] = []

            async def until(name: str) -> None:
                while name not in heard:
                    lines = splitter.feed(await anext(chunks))
                    heard.extend(orjson.loads(line)["object"]["metadata"]["name"] for line in lines if line)

            await until("kube-root-ca.crt")
            relay.stall(3.0)
            await asyncio.to_thread(api.request, "POST", MAPS, {"metadata": {"name": "late"}})
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(until("late"), 0.3)
            await until("late")
            cut = asyncio.create_task(asyncio.to_thread(relay.cut, random.Random(1)))
            with pytest.raises(Lost) as caught:
                await until("never")
            assert await cut == 1
            assert caught.value.reason in ("connection reset by peer", "the connection ended within the answer")
            assert "late" in await who(session)


@in_loop
async def test_a_server_that_is_down_and_up_again(plane):
    async with transport(plane.kubeconfig) as session:
        assert await who(session)
        plane.stop_apiserver()
        with pytest.raises(Lost, match=r"refused|closed|reset"):
            await who(session)
        await asyncio.to_thread(plane.start_apiserver)
        assert await who(session)

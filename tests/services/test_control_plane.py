"""The local control plane does what tests ask of it: restarts, goes back, forgets, streams lists or does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from tests.services.api import Api, ApiError, Object
from tests.services.clusters import Given, own_cluster
from tests.services.control_plane import ControlPlane, Options

pytestmark = pytest.mark.cluster

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_cluster(tmp_path_factory.mktemp("plane"), Options()) as found:
        yield found


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Api]:
    with closing(Api(plane.kubeconfig)) as found:
        yield found


def made(api: Api, name: str) -> Object:
    return api.request("POST", MAPS, {"metadata": {"name": name}})


def names(api: Api) -> set[str]:
    return {one["metadata"]["name"] for one in api.request("GET", MAPS)["items"]}


def version(one: Object) -> int:
    return int(one["metadata"]["resourceVersion"])


def test_what_was_written_outlives_a_restart_of_the_server(plane, api):
    made(api, "restarted")
    plane.stop_apiserver()
    with pytest.raises(httpx.TransportError):
        names(api)
    plane.start_apiserver()
    assert "restarted" in names(api)


def test_after_a_restore_versions_go_back(plane, api):
    before = made(api, "kept")
    copy = plane.snapshot()
    undone = [made(api, f"undone-{number}") for number in range(20)]
    plane.restore(copy)
    assert "kept" in names(api)
    assert not any(name.startswith("undone") for name in names(api))
    again = made(api, "undone-0")
    assert version(before) < version(again) < version(undone[-1])


def test_a_version_from_before_compaction_and_restart_has_expired(plane, api):
    old = made(api, "old")
    for number in range(10):
        made(api, f"newer-{number}")
    plane.compact()
    plane.stop_apiserver()
    plane.start_apiserver()
    (line,) = api.watch(MAPS, resourceVersion=str(version(old) - 1))
    assert (line["type"], line["object"]["code"]) == ("ERROR", 410)


def test_two_planes_at_once_and_one_that_does_not_stream_lists(plane, api, tmp_path):
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    assert "k8s.io/initial-events-end" in api.watch(MAPS, **asked)[-1]["object"]["metadata"]["annotations"]
    with own_cluster(tmp_path, Options(watch_list=False)) as other, closing(Api(other.kubeconfig)) as second:
        assert "restarted" not in names(second)
        with pytest.raises(ApiError, match="sendInitialEvents"):
            second.watch(MAPS, **asked)


def test_a_cluster_that_is_given_is_reached_by_its_kubeconfig(plane, tmp_path):
    given = Given(plane.kubeconfig, tmp_path)
    assert (given.name, given.address) == (plane.name, plane.address)
    with closing(Api(given.kubeconfig_for("recorder", plane.address[1]))) as api:
        assert "kube-root-ca.crt" in names(api)

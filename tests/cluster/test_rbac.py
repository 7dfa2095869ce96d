"""The printed rights at a real API server: with them what is recorded is listed and watched, and nothing else done."""

from __future__ import annotations

import json
import time
from contextlib import closing

import httpx
import pytest
import yaml

from capture.kubernetes.live.parts import Selection, Served
from capture.kubernetes.rbac import manifest
from capture.kubernetes.recording import Resource
from tests.services.api import Api, ApiError
from tests.services.clusters import own_cluster
from tests.services.control_plane import Options

pytestmark = pytest.mark.cluster

PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}
SELECTIONS = {
    "everything": Selection(),
    "namespaces": Selection(namespaces=("shop", "pay")),
    "kinds": Selection(kinds=("Deployment", "Node")),
    "both": Selection(namespaces=("shop",), kinds=("ConfigMap", "Secret")),
}
SHOP = "/api/v1/namespaces/shop"
OUTSIDE = {
    "everything": [f"{SHOP}/configmaps/a", "/apis/coordination.k8s.io/v1/leases"],
    "namespaces": [
        "/api/v1/configmaps", "/api/v1/nodes", "/api/v1/namespaces", "/api/v1/namespaces/other",
        "/api/v1/namespaces/other/pods",
    ],
    "kinds": ["/api/v1/configmaps", f"{SHOP}/secrets", "/api/v1/namespaces/shop"],
    "both": [f"{SHOP}/pods", "/api/v1/namespaces/pay/configmaps", "/api/v1/namespaces"],
}  # fmt: skip


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with own_cluster(tmp_path_factory.mktemp("plane"), Options()) as found:
        yield found


@pytest.mark.parametrize("scope", SELECTIONS)
def test_what_is_recorded_may_be_read_and_nothing_else(plane, scope, tmp_path):
    selection = SELECTIONS[scope]
    with closing(Api(plane.kubeconfig)) as admin:
        for name in ("shop", "pay", "ops", "other"):
            _unless_there(admin, "/api/v1/namespaces", {"metadata": {"name": name}})
        served = [
            Served(Resource(one.group, one.version, one.name, one.kind), one.namespaced) for one in admin.resources()
        ]
        account = f"eye-{scope}"
        for one in yaml.safe_load_all(manifest(selection, served, name=account, namespace="ops")):
            admin.request("POST", PATHS[one["kind"]].format(one["metadata"].get("namespace")), one)
        asked = {"spec": {"expirationSeconds": 3600}}
        told = admin.request("POST", f"/api/v1/namespaces/ops/serviceaccounts/{account}/token", asked)
    config = json.loads(plane.kubeconfig.read_text())
    config["users"] = [{"name": "admin", "user": {"token": told["status"]["token"]}}]
    (tmp_path / "eye.conf").write_text(json.dumps(config))
    with closing(Api(tmp_path / "eye.conf")) as eye:
        parts = [part for one in served if selection.wants(one) for part in selection.parts(one)]
        _allowed_in_the_end(eye, parts[-1].path, parts[-1].params)  # Rights take a moment.
        for part in parts:
            version = eye.request("GET", part.path, **part.params)["metadata"]["resourceVersion"]
            # Ended by the server at once; refused, it raises.
            next(eye.follow(part.path, **part.params, resourceVersion=version, timeoutSeconds="1"), None)
        assert eye.request("GET", "/apis")["groups"]
        for name in selection.namespaces:
            assert eye.request("GET", f"/api/v1/namespaces/{name}")["metadata"]["name"] == name
        for path in OUTSIDE[scope]:
            _refused(eye, "GET", path)
        _refused(eye, "POST", f"{SHOP}/configmaps", {"metadata": {"name": "a"}})
        _refused(eye, "DELETE", f"{SHOP}/configmaps")
        _refused(eye, "PATCH", "/api/v1/namespaces/shop", {})
        print(f"{scope}: {len(parts)} parts of {len({part.served for part in parts})} resources")


def _unless_there(api, path, body):
    try:
        api.request("POST", path, body)
    except ApiError as error:
        if error.code != 409:
            raise


def _refused(api, method, path, body=None):
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    with pytest.raises(ApiError) as refused:
        api.request(method, path, body, content_type=kind)
    assert refused.value.code == 403, (method, path)


def _allowed_in_the_end(api, path, params):
    for _ in range(100):
        try:
            api.request("GET", path, **params)
            return
        except (ApiError, httpx.TransportError):
            time.sleep(0.1)

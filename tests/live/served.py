"""What a small server serves: the words in which tests of live watches speak."""

from __future__ import annotations

import orjson

from capture.kubernetes.live.parts import Part, Served
from capture.kubernetes.recording import Resource

CMS = Served(Resource("", "v1", "configmaps", "ConfigMap"), namespaced=True)
SECRETS = Served(Resource("", "v1", "secrets", "Secret"), namespaced=True)
NAMESPACES = Served(Resource("", "v1", "namespaces", "Namespace"), namespaced=False)
NODES = Served(Resource("", "v1", "nodes", "Node"), namespaced=False)
DEPLOYMENTS = Served(Resource("apps", "v1", "deployments", "Deployment"), namespaced=True)
LEASES = Served(Resource("coordination.k8s.io", "v1", "leases", "Lease"), namespaced=True)
ALL = (CMS, SECRETS, NAMESPACES, NODES, DEPLOYMENTS, LEASES)

WHOLE = Part(CMS)
IN_SHOP = Part(CMS, "namespace=shop", "shop")


def cm(name: str = "a", rv: str = "10", **data: str) -> dict:
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"u-{name}", "resourceVersion": rv},
        "data": data,
    }


def page(*items: dict, rv: str = "100", token: str = "") -> bytes:
    return orjson.dumps(
        {"kind": "ConfigMapList", "metadata": {"resourceVersion": rv, "continue": token}, "items": items}
    )


def event(type_: str, obj: dict) -> bytes:
    return orjson.dumps({"type": type_, "object": obj})


def bookmark(rv: str, *, end: bool = False) -> bytes:
    notes = {"annotations": {"k8s.io/initial-events-end": "true"}} if end else {}
    return event("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": rv, **notes}})


def status(code: int, reason: str = "", message: str = "", **details: object) -> dict:
    return {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
        "details": details,
    }  # fmt: skip

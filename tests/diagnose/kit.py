"""Objects that tests of checks are made of: whole enough to be judged, with one thing to change each."""

from __future__ import annotations

from tests.diagnose.world import obj, owned


def service(name: str = "cart", *, target: object = "http", **spec) -> dict:
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": target}]
    told = {"type": "ClusterIP", "selector": {"app": name}, "ports": ports} | spec
    return obj("v1", "Service", name, spec={k: v for k, v in told.items() if v is not None})


def container(name: str = "main", **body) -> dict:
    return {"name": name, "image": "shop/cart:1", "ports": [{"name": "http", "containerPort": 8080}]} | body


def deployment(
    name: str = "cart", *, labels: dict | None = None, replicas: int = 1, spec: dict | None = None, ns: str = "shop",
    **top,
) -> dict:  # fmt: skip
    """A Deployment; what is not in `spec` of its pods is as usual."""
    template = {"metadata": {"labels": labels or {"app": name}}, "spec": {"containers": [container()]} | (spec or {})}
    return obj("apps/v1", "Deployment", name, ns=ns, spec={"replicas": replicas, "template": template} | top)


def replica_set(of: dict, number: int = 1) -> dict:
    name = f"{of['metadata']['name']}-{number}"
    spec = {"replicas": of["spec"]["replicas"], "template": of["spec"]["template"]}
    return obj("apps/v1", "ReplicaSet", name, ns=of["metadata"]["namespace"], meta=owned(of), spec=spec)


def pod(of: dict, number: int = 1, *, ready: bool = True, status: dict | None = None, **spec) -> dict:
    """A pod as the owner's template wants it, on node n1 and ready unless told otherwise."""
    template = of["spec"]["template"]
    told = {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True" if ready else "False"},
        ],
    }
    return obj(
        "v1", "Pod", f"{of['metadata']['name']}-{number}", ns=of["metadata"]["namespace"],
        meta=owned(of) | {"labels": template["metadata"].get("labels", {})},
        spec={"nodeName": "n1"} | template["spec"] | spec, status=told | (status or {}),
    )  # fmt: skip


def running(of: dict, count: int = 1, **body) -> list[dict]:
    """A Deployment with its ReplicaSet and pods."""
    made = replica_set(of)
    return [of, made, *(pod(made, number, **body) for number in range(count))]


def statement(found: list) -> list[tuple[str, str]]:
    """What was blamed, as (kind, name)."""
    return [(one.key.kind, one.key.name) for one in found]

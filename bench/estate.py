"""A made-up estate in a steady state, as watch lines: what a projector sees all day, which no recording of minutes has.

Deployments with their ReplicaSets and pods, a service and an EndpointSlice each, nodes. After the lists come changes:
mostly statuses of pods and deployments, some node heartbeats with a word of news, some endpoints that turn ready or
not, and now and then a pod that makes way for another. Lines are made, not records: they go through the reflector.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from capture.kubernetes.recording import Line, Resource
from schema.instants import SECOND

Body = dict[str, Any]

START = 1_700_000_000 * SECOND
_NAMES = (
    ("v1/nodes", "", "Node"), ("v1/services", "", "Service"), ("v1/pods", "", "Pod"),
    ("apps/v1/deployments", "apps", "Deployment"), ("apps/v1/replicasets", "apps", "ReplicaSet"),
    ("discovery.k8s.io/v1/endpointslices", "discovery.k8s.io", "EndpointSlice"),
)  # fmt: skip
RESOURCES = [
    Resource(group=group, version="v1", resource=path.rpartition("/")[2], kind=kind) for path, group, kind in _NAMES
]


class Estate:
    """`apps` deployments of five pods each, over ten namespaces and `apps / 10` nodes."""

    def __init__(self, apps: int, seed: int = 1) -> None:
        self._rng = random.Random(seed)
        self._version = 1000
        self._apps = [(f"shop-{n % 10}", f"app-{n}") for n in range(apps)]
        self._nodes = [f"node-{n}" for n in range(max(1, apps // 10))]
        self._pods: dict[tuple[str, str], list[Body]] = {}
        self._born = 0

    def lines(self, changes: int) -> Iterator[Line]:
        """The first lists, then so many changes, about ten a second."""
        t, listed = START, self._lists()
        for number, (resource, items) in enumerate(listed.items()):
            yield Line(number, t, resource, "LIST", rv=str(self._version), items=tuple(items))
        for number in range(changes):
            t += self._rng.randrange(SECOND // 5)
            for type_, resource, body in self._change():
                yield Line(number, t, resource, type_, object=body)

    def _lists(self) -> dict[str, list[Body]]:
        out: dict[str, list[Body]] = {path: [] for path, _, _ in _NAMES}
        out["v1/nodes"] = [self._node(name, 0) for name in self._nodes]
        for namespace, name in self._apps:
            self._pods[namespace, name] = [self._pod(namespace, name) for _ in range(5)]
            out["v1/pods"] += self._pods[namespace, name]
            out["apps/v1/deployments"].append(self._deployment(namespace, name, 5))
            out["apps/v1/replicasets"].append(self._replica_set(namespace, name, 5))
            service = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]}
            out["v1/services"].append(self._made("v1", "Service", namespace, name, spec=service))
            out["discovery.k8s.io/v1/endpointslices"].append(self._slice(namespace, name))
        return out

    def _change(self) -> Iterator[tuple[str, str, Body]]:
        namespace, name = self._rng.choice(self._apps)
        roll, pods = self._rng.random(), self._pods[namespace, name]
        if roll < 0.55:
            pod = self._rng.randrange(5)
            pods[pod] = self._again(pods[pod], status=self._pod_status(self._rng.random() < 0.7))
            yield "MODIFIED", "v1/pods", pods[pod]
        elif roll < 0.75:
            yield "MODIFIED", "apps/v1/deployments", self._deployment(namespace, name, self._rng.randrange(6))
        elif roll < 0.85:
            yield "MODIFIED", "apps/v1/replicasets", self._replica_set(namespace, name, self._rng.randrange(6))
        elif roll < 0.92:
            yield "MODIFIED", "v1/nodes", self._node(self._rng.choice(self._nodes), self._rng.randrange(1000))
        elif roll < 0.98:
            yield "MODIFIED", "discovery.k8s.io/v1/endpointslices", self._slice(namespace, name)
        else:
            gone = pods.pop(self._rng.randrange(5))
            yield "DELETED", "v1/pods", gone
            pods.append(self._pod(namespace, name))
            yield "ADDED", "v1/pods", pods[-1]

    def _made(
        self, api: str, kind: str, namespace: str | None, name: str, meta: Body | None = None, **rest: object
    ) -> Body:
        self._version += 1
        meta = {
            "name": name, "uid": f"{kind}-{namespace}-{name}", "resourceVersion": str(self._version),
            "creationTimestamp": "2023-11-14T00:00:00Z", "labels": {"app": name.partition("-pod")[0]},
            **({"namespace": namespace} if namespace else {}), **(meta or {}),
        }  # fmt: skip
        return {"apiVersion": api, "kind": kind, "metadata": meta, **rest}

    def _again(self, body: Body, **rest: object) -> Body:
        self._version += 1
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}, **rest}

    def _owned(self, kind: str, name: str, namespace: str) -> Body:
        uid = f"{kind}-{namespace}-{name}"
        return {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True},
        ]}  # fmt: skip

    def _template(self, name: str) -> Body:
        env: list[Body] = [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(8)]
        env += [
            {"name": f"KEY_{n}", "valueFrom": {"configMapKeyRef": {"name": name, "key": f"k{n}"}}} for n in range(4)
        ]
        container = {
            "name": "main", "image": f"registry.example/shop/{name}:1.4.2", "env": env,
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
        }  # fmt: skip
        return {"containers": [container], "serviceAccountName": name, "restartPolicy": "Always"}

    def _deployment(self, namespace: str, name: str, ready: int) -> Body:
        template = {"metadata": {"labels": {"app": name}}, "spec": self._template(name)}
        return self._made(
            "apps/v1", "Deployment", namespace, name,
            spec={"replicas": 5, "selector": {"matchLabels": {"app": name}}, "template": template},
            status={"replicas": 5, "readyReplicas": ready, "availableReplicas": ready, "updatedReplicas": 5},
        )  # fmt: skip

    def _replica_set(self, namespace: str, name: str, ready: int) -> Body:
        template = {"metadata": {"labels": {"app": name}}, "spec": self._template(name)}
        meta: Body = self._owned("Deployment", name, namespace)
        meta |= {"annotations": {"deployment.kubernetes.io/revision": "1"}}
        return self._made(
            "apps/v1", "ReplicaSet", namespace, f"{name}-rs", meta=meta,
            spec={"replicas": 5, "template": template},
            status={"replicas": 5, "readyReplicas": ready, "availableReplicas": ready},
        )  # fmt: skip

    def _pod(self, namespace: str, name: str) -> Body:
        self._born += 1
        return self._made(
            "v1", "Pod", namespace, f"{name}-pod{self._born}",
            meta=self._owned("ReplicaSet", f"{name}-rs", namespace) | {"labels": {"app": name}},
            spec={**self._template(name), "nodeName": self._rng.choice(self._nodes)}, status=self._pod_status(True),
        )  # fmt: skip

    def _pod_status(self, ready: bool) -> Body:
        word = "True" if ready else "False"
        since = f"2023-11-15T00:{self._rng.randrange(60):02}:{self._rng.randrange(60):02}Z"
        kinds = (("Initialized", "True"), ("Ready", word), ("ContainersReady", word), ("PodScheduled", "True"))
        conditions = [{"type": kind, "status": status, "lastTransitionTime": since} for kind, status in kinds]
        container = {
            "name": "main", "ready": ready, "restartCount": self._rng.randrange(3), "image": "main",
            "imageID": "registry.example/shop/main@sha256:" + "ab" * 32, "state": {"running": {"startedAt": since}},
        }  # fmt: skip
        return {"phase": "Running", "podIP": "10.0.0.7", "conditions": conditions, "containerStatuses": [container]}

    def _node(self, name: str, load: int) -> Body:
        kinds = (("MemoryPressure", "False"), ("DiskPressure", "False"), ("Ready", "True"))
        conditions = [{"type": kind, "status": status, "reason": f"Load{load}"} for kind, status in kinds]
        status = {"allocatable": {"cpu": "8", "memory": "32Gi"}, "conditions": conditions}
        return self._made("v1", "Node", None, name, spec={"providerID": f"cloud:///{name}"}, status=status)

    def _slice(self, namespace: str, name: str) -> Body:
        endpoints = [
            {
                "addresses": [f"10.1.{n}.{abs(hash_of(pod)) % 250}"], "conditions": {"ready": self._rng.random() < 0.8},
                "targetRef": {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
            }
            for n, pod in enumerate(self._pods[namespace, name])
        ]  # fmt: skip
        return self._made(
            "discovery.k8s.io/v1", "EndpointSlice", namespace, f"{name}-slice",
            meta={"labels": {"kubernetes.io/service-name": name}}, addressType="IPv4", endpoints=endpoints,
            ports=[{"name": "http", "port": 8080, "protocol": "TCP"}],
        )  # fmt: skip


def hash_of(pod: Body) -> int:
    return sum(pod["metadata"]["name"].encode())

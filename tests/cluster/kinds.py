"""What the random writer makes: one template for each kind, with edits that the API server accepts at any time. Data.

An edit is a merge patch of maps and scalars whose parents are always there, so that it can be said as a strategic,
merge, JSON or apply patch alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.services.api import Object, Resource

Make = Callable[[Random], Object]

IMAGES = ("registry.example/shop:1.0", "registry.example/shop:1.1", "registry.example/shop:2.0-rc.1")
HOLD = "test.hindgraph.dev/hold"
"""A finalizer of the writer's own: what bears it stays until the writer takes it away."""


@dataclass(frozen=True, slots=True)
class Template:
    """`body`: all of an object but its metadata. `edits`: one is picked. `status`: for the subresource."""

    resource: Resource
    body: Make
    edits: tuple[Make, ...]
    status: Make | None = None
    strategic: bool = True


def _word(rng: Random) -> str:
    return f"{rng.getrandbits(32):08x}"


def _pod(rng: Random, **more: object) -> Object:
    container = {
        "name": "main",
        "image": rng.choice(IMAGES),
        "env": [{"name": "MODE", "value": _word(rng)}, {"name": "LEVEL", "value": "info"}],
        "ports": [{"containerPort": 8080, "name": "http"}],
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
    }
    return {
        "metadata": {"labels": {"app": "main"}, "annotations": {"made": _word(rng)}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **more},
    }


def _workload(rng: Random) -> Object:
    spec = {"replicas": rng.choice((0, 0, 1)), "selector": {"matchLabels": {"app": "main"}}, "template": _pod(rng)}
    return {"spec": spec}


def _rollout(rng: Random) -> Object:
    return {"spec": {"template": {"metadata": {"annotations": {"made": _word(rng)}}}}}


def _scale(rng: Random) -> Object:
    return {"spec": {"replicas": rng.randrange(3)}}


def _condition(rng: Random) -> Object:
    condition = {
        "type": "test.hindgraph.dev/Checked", "status": rng.choice(("True", "False")), "reason": "Checked",
        "message": _word(rng), "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return {"status": {"conditions": [condition]}}


def _rules(rng: Random) -> Object:
    return {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": rng.sample(["get", "list", "watch"], 2)}]}


def _subjects(rng: Random) -> Object:
    return {"subjects": [{"kind": "ServiceAccount", "name": f"s-{rng.randrange(9)}", "namespace": "default"}]}


def _binding(role: str) -> Make:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "reader"}
    return lambda rng: {"roleRef": ref, **_subjects(rng)}


def _data(rng: Random) -> Object:
    return {"data": {f"key-{rng.randrange(5)}": _word(rng)}}


def _secret(rng: Random) -> Object:
    return {"data": {f"key-{rng.randrange(5)}": f"{_word(rng)}{_word(rng)}"}}  # 16 characters: base64 as they are.


def _widget(rng: Random) -> Object:
    parts = [{"name": name, "size": rng.randrange(9)} for name in rng.sample(["a", "b", "c", "d"], 2)]
    return {"spec": {"size": rng.randrange(100), "colour": rng.choice(("red", "green")), "parts": parts}}


def _core(name: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("", "v1", name, kind, namespaced)


def _of(group: str, version: str, name: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource(group, version, name, kind, namespaced)


_RBAC = "rbac.authorization.k8s.io"
GROUP = "test.hindgraph.dev"

NAMESPACE = _core("namespaces", "Namespace", namespaced=False)
CRD = _of("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
DEPLOYMENT = _of("apps", "v1", "deployments", "Deployment")
CONFIG_MAP = _core("configmaps", "ConfigMap")

TEMPLATES = (
    Template(CONFIG_MAP, _data, (_data,)),
    Template(_core("secrets", "Secret"), _secret, (_secret,)),
    Template(
        _core("services", "Service"),
        lambda rng: {
            "spec": {"selector": {"app": "main"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
        },
        (
            lambda rng: {"spec": {"selector": {"app": rng.choice(("main", "other"))}}},
            lambda rng: {"spec": {"sessionAffinity": rng.choice(("None", "ClientIP"))}},
        ),
        _condition,
    ),
    Template(
        _core("serviceaccounts", "ServiceAccount"),
        lambda rng: {"automountServiceAccountToken": True},
        (lambda rng: {"automountServiceAccountToken": rng.random() < 0.5},),
    ),
    Template(
        _core("persistentvolumeclaims", "PersistentVolumeClaim"),
        lambda rng: {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "none",
                "resources": {"requests": {"storage": "1Gi"}},
            }
        },
        (lambda rng: {"metadata": {"annotations": {"made": _word(rng)}}},),
    ),
    Template(
        _core("resourcequotas", "ResourceQuota"),
        lambda rng: {"spec": {"hard": {"count/widgets.example.com": "100"}}},
        (lambda rng: {"spec": {"hard": {"count/widgets.example.com": str(rng.randrange(100))}}},),
    ),
    Template(DEPLOYMENT, _workload, (_rollout, _scale), _condition),
    Template(
        _of("apps", "v1", "statefulsets", "StatefulSet"),
        lambda rng: _workload(rng) | {"spec": {**_workload(rng)["spec"], "serviceName": "main"}},
        (_rollout, _scale),
    ),
    Template(
        _of("apps", "v1", "daemonsets", "DaemonSet"),
        lambda rng: {
            "spec": {"selector": {"matchLabels": {"app": "main"}}, "template": _pod(rng, nodeSelector={"no": "node"})}
        },
        (_rollout,),
    ),
    Template(
        _of("batch", "v1", "cronjobs", "CronJob"),
        lambda rng: {
            "spec": {
                "schedule": "0 0 1 1 *",
                "jobTemplate": {"spec": {"template": _pod(rng, restartPolicy="Never")}},
            }
        },
        (
            lambda rng: {"spec": {"schedule": f"{rng.randrange(60)} 0 1 1 *"}},
            lambda rng: {"spec": {"suspend": rng.random() < 0.5}},
        ),
        lambda rng: {"status": {"lastScheduleTime": f"2026-01-01T00:00:{rng.randrange(60):02}Z"}},
    ),
    Template(_of(_RBAC, "v1", "roles", "Role"), _rules, (_rules,)),
    Template(_of(_RBAC, "v1", "rolebindings", "RoleBinding"), _binding("Role"), (_subjects,)),
    Template(_of(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False), _rules, (_rules,)),
    Template(
        _of(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        _binding("ClusterRole"),
        (_subjects,),
    ),
    Template(
        _of("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
        lambda rng: {"spec": {"podSelector": {"matchLabels": {"app": "main"}}, "policyTypes": ["Ingress"]}},
        (
            lambda rng: {"spec": {"podSelector": {"matchLabels": {"app": rng.choice(("main", "other"))}}}},
            lambda rng: {"spec": {"policyTypes": rng.sample(["Ingress", "Egress"], rng.randrange(1, 3))}},
        ),
    ),
    Template(
        _of("networking.k8s.io", "v1", "ingresses", "Ingress"),
        lambda rng: {"spec": {"defaultBackend": {"service": {"name": "main", "port": {"number": 80}}}}},
        (lambda rng: {"spec": {"defaultBackend": {"service": {"name": f"main-{rng.randrange(9)}"}}}},),
    ),
    Template(
        _of("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        lambda rng: {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "main"}}}},
        (lambda rng: {"spec": {"minAvailable": rng.randrange(5)}},),
    ),
    Template(
        _of("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        lambda rng: {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nobody"},
                "maxReplicas": 5,
            }
        },
        (lambda rng: {"spec": {"maxReplicas": rng.randrange(2, 20)}},),
    ),
    Template(
        _of("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
        lambda rng: {"value": rng.randrange(1000), "description": _word(rng)},
        (lambda rng: {"description": _word(rng)},),
    ),
    Template(
        _of(GROUP, "v1", "widgets", "Widget"),
        _widget,
        (
            lambda rng: {"spec": {"size": rng.randrange(100)}},
            lambda rng: {"spec": {"colour": rng.choice(("red", "green", "blue"))}},
        ),
        lambda rng: {"status": {"phase": _word(rng)}},
        strategic=False,
    ),
)


def custom(plural: str, kind: str) -> Object:
    """The CustomResourceDefinition of a namespaced kind like Widget, whose parts are keyed by name."""
    part = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    }
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "colour": {"type": "string"},
            "parts": {
                "type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            },
        },
    }  # fmt: skip
    schema = {
        "type": "object",
        "properties": {"spec": spec, "status": {"type": "object", "properties": {"phase": {"type": "string"}}}},
    }
    version = {
        "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }

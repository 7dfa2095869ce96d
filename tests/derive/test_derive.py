"""Edges out of states: each predicate has an object that gives it and one that does not; recordings stay legal."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from schema.errors import IllegalEdge
from schema.identity import parse_key, type_of
from schema.kinds import class_of
from schema.predicates import PREDICATES
from schema.records import ObjectRef
from store.derive import JOINS, derive
from store.derive.facts import fact, key_in

RECORDINGS = sorted((Path(__file__).parents[1] / "recordings").glob("**/*.jsonl.gz"))
RECORDINGS += sorted((Path(__file__).parents[2] / "demo").glob("*.jsonl.gz"))


def obj(api: str, kind: str, name: str, namespace: str | None = "shop", **body):
    meta = {"name": name, "uid": f"uid-{name}", **body.pop("meta", {})}
    return ref_of(api, kind, meta | ({"namespace": namespace} if namespace else {})), {"metadata": meta, **body}


def ref_of(api: str, kind: str, meta: dict) -> ObjectRef:
    type_ = type_of(api, kind)
    return ObjectRef(
        source="kubernetes", scope="lab", type=type_, kind=kind, class_=class_of(type_),
        namespace=meta.get("namespace"), name=meta["name"], uid=meta.get("uid"),
    )  # fmt: skip


def owner(api: str, kind: str, name: str, uid: str | None = None) -> dict:
    ref = {"apiVersion": api, "kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}
    return {"ownerReferences": [ref]}


def deployment(name="cart", labels=None, **spec):
    template = {"metadata": {"labels": labels or {"app": name}}, "spec": spec}
    return obj("apps/v1", "Deployment", name, spec={"template": template})


def pod(name="cart-1", labels=None, meta=None, status=None, **spec):
    extra = {"labels": labels or {"app": "cart"}, **(meta or {})}
    return obj("v1", "Pod", name, meta=extra, spec=spec, status=status or {})


def short(edges):
    return {(e.predicate, parse_key(e.src).kind + "/" + parse_key(e.src).name,
             parse_key(e.dst).kind + "/" + parse_key(e.dst).name) for e in edges}  # fmt: skip


def joined(left, right):
    edges = []
    for rule in JOINS:
        for a in rule.left(*left):
            for b in rule.right(*right):
                if a.bucket == b.bucket:
                    edges += rule.match(a, b)
    return edges


NONE = obj("v1", "ConfigMap", "plain")
C = {"name": "main", "image": "shop/cart:1"}
WANT = {
    "CONTAINS": (NONE, "Namespace/shop", "ConfigMap/plain"),
    "OWNS": (obj("v1", "ConfigMap", "x", meta=owner("apps/v1", "Deployment", "cart")),
             "Deployment/cart", "ConfigMap/x"),
    "RUNS": (pod(containers=[C]), "Pod/cart-1", "Container/cart-1/main"),
    "RUNS_ON": (pod(nodeName="n1"), "Pod/cart-1", "Node/n1"),
    "BACKED_BY": (obj("v1", "Node", "n1", None, spec={"providerID": "aws:///i-1"}), "Node/n1", "CloudResource/aws:///i-1"),
    "USES_IMAGE": (pod(containers=[C]), "Container/cart-1/main", "Image/shop/cart:1"),
    "BUILT_FROM": (
        obj("apps/v1", "Deployment", "d", meta={"annotations": {"org.opencontainers.image.revision": "7c1e"}},
            spec={"template": {"spec": {"containers": [C]}}}), "Image/shop/cart:1", "Commit/7c1e"),
    "USES_CONFIG": (deployment(containers=[{"name": "m", "envFrom": [{"secretRef": {"name": "s"}}]}]),
                    "Deployment/cart", "Secret/s"),
    "MOUNTS": (pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]),
               "Pod/cart-1", "PersistentVolumeClaim/c"),
    "BOUND_TO": (obj("v1", "PersistentVolumeClaim", "c", spec={"volumeName": "v"}),
                 "PersistentVolumeClaim/c", "PersistentVolume/v"),
    "PROVISIONED_BY": (obj("v1", "PersistentVolumeClaim", "c", spec={"storageClassName": "fast"}),
                       "PersistentVolumeClaim/c", "StorageClass/fast"),
    "RUNS_AS": (deployment(), "Deployment/cart", "ServiceAccount/default"),
    "ASSUMES": (obj("v1", "ServiceAccount", "sa", meta={"annotations": {"eks.amazonaws.com/role-arn": "arn:x"}}),
                "ServiceAccount/sa", "CloudIdentity/arn:x"),
    "GRANTS": (obj("rbac.authorization.k8s.io/v1", "RoleBinding", "b",
                   subjects=[{"kind": "ServiceAccount", "name": "a"}]),
               "RoleBinding/b", "ServiceAccount/a"),
    "BINDS": (obj("rbac.authorization.k8s.io/v1", "RoleBinding", "b", roleRef={"kind": "Role", "name": "r"}),
              "RoleBinding/b", "Role/r"),
    "ENDPOINT_OF": (
        obj("discovery.k8s.io/v1", "EndpointSlice", "s-1", meta={"labels": {"kubernetes.io/service-name": "s"}},
            endpoints=[{"addresses": ["10.0.0.1"], "targetRef": {"kind": "Pod", "name": "p"}}]), "Pod/p", "Service/s"),
    "ROUTES_TO": (obj("networking.k8s.io/v1", "Ingress", "i", spec={"rules": [{"host": "h", "http": {"paths": [
        {"path": "/", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}),
                  "Ingress/i", "Service/web"),
    "SCALES": (obj("autoscaling/v2", "HorizontalPodAutoscaler", "h",
                   spec={"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"}}),
               "HorizontalPodAutoscaler/h", "Deployment/cart"),
    "CONSTRAINS": (obj("v1", "ResourceQuota", "q"), "ResourceQuota/q", "Namespace/shop"),
    "SERVED_BY": (obj("apiregistration.k8s.io/v1", "APIService", "a", None,
                      spec={"service": {"name": "m", "namespace": "kube-system"}}), "APIService/a", "Service/m"),
    "BLOCKED_BY": (obj("example.com/v1", "Hold", "h",
                       meta={"deletionTimestamp": "t", "finalizers": ["x.example/hold"]}),
                   "Hold/h", "Actor/x.example"),
    "MANAGED_BY": (obj("v1", "ConfigMap", "f", meta={"annotations": {
        "argocd.argoproj.io/tracking-id": "shop:/ConfigMap:shop/f"}}), "ConfigMap/f", "Application/shop"),
    "SYNCED_FROM": (obj("argoproj.io/v1alpha1", "Application", "a", spec={"source": {"repoURL": "https://h/r.git"}},
                        status={"sync": {"revision": "abc"}}), "Application/a", "Commit/abc"),
    "DECLARED_IN": (obj("v1", "ConfigMap", "f", meta={"annotations": {
        "config.kubernetes.io/origin": "path: base/f.yaml\nrepo: https://h/r\n"}}),
                    "ConfigMap/f", "GitFile/base/f.yaml"),
    "PART_OF": (obj("v1", "ConfigMap", "f", meta={"labels": {"app.kubernetes.io/part-of": "shop"}}),
                "ConfigMap/f", "System/shop"),
}  # fmt: skip


@pytest.mark.parametrize("predicate", WANT)
def test_an_object_that_gives_it_and_one_that_does_not(predicate):
    given, src, dst = WANT[predicate]
    assert (predicate, src, dst) in short(derive(*given))
    without = obj("v1", "Event", "e") if predicate == "CONTAINS" else NONE
    assert predicate not in {edge.predicate for edge in derive(*without)}


HOOK = {"name": "h", "rules": [{"scope": "*"}], "namespaceSelector": {"matchLabels": {"hook": "on"}}}
REVISION = "deployment.kubernetes.io/revision"
RS1 = obj(
    "apps/v1", "ReplicaSet", "r1", meta={"annotations": {REVISION: "1"}, **owner("apps/v1", "Deployment", "cart")}
)
RS2 = obj(
    "apps/v1", "ReplicaSet", "r2", meta={"annotations": {REVISION: "2"}, **owner("apps/v1", "Deployment", "cart")}
)
SERVICE = obj("v1", "Service", "cart", spec={"selector": {"app": "cart"}})
BUDGET = obj("policy/v1", "PodDisruptionBudget", "b", spec={"selector": {"matchExpressions": [
    {"key": "app", "operator": "In", "values": ["cart", "web"]}]}})  # fmt: skip
POLICY = obj("networking.k8s.io/v1", "NetworkPolicy", "n", spec={"podSelector": {}})
WEBHOOKS = obj("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "w", None, webhooks=[HOOK])
CRD = obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", "holds.example.com", None,
          spec={"group": "example.com", "names": {"kind": "Hold"}})  # fmt: skip


@pytest.mark.parametrize(
    ("predicate", "left", "right", "other"),
    [
        ("SELECTS", SERVICE, pod(), pod(labels={"app": "web"})),
        ("SELECTS", SERVICE, deployment(), deployment("web")),
        ("SELECTS", BUDGET, pod(), pod(labels={"app": "db"})),
        ("SELECTS", POLICY, pod(labels={"any": "thing"}), obj("v1", "Pod", "p", "elsewhere")),
        ("RUNS", RS1, pod(meta=owner("apps/v1", "ReplicaSet", "r1")),
         pod(meta=owner("apps/v1", "ReplicaSet", "r1", "?"))),
        ("SUCCEEDS", RS2, RS1, RS2),
        ("CONSTRAINS", WEBHOOKS, obj("v1", "Namespace", "a", None, meta={"labels": {"hook": "on"}}),
         obj("v1", "Namespace", "b", None)),
        ("INSTANCE_OF", obj("example.com/v1", "Hold", "h"), CRD, NONE),
        ("CALLS", deployment("web", containers=[{**C, "args": ["--to=cart:8080"]}]), SERVICE,
         obj("v1", "Service", "catalog")),
    ],
)  # fmt: skip
def test_a_pair_that_gives_it_and_one_that_does_not(predicate, left, right, other):
    edges = joined(left, right)
    assert predicate in {edge.predicate for edge in edges}
    assert predicate not in {edge.predicate for edge in joined(left, other)}


def test_a_workload_runs_the_pods_of_its_replica_set():
    edges = joined(RS1, pod(meta=owner("apps/v1", "ReplicaSet", "r1")))
    assert short(edges) == {("RUNS", "Deployment/cart", "Pod/cart-1")}


def test_a_budget_without_selector_and_a_service_without_selector_select_nothing():
    assert joined(obj("policy/v1", "PodDisruptionBudget", "b", spec={}), pod()) == []
    assert joined(obj("v1", "Service", "s", spec={"selector": {}}), pod()) == []


def test_keys_of_one_config_are_one_edge_that_names_them():
    env = [{"name": k, "valueFrom": {"configMapKeyRef": {"name": "c", "key": k}}} for k in ("B", "A")]
    (edge,) = (e for e in derive(*deployment(containers=[{"name": "m", "env": env}])) if e.predicate == "USES_CONFIG")
    assert edge.attrs == {"via": "env", "optional": False, "in": ["m"], "keys": ["A", "B"]}


def test_routes_of_every_kind_and_a_new_one_first_leaves_the_others():
    def route(*rules):
        parents = [{"name": "gw"}]
        return obj("gateway.networking.k8s.io/v1", "HTTPRoute", "r", spec={"parentRefs": parents, "rules": [*rules]})

    def rule(path, name):
        return {"matches": [{"path": {"value": path}}], "backendRefs": [{"name": name, "port": 80, "weight": 9}]}

    first = derive(*route(rule("/a", "a"), rule("/b", "a")))
    both = {("ROUTES_TO", "Gateway/gw", "HTTPRoute/r"), ("ROUTES_TO", "HTTPRoute/r", "Service/a")}
    assert both <= short(first)
    later = derive(*route(rule("/new", "a"), rule("/a", "a"), rule("/b", "a")))
    assert {edge.eid for edge in first} < {edge.eid for edge in later}
    hosts = ("cart.data.svc.cluster.local", "h.example")
    http = [{"route": [{"destination": {"host": host}} for host in hosts]}]
    mesh = {"hosts": ["x"], "gateways": ["mesh", "edge/gw"], "http": http}
    found = derive(*obj("networking.istio.io/v1", "VirtualService", "v", spec=mesh))
    edges = [edge for edge in found if edge.predicate == "ROUTES_TO"]
    assert short(edges) == {
        ("ROUTES_TO", "VirtualService/v", "Service/cart"),
        ("ROUTES_TO", "Gateway/gw", "VirtualService/v"),
    }


def test_a_copied_tracking_id_manages_nothing():
    meta = {"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/cart"}}
    assert "MANAGED_BY" not in {e.predicate for e in derive(*obj("apps/v1", "ReplicaSet", "cart", meta=meta))}


def test_what_a_user_misnames_gives_no_edge_and_no_error():
    for target in ({"kind": "Service", "name": "x", "apiVersion": "v1"}, {"kind": "a/b", "name": "x"},
                   {"kind": "Deployment", "name": "x", "apiVersion": "a/b/c"}):  # fmt: skip
        hpa = obj("autoscaling/v2", "HorizontalPodAutoscaler", "h", spec={"scaleTargetRef": target})
        assert {e.predicate for e in derive(*hpa)} == {"CONTAINS"}


@pytest.mark.parametrize("junk", [None, 7, "x", [], [None, 7, "x", [[]]], {"a": None}, {"containers": {"a": 1}}])
def test_odd_shapes_raise_nothing(junk):
    for given, *_ in WANT.values():
        ref, state = given
        for field in (*state, "spec", "status", "webhooks", "subjects", "endpoints"):
            odd = {**state, field: junk}
            derive(ref, odd)
            for rule in JOINS:
                rule.left(ref, odd)
                rule.right(ref, odd)


def test_an_illegal_edge_is_refused():
    ref = NONE[0]
    with pytest.raises(IllegalEdge):
        fact("RUNS_ON", ref.key, key_in(ref, "core/Node", "n"), "r@1")
    with pytest.raises(IllegalEdge):
        fact("LIKES", ref.key, ref.key, "r@1")


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_recordings_derive_legally_and_each_edge_once(path):
    kinds: dict[str, tuple[str, str]] = {}
    seen = 0
    with gzip.open(path, "rt") as lines:
        head = json.loads(next(lines))
        for item in head["resources"]:
            group = f"{item['group']}/{item['version']}" if item["group"] else item["version"]
            kinds[f"{group}/{item['resource']}"] = (group, item["kind"])
        for line in lines:
            body = json.loads(line)
            if body["type"] not in ("LIST", "ADDED", "MODIFIED", "DELETED"):
                continue
            for state in body.get("items") or ([body["object"]] if "object" in body else []):
                ref = ref_of(*kinds[body["r"]], state["metadata"])
                edges = derive(ref, state)
                assert len({edge.eid for edge in edges}) == len(edges)
                for edge in edges:
                    assert edge.basis in PREDICATES[edge.predicate].bases
                    assert str(parse_key(edge.src)) == edge.src
                    assert str(parse_key(edge.dst)) == edge.dst
                for rule in JOINS:
                    rule.left(ref, state)
                    rule.right(ref, state)
                seen += len(edges)
    assert seen > 1000

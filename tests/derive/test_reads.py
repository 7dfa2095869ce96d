"""What `touches` calls untouched is untouched: at every place of every state, taken away or replaced, edges stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schema.patch import apply, escape
from schema.records import Change
from store.derive.reads import touches
from store.derive.sides import derived
from tests.derive.test_derive import HOOK, RECORDINGS, WANT, deployment, obj, pod
from tests.projector.recorded import records_of

EXAMPLES = [given for given, _, _ in WANT.values()] + [
    deployment(containers=[{"name": "m", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}]),
    pod(containers=[{"name": "m"}], status={"containerStatuses": [{"name": "m", "imageID": "i", "ready": True}]}),
    obj("v1", "Namespace", "shop", None, meta={"deletionTimestamp": "t"}, spec={"finalizers": ["kubernetes"]}),
    obj("v1", "Service", "s", spec={"selector": {"app": "a"}}, status={"loadBalancer": {"ingress": [{"ip": "::1"}]}}),
    obj("v1", "PersistentVolume", "v", None, spec={"csi": {"volumeHandle": "h", "driver": "d"}}),
    obj("v1", "ServiceAccount", "sa", imagePullSecrets=[{"name": "pull"}]),
    obj("v1", "ConfigMap", "c", data={"HOST": "cart"}),
    deployment(containers=[{"name": "m", "env": [{"name": "A_ADDR", "value": "cart:80"}], "args": ["http://cart"]}]),
    obj("batch/v1", "CronJob", "c", spec={"jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}),
    obj("apps/v1", "StatefulSet", "db", spec={
        "replicas": 2, "ordinals": {"start": 1}, "template": {"spec": {}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}),
    obj("networking.k8s.io/v1", "NetworkPolicy", "n", spec={"podSelector": {"matchLabels": {"a": "b"}}}),
    obj("policy/v1", "PodDisruptionBudget", "b", spec={"selector": {"matchLabels": {"a": "b"}}}),
    obj("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "w", None, webhooks=[HOOK]),
    obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", "c", None,
        spec={"group": "example.com", "names": {"kind": "Hold"}}),
    obj("gateway.networking.k8s.io/v1", "HTTPRoute", "r", spec={
        "parentRefs": [{"name": "g"}], "rules": [{"backendRefs": [{"name": "b", "port": 80}]}]}),
    obj("networking.istio.io/v1", "VirtualService", "v", spec={
        "hosts": ["h"], "gateways": ["g"], "http": [{"route": [{"destination": {"host": "b"}}]}]}),
    obj("keda.sh/v1alpha1", "ScaledObject", "k", spec={"scaleTargetRef": {"name": "d"}}),
    obj("kafka.strimzi.io/v1", "KafkaTopic", "t", meta={"labels": {"strimzi.io/cluster": "k"}}),
]  # fmt: skip


def places(node, path="") -> Iterator[tuple[str, object]]:
    """Every pointer into a state with its value, the whole left out."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for token, value in items:
        here = f"{path}/{escape(str(token))}"
        yield here, value
        yield from places(value, here)


def hidden(ref, state) -> list[str]:
    """Places where a change moves edges although `touches` says that none can."""
    before = derived(ref, state)
    found = []
    for path, value in places(state):
        other = "other" if isinstance(value, str) else {"name": "other"} if isinstance(value, dict) else 7
        for patch in ([{"op": "remove", "path": path}], [{"op": "replace", "path": path, "value": other}]):
            if not touches(ref.type, patch) and derived(ref, apply(state, patch)) != before:
                found.append(f"{ref.type} {path}")
    return found


@pytest.mark.parametrize("given", EXAMPLES, ids=lambda given: f"{given[0].kind}-{given[0].name}")
def test_no_place_of_an_example_is_read_in_secret(given):
    assert hidden(*given) == []


@pytest.mark.parametrize("path", RECORDINGS[:2], ids=lambda path: path.name)
def test_no_place_of_a_recorded_object_is_read_in_secret(path):
    newest = {}
    for record, _ in records_of(path):
        if isinstance(record, Change) and record.op in ("observe", "create"):
            newest[record.object.key] = (record.object, apply(None, record.patch))
    sample = {}
    for ref, state in newest.values():
        sample.setdefault(ref.type, []).append((ref, state))
    assert [place for given in sample.values() for one in given[:4] for place in hidden(*one)] == []


def test_a_status_touches_nothing_and_a_label_does():
    ready = [{"op": "replace", "path": "/status/containerStatuses/0/ready", "value": False}]
    image = [{"op": "add", "path": "/status/containerStatuses/0/imageID", "value": "i"}]
    whole = [{"op": "add", "path": "/status/containerStatuses", "value": []}]
    label = [{"op": "replace", "path": "/metadata/labels/app", "value": "b"}]
    assert [touches("core/Pod", patch) for patch in (ready, image, whole, label)] == [False, True, True, True]
    assert not touches("apps/Deployment", [{"op": "replace", "path": "/spec/replicas", "value": 3}])
    assert touches("apps/StatefulSet", [{"op": "replace", "path": "/spec/replicas", "value": 3}])
    assert touches("apps/Deployment", [{"op": "replace", "path": "", "value": {}}])

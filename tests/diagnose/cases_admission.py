"""Cases of the checks of what stands between a workload and its pods."""

from __future__ import annotations

from diagnose.checks import admission as rules
from tests.diagnose.cases import Cases
from tests.diagnose.kit import container, deployment, pod, replica_set, service
from tests.diagnose.world import World, obj

API = "admissionregistration.k8s.io/v1"
PODS = [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}]
SPACE = obj("v1", "Namespace", "shop", meta={"labels": {"team": "store"}})


def hook(
    policy: str = "Fail", kind: str = "Validating", client: dict | None = None, rules: list | None = None, **more
) -> dict:
    one = {"name": "gate", "failurePolicy": policy, "rules": PODS if rules is None else rules,
           "clientConfig": client or {"service": {"name": "gate", "namespace": "shop"}}} | more  # fmt: skip
    return obj(API, f"{kind}WebhookConfiguration", "gate", webhooks=[one])


def ends(*ready: bool) -> dict:
    each = [{"addresses": ["10.0.0.1"], "conditions": {"ready": one}} for one in ready]
    labels = {"labels": {"kubernetes.io/service-name": "gate"}}
    return obj("discovery.k8s.io/v1", "EndpointSlice", "gate-1", meta=labels, endpoints=each)


CART, GATE = deployment(), service("gate")
BLOCKS = Cases(rules.webhook_blocks)
BLOCKS.find(
    World(CART, SPACE, hook("Ignore")).put(hook(), ago=60), "ValidatingWebhookConfiguration/gate",
    "ValidatingWebhookConfiguration/gate",
)  # fmt: skip
BLOCKS.find(
    World(CART, SPACE, hook(), GATE).remove(GATE, ago=60), "ValidatingWebhookConfiguration/gate", "Service/gate"
)
BLOCKS.find(
    World(CART, SPACE, hook(kind="Mutating"), GATE, ends(True)).put(ends(False), ago=60),
    "MutatingWebhookConfiguration/gate", "EndpointSlice/gate-1",
)  # fmt: skip
BLOCKS.quiet(
    World(CART, SPACE, hook("Ignore")),
    World(CART, SPACE, hook(), GATE, ends(True)),
    World(CART, SPACE, hook(client={"url": "https://gate.example"})),
    World(CART, SPACE, hook(), GATE, ends(True)).put(ends(False), ago=5),
    World(CART, SPACE, hook(namespaceSelector={"matchLabels": {"team": "other"}})),
    World(
        CART, SPACE, hook(rules=[{"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "operations": ["*"]}])
    ),
)


def sized(memory: str) -> dict:
    return container(resources={"limits": {"memory": memory}})


WANTS = deployment(spec={"containers": [sized("256Mi")]})
URL = {"url": "https://size.example"}
KILLED = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                                 "lastState": {"terminated": {"reason": "OOMKilled"}}}]}  # fmt: skip


def shrunk(
    got: str = "24Mi", *, came: float | None = 60, ready: bool = False, status: dict | None = None, **more
) -> World:
    made = replica_set(WANTS)
    told = World(SPACE, WANTS, made).put(hook(kind="Mutating", client=URL, **more), came)
    return told.put(pod(made, ready=ready, status=KILLED if status is None else status, containers=[sized(got)]), 55)


REWRITES = Cases(rules.webhook_rewrites)
REWRITES.find(shrunk(), "MutatingWebhookConfiguration/gate", "MutatingWebhookConfiguration/gate")
REWRITES.find(shrunk(came=None), "MutatingWebhookConfiguration/gate")
REWRITES.quiet(
    shrunk("256Mi"),
    shrunk(ready=True, status={}),
    shrunk(namespaceSelector={"matchLabels": {"team": "other"}}),
    shrunk(rules=[]),
)


def quota(pods: str, used: str = "3") -> dict:
    return obj("v1", "ResourceQuota", "budget", spec={"hard": {"pods": pods}}, status={"used": {"pods": used}})


def refused(*others: dict, message: str, have: int = 0, of: dict = CART) -> World:
    made = replica_set(of) | {"status": {"availableReplicas": have}}
    return World(of, made, *others).heard(made, "FailedCreate", f"pods is forbidden: {message}")


EXCEEDED = "exceeded quota: budget, requested: pods=1, used: pods=3, limited: pods=3"
REJECTS = Cases(rules.quota_rejects)
REJECTS.find(
    refused(quota("9"), message=EXCEEDED).put(quota("3"), ago=60), "ResourceQuota/budget", "ResourceQuota/budget"
)
REJECTS.find(World(quota("9")).put(quota("2"), ago=60), "ResourceQuota/budget", "ResourceQuota/budget")
REJECTS.find(refused(quota("3"), message=EXCEEDED), "ResourceQuota/budget")
REJECTS.quiet(
    World(quota("9")).put(quota("5"), ago=60),
    World(quota("3")),  # full, and nobody asks for more
    refused(quota("3"), message=EXCEEDED, have=1),
    World(quota("9")).put(quota("2"), ago=5),
)


def bounds(**row: str) -> dict:
    return obj(
        "v1",
        "LimitRange",
        "sizes",
        spec={"limits": [{"type": "Container"} | {k: {"memory": v} for k, v in row.items()}]},
    )


RANGE = Cases(rules.limit_range_contradicts)
RANGE.find(World(WANTS, bounds(max="1Gi")).put(bounds(max="128Mi"), ago=60), "LimitRange/sizes", "LimitRange/sizes")
RANGE.find(World(CART, bounds(min="512Mi")).put(WANTS, ago=60), "Deployment/cart", "Deployment/cart")
RANGE.find(
    refused(bounds(max="128Mi"), message="maximum memory usage per Container is 128Mi", of=WANTS), "LimitRange/sizes"
)
RANGE.quiet(
    World(WANTS, bounds(max="128Mi")),  # of old, and nothing was refused
    World(WANTS, bounds(max="1Gi")).put(bounds(max="512Mi"), ago=60),
    World(CART, bounds(max="1Gi")).put(bounds(max="1Mi"), ago=60),
    World(WANTS, bounds(max="1Gi")).put(bounds(max="128Mi"), ago=5),
)


def level(name: str | None) -> dict:
    labels = {"pod-security.kubernetes.io/enforce": name} if name else {}
    return obj("v1", "Namespace", "shop", meta={"labels": labels})


VIOLATES = 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
SECURITY = Cases(rules.pod_security_rejects)
SECURITY.find(
    refused(level(None), message=VIOLATES).put(level("restricted"), ago=60), "Namespace/shop", "Namespace/shop"
)
SECURITY.find(refused(level("restricted"), message=VIOLATES), "Namespace/shop")
SECURITY.quiet(
    refused(level("restricted"), message=VIOLATES, have=1),
    World(CART, level(None)).put(level("restricted"), ago=60),
    refused(level("restricted"), message=EXCEEDED),
)

CASES = [BLOCKS, REWRITES, REJECTS, RANGE, SECURITY]

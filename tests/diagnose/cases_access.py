"""Cases of the checks of rights, and of objects that cannot go."""

from __future__ import annotations

from diagnose.checks import access as rules
from tests.diagnose.cases import Cases
from tests.diagnose.kit import deployment, pod, replica_set
from tests.diagnose.world import World, obj

RBAC = "rbac.authorization.k8s.io/v1"
USER = deployment(spec={"serviceAccountName": "cart"})
ACCOUNT = obj("v1", "ServiceAccount", "cart")


def role(*verbs: str, name: str = "reader") -> dict:
    return obj(RBAC, "Role", name, rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": [*verbs]}])


def binding(name: str = "reader", *accounts: str) -> dict:
    subjects = [{"kind": "ServiceAccount", "name": each, "namespace": "shop"} for each in accounts or ("cart",)]
    return obj(RBAC, "RoleBinding", name, subjects=subjects, roleRef={"kind": "Role", "name": "reader"})


def held(seconds: float | None, finalizer: str = "holds.example/release") -> World:
    """A ConfigMap on its way out that a finalizer holds."""
    meta = {"finalizers": [finalizer]}
    going = {"deletionTimestamp": "1970-01-01T02:46:00Z"}
    return World(obj("v1", "ConfigMap", "hold", meta=meta)).put(
        obj("v1", "ConfigMap", "hold", meta=meta | going), seconds
    )


FULL, LESS = role("get", "watch", "update"), role("get", "watch")
LOST = Cases(rules.permission_lost)
LOST.find(World(USER, ACCOUNT, FULL, binding()).remove(binding(), ago=60), "RoleBinding/reader", "RoleBinding/reader")
LOST.find(
    World(USER, ACCOUNT, FULL, binding()).put(binding("reader", "other"), ago=60).heard(USER, "Failed", "is forbidden"),
    "RoleBinding/reader", "RoleBinding/reader",
)  # fmt: skip
stuck = held(30)
for one in (FULL, binding("reader", "releaser")):
    stuck.put(one)
LOST.find(stuck.put(LESS, ago=60), "Role/reader", "Role/reader")
crashing = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
made = replica_set(USER)
LOST.find(
    World(USER, made, pod(made, status=crashing), ACCOUNT, FULL, binding()).put(LESS, ago=60),
    "Role/reader",
    "Role/reader",
)
LOST.quiet(
    World(USER, ACCOUNT, FULL, binding(), binding("same")).remove(binding(), ago=60),
    World(ACCOUNT, FULL, binding()).remove(binding(), ago=60),
    World(USER, ACCOUNT, FULL, binding()).put(LESS, ago=60),
    World(USER, ACCOUNT, FULL, binding()).remove(binding(), ago=5),
    World(USER, ACCOUNT, LESS, binding()).put(FULL, ago=60),
)

STUCK = Cases(rules.stuck_terminating)
STUCK.find(held(60), "ConfigMap/hold")
STUCK.quiet(
    held(15),
    held(60, "kubernetes.io/pvc-protection"),
    World(obj("v1", "ConfigMap", "hold", meta={"finalizers": ["holds.example/release"]})),
    World(obj("v1", "ConfigMap", "hold", meta={"deletionTimestamp": "1970-01-01T00:00:00Z"})),
)

CASES = [LOST, STUCK]

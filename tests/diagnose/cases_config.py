"""Cases of the checks of what pods are given."""

from __future__ import annotations

from diagnose.checks import config as rules
from tests.diagnose.cases import Cases
from tests.diagnose.kit import container, deployment, pod, replica_set
from tests.diagnose.world import World, obj


def needs(*env: dict, **spec) -> dict:
    return deployment(spec={"containers": [container(env=[*env])]} | spec)


def key(name: str = "tax", of: str = "conf", **more) -> dict:
    return {"name": name.upper(), "valueFrom": {"configMapKeyRef": {"name": of, "key": name} | more}}


def conf(**data) -> dict:
    return obj("v1", "ConfigMap", "conf", data=data)


BOTH = conf(tax="eu", mode="a")
ACCOUNT = obj("v1", "ServiceAccount", "cart")
CLAIM = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
MISSING = Cases(rules.reference_missing)
MISSING.find(World(needs(key()), BOTH).put(conf(mode="a"), ago=60), "ConfigMap/conf", "ConfigMap/conf")
MISSING.find(World(needs(key()), BOTH).remove(BOTH, ago=60), "ConfigMap/conf", "ConfigMap/conf")
MISSING.find(World(needs(key("mode")), BOTH).put(needs(key("rate")), ago=60), "Deployment/cart", "Deployment/cart")
MISSING.find(
    World(needs(serviceAccountName="cart"), ACCOUNT).remove(ACCOUNT, ago=60), "ServiceAccount/cart",
    "ServiceAccount/cart",
)  # fmt: skip
MISSING.find(World(needs(**CLAIM)), "Deployment/cart")
MISSING.find(World(needs(priorityClassName="core")), "Deployment/cart")
MISSING.find(
    World(obj("apps/v1", "DaemonSet", "agent", spec={"template": needs(key())["spec"]["template"]})), "DaemonSet/agent"
)
MISSING.quiet(
    World(needs(key()), BOTH),
    World(needs(key(optional=True))),
    World(needs(key()), BOTH).put(conf(mode="a"), ago=5),
    World().put(needs(key()), ago=5),
    World(needs(key()), unwatched=("core/ConfigMap",)),
    World(deployment(replicas=0, spec={"containers": [container(env=[key()])]})),
    World(needs(key()), obj("v1", "ConfigMap", "conf", binaryData={"tax": "AA=="})),
    World(obj("batch/v1", "CronJob", "night", spec={"suspend": True, "jobTemplate": {"spec": needs(key())["spec"]}})),
)

ONE, TWO = {"name": "CACHE", "value": "cache:1"}, {"name": "CACHE", "value": "cache:2"}
SHADOW = Cases(rules.env_shadowed)
SHADOW.find(World(needs(ONE)).put(needs(ONE, TWO), ago=60), "Deployment/cart", "Deployment/cart")
SHADOW.find(
    World(needs(ONE)).put(needs(ONE, key("x") | {"name": "CACHE"}), ago=3), "Deployment/cart", "Deployment/cart"
)
SHADOW.quiet(
    World(needs(ONE, TWO)),
    World(needs(ONE)).put(needs(ONE, ONE), ago=60),
    World(needs(ONE)).put(needs(ONE, TWO | {"name": "cache"}), ago=60),
    World(needs(ONE)).put(needs(TWO), ago=60),
)

PASSWORD = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def secret(password: str, other: str = "x") -> dict:
    return obj("v1", "Secret", "db", data={"password": password, "other": other})


def reader(name: str, *env: dict) -> list[dict]:
    of = deployment(name, spec={"containers": [container(env=[*env])]})
    made = replica_set(of)
    return [of, made, pod(made)]


def rotated(*, fresh: float | None, ago: float = 60, **more: str) -> World:
    """Two readers of a Secret that changed; one was restarted, the other was not."""
    told = World(*reader("checkout", PASSWORD), *reader("inventory", PASSWORD)[:2], secret("a"))
    told.put(secret(more.get("password", "b"), more.get("other", "x")), ago)
    return told.put(reader("inventory", PASSWORD)[2], fresh)


STALE = Cases(rules.credential_changed_under_pod)
STALE.find(rotated(fresh=40), "Secret/db", "Secret/db")
STALE.find(rotated(fresh=None, ago=400).remove(reader("inventory", PASSWORD)[2], ago=399), "Secret/db", "Secret/db")
FILE = deployment("checkout", spec={"volumes": [{"name": "v", "secret": {"secretName": "db"}}]})
mounted = World(FILE, replica_set(FILE), pod(replica_set(FILE)), *reader("inventory", PASSWORD)[:2], secret("a"))
all_done = rotated(fresh=40)
all_done.remove(reader("checkout", PASSWORD)[2], ago=35).put(reader("checkout", PASSWORD)[2], ago=30)
STALE.quiet(
    rotated(fresh=None),  # nobody has restarted anything yet
    all_done,
    rotated(fresh=40, password="a", other="y"),
    mounted.put(secret("b"), ago=60).put(reader("inventory", PASSWORD)[2], ago=40),
)

CASES = [MISSING, SHADOW, STALE]

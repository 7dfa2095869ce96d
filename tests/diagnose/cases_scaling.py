"""Cases of the checks of how many there are, and how they come and go."""

from __future__ import annotations

from diagnose.checks import scaling as rules
from tests.diagnose.cases import Cases
from tests.diagnose.kit import container, deployment, pod, replica_set
from tests.diagnose.world import World, obj, owned


def rolling(
    most: object, *, count: int = 2, have: int = 0, kind: str = "RollingUpdate", image: str = "shop/cart:1"
) -> dict:
    strategy = {"type": kind} | ({"rollingUpdate": {"maxUnavailable": most}} if kind == "RollingUpdate" else {})
    told = deployment(replicas=count, spec={"containers": [container(image=image)]}, strategy=strategy)
    return told | {"status": {"availableReplicas": have} if have else {}}


def rolled(was: dict, now: dict, ago: float = 60) -> World:
    made = replica_set(now)
    return World(was).put(now, ago).put(made, ago - 1).put(pod(made, ready=False), ago - 1)


ALL_DOWN = Cases(rules.rollout_takes_all_down)
ALL_DOWN.find(
    rolled(rolling("25%", have=2), rolling("100%", image="shop/cart:2")), "Deployment/cart", "Deployment/cart"
)
ALL_DOWN.find(rolled(rolling(1, have=2), rolling(2, image="shop/cart:2")), "Deployment/cart", "Deployment/cart")
ALL_DOWN.find(
    rolled(rolling(1, have=2), rolling(None, kind="Recreate", image="shop/cart:2")),
    "Deployment/cart",
    "Deployment/cart",
)
ALL_DOWN.quiet(
    rolled(rolling("25%", have=2), rolling("25%", image="shop/cart:2")),
    rolled(rolling("100%", have=2), rolling("100%", have=1, image="shop/cart:2")),
    rolled(rolling("100%", have=2), rolling("100%", image="shop/cart:2"), ago=5),
    rolled(rolling(None, have=1, kind="Recreate"), rolling(None, kind="Recreate", image="shop/cart:2")),
    rolled(rolling(1, count=1, have=1), rolling(1, count=1, image="shop/cart:2")),
)

DONE = {"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": "1970-01-01T02:45:40Z"}}}
LATE = {"name": "main", "state": {"terminated": {"exitCode": 0, "finishedAt": "1970-01-01T02:46:30Z"}}}
RUNS = {"name": "relay", "state": {"running": {}}}


def night(*more: dict) -> dict:
    template = {"metadata": {"labels": {}}, "spec": {"containers": [container(), *more]}}
    return obj("batch/v1", "CronJob", "night", spec={"jobTemplate": {"spec": {"template": template}}})


def job(cron: dict, *statuses: dict, was: dict | None = None) -> World:
    told = World()
    if was:
        told.put(was)
    told.put(cron, 90 if was else None)
    made = obj(
        "batch/v1", "Job", "night-1", meta=owned(cron), spec=cron["spec"]["jobTemplate"]["spec"], status={"active": 1}
    )
    return told.put(made, 80).put(pod(made, ready=False, status={"containerStatuses": [*statuses]}), 80)


HELD = Cases(rules.job_held_by_sidecar)
HELD.find(job(night(container("relay")), DONE, RUNS, was=night()), "CronJob/night", "CronJob/night")
HELD.find(job(night(container("relay")), DONE, RUNS), "CronJob/night")
HELD.quiet(
    job(night(), DONE),
    job(night(container("relay")), LATE, RUNS, was=night()),
    job(night(container("relay")), {"name": "main", "state": {"running": {}}}, RUNS, was=night()),
    job(night(container("relay")), {"name": "main", "state": {"terminated": {"exitCode": 1}}}, RUNS, was=night()),
)

LIMITED = [{"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas"}]
INACTIVE = [{"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric"}]


def scaler(
    most: int = 6, ran: int = 4, conditions: list | None = None, target: str = "cart", kind: str = "Deployment"
) -> dict:
    api = "apps/v1" if kind == "Deployment" else "example.com/v1"
    spec = {"scaleTargetRef": {"apiVersion": api, "kind": kind, "name": target}, "maxReplicas": most, "metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]}  # fmt: skip
    status = {"currentReplicas": ran, "desiredReplicas": ran, "conditions": conditions or []}
    return obj("autoscaling/v2", "HorizontalPodAutoscaler", "cart", spec=spec, status=status)


def asks(cpu: str | None) -> dict:
    return deployment(spec={"containers": [container(resources={"requests": {"cpu": cpu} if cpu else {}})]})


SCALER = Cases(rules.autoscaler_cannot_act)
SCALER.find(
    World(asks("1"), scaler()).put(scaler(1, 1, LIMITED), ago=60), "HorizontalPodAutoscaler/cart",
    "HorizontalPodAutoscaler/cart",
)  # fmt: skip
SCALER.find(World(scaler(target="kart")), "HorizontalPodAutoscaler/cart")
SCALER.find(
    World(asks("1"), scaler(conditions=INACTIVE)).put(asks(None), ago=60), "HorizontalPodAutoscaler/cart",
    "Deployment/cart",
)  # fmt: skip
SCALER.quiet(
    World(asks("1"), scaler(6, 2)).put(scaler(3, 2), ago=60),
    World(asks("1"), scaler()).put(scaler(1, 1), ago=60),
    World(asks("1"), scaler()).put(scaler(1, 1, LIMITED), ago=5),
    World(scaler(target="x", kind="Runner")),
    World(asks(None), scaler()),
)


def budget(needed: int) -> dict:
    return obj("policy/v1", "PodDisruptionBudget", "cart", spec={"selector": {"matchLabels": {"app": "cart"}}},
               status={"expectedPods": 2, "desiredHealthy": needed, "disruptionsAllowed": 0})  # fmt: skip


def node(*, cordoned: bool = False, **conditions: str) -> dict:
    told = [{"type": name, "status": status} for name, status in conditions.items()]
    return obj("v1", "Node", "n1", spec={"unschedulable": True} if cordoned else {}, status={"conditions": told})


TWO = deployment(replicas=2)
PODS = [TWO, replica_set(TWO), pod(replica_set(TWO)), pod(replica_set(TWO), 2)]
BUDGET = Cases(rules.disruption_budget_blocks)
BUDGET.find(World(*PODS, node(), budget(2)).put(node(cordoned=True), ago=90), "PodDisruptionBudget/cart")
BUDGET.quiet(
    World(*PODS, node(), budget(2)),
    World(*PODS, node(), budget(1)).put(node(cordoned=True), ago=90),
    World(*PODS, node(), budget(2)).put(node(cordoned=True), ago=30),
)

NODE = Cases(rules.node_unhealthy)
NODE.find(World(node(Ready="True")).put(node(Ready="Unknown"), ago=60), "Node/n1", "Node/n1")
NODE.find(World(node(Ready="True", MemoryPressure="True")), "Node/n1")
NODE.quiet(
    World(node(Ready="True", MemoryPressure="False", KernelDeadlock="True")),
    World(node(Ready="True")).put(node(Ready="False"), ago=5),
    World(node(cordoned=True, Ready="False")),
    World(node()),
)

CASES = [ALL_DOWN, HELD, SCALER, BUDGET, NODE]

"""Cases of the checks of pods that have no place."""

from __future__ import annotations

from diagnose.checks import scheduling as rules
from tests.diagnose.cases import Cases
from tests.diagnose.kit import container, deployment, pod, replica_set
from tests.diagnose.world import World, obj

ROOM = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
REFUSED = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}],
}


def node(name: str = "n1", labels: dict | None = None, **spec) -> dict:
    return obj(
        "v1", "Node", name, meta={"labels": {"kubernetes.io/hostname": name} | (labels or {})}, spec=spec, status=ROOM
    )


def pending(of: dict, *nodes: dict, was: dict | None = None, born: float | None = 60, ago: float = 61) -> World:
    told = World(*nodes)
    if was:
        told.put(was)
    told.put(of, ago if was else None)
    made = replica_set(of)
    one = pod(made, status=REFUSED)
    del one["spec"]["nodeName"]
    return told.put(made).put(one, born)


def with_(**spec) -> dict:
    return deployment(spec=spec)


def asks(cpu: str) -> dict:
    return with_(containers=[container(resources={"requests": {"cpu": cpu}})])


PLAIN, PINNED = deployment(), with_(nodeSelector={"pool": "gpu"})
NONE = Cases(rules.pending_no_matching_node)
NONE.find(pending(PINNED, node(), was=PLAIN), "Deployment/cart", "Deployment/cart")
NONE.find(pending(PINNED, node(labels={"pool": "gpu"})).put(node(), ago=70), "Deployment/cart", "Node/n1")
NONE.find(pending(asks("64"), node(), was=asks("1")), "Deployment/cart", "Deployment/cart")
full = pending(asks("3"), node())
NONE.find(full.put(pod(asks("3"), 9)), "Deployment/cart")
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]}}}  # fmt: skip
NONE.find(pending(with_(affinity=AFFINITY), node(), was=PLAIN), "Deployment/cart", "Deployment/cart")
NONE.quiet(
    pending(PINNED, node(), was=PLAIN, born=5),
    pending(PINNED, node(labels={"pool": "gpu"}, taints=[{"key": "x", "effect": "NoSchedule"}])),
    pending(PINNED),  # no node was recorded
    World(node(), *[PLAIN, replica_set(PLAIN), pod(replica_set(PLAIN))]),
    pending(with_(nodeSelector={"pool": "gpu"}, schedulingGates=[{"name": "wait"}]), node()),
)

TAINT = {"key": "maintenance", "value": "disk", "effect": "NoExecute"}
CLAIM = obj("v1", "PersistentVolumeClaim", "data", spec={"volumeName": "v", "accessModes": ["ReadWriteOnce"]})
MOUNTS = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}


def volume(*nodes: str) -> dict:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}]}]
    return obj("v1", "PersistentVolume", "v", spec={"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}})


STORED = with_(**MOUNTS)
REPELS = Cases(rules.taint_repels)
REPELS.find(
    pending(STORED, node(), node("n2"), CLAIM, volume("n1")).put(node(taints=[TAINT]), ago=70), "Node/n1", "Node/n1"
)
REPELS.find(pending(PLAIN, node()).put(node(unschedulable=True), ago=70), "Node/n1", "Node/n1")
TOLERANT = with_(tolerations=[{"key": "maintenance", "operator": "Exists"}])
REPELS.find(pending(PLAIN, node(taints=[TAINT]), was=TOLERANT), "Deployment/cart", "Deployment/cart")
REPELS.quiet(
    pending(PLAIN, node(taints=[TAINT])),  # kept for others, as ever
    pending(TOLERANT, node()).put(node(taints=[TAINT]), ago=70),
    pending(PINNED, node()).put(node(taints=[TAINT]), ago=70),
    pending(PLAIN, node(), born=5).put(node(taints=[TAINT]), ago=70),
)

FAST = with_(nodeSelector={"disk": "fast"}, **MOUNTS)
AWAY = Cases(rules.volume_elsewhere)
AWAY.find(
    pending(FAST, node(), node("n2", {"disk": "fast"}), CLAIM, volume("n1"), was=STORED), "Deployment/cart",
    "Deployment/cart",
)  # fmt: skip
AWAY.find(pending(STORED, node(), node("n2"), CLAIM, volume("n1")).remove(node(), ago=70), "Node/n1", "Node/n1")
AWAY.quiet(
    pending(STORED, node(), node("n2"), CLAIM, volume("n1")).put(node(taints=[TAINT]), ago=70),
    pending(FAST, node(), obj("v1", "PersistentVolumeClaim", "data", spec={"accessModes": ["ReadWriteOnce"]})),
    pending(FAST, node(), node("n2", {"disk": "fast"}), CLAIM, volume("n1"), was=STORED, born=5),
)

APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "cart"}}}]}}  # fmt: skip


def shared(count: int = 2, **spec) -> dict:
    return deployment(replicas=count, spec=MOUNTS | spec)


MANY = obj("v1", "PersistentVolumeClaim", "data", spec={"accessModes": ["ReadWriteMany"]})
SHARED = Cases(rules.claim_shared)
SHARED.find(World(CLAIM, shared()).put(shared(affinity=APART), ago=60), "Deployment/cart", "Deployment/cart")
SHARED.find(World(CLAIM, shared(affinity=APART)), "Deployment/cart")
ALONE = obj("v1", "PersistentVolumeClaim", "data", spec={"accessModes": ["ReadWriteOncePod"]})
SHARED.find(World(ALONE, shared(1)).put(shared(), ago=60), "Deployment/cart", "Deployment/cart")
SHARED.quiet(
    World(CLAIM, shared()),
    World(MANY, shared(affinity=APART)),
    World(CLAIM, shared(1, affinity=APART)),
    World(CLAIM, shared()).put(shared(affinity=APART), ago=5),
)


def evicted(*, short: bool = True, **spec) -> World:
    """cart's pod was evicted for one of another Deployment, which came with a new priority."""
    of = deployment() | {"status": {} if short else {"availableReplicas": 1}}
    made, winner = replica_set(of), deployment("mining", spec=spec or {"priorityClassName": "burst"})
    over = replica_set(winner)
    old = pod(made)
    told = World(of, made, old).put(obj("scheduling.k8s.io/v1", "PriorityClass", "burst", value=1000), ago=62)
    told.put(winner, ago=61).put(over, ago=60).put(pod(over), ago=60).remove(old, ago=60)
    uid = pod(over)["metadata"]["uid"]
    return told.heard(old, "Preempted", f"Preempted by pod {uid} on node n1", ago=60.5, severity="Normal")


PREEMPTED = Cases(rules.preempted)
PREEMPTED.find(evicted(), "Deployment/mining", "Deployment/mining")
PREEMPTED.quiet(
    evicted(short=False),
    pending(PINNED, node(), was=PLAIN),
    World(deployment(replicas=0)),
)


def taken(port: int = 9100) -> dict:
    return with_(containers=[container(ports=[{"containerPort": 1, "hostPort": port}])])


PORT = Cases(rules.host_port_collision)
PORT.find(pending(taken(), node(), was=taken(9101)).put(pod(taken(), 9)), "Deployment/cart", "Deployment/cart")
PORT.quiet(
    pending(taken(), node(), node("n2")).put(pod(taken(), 9)),
    pending(taken(), node(), was=taken(9101), born=5).put(pod(taken(), 9)),
    pending(PINNED, node()).put(pod(taken(), 9)),
)

CASES = [NONE, REPELS, AWAY, SHARED, PREEMPTED, PORT]

"""Cases of the checks of whom a workload calls, and whether it can."""

from __future__ import annotations

from diagnose.checks import calls, policies
from tests.diagnose.cases import Cases
from tests.diagnose.kit import container, deployment, pod, replica_set, running, service
from tests.diagnose.world import World, obj

SHORT = {"status": {"availableReplicas": 0}}


def caller(address: str = "cart:80", *, field: str = "CART_ADDR", **spec) -> dict:
    return deployment("web", spec={"containers": [container(env=[{"name": field, "value": address}])]} | spec)


def conf(address: str) -> dict:
    return obj("v1", "ConfigMap", "conf", data={"CART_ADDR": address})


READER = deployment("web", spec={"containers": [container(envFrom=[{"configMapRef": {"name": "conf"}}])]})
WELL = {"status": {"availableReplicas": 1}}
PORT = Cases(calls.address_names_wrong_port)
PORT.find(World(service(), caller()).put(caller("cart:81"), ago=60), "Deployment/web", "Deployment/web")
PORT.find(World(service(), READER, conf("cart:80")).put(conf("cart:81"), ago=60), "ConfigMap/conf", "ConfigMap/conf")
PORT.find(World(service(), caller("cart:81") | SHORT), "Deployment/web")
MOVED = [{"name": "http", "port": 8080, "protocol": "TCP", "targetPort": "http"}]
PORT.find(World(service(), caller() | WELL).put(service(ports=MOVED), ago=60), "Service/cart", "Service/cart")
PORT.quiet(
    World(service(), caller()),
    World(service(), caller("cart:81") | WELL),
    World(service(clusterIP="None"), caller()).put(caller("cart:81"), ago=60),
    World(service(), caller()).put(caller("example.com:81"), ago=60),
)

NOWHERE = Cases(calls.address_names_no_service)
FULL = "cart.shop.svc.cluster.local:80"
NOWHERE.find(
    World(service(), caller(FULL)).put(caller(FULL.replace("cart", "kart")), ago=60), "Deployment/web", "Deployment/web"
)
NOWHERE.find(World(service(), caller("cart:80")).put(caller("kart:80"), ago=60), "Deployment/web", "Deployment/web")
NOWHERE.find(World(service(), caller("cart:80")).remove(service(), ago=60), "Service/cart", "Service/cart")
NOWHERE.find(World(caller(FULL) | SHORT), "Deployment/web")
NOWHERE.quiet(
    World(service(), caller(FULL)),
    World(caller(FULL) | WELL),  # of old: not every address is dialled
    World(caller("db.example.com:5432")).put(caller("db2.example.com:5432"), ago=60),
    World(service(), caller("cart:80")).remove(service(), ago=5),
    World(caller("kart:80") | SHORT),
)

ZERO = Cases(calls.scaled_to_zero)
IDLE = deployment(replicas=0)
ZERO.find(World(service(), deployment(), caller()).put(IDLE, ago=60), "Deployment/cart", "Deployment/cart")
PATH = {"path": "/", "backend": {"service": {"name": "cart", "port": {"number": 80}}}}
FRONT = obj("networking.k8s.io/v1", "Ingress", "front", spec={"rules": [{"http": {"paths": [PATH]}}]})
ZERO.find(World(service(), deployment(), FRONT).put(IDLE, ago=60), "Deployment/cart", "Deployment/cart")
SCALER = obj("autoscaling/v2", "HorizontalPodAutoscaler", "cart",
             spec={"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"}})  # fmt: skip
ZERO.quiet(
    World(service(), deployment()).put(IDLE, ago=60),
    World(service(), caller(), IDLE),
    World(service(), deployment(), caller()).put(IDLE, ago=5),
    World(service(), deployment(), caller(), SCALER).put(IDLE, ago=60),
    World(service(), deployment(), caller(), *running(deployment("green", labels={"app": "cart"}))).put(IDLE, ago=60),
)


def placed(*, near: str = "n1", far: str = "n2", ago: float = 60, called: bool = True) -> World:
    """A Service whose pod is on one node, a caller whose pod is on another, and a policy that became Local."""
    cart, web = deployment(), caller() if called else deployment("web")
    world = World(cart, replica_set(cart), pod(replica_set(cart)) | {}, service())
    made = replica_set(web)
    world.put(web).put(made).put(pod(made, nodeName=far))
    world.put(pod(replica_set(cart), nodeName=near))
    return world.put(service(internalTrafficPolicy="Local"), ago)


LOCAL = Cases(calls.traffic_policy_misses_callers)
LOCAL.find(placed(), "Service/cart", "Service/cart")
LOCAL.quiet(
    placed(far="n1"), placed(ago=5), placed(called=False), World(service(), *running(deployment()), *running(caller()))
)

FIXED = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53"]}}
DNS = obj("v1", "Service", "kube-dns", ns="kube-system", spec={"clusterIP": "10.96.0.10", "ports": [{"port": 53}]})
OURS = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.96.0.10"]}}
BYPASS = Cases(calls.dns_policy_bypasses_cluster)
BYPASS.find(World(service(), DNS, caller()).put(caller(**FIXED), ago=60), "Deployment/web", "Deployment/web")
BYPASS.find(
    World(service(), DNS, caller()).put(caller(dnsPolicy="Default"), ago=60), "Deployment/web", "Deployment/web"
)
BYPASS.quiet(
    World(service(), DNS, caller()).put(caller(**OURS), ago=60),
    World(service(), DNS, caller("example.com:80")).put(caller("example.com:80", **FIXED), ago=60),
    World(service(), DNS, caller(**FIXED) | WELL),
    World(service(), DNS, caller()).put(caller(dnsPolicy="ClusterFirst"), ago=60),
)


def policy(name: str = "gate", app: str = "cart", **spec) -> dict:
    told = {"podSelector": {"matchLabels": {"app": app}}} | spec
    return obj("networking.k8s.io/v1", "NetworkPolicy", name, spec=told)


def peers(app: str, port: object = 8080) -> list:
    return [{"from": [{"podSelector": {"matchLabels": {"app": app}}}], "ports": [{"port": port, "protocol": "TCP"}]}]


RESOLVER = obj(
    "v1", "Pod", "dns", ns="kube-system", meta={"labels": {"k8s-app": "kube-dns"}}, status={"phase": "Running"}
)
SPACES = [obj("v1", "Namespace", name) for name in ("shop", "kube-system")]
BOTH = [service(), *running(deployment()), *running(caller()), RESOLVER, *SPACES]
NAMES = {"to": [{"namespaceSelector": {}}], "ports": [{"port": 53, "protocol": "UDP"}]}
OPEN, SHUT = (policy(ingress=peers(app), policyTypes=["Ingress"]) for app in ("web", "nobody"))
TO_CART = {"to": [{"podSelector": {"matchLabels": {"app": "cart"}}}]}
CUT = Cases(policies.network_policy_isolates)
CUT.find(World(*BOTH, OPEN).put(SHUT, ago=60), "NetworkPolicy/gate", "NetworkPolicy/gate")
CUT.find(World(*BOTH).put(policy(policyTypes=["Ingress"]), ago=60), "NetworkPolicy/gate", "NetworkPolicy/gate")
CUT.find(
    World(*BOTH, OPEN).put(policy(ingress=peers("web", 9), policyTypes=["Ingress"]), ago=60),
    "NetworkPolicy/gate",
    "NetworkPolicy/gate",
)
CUT.find(
    World(*BOTH).put(policy(app="web", egress=[NAMES], policyTypes=["Egress"]), ago=60),
    "NetworkPolicy/gate",
    "NetworkPolicy/gate",
)
CUT.find(
    World(*BOTH).put(policy(app="web", egress=[TO_CART], policyTypes=["Egress"]), ago=60),
    "NetworkPolicy/gate",
    "NetworkPolicy/gate",
)
DENY = policy("deny", policyTypes=["Ingress"])
CUT.find(World(*BOTH, DENY, OPEN).remove(OPEN, ago=60), "NetworkPolicy/gate", "NetworkPolicy/gate")
CUT.quiet(
    World(*BOTH).put(OPEN, ago=60),
    World(*BOTH, OPEN).put(DENY, ago=60),  # they add up
    World(*BOTH, SHUT),
    World(*BOTH, OPEN).put(SHUT, ago=5),
    World(*BOTH).put(policy(app="web", egress=[NAMES, TO_CART], policyTypes=["Egress"]), ago=60),
    World(*BOTH).put(policy(ingress=peers("web", "http"), policyTypes=["Ingress"]), ago=60),
    World(*BOTH).put(policy(app="cart", policyTypes=["Egress"]), ago=60),  # it calls nobody
)

CASES = [PORT, NOWHERE, ZERO, LOCAL, BYPASS, CUT]

"""Cases of the checks of containers."""

from __future__ import annotations

from diagnose.checks import containers as rules
from tests.diagnose.cases import Cases
from tests.diagnose.kit import container, deployment, pod, replica_set, service
from tests.diagnose.world import World, obj, owned


def world(of: dict, *, was: dict | None = None, ago: float = 60, status: dict | None = None, ready: bool = False,
          born: float | None = 55, **more) -> tuple[World, dict]:  # fmt: skip
    """A workload that was `was` and became `of` so long ago, with a pod of it in some status."""
    told = World()
    if was is not None:
        told.put(was)
    told.put(of, None if was is None else ago)
    made = replica_set(of)
    told.put(made)
    one = pod(made, ready=ready, status=status, **more)
    told.put(one, born)
    return told, one


def waits(reason: str, message: str = "", name: str = "main", last: dict | None = None) -> dict:
    told = {"name": name, "state": {"waiting": {"reason": reason, "message": message}}, "lastState": last or {}}
    return {"containerStatuses": [told]}


def with_(**body) -> dict:
    return deployment(spec={"containers": [container(**body)]})


OLD, NEW = deployment(), with_(image="shop/cart:2")
IMAGE = Cases(rules.image_cannot_be_pulled)
IMAGE.find(world(NEW, was=OLD, status=waits("ImagePullBackOff"))[0], "Deployment/cart", "Deployment/cart")
IMAGE.find(world(NEW, status=waits("InvalidImageName"))[0], "Deployment/cart")
IMAGE.find(
    World(pod(deployment(), status=waits("ErrImagePull")) | {"metadata": {"name": "alone", "namespace": "shop"}}),
    "Pod/alone",
)
IMAGE.quiet(
    world(NEW, was=OLD, status=waits("ErrImagePull"), born=5)[0],
    world(NEW, was=OLD, status=waits("ContainerCreating"))[0],
    world(NEW, was=OLD, status=waits("CrashLoopBackOff"))[0],
    world(NEW, was=OLD, status=waits("ImagePullBackOff") | {"phase": "Failed"})[0],
)

COMMAND = with_(command=["/nowhere"])
START = Cases(rules.container_cannot_start)
START.find(
    world(COMMAND, was=OLD, status=waits("RunContainerError", "executable file not found"))[0], "Deployment/cart",
    "Deployment/cart",
)  # fmt: skip
START.find(world(OLD, status=waits("SomethingNobodyKnows"))[0], "Deployment/cart")
START.quiet(
    world(COMMAND, was=OLD, status=waits("RunContainerError"), born=5)[0],
    world(OLD, status=waits("PodInitializing"))[0],
    world(OLD, status=waits("CreateContainerConfigError", "couldn't find key x in ConfigMap shop/y"))[0],
    world(OLD, status=waits("CreateContainerConfigError", 'secret "x" not found'))[0],
)

KILLED = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
ROOMY, TIGHT = (with_(resources={"limits": {"memory": size}}) for size in ("512Mi", "64Mi"))
MEMORY = Cases(rules.out_of_memory)
MEMORY.find(
    world(TIGHT, was=ROOMY, status=waits("CrashLoopBackOff", last=KILLED))[0], "Deployment/cart", "Deployment/cart"
)
MEMORY.find(world(TIGHT, status=waits("CrashLoopBackOff", last=KILLED))[0], "Deployment/cart")
calm = {"containerStatuses": [{"name": "main", "state": {"running": {}}, "lastState": KILLED}]}
again, one = world(
    TIGHT, was=ROOMY, status={"containerStatuses": [{"name": "main", "state": {"running": {}}}]}, ready=True
)
again.put(one | {"status": one["status"] | calm}, ago=20)
MEMORY.find(again, "Deployment/cart", "Deployment/cart")  # it runs again, and will be killed again
FLOOD = obj(
    "batch/v1",
    "Job",
    "flood",
    spec=deployment(spec={"containers": [container(env=[{"name": "CART_ADDR", "value": "cart:80"}])]})["spec"],
)
flooded, _ = world(TIGHT, status=waits("CrashLoopBackOff", last=KILLED))
MEMORY.find(flooded.put(service()).put(FLOOD, ago=90), "Deployment/cart", "Job/flood")
MEMORY.quiet(
    world(TIGHT, status=calm, ready=True, born=None)[0],  # of old
    world(TIGHT, status=waits("CrashLoopBackOff", last={"terminated": {"reason": "Error", "exitCode": 1}}))[0],
    world(TIGHT, status=waits("CrashLoopBackOff", last=KILLED),
          containers=[container(resources={"limits": {"memory": "8Mi"}})])[0],
)  # fmt: skip

FAILED = {"terminated": {"reason": "Error", "exitCode": 2}}
CRASHING = waits("CrashLoopBackOff", last=FAILED)
BAD = with_(args=["--prot=1"])
READS = deployment(spec={"containers": [container(envFrom=[{"configMapRef": {"name": "conf"}}])]})
CONF = obj("v1", "ConfigMap", "conf", data={"mode": "fast"})
CRASH = Cases(rules.crash_loop)
CRASH.find(world(BAD, was=OLD, status=CRASHING)[0], "Deployment/cart", "Deployment/cart")
CRASH.find(
    world(READS, status=CRASHING)[0].put(CONF).put(CONF | {"data": {"mode": "fsat"}}, ago=70), "Deployment/cart",
    "ConfigMap/conf",
)  # fmt: skip
CRASH.find(world(OLD, status=CRASHING)[0], "Deployment/cart")
CRASH.quiet(
    world(OLD, status={"containerStatuses": [{"name": "main", "state": {"running": {}}, "lastState": FAILED}]})[0],
    world(TIGHT, status=waits("CrashLoopBackOff", last=KILLED))[0],
    world(OLD, status=waits("ImagePullBackOff"))[0],
)
probed, one = world(OLD, status=CRASHING)
CRASH.quiet(probed.heard(one, "Unhealthy", "Liveness probe failed: connection refused"))

SOUND, WRONG = (with_(readinessProbe={"httpGet": {"port": port}}) for port in (8080, 8081))
ALIVE = with_(livenessProbe={"tcpSocket": {"port": 9}})
REFUSED = "Readiness probe failed: connection refused"
PROBE = Cases(rules.probe_fails)


def unhealthy(of: dict, message: str = REFUSED, *, times: int = 3, first: float = 30, **body) -> World:
    told, one = world(of, **body)
    return told.heard(one, "Unhealthy", message, times=times, first=first)


PROBE.find(unhealthy(WRONG, was=SOUND), "Deployment/cart", "Deployment/cart")
PROBE.find(unhealthy(WRONG, first=90), "Deployment/cart")
killed, one = world(ALIVE, was=OLD, ready=True)
killed.heard(one, "Unhealthy", "Liveness probe failed: refused").heard(one, "Killing", "will be restarted")
PROBE.find(killed, "Deployment/cart", "Deployment/cart")
PROBE.quiet(
    unhealthy(WRONG, was=SOUND, ready=True),
    unhealthy(WRONG, was=SOUND, times=1),
    unhealthy(WRONG, first=30),  # untouched, and it may be a slow start
    unhealthy(WRONG, was=SOUND, first=5),
    world(WRONG, was=SOUND)[0],
)

WAITS = {"initContainers": [{"name": "fetch", "image": "tool:1"}]}
FETCH = deployment(spec=WAITS)
INIT_RUNS = {"initContainerStatuses": [{"name": "fetch", "state": {"running": {}}}]}
INIT = Cases(rules.init_never_ends)
INIT.find(world(FETCH, was=OLD, status=INIT_RUNS)[0], "Deployment/cart", "Deployment/cart")
INIT.find(world(FETCH, status=INIT_RUNS)[0], "Deployment/cart")
SIDECAR = {"initContainers": [{"name": "fetch", "image": "tool:1", "restartPolicy": "Always"}]}
beside, _ = world(FETCH, was=OLD, status=INIT_RUNS)
JOB = obj("batch/v1", "Job", "load", spec=FETCH["spec"])
INIT.quiet(
    beside.put(pod(replica_set(FETCH), 2)),  # another one serves, and this one may take its time
    world(FETCH, was=OLD, status=INIT_RUNS, born=5)[0],
    world(deployment(spec=SIDECAR), was=OLD, status=INIT_RUNS)[0],
    world(FETCH, was=OLD, status={"initContainerStatuses": [{"name": "fetch", "state": {"terminated": {}}}]})[0],
    World(JOB, pod(JOB, ready=False, status=INIT_RUNS) | {}, obj("v1", "Pod", "x", meta=owned(JOB))),
)

CASES = [IMAGE, START, MEMORY, CRASH, PROBE, INIT]

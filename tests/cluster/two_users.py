"""Two users and the controllers change a real cluster in every way that an audit log tells differently, recorded.

`python -m tests.cluster.two_users FOLDER` makes the recording and the audit log of `tests/audit` anew; the API server's
answers say who made which version, and that is the truth they are held against.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest

from schema import instants
from schema.records import Amend, Change
from tests.services.api import PATCHES, Api, ApiError, Object, Resource
from tests.services.clusters import own_cluster
from tests.services.control_plane import ControlPlane, Options

ALICE, BOB = "alice@example.org", "bob@example.org"
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap", True)
SECRET = Resource("", "v1", "secrets", "Secret", True)
POD = Resource("", "v1", "pods", "Pod", True)
NAMESPACE = Resource("", "v1", "namespaces", "Namespace", False)
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment", True)
REPLICA_SET = Resource("apps", "v1", "replicasets", "ReplicaSet", True)
WATCHED = (CONFIG_MAP, SECRET, POD, NAMESPACE, DEPLOYMENT, REPLICA_SET)
PLANTED = "hunter2-correct-horse"
"""Stands in Secrets, and in the query and program name of requests: nowhere else may it be found."""


class Recorder:
    """Lists and watches of some resources, as lines of a recording."""

    def __init__(self, api: Api) -> None:
        self.lines: list[Object] = [
            {
                "recording": 1,
                "cluster": "two-users",
                "server": "v1.36",
                "started": _now(),
                "resources": [
                    {
                        "group": one.group,
                        "version": one.version,
                        "resource": one.name,
                        "kind": one.kind,
                        "namespaced": one.namespaced,
                    }
                    for one in WATCHED
                ],
            }
        ]
        self._api = api
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._paused: set[str] = set()
        self._threads = [threading.Thread(target=self._watch, args=(one,)) for one in WATCHED]

    def __enter__(self) -> Recorder:
        self._listed = threading.Barrier(len(WATCHED) + 1)
        for one in self._threads:
            one.start()
        self._listed.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for one in self._threads:
            one.join()

    @contextmanager
    def blind(self, resource: Resource) -> Iterator[None]:
        """The watch of a resource is lost meanwhile."""
        self._paused.add(resource.name)
        time.sleep(2.5)  # A watch is asked for a second.
        self._tell(resource, type="GAP", reason="disconnect")
        yield
        self._paused.discard(resource.name)
        time.sleep(1)

    def _watch(self, resource: Resource) -> None:
        version, first = "", True
        while not self._ended.is_set():
            if resource.name in self._paused:
                version = ""
                time.sleep(0.1)
                continue
            if not version:
                found = self._api.request("GET", resource.path())
                version = found["metadata"]["resourceVersion"]
                self._tell(resource, type="LIST", rv=version, items=found["items"] or [])
                if first:
                    self._listed.wait(30)
                    first = False
            for line in self._api.follow(resource.path(), resourceVersion=version, timeoutSeconds="1"):
                version = line["object"]["metadata"]["resourceVersion"]
                self._tell(resource, **line)

    def _tell(self, resource: Resource, **line: object) -> None:
        path = "/".join(filter(None, (resource.group, resource.version, resource.name)))
        with self._lock:
            self.lines.append({"t": _now(), "r": path, **line})


@dataclass
class Truth:
    """Who did what. `made`: by uid and version, who made it; `ended`: by uid, whose request took it away."""

    made: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)

    def maker(self, change: Change) -> str | None:
        """Which of the two made a change; None: somebody else."""
        if change.op == "delete":
            return self.ended.get(change.object.uid or "")
        if change.object.name == "shared" and "from_relist" in change.flags:
            return ALICE  # Of both, the one whose tool owns what is more than a label.
        return self.made.get(f"{change.object.uid} {change.source_version.version}")

    def judge(self, changes: Iterable[Change], told: Mapping[str, Amend]) -> Counter[str]:
        """How many changes of the two are told `right`, how many not at all (`missing`), and how many of anybody's are
        told of the wrong one (`wrong`)."""
        found = Counter[str]()
        for change in changes:
            made, amend = self.maker(change), told.get(change.id)
            said = None if amend is None or amend.actor is None else amend.actor.user
            if made is not None and said is None:
                found["missing"] += 1
            elif made is not None or said in (ALICE, BOB):
                found["right" if said == made or _is_eviction(change) else "wrong"] += 1
        return found


def _is_eviction(change: Change) -> bool:
    """What answers an eviction names no version; BOB asked for the only one."""
    return change.object.kind == "Pod" and any(one.path == "metadata.deletionTimestamp" for one in change.fields)


@dataclass
class Story(Truth):
    """What was done, by which API."""

    api: Api = None  # type: ignore[assignment]

    def do(
        self,
        user: str,
        method: str,
        resource: Resource,
        name: str | None = None,
        body: object = None,
        sub: str | None = None,
        *,
        space: str | None = "shop",
        form: str = "merge",
        **params: str,
    ) -> Object:
        path = resource.path(space if resource.namespaced else None, name, sub)
        agent = f"tool-of-{user.partition('@')[0]}/v1.2 (linux/amd64) token={PLANTED}"
        kind = PATCHES[form] if method == "PATCH" else "application/json"
        answer = self.api.request(method, path, body, content_type=kind, agent=agent, user=user, **params)
        meta = answer.get("metadata", {})
        if answer.get("kind") == "Status" and "uid" in answer.get("details", {}):
            self.ended[answer["details"]["uid"]] = user
        elif "uid" in meta and "dryRun" not in params and not (isinstance(body, dict) and body.get("dryRun")):
            held = answer["kind"] == "Namespace" or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")
            if method == "DELETE" and not held:
                self.ended[meta["uid"]] = user
            else:
                self.made.setdefault(f"{meta['uid']} {meta['resourceVersion']}", user)
        return answer

    def refused(self, code: int, *args: object, **more: object) -> None:
        with pytest.raises(ApiError) as refused:
            self.do(*args, **more)  # type: ignore[arg-type]
        assert refused.value.code == code

    def until(self, true: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not true():
            assert time.monotonic() < end, "the cluster did not get there"
            time.sleep(0.1)

    def pods(self) -> list[Object]:
        return list(self.api.request("GET", POD.path("shop"))["items"])

    def is_gone(self, resource: Resource, name: str, space: str | None = "shop") -> bool:
        try:
            self.api.request("GET", resource.path(space, name))
        except ApiError as error:
            return error.code == 404
        return False


def tell(api: Api, recorder: Recorder) -> Story:
    """All of it, about half a minute."""
    story = Story(api=api)
    do = story.do
    do(ALICE, "POST", NAMESPACE, body={"metadata": {"name": "shop"}})
    do(ALICE, "POST", CONFIG_MAP, body=_map("settings", mode="one"))
    do(BOB, "PATCH", CONFIG_MAP, "settings", {"data": {"mode": "two"}}, fieldManager="bobs-patch")
    do(ALICE, "PATCH", CONFIG_MAP, "settings", {"data": {"mode": "two"}})  # Changes nothing.
    do(ALICE, "PATCH", CONFIG_MAP, "settings", {"data": {"mode": "never"}}, dryRun="All")
    do(ALICE, "DELETE", CONFIG_MAP, "settings", {"dryRun": ["All"]})
    story.refused(409, BOB, "POST", CONFIG_MAP, body=_map("settings"))
    story.refused(403, "carol@example.org", "PATCH", CONFIG_MAP, "settings", {"data": {"mode": "never"}})
    do(ALICE, "POST", SECRET, body={"metadata": {"name": "door"}, "stringData": {"password": PLANTED}}, pretty=PLANTED)
    do(BOB, "PATCH", SECRET, "door", {"metadata": {"labels": {"seen": "yes"}}})
    do(BOB, "POST", CONFIG_MAP, body={"metadata": {"generateName": "page-"}, "data": {"a": "b"}})
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "b"}}
    do(BOB, "PATCH", CONFIG_MAP, "applied", applied, form="apply", fieldManager="applier", force="true")
    do(ALICE, "PUT", CONFIG_MAP, "applied", {**applied, "data": {"a": "c"}})

    do(ALICE, "POST", DEPLOYMENT, body=_deployment())
    story.until(lambda: sum(_is_ready(one) for one in story.pods()) == 2)
    do(BOB, "PATCH", DEPLOYMENT, "web", {"spec": {"replicas": 3}}, sub="scale")
    image = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "shop/web:2"}]}}}}
    do(ALICE, "PATCH", DEPLOYMENT, "web", image, form="strategic", fieldManager="kubectl-set")
    story.until(lambda: sum(_is_ready(one, "shop/web:2") for one in story.pods()) == 3 == len(story.pods()))
    one, other, *_ = (pod["metadata"]["name"] for pod in story.pods())
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": one}}
    do(BOB, "POST", POD, one, eviction, sub="eviction")
    do(ALICE, "DELETE", POD, other)
    story.until(lambda: not {one, other} & {pod["metadata"]["name"] for pod in story.pods()})

    for number in range(10):  # Both at once, many times within one second.
        both = [
            threading.Thread(target=do, args=(user, "PATCH", CONFIG_MAP, "settings", {"data": {user[:3]: str(number)}}))
            for user in (ALICE, BOB)
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
    do(ALICE, "POST", CONFIG_MAP, body=_map("held", finalizers=["test.hindgraph.dev/hold"]))
    do(ALICE, "DELETE", CONFIG_MAP, "held")
    held = do(BOB, "PATCH", CONFIG_MAP, "held", {"metadata": {"finalizers": None}})["metadata"]
    story.ended[held["uid"]] = BOB
    for name in ("old-1", "old-2"):
        do(ALICE, "POST", CONFIG_MAP, body=_map(name, labels={"old": "yes"}))
    old = api.request("GET", CONFIG_MAP.path("shop"), labelSelector="old=yes")["items"]
    do(BOB, "DELETE", CONFIG_MAP, labelSelector="old=yes")
    story.ended.update({one["metadata"]["uid"]: BOB for one in old})
    do(BOB, "POST", NAMESPACE, body={"metadata": {"name": "brief"}})
    do(BOB, "POST", CONFIG_MAP, space="brief", body=_map("inside"))
    do(ALICE, "DELETE", NAMESPACE, "brief")
    story.until(lambda: story.is_gone(NAMESPACE, "brief", None))

    for name in ("only", "shared", "lost"):
        do(ALICE, "POST", CONFIG_MAP, body=_map(name, a="1"))
    time.sleep(0.5)
    with recorder.blind(CONFIG_MAP):
        do(BOB, "PATCH", CONFIG_MAP, "only", {"data": {"a": "2"}}, fieldManager="bobs-patch")
        do(ALICE, "PATCH", CONFIG_MAP, "shared", {"data": {"a": "2"}}, fieldManager="alices-patch")
        do(BOB, "PATCH", CONFIG_MAP, "shared", {"metadata": {"labels": {"seen": "yes"}}}, fieldManager="bobs-patch")
        do(BOB, "DELETE", CONFIG_MAP, "lost")
        do(ALICE, "POST", CONFIG_MAP, body=_map("found"))
    do(ALICE, "DELETE", CONFIG_MAP, "only")
    time.sleep(1.5)
    return story


@contextmanager
def recorded(folder: Path) -> Iterator[tuple[ControlPlane, Recorder, Story]]:
    """A cluster, what was recorded of it, and what really happened."""
    with own_cluster(folder, Options(pods_run=True)) as plane, closing(Api(plane.kubeconfig)) as api:
        group = "rbac.authorization.k8s.io"
        api.request(
            "POST", f"/apis/{group}/v1/clusterrolebindings",
            {
                "metadata": {"name": "both"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": one} for one in (ALICE, BOB)],
            },
        )  # fmt: skip
        with Recorder(api) as recorder:
            story = tell(api, recorder)
        yield plane, recorder, story


def _map(name: str, labels: dict[str, str] | None = None, finalizers: list[str] | None = None, **data: str) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}, "finalizers": finalizers or []}, "data": data}


def _deployment() -> Object:
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "shop/web:1"}]},
            },
        },
    }


def _is_ready(pod: Object, image: str | None = None) -> bool:
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
    return ready and image in (None, pod["spec"]["containers"][0]["image"])


def _now() -> str:
    return instants.show(time.time_ns() // 1000)


def main(folder: Path) -> None:
    with TemporaryDirectory() as work, recorded(Path(work)) as (plane, recorder, story):
        lines = b"".join(orjson.dumps(one) + b"\n" for one in recorder.lines)
        begun = instants.parse(recorder.lines[0]["started"])
        audited = plane.audit_log.read_bytes().splitlines(keepends=True)
        kept = [one for one in audited if instants.parse(orjson.loads(one)["stageTimestamp"]) >= begun]
    for name, content in (("two_users.jsonl.gz", lines), ("two_users.audit.jsonl.gz", b"".join(kept))):
        (folder / name).write_bytes(gzip.compress(content, mtime=0))
    truth = {"made": story.made, "ended": story.ended}
    (folder / "two_users.truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A real control plane of local processes: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, at will kwok.

It starts on an empty etcd in memory and on ports that are free, so several can run at once; each process is stopped by
its own handle. `build_control_plane.sh` makes the binaries; who decides that this is the cluster of a test is
`clusters`.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.services.api import Api

CACHE = Path(os.environ.get("HINDGRAPH_TEST_CACHE") or Path.home() / ".cache/hindgraph-test")
BINARIES = {
    "etcd": CACHE / "etcd/etcd",
    "kube-apiserver": CACHE / "k8s/bin/kube-apiserver",
    "kube-controller-manager": CACHE / "k8s/bin/kube-controller-manager",
    "kube-scheduler": CACHE / "k8s/bin/kube-scheduler",
    "kwok": CACHE / "kwok/kwok",
}
_USERS = {
    "admin": ("kubernetes-admin", "system:masters"),
    "recorder": ("recorder", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kubelet": ("kubelet", "system:masters"),
}
_AUDITED = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {
            "level": "Metadata",
            "resources": [
                {"group": "coordination.k8s.io", "resources": ["leases"]},
                {"group": "", "resources": ["events"]},
                {"group": "events.k8s.io", "resources": ["events"]},
            ],
        },
        {"level": "RequestResponse"},
    ],
}


@dataclass(frozen=True, slots=True)
class Options:
    """`watch_list`: whether the server streams lists. `compaction`: how often etcd forgets old versions, as Go writes
    durations. `pods_run`: one node, whose pods become Ready. `clients`: the authority whose certificates name users."""

    watch_list: bool = True
    compaction: str = "5m"
    pods_run: bool = False
    clients: Path | None = None


class ControlPlane:
    """One cluster, from `with` to the end of it. `folder` takes its logs, keys and configurations.

    `audit_log` has one line for each request that wrote something, with the object as it became.
    """

    name = "local"

    def __init__(self, folder: Path, options: Options = Options()) -> None:
        self.folder = folder
        self.audit_log = folder / "audit.log"
        self._options = options
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._tokens = {user: secrets.token_hex(16) for user in _USERS}
        self._port, self._etcd_port, self._peer_port = _free_ports(3)
        memory = Path("/dev/shm")
        self._data = Path(tempfile.mkdtemp(prefix="hindgraph-etcd-", dir=memory if memory.is_dir() else None))

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin.conf"

    def kubeconfig_for(self, user: str, port: int | None = None) -> Path:
        """A kubeconfig of `admin` or `recorder`; through another port than the server's own if `port` is given."""
        path = self.folder / (f"{user}.conf" if port is None else f"{user}-{port}.conf")
        cluster = {
            "server": f"https://127.0.0.1:{port or self._port}",
            "certificate-authority": str(self.folder / "certs/apiserver.crt"),
        }
        text = json.dumps(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": self.name,
                "clusters": [{"name": self.name, "cluster": cluster}],
                "users": [{"name": user, "user": {"token": self._tokens[user]}}],
                "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user}}],
            }
        )  # fmt: skip
        path.write_text(text)
        path.chmod(0o600)
        return path

    # -- its life

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self._start_etcd()
            self.start_apiserver()
            self._start_controllers()
            if self._options.pods_run:
                self._start_node()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for name in reversed(list(self._processes)):
            self._stop(name)
        shutil.rmtree(self._data, ignore_errors=True)

    def start_apiserver(self) -> None:
        """Returns when it is ready."""
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--service-account-key-file=sa.pub",
            "--service-account-signing-key-file=sa.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--token-auth-file=tokens.csv",
            "--authorization-mode=RBAC",
            "--cert-dir=certs",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--audit-log-path=audit.log",
            "--audit-log-maxsize=100000",
            "--audit-policy-file=audit.json",
            f"--etcd-compaction-interval={self._options.compaction}",
            # Requests of a test are many and have no rank: none of them should wait for its turn.
            "--enable-priority-and-fairness=false",
            f"--feature-gates=WatchList={str(self._options.watch_list).lower()}",
            *([f"--client-ca-file={self._options.clients}"] if self._options.clients else []),
        )
        self._until(self._ready, "kube-apiserver is ready")

    def stop_apiserver(self) -> None:
        self._stop("kube-apiserver")

    def snapshot(self) -> Path:
        """A copy of all that etcd holds. Writes fail for the fraction of a second in which it is made."""
        copy = Path(tempfile.mkdtemp(prefix="copy-", dir=self._data))
        self._stop("etcd")
        shutil.copytree(self._data / "member", copy / "member")
        self._start_etcd()
        self._until(self._ready, "kube-apiserver is ready")
        return copy

    def restore(self, copy: Path) -> None:
        """What was written after `snapshot` has never been, and resourceVersions go on from there."""
        self.stop_apiserver()
        self._stop("etcd")
        shutil.rmtree(self._data / "member")
        shutil.copytree(copy / "member", self._data / "member")
        self._start_etcd()
        self.start_apiserver()

    def compact(self) -> None:
        """etcd forgets every version but the last, now."""
        store = f"http://127.0.0.1:{self._etcd_port}/v3"
        with httpx.Client(trust_env=False) as http:
            revision = http.post(f"{store}/maintenance/status", json={}).raise_for_status().json()["header"]["revision"]
            http.post(f"{store}/kv/compaction", json={"revision": revision, "physical": True}).raise_for_status()

    # -- its parts

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for args in (["genrsa", "-out", "sa.key", "2048"], ["rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"]):
            subprocess.run(["openssl", *args], cwd=self.folder, check=True, capture_output=True)
        rows = [f'{self._tokens[user]},{name},{user},"{group}"\n' for user, (name, group) in _USERS.items()]
        (self.folder / "tokens.csv").write_text("".join(rows))
        (self.folder / "audit.json").write_text(json.dumps(_AUDITED))
        for user in _USERS:
            self.kubeconfig_for(user)

    def _start_etcd(self) -> None:
        clients, peers = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        self._start(
            "etcd", f"--data-dir={self._data}", f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}", "--unsafe-no-fsync", "--log-level=error",
        )  # fmt: skip

    def _start_controllers(self) -> None:
        common = ("--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=300")
        self._start(
            "kube-controller-manager", *common, "--kubeconfig=controllers.conf", "--root-ca-file=certs/apiserver.crt",
            "--use-service-account-credentials=true", "--service-account-private-key-file=sa.key",
        )  # fmt: skip
        self._start("kube-scheduler", *common, "--kubeconfig=scheduler.conf")
        api = Api(self.kubeconfig)
        try:
            accounts = "/api/v1/namespaces/default/serviceaccounts"
            self._until(lambda: bool(api.request("GET", accounts)["items"]), "controllers are at work")
        finally:
            api.close()

    def _start_node(self) -> None:
        api = Api(self.kubeconfig)
        try:
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}}
            api.request("POST", "/api/v1/nodes", node)
        finally:
            api.close()
        self._start("kwok", "--kubeconfig=kubelet.conf", "--manage-all-nodes=true", "--node-lease-duration-seconds=0")

    def _start(self, name: str, *args: str) -> None:
        # Should the test itself be killed, they are not left behind.
        follow = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*follow, str(BINARIES[name]), *args], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _stop(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        # Asked to end, they would wait for watches that do not; what they acknowledged is written.
        process.kill()
        process.wait()

    def _ready(self) -> bool:
        if not (self.folder / "certs/apiserver.crt").exists():
            return False
        api = Api(self.kubeconfig)
        try:
            return api.ready()
        finally:
            api.close()

    def _until(self, true: Callable[[], bool], what: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not true():
            for name, process in self._processes.items():
                if process.poll() is not None:
                    last = (self.folder / f"{name}.log").read_text(errors="replace")[-1000:]
                    raise RuntimeError(f"{name} ended while waiting until {what}: {last}")
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: not within {seconds} s; logs are in {self.folder}")
            time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    """Below those that outgoing connections take, so that they stay free while a server is down."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found

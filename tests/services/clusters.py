"""How a test comes to a real Kubernetes API: one that is given, else one of its own, else a skip that says why.

In this order: `HINDGRAPH_TEST_KUBECONFIG` names a kubeconfig; the binaries of `build_control_plane.sh` are in the
cache; neither, and the test is skipped, or fails where `HINDGRAPH_REQUIRE_SERVICES=1`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.services.control_plane import BINARIES, ControlPlane, Options


class Given:
    """Somebody's cluster: it can be written to, but neither restarted nor asked who wrote what."""

    audit_log = None

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig = kubeconfig.resolve()
        self._folder = folder
        self._config = yaml.safe_load(kubeconfig.read_text())
        contexts = {one["name"]: one["context"] for one in self._config["contexts"]}
        self.name: str = contexts[self._config["current-context"]]["cluster"]
        self._cluster = next(one["cluster"] for one in self._config["clusters"] if one["name"] == self.name)
        self._server = urlsplit(self._cluster["server"])

    @property
    def address(self) -> tuple[str, int]:
        return self._server.hostname or "", self._server.port or 443

    def kubeconfig_for(self, user: str, port: int | None = None) -> Path:
        """The given user, whoever is asked for; through a port of this machine if `port` is given."""
        if port is None:
            return self.kubeconfig
        changed = self._cluster | {"server": f"https://127.0.0.1:{port}", "tls-server-name": self._server.hostname}
        clusters = [
            {"name": one["name"], "cluster": changed} if one["name"] == self.name else one
            for one in self._config["clusters"]
        ]
        path = self._folder / f"{user}-{port}.conf"
        path.write_text(yaml.safe_dump(self._config | {"clusters": clusters}))
        path.chmod(0o600)
        return path


@contextmanager
def any_cluster(folder: Path, options: Options) -> Iterator[ControlPlane | Given]:
    """A cluster to write to."""
    if given := os.environ.get("HINDGRAPH_TEST_KUBECONFIG"):
        folder.mkdir(parents=True, exist_ok=True)
        yield Given(Path(given), folder)
        return
    with own_cluster(folder, options) as plane:
        yield plane


@contextmanager
def own_cluster(folder: Path, options: Options) -> Iterator[ControlPlane]:
    """A cluster to do anything with, and nobody else's."""
    missing = [name for name, path in BINARIES.items() if not path.exists()]
    if missing:
        reason = f"no {', no '.join(missing)} in the cache: make services-control-plane"
        if os.environ.get("HINDGRAPH_REQUIRE_SERVICES") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with ControlPlane(folder, options) as plane:
        yield plane

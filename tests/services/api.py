"""A small client of the Kubernetes API for tests: requests, discovery, lists. Not what the recorder uses.

One `Api` holds one connection pool and may be used from several threads. Which server it is comes from a kubeconfig.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import yaml

Object = dict[str, Any]

_TRIES = 50

PATCHES = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(Exception):
    """The server refused: `code` is the HTTP status, the message what it said."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code} {message[:500]}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Resource:
    """One listable and watchable resource, in the version its group prefers among those that have it."""

    group: str
    version: str
    name: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """How coverage names it: `core/pods`, `apps/deployments`."""
        return f"{self.group or 'core'}/{self.name}"

    def path(self, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        parts = ["/apis" if self.group else "/api", self.api_version]
        if namespace:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.name, *filter(None, (name, sub))])


class Api:
    """The API of one cluster, as the current context of a kubeconfig reaches it."""

    def __init__(self, kubeconfig: Path) -> None:
        server, context, headers = _reached_by(kubeconfig)
        self._http = httpx.Client(base_url=server, verify=context, headers=headers, timeout=60, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        agent: str = "hindgraph-test",
        user: str | None = None,
        **params: str,
    ) -> Object:
        """The JSON that the server answers, asked again where it says that it is too early, as `user` if one is given.
        Raises ApiError, and httpx.TransportError where there is no answer."""
        content = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": content_type, "User-Agent": agent}
        if user is not None:
            headers["Impersonate-User"] = user
        for _ in range(_TRIES):
            answer = self._http.request(method, path, content=content, params=params, headers=headers)
            if answer.status_code != 429:
                break
            time.sleep(0.2)  # A new kind's storage takes a moment; a second is what the server suggests.
        if answer.status_code >= 300:
            raise ApiError(answer.status_code, f"{method} {path}: {answer.text}")
        if not answer.headers.get("Content-Type", "").startswith("application/json"):
            return {"text": answer.text}
        found: Object = orjson.loads(answer.content)
        return found

    def watch(self, path: str, **params: str) -> list[Object]:
        """What a watch says within a second. Raises ApiError."""
        params |= {"watch": "true", "timeoutSeconds": "1"}
        answer = self._http.get(path, params=params)
        if answer.status_code >= 300:
            raise ApiError(answer.status_code, f"GET {path}: {answer.text}")
        return [orjson.loads(line) for line in answer.content.splitlines()]

    def follow(self, path: str, **params: str) -> Iterator[Object]:
        """What a watch says, as it comes, until the server ends it. Raises ApiError."""
        with self._http.stream("GET", path, params=params | {"watch": "true"}) as answer:
            if answer.status_code >= 300:
                raise ApiError(answer.status_code, f"GET {path}: {answer.read().decode(errors='replace')}")
            for line in answer.iter_lines():
                yield orjson.loads(line)

    def ready(self) -> bool:
        try:
            self.request("GET", "/readyz")
        except (ApiError, httpx.TransportError):
            return False
        return True

    def resources(self) -> list[Resource]:
        """Everything that can be listed and watched, each (group, resource) once."""
        found: dict[tuple[str, str], Resource] = {}
        for group, version in self._versions():
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            try:
                told = self.request("GET", path)["resources"]
            except ApiError:
                continue  # A group whose last CRD is just going.
            for one in told:
                if "/" not in one["name"] and {"list", "watch"} <= set(one["verbs"]):
                    resource = Resource(group, version, one["name"], one["kind"], one["namespaced"])
                    found.setdefault((group, one["name"]), resource)
        return list(found.values())

    def _versions(self) -> Iterator[tuple[str, str]]:
        yield "", "v1"
        for group in self.request("GET", "/apis")["groups"]:
            first = group["preferredVersion"]["version"]
            for version in [first, *(one["version"] for one in group["versions"] if one["version"] != first)]:
                yield group["name"], version

    def list(self, resource: Resource) -> list[Object]:
        """All objects, `kind` and `apiVersion` filled in."""
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [head | item for item in self.request("GET", resource.path())["items"] or ()]


def _reached_by(kubeconfig: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Server, TLS and headers. Certificates, tokens and CAs by value or file; no exec plugins."""
    config = yaml.safe_load(kubeconfig.read_text())
    named = {kind: {one["name"]: one for one in config[kind]} for kind in ("contexts", "clusters", "users")}
    context = named["contexts"][config["current-context"]]["context"]
    cluster = named["clusters"][context["cluster"]]["cluster"]
    user = named["users"][context["user"]].get("user") or {}
    tls = ssl.create_default_context(
        cadata=(_content(cluster, "certificate-authority", kubeconfig) or b"").decode() or None
    )
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = (_content(user, name, kubeconfig) for name in ("client-certificate", "client-key"))
    if certificate and key:
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            tls.load_cert_chain(file.name)
    token = user.get("token")
    return cluster["server"], tls, {"Authorization": f"Bearer {token}"} if token else {}


def _content(section: dict[str, str], name: str, beside: Path) -> bytes | None:
    if data := section.get(f"{name}-data"):
        return base64.b64decode(data)
    return (beside.parent / section[name]).read_bytes() if section.get(name) else None

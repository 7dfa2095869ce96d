"""What a kubeconfig, or a pod's own service account, says of the API server and of how to authenticate.

Files are read by the `kubernetes` package, which has no types: it is used here and in `plugin` and nowhere else, and
what leaves here has types. What is said is told, not yet tried: that, and keeping it fresh, is `access`'s. Everything
here may block. No error quotes a value of a file: values may be secret.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, incluster_config
from kubernetes.config.kube_config import KubeConfigMerger

from capture.kubernetes.live.plugin import Plugin
from capture.kubernetes.live.proxies import proxy_for
from schema.errors import BadKubeconfig

IN_CLUSTER = "in-cluster"
DEFAULT = "~/.kube/config"


@dataclass(frozen=True, slots=True)
class Source:
    """A certificate, key or token: written in the kubeconfig, or in a file of its own. `what` names it for people."""

    what: str
    given: bytes | None = field(default=None, repr=False)
    path: Path | None = None

    def read(self) -> bytes:
        """Raises BadKubeconfig where its file cannot be read."""
        if self.path is None:
            return self.given or b""
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise BadKubeconfig(
                f"{self.what}: {self.path} cannot be read: {error.strerror}",
                hint="make it readable for this user, or correct its path in the kubeconfig",
            ) from None


@dataclass(frozen=True, slots=True)
class Login:
    """One context. `files`: the kubeconfigs it was read from, none in a pod. `host`: the server's URL, without a slash
    at its end. `server_name`: what its certificate is made out to, if not the name in `host`."""

    files: tuple[Path, ...]
    context: str
    cluster: str
    user: str
    host: str
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    verified: bool = True
    ca: Source | None = None
    certificate: Source | None = None
    key: Source | None = None
    token: Source | None = None
    basic: tuple[str, str] | None = field(default=None, repr=False)
    plugin: Plugin | None = None


def find(path: Path | None = None, context: str | None = None) -> Login:
    """From this kubeconfig, else those of KUBECONFIG, else that of the home, else the pod we are in. BadKubeconfig."""
    if path is not None:
        return from_files((path,), context)
    if named := [Path(one).expanduser() for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]:
        there = tuple(one for one in named if one.exists())
        if not there:
            raise BadKubeconfig(
                f"KUBECONFIG names {os.pathsep.join(map(str, named))}, which is not there",
                hint="correct it, or give --kubeconfig",
            )
        return from_files(there, context)
    if (home := Path(DEFAULT).expanduser()).exists():
        return from_files((home,), context)
    if context is None and os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
        return from_pod()
    raise BadKubeconfig(
        f"no kubeconfig: {DEFAULT} is not there, KUBECONFIG is not set, and this is no pod",
        hint="give --kubeconfig FILE, or set KUBECONFIG",
    )


def from_pod() -> Login:
    """The service account of the pod we are in. Raises BadKubeconfig."""
    token, ca = incluster_config.SERVICE_TOKEN_FILENAME, incluster_config.SERVICE_CERT_FILENAME
    configuration = Configuration()
    try:
        incluster_config.InClusterConfigLoader(token, ca).load_and_set(configuration)
    except (ConfigException, OSError) as error:
        raise BadKubeconfig(
            f"the service account of this pod cannot be used: {error}",
            hint="is automountServiceAccountToken off? else give --kubeconfig",
        ) from None
    return Login(
        (), IN_CLUSTER, IN_CLUSTER, "the pod's service account", configuration.host,
        proxy=_proxy_of_env(configuration.host),
        ca=Source("the pod's certificate-authority", path=Path(ca)),
        token=Source("the pod's token", path=Path(token)),
    )  # fmt: skip


def from_files(files: tuple[Path, ...], context: str | None = None) -> Login:
    """A context of kubeconfigs merged as kubectl merges them, the current one if none is named. BadKubeconfig."""
    merged = _Merged(files)
    name = context or merged.current
    if not name:
        raise BadKubeconfig("no context is the current one", hint=f"give --context: {merged.names('contexts')}")
    chosen = merged.entry("contexts", name, "--context")
    cluster_name, user_name = _text(chosen.body, "cluster"), _text(chosen.body, "user")
    cluster = merged.entry("clusters", cluster_name, f"the cluster of context {name}")
    user = merged.entry("users", user_name, f"the user of context {name}") if user_name else _Entry({}, Path())
    host = _host(_text(cluster.body, "server"), cluster_name)
    written = _text(cluster.body, "proxy-url")
    return _authenticated(
        Login(
            files, name, cluster_name, user_name, host,
            server_name=_text(cluster.body, "tls-server-name") or None,
            proxy=_proxy(written, f"proxy-url of cluster {cluster_name}") if written else _proxy_of_env(host),
            verified=cluster.body.get("insecure-skip-tls-verify") is not True,
            ca=cluster.source("certificate-authority", f"cluster {cluster_name}"),
        ),
        cluster, user,
    )  # fmt: skip


def _authenticated(login: Login, cluster: _Entry, user: _Entry) -> Login:
    """By what kubectl takes first where there is more than one."""
    of = f"user {login.user}"
    if any(name in user.body for name in ("as", "as-uid", "as-groups", "as-user-extra")):
        raise BadKubeconfig(f"{of} acts as somebody else (`as`)", hint="give the recorder an account of its own")
    login = replace(
        login, certificate=user.source("client-certificate", of), key=user.source("client-key", of)
    )  # fmt: skip
    if (login.certificate is None) != (login.key is None):
        raise BadKubeconfig(f"{of} has a client-certificate or a client-key, not both", hint="give the other as well")
    if path := _text(user.body, "tokenFile"):
        return replace(login, token=Source(f"tokenFile of {of}", path=user.folder / path))
    if token := _text(user.body, "token"):
        return replace(login, token=Source(f"token of {of}", given=token.encode()))
    if (name := _text(user.body, "username")) and (password := _text(user.body, "password")):
        return replace(login, basic=(name, password))
    if isinstance(config := user.body.get("exec"), dict):
        command = _text(config, "command") or "?"
        return replace(login, plugin=Plugin(login.user, command, user.folder, config, cluster.body))
    if "auth-provider" in user.body:
        raise BadKubeconfig(
            f"{of} has an auth-provider, which is not supported",
            hint="use an exec plugin in its place (kubelogin, gke-gcloud-auth-plugin), or a token",
        )
    return login


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a kubeconfig has under a name. `folder`: where that kubeconfig lies, to which its paths are relative."""

    body: Mapping[str, object] = field(repr=False)
    folder: Path

    def source(self, name: str, of: str) -> Source | None:
        """By value if given so, else by file."""
        what = f"{name} of {of}"
        if data := _text(self.body, f"{name}-data"):
            try:
                return Source(f"{name}-data of {of}", given=base64.b64decode(data, validate=True))
            except (binascii.Error, ValueError):
                raise BadKubeconfig(f"{name}-data of {of} is not base64", hint="write the kubeconfig anew") from None
        path = _text(self.body, name)
        return Source(what, path=self.folder / path) if path else None


class _Merged:
    """Several kubeconfigs as one: of each name the first entry counts."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        self._files = ", ".join(map(str, files))
        merger = KubeConfigMerger("")
        for path in files:
            try:
                merger.load_config(str(path))
            except OSError as error:
                raise BadKubeconfig(
                    f"{path} cannot be read: {error.strerror}", hint="give --kubeconfig FILE, or set KUBECONFIG"
                ) from None
            except yaml.YAMLError as error:
                mark = getattr(error, "problem_mark", None)
                where = "" if mark is None else f" (line {mark.line + 1})"
                raise BadKubeconfig(f"{path} is not YAML{where}", hint="correct it, or give --kubeconfig") from None
            except (ConfigException, TypeError, KeyError, AttributeError, ValueError):
                raise BadKubeconfig(
                    f"{path} is no kubeconfig", hint="give --kubeconfig FILE, or set KUBECONFIG"
                ) from None
        # The package takes the current context of the last file, kubectl that of the first.
        currents = (config.get("current-context") for config in merger.config_files.values())
        self.current = next((one for one in currents if isinstance(one, str) and one), "")
        self._sections: dict[str, dict[str, _Entry]] = {"contexts": {}, "clusters": {}, "users": {}}
        for section, entries in self._sections.items():
            for node in merger.config.value[section]:
                if isinstance(node.value, dict) and isinstance(name := node.value.get("name"), str):
                    body = node.value.get(section[:-1])
                    folder = Path(node.path).absolute().parent
                    entries[name] = _Entry(body if isinstance(body, dict) else {}, folder)

    def entry(self, section: str, name: str, asked: str) -> _Entry:
        there = self._sections[section]
        if name not in there:
            raise BadKubeconfig(
                f"{asked}: there is no {section[:-1]} {name!r} in {self._files}",
                hint=f"there is: {self.names(section, name)}",
            )
        return there[name]

    def names(self, section: str, near: str = "") -> str:
        there = list(self._sections[section])
        return ", ".join(difflib.get_close_matches(near, there, n=3, cutoff=0.5) or there[:5]) or "none"


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


def _host(server: str, cluster: str) -> str:
    try:
        url = urlsplit(server)
        usable = url.scheme in ("https", "http") and bool(url.hostname) and url.port != 0 and "@" not in url.netloc
    except ValueError:
        usable = False
    if not usable:
        raise BadKubeconfig(f"server of cluster {cluster} is no URL", hint="it is like https://host:6443")
    return server.rstrip("/")


def _proxy_of_env(host: str) -> str | None:
    found = proxy_for(host, os.environ)
    return _proxy(found, "the proxy of the environment") if found else None


def _proxy(url: str, what: str) -> str:
    """Checked; not quoted, since it may hold a password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadKubeconfig(f"{what} is no http:// or https:// URL", hint="other proxies (SOCKS) are not supported")
    return url

"""Exec plugins: programs named by a kubeconfig that give credentials. Run by the `kubernetes` package, told in types.

When to run one again is decided by `access`. What a plugin says when it fails is shown, without what its environment
holds and without what looks like a credential.
"""

from __future__ import annotations

import copy
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kubernetes.config import ConfigException
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode

from capture.redact import Redactor
from schema import instants
from schema.errors import BadInstant, BadKubeconfig

_SAID = 500  # Characters of what a plugin says when it fails.


@dataclass(frozen=True, slots=True)
class Issued:
    """What an exec plugin gave: a token, or a certificate with its key. `at`: when; `expires`: until when, None if it
    does not end. Seconds since 1970."""

    at: float
    token: str | None = field(repr=False)
    certificate: bytes | None = field(repr=False)
    key: bytes | None = field(repr=False)
    expires: float | None


@dataclass(frozen=True, slots=True)
class Plugin:
    """An exec plugin of a user. `folder`: where its kubeconfig lies."""

    user: str
    command: str
    folder: Path
    config: Mapping[str, object] = field(repr=False)
    cluster: Mapping[str, object] = field(repr=False)

    def run(self) -> Issued:
        """Run it, for as long as it takes. Raises BadKubeconfig."""
        name = f"exec plugin {self.command} of user {self.user}"
        try:
            # Both nodes are made anew: the package changes them, and would quote what is in them.
            config = ConfigNode("exec", copy.deepcopy(dict(self.config)))
            cluster = ConfigNode("cluster", copy.deepcopy(dict(self.cluster)))
            status = ExecProvider(config, str(self.folder), cluster).run()
        except FileNotFoundError:
            raise BadKubeconfig(f"{name}: there is no such command", hint=self._hint()) from None
        except OSError as error:
            raise BadKubeconfig(f"{name} cannot be run: {error.strerror}", hint=self._hint()) from None
        except ConfigException as error:
            raise BadKubeconfig(f"{name}: {self._clean(str(error))}", hint=self._by_hand()) from None
        except (TypeError, KeyError, AttributeError, ValueError):
            raise BadKubeconfig(f"{name}: its entry or its answer is malformed", hint=self._by_hand()) from None
        return self._issued(name, status)

    def _issued(self, name: str, status: object) -> Issued:
        told = status if isinstance(status, dict) else {}
        token, certificate, key = (
            value if isinstance(value, str) and value else None
            for value in map(told.get, ("token", "clientCertificateData", "clientKeyData"))
        )
        if token is None and (certificate is None or key is None):
            raise BadKubeconfig(f"{name} gave neither a token nor a certificate with its key", hint=self._by_hand())
        until = told.get("expirationTimestamp")
        try:
            expires = instants.parse(until) / 1e6 if isinstance(until, str) and until else None
        except BadInstant as error:
            raise BadKubeconfig(f"{name}: expirationTimestamp: {error.message}", hint=self._by_hand()) from None
        return Issued(time.time(), token, certificate and certificate.encode(), key and key.encode(), expires)

    def _clean(self, said: str) -> str:
        """What the package or the plugin said, without what was in its environment or looks like a credential."""
        env = self.config.get("env")
        for item in env if isinstance(env, list) else []:
            value = item.get("value") if isinstance(item, dict) else None
            if isinstance(value, str) and len(value) > 3:
                said = said.replace(value, "…")
        return Redactor(secrets.token_bytes(32)).redact_text(said.removeprefix("exec: ")[:_SAID])

    def _hint(self) -> str:
        told = self.config.get("installHint")
        return " ".join(told.split()) if isinstance(told, str) and told else "install it, or put it on the PATH"

    def _by_hand(self) -> str:
        return f"run `{self.command}` by hand as the kubeconfig says, or log in again"

"""Asks an API server which resources it serves: all of them, those of one group again, or whether one is still there.

A group that does not answer (the server of an aggregated API is down) is told as failing, and the others go on. What
the documents mean is `resources`'; that a kind came or went, and what that is for coverage, is for who asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import orjson

from capture.kubernetes.live.parts import Served
from capture.kubernetes.live.resources import Group, Offer, chosen, groups, offers, storages
from capture.kubernetes.live.transport import Lost, Transport, Untrusted
from schema.canonical import Json
from schema.errors import BadKubeconfig

PATIENCE = 30.0
"""Seconds within which an answer must begin. Of an aggregated API that hangs it takes as long."""

_AT_ONCE = 8
_JSON = "application/json"
_AGGREGATED = ",".join(
    [*(f"{_JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")), _JSON]
)


@dataclass(frozen=True, slots=True)
class Found:
    """`failing`: group → why it could not be learnt, in part at least, what it serves. What is neither here nor in
    `served` may be gone: a server that just started does not know all of its kinds, so ask `serves`."""

    served: tuple[Served, ...]
    failing: Mapping[str, str]


class Discovery:
    """Of one API server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stored: dict[str, str] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def reach(self) -> str | None:
        """The server's version, `1.36`, None if it is not told; and with it, that there is a server to be trusted that
        takes our credentials. Raises BadKubeconfig if not so, Lost where nobody answers."""
        try:
            status, body = await self._get("/version")
        except Untrusted as error:
            raise BadKubeconfig(error.reason, hint=error.hint) from None
        if status == 401:
            raise BadKubeconfig(
                "the server does not take the credentials of this context (401)",
                hint="log in again, or give --context or --kubeconfig of a user it knows",
            )
        told = body if isinstance(body, dict) else {}
        major, minor = (str(told.get(name, "")).rstrip("+") for name in ("major", "minor"))
        return f"{major}.{minor}" if status == 200 and major.isdecimal() and minor.isdecimal() else None

    async def all(self) -> Found:
        """Everything. Raises Lost where not even the groups can be learnt."""
        answers = await asyncio.gather(*(self._groups(path, _AGGREGATED) for path in ("/api", "/apis")))
        there = [group for answer in answers for group in answer or ()]
        found, failing = await self._offers(there)
        served = chosen(found)
        self._stored = storages(found, served)
        return Found(served, failing)

    async def scan(self, group: str) -> Found:
        """One group as it is now, since its CustomResourceDefinitions or its APIService changed; `core` is one too."""
        name = "" if group == "core" else group
        try:
            there = await self._groups(f"/apis/{name}" if name else "/api", _JSON)
        except Lost as error:
            return Found((), {group: error.reason})
        found, failing = await self._offers([one for one in there or () if one.name == name])
        # What is stored as one with a resource of another group is that one's.
        return Found(chosen(found, self._stored_elsewhere(group)), failing)

    async def serves(self, served: Served) -> Served | None:
        """The same resource as it is served now, perhaps in another version; None: it is not served any more. Raises
        Lost where that cannot be told."""
        group = served.resource.group or "core"
        found = await self.scan(group)
        now = next((one for one in found.served if one.name == served.name), None)
        if now is not None:
            return now
        if reason := found.failing.get(group):
            raise Lost(f"{group} does not say what it serves: {reason}")
        # A server that just started answers 404 to much that it serves.
        status, _ = await self._get("/readyz")
        if status >= 500 or status == 429:
            raise Lost("the server is not ready")
        return None

    def _stored_elsewhere(self, group: str) -> dict[str, str]:
        return {storage: name for storage, name in self._stored.items() if name.partition("/")[0] != group}

    async def _groups(self, path: str, accept: str) -> list[Group] | None:
        """None: not found. Raises Lost."""
        status, body = await self._get(path, accept)
        if status == 404:
            return None
        there = groups(body) if status == 200 else None
        if there is None:
            raise Lost(f"{path}: {_why(status)}")
        return there

    async def _offers(self, there: list[Group]) -> tuple[list[Offer], dict[str, str]]:
        """What all versions offer, and which groups do not say."""
        pairs = [(group, version) for group in there for version in group.versions]
        answers = await asyncio.gather(*(self._of_version(group, version) for group, version in pairs))
        found: list[Offer] = []
        failing: dict[str, str] = {}
        for (group, version), answer in zip(pairs, answers, strict=True):
            if isinstance(answer, str):
                failing.setdefault(group.name or "core", f"{version}: {answer}")
            else:
                found.extend(answer)
        return found, failing

    async def _of_version(self, group: Group, version: str) -> tuple[Offer, ...] | str:
        """What it offers, or why that is not known."""
        if version in group.told:
            return group.told[version]
        path = f"/apis/{group.name}/{version}" if group.name else f"/api/{version}"
        try:
            async with self._slots:
                status, body = await self._get(path)
        except Lost as error:
            return error.reason
        if status == 404:
            return ()  # It went since its group was told.
        found = offers(group, version, body) if status == 200 else None
        return found if found is not None else _why(status)

    async def _get(self, path: str, accept: str = _JSON) -> tuple[int, Json]:
        """Status and body, None if it is no JSON. After 401 once more, with other credentials. Raises Lost."""
        status, raw = await self._ask(path, accept)
        if status == 401:
            await self._transport.renew()
            status, raw = await self._ask(path, accept)
        try:
            body: Json = orjson.loads(raw)
        except orjson.JSONDecodeError:
            body = None
        return status, body

    async def _ask(self, path: str, accept: str) -> tuple[int, bytes]:
        answer = await self._transport.request(path, {}, accept, patience=PATIENCE)
        try:
            return answer.status, await answer.read()
        finally:
            await answer.close()


def _why(status: int) -> str:
    if status == 200:
        return "what was answered is no discovery"
    try:
        return f"{status} {HTTPStatus(status).phrase.lower()}"
    except ValueError:
        return str(status)

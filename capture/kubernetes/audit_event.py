"""What one event of an API server's audit log says: which request about what, by whom, and what it can have done.

Audit events may carry whole objects, Secrets among them. Of those bodies only names, uids, versions and what holds an
object back are read; user and program names go through the redactor. Bad events raise BadAudit. Which change a request
made is left to `audit`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Literal, NamedTuple

import orjson

from capture.kubernetes.actor import instant_of
from capture.kubernetes.skipped import is_skipped
from schema.canonical import Json, hash128
from schema.errors import BadAudit, Oversize
from schema.records import Actor, Op, trusted

MOST_BYTES = 64 * 1024 * 1024
"""Longest webhook body that is parsed. An API server sends up to 10 MiB, or 400 events, at once."""

LeftOut = Literal["not finished", "reads only", "failed", "dry run", "changes no object", "not recorded", "names none"]
"""Why an event is of no use, although nothing is wrong with it."""

_WRITING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_DELETING = frozenset({"delete", "deletecollection"})
_NO_CHANGE = frozenset({"token", "exec", "attach", "portforward", "proxy", "log"})
_MANAGER = re.compile(r"[?&]fieldManager=([^&]*)")
_DRY = re.compile(r"[?&]dryRun=[^&]")
_VERSION = "audit.k8s.io/v1"
_LONGEST = 256  # Letters of a user's or program's name.

_CREATE: frozenset[Op] = frozenset({"create"})
_UPDATE: frozenset[Op] = frozenset({"update"})
_DELETE: frozenset[Op] = frozenset({"delete"})
_EITHER: frozenset[Op] = frozenset({"update", "delete"})


class Request(NamedTuple):
    """One request about one object, answered with success between `start` and `end`.

    `name` None: all objects of its resource and namespace. `version`: the one that it made, or left as it was; None
    where that is not told. `ops`: what it can have done. `marks`: it asked for a deletion, so that an update can only
    be the mark of it. `id` names the request, and the object where it was about several.
    """

    id: str
    group_resource: str
    namespace: str | None
    name: str | None
    uid: str | None
    version: str | None
    start: int
    end: int
    ops: frozenset[Op]
    marks: bool
    actor: Actor


def events_of(body: bytes, most: int = MOST_BYTES) -> list[Json]:
    """The events in the body of a webhook's POST. Raises Oversize over `most` bytes, BadAudit where it is no EventList
    of audit.k8s.io/v1."""
    if len(body) > most:
        raise Oversize(
            f"{len(body)} bytes of audit events, at most {most} are taken", hint="lower --audit-webhook-batch-max-size"
        )
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BadAudit("not JSON") from None
    if not isinstance(told, dict) or told.get("kind") != "EventList":
        raise BadAudit("not an EventList")
    if told.get("apiVersion") != _VERSION:
        raise BadAudit("another version", hint=f"set --audit-webhook-version={_VERSION}")
    items = told.get("items")
    if not isinstance(items, list):
        raise BadAudit("an EventList without items")
    return items


def event_of(line: bytes) -> Json:
    """The event that one line of an audit log is. Raises BadAudit."""
    try:
        told: Json = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise BadAudit("not JSON") from None
    return told


def requests_of(event: Json, redact_text: Callable[[str], str]) -> list[Request] | LeftOut:
    """The requests that an event tells of, one for each object, or why there is none. Raises BadAudit."""
    if not isinstance(event, dict) or event.get("kind", "Event") != "Event":
        raise BadAudit("not an audit event")
    if event.get("apiVersion", _VERSION) != _VERSION:
        raise BadAudit("another version", hint=f"set --audit-log-version={_VERSION}")
    verb, stage, uri = _text(event.get("verb")), event.get("stage"), _text(event.get("requestURI")) or ""
    if verb is None or stage is None:
        raise BadAudit("without verb or stage")
    if stage != "ResponseComplete":
        return "not finished"
    if verb not in _WRITING:
        return "reads only"
    code = _map(event.get("responseStatus")).get("code")
    if not isinstance(code, int):
        raise BadAudit("without the code of the answer")
    if not 200 <= code < 300:
        return "failed"
    asked = _map(event.get("requestObject"))
    if _DRY.search(uri) or asked.get("dryRun"):
        return "dry run"
    ref = _map(event.get("objectRef"))
    resource, sub = _text(ref.get("resource")), _text(ref.get("subresource"))
    if resource is None or sub in _NO_CHANGE:
        return "changes no object"
    group, version = _text(ref.get("apiGroup")), _text(ref.get("apiVersion")) or "v1"
    path = f"{group}/{version}/{resource}" if group else f"{version}/{resource}"
    if is_skipped(path) or (resource == "events" and group is None):
        return "not recorded"
    start, end = instant_of(event.get("requestReceivedTimestamp")), instant_of(event.get("stageTimestamp"))
    audit_id = _text(event.get("auditID"))
    if start is None or end is None or end < start or audit_id is None:
        raise BadAudit("without a name or times that can be")
    actor = _actor_of(event, verb, sub, uri, redact_text)
    group_resource = f"{group or 'core'}/{resource}"
    found = [
        Request(
            # Whoever asks may choose the audit id.
            hash128("audit", audit_id, str(start), verb, group_resource, namespace or "", name or ""),
            group_resource, namespace, name, uid, rv, start, end, ops, verb in _DELETING or sub == "eviction", actor,
        )
        for namespace, name, uid, rv, ops in _about(event, ref, verb, sub, code)
    ]  # fmt: skip
    return found or "names none"


_About = tuple[str | None, str | None, str | None, str | None, frozenset[Op]]
"""(namespace, name, uid, version, ops)"""


def _about(event: dict[str, Json], ref: dict[str, Json], verb: str, sub: str | None, code: int) -> Iterator[_About]:
    """What a request was about, and what it can have done."""
    answer, asked = _map(event.get("responseObject")), _map(_map(event.get("requestObject")).get("metadata"))
    meta = _map(answer.get("metadata"))
    name = _text(ref.get("name")) or _text(meta.get("name"))
    # A request about a namespace is told as one within it.
    namespace = None if ref.get("resource") == "namespaces" and not ref.get("apiGroup") else _text(ref.get("namespace"))
    items = answer.get("items")
    if verb == "deletecollection" and isinstance(items, list):
        for one in map(_map, items):  # Told as they were before.
            its = _map(one.get("metadata"))
            if called := _text(its.get("name")):
                yield namespace, called, _text(its.get("uid")), None, _UPDATE if _is_held(one) else _DELETE
    elif verb == "deletecollection":
        yield namespace, None, None, None, _EITHER
    elif name is None:
        return  # Made with generateName, and the policy leaves out the answer.
    elif sub in ("binding", "eviction"):
        yield namespace, name, _text(asked.get("uid")), None, _UPDATE if sub == "binding" else _EITHER
    elif uid := _text(meta.get("uid")):
        gone = (verb == "delete" or "deletionTimestamp" in meta) and not _is_held(answer)
        ops = _DELETE if gone else _CREATE if code == 201 and sub is None else _UPDATE
        yield namespace, name, uid, None if gone else _text(meta.get("resourceVersion")), ops
    elif uid := _text(_map(answer.get("details")).get("uid")):
        yield namespace, name, uid, None, _DELETE
    else:
        # What answers a PUT or PATCH is 201 where it made the object. One of them may take the last finalizer away.
        ops = _CREATE if code == 201 and sub is None else _EITHER
        yield namespace, name, _text(ref.get("uid")) or _text(asked.get("uid")), None, ops


def _is_held(one: dict[str, Json]) -> bool:
    """Whether an object whose deletion is asked for stays for now: by a finalizer, or to end in good order."""
    meta = _map(one.get("metadata"))
    inner = _map(one.get("spec")).get("finalizers") if one.get("kind") == "Namespace" else None
    return bool(meta.get("finalizers") or inner or meta.get("deletionGracePeriodSeconds"))


def _actor_of(event: dict[str, Json], verb: str, sub: str | None, uri: str, redact_text: Callable[[str], str]) -> Actor:
    def told(value: Json) -> str | None:
        text = _text(value)
        # Cut only what is clean: half a credential has no shape.
        return None if text is None else redact_text(text)[:_LONGEST]

    user, acted_as = (told(_map(event.get(name)).get("username")) for name in ("user", "impersonatedUser"))
    agent = told(event.get("userAgent"))
    chosen = _MANAGER.search(uri)
    manager: str | None = None
    if chosen and "%" not in chosen[1]:
        manager = told(chosen[1])
    if manager is None and agent is not None:
        manager = agent.partition("/")[0] or None  # As the API server names it.
    values: dict[str, Json] = {
        "manager": manager,
        "user": acted_as or user,
        "user_agent": agent,
        "subresource": told(sub),
        "method": "audit",
        "confidence": 0.0,
        "verb": verb,
        "address": ", ".join(_addresses(event.get("sourceIPs"))) or None,
        "impersonator": user if acted_as else None,
    }
    return trusted(Actor, values)


def _addresses(value: Json) -> Iterator[str]:
    """Where a request came from, through whom: only the last was seen by the server, the others are claimed."""
    for one in value[-4:] if isinstance(value, list) else ():
        try:
            yield str(ip_address(one if isinstance(one, str) else ""))
        except ValueError:
            continue


def _map(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None

"""Audit events and changes in few words."""

from __future__ import annotations

from typing import Any

from capture.kubernetes.audit import Audit
from capture.kubernetes.recording import Resource
from capture.redact import Redactor
from schema import instants
from schema.canonical import hash128
from schema.instants import MAX, SECOND
from schema.kinds import class_of
from schema.records import Actor, Amend, Change, FieldChange, ObjectRef, SourceVersion, Valid

T0 = instants.parse("2026-03-01T03:00:00Z")
RESOURCES = (
    Resource("", "v1", "configmaps", "ConfigMap"),
    Resource("", "v1", "pods", "Pod"),
    Resource("", "v1", "namespaces", "Namespace"),
    Resource("apps", "v1", "deployments", "Deployment"),
)
Event = dict[str, Any]


def at(seconds: float) -> int:
    return T0 + round(seconds * SECOND)


def event(
    verb="patch", name="a", *, user="alice", start=0.0, end=None, code=200, resource="configmaps", group="",
    namespace="shop", sub=None, agent=None, uri="", answer=None, asked=None, id=None, **more,
) -> Event:  # fmt: skip
    """A request in hand from `start` to `end`, in seconds. `answer` and `asked`: whole bodies."""
    ref = {"resource": resource, "namespace": namespace, "name": name, "apiGroup": group, "subresource": sub}
    body = {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": verb,
        "auditID": id or hash128("test", str(verb), user, str(name), str(start)), "requestURI": f"/x{uri}",
        "user": {"username": user, "groups": ["g"]}, "userAgent": agent or f"tool-of-{user}/v1",
        "sourceIPs": ["10.0.0.7"],
        "objectRef": {"apiVersion": "v1", **{key: value for key, value in ref.items() if value}},
        "responseStatus": {"code": code}, "requestObject": asked, "responseObject": answer,
        "requestReceivedTimestamp": instants.show(at(start)),
        "stageTimestamp": instants.show(at(start + 0.01 if end is None else end)), **more,
    }  # fmt: skip
    return {key: value for key, value in body.items() if value is not None}


def thing(uid="u1", rv="10", name="a", **meta) -> Event:
    """An object as an answer has it."""
    return {
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": rv, **meta},
    }


def change(
    op="update", name="a", *, seen=0.1, since=None, rv: str | None = "10", uid="u1", manager=None, sure=0.9, sub=None,
    type_="core/ConfigMap", namespace: str | None = "shop", paths=("data.x",), flags=(), id=None,
) -> Change:  # fmt: skip
    """A change that was seen at `seen` and not before `since`, in seconds."""
    ref = ObjectRef(
        source="kubernetes", scope="lab", type=type_, kind=type_.partition("/")[2], class_=class_of(type_),
        namespace=namespace, name=name, uid=uid,
    )  # fmt: skip
    told = (
        Actor() if manager is None else Actor(manager=manager, subresource=sub, method="managedFields", confidence=sure)
    )
    return Change(
        id=id or hash128("change", op, name, str(rv), str(seen)), op=op, object=ref, observed_at=at(seen),
        valid=Valid(not_before=at(seen - 1 if since is None else since), not_after=at(seen)), actor=told,
        source_version=SourceVersion(version=rv), flags=list(flags),
        fields=[FieldChange(path=path, pointer="/x", effect="changed") for path in paths],
    )  # fmt: skip


def audit(**more) -> Audit:
    return Audit("lab", Redactor(b"k" * 32).redact_text, RESOURCES, **more)


def amends(changes, events, core: Audit | None = None, now: int = MAX) -> list[Amend]:
    core = core or audit()
    core.told(changes)
    for one in events:
        core.heard(one)
    return [*core.settle(now)]


def who(told: list[Amend]) -> dict[str, tuple[str | None, float]]:
    """By the change: whose it is said to be, and how surely."""
    return {one.amends: (one.actor.user, one.actor.confidence) for one in told if one.actor is not None}

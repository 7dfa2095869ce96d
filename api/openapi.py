"""What OpenAPI says of answers and problems: their shape, and one real-looking example a question.

The names are those of `api.answer`; a test holds answers of a recording against these schemas.
"""

from __future__ import annotations

from typing import Any

Response = dict[int | str, dict[str, Any]]

_INSTANT = {"type": "string", "format": "date-time"}
_OPEN = {"anyOf": [_INSTANT, {"type": "null"}], "description": "null: still so"}
_HORIZON = {"anyOf": [_INSTANT, {"type": "null"}], "description": "what lay below it was dropped; null: nothing was"}
_TEXT = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def _shape(**properties: object) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


OBJECT = _shape(
    source={"type": "string"}, scope={"type": "string"}, type={"type": "string"}, kind={"type": "string"},
    **{"class": {"type": "string"}}, namespace=_TEXT, name={"type": "string"}, uid=_TEXT,
)  # fmt: skip
FIELD = _shape(path={"type": "string"}, effect={"type": "string"}, before={}, after={})
BOUNDS = _shape(not_before=_INSTANT, not_after=_INSTANT)
LIFE = _shape(not_before=_INSTANT, not_after=_INSTANT, to=_OPEN)
ACTOR = _shape(
    manager=_TEXT, user=_TEXT, user_agent=_TEXT, subresource=_TEXT, method={"type": "string"},
    confidence={"type": "number"}, verb=_TEXT, address=_TEXT, impersonator=_TEXT,
)  # fmt: skip
CHANGE = _shape(
    id={"type": "string"}, op={"enum": ["create", "update", "delete", "observe"]}, object=OBJECT, valid=BOUNDS,
    observed_at=_INSTANT, fields=_list(FIELD), actor=ACTOR, provenance={"type": "object"},
    flags=_list({"type": "string"}), members=_list({"type": "object", "description": "a change, folded under this"}),
)  # fmt: skip
EDGE = _shape(
    predicate={"type": "string"}, src={"type": "string"}, dst={"type": "string"}, attrs={"type": "object"},
    valid={"type": "object"}, provenance={"type": "object"},
)  # fmt: skip
COVERED = _shape(
    group_resource={"type": "string"}, namespaces={}, state={"type": "string"},
    **{"from": {"anyOf": [_INSTANT, {"type": "null"}]}}, to=_OPEN, reason=_TEXT,
)  # fmt: skip
VERSION = _shape(object=OBJECT, valid=LIFE)
SHOWN = _shape(
    object=OBJECT, valid=LIFE, existed={"anyOf": [{"type": "boolean"}, {"type": "null"}]},
    uncertain={"anyOf": [BOUNDS, {"type": "null"}]},
    state={"anyOf": [{"type": "object"}, {"type": "null"}]}, edges=_list(EDGE),
)  # fmt: skip
HISTORY = _shape(object=OBJECT, valid=LIFE, change={"anyOf": [CHANGE, {"type": "null"}]})
FIELD_CHANGE = _shape(
    path={"type": "string"}, effect={"type": "string"}, before={}, after={}, op={"type": "string"}, valid=BOUNDS,
    observed_at=_INSTANT, actor=ACTOR, change={"type": "string"},
)  # fmt: skip
EVIDENCE = _shape(
    id={"type": "string"}, kind={"enum": ["event", "log", "metric", "call"]}, object=OBJECT, at=_INSTANT,
    observed_at=_INSTANT, field_path=_TEXT, severity=_TEXT, reason=_TEXT, message=_TEXT, reporter=_TEXT,
    count={"type": "integer"},
)  # fmt: skip
DEAD_LETTER = _shape(position={"type": "integer"}, reason={"type": "string"}, detail={"type": "string"})
DIFFERENCE = _shape(object=OBJECT, effect={"type": "string"}, fields=_list(FIELD))

MADE = _shape(
    id={"type": "string"}, op={"type": "string"}, object=OBJECT, valid=BOUNDS, actor=ACTOR, fields=_list(FIELD)
)
FINDING = _shape(
    check={"type": "string"}, version={"type": "integer"}, says={"enum": ["symptom", "mechanism"]}, object=OBJECT,
    sentence={"type": "string"},
    fields=_list(_shape(object={"type": "string"}, path={"type": "string"}, value={})), others=_list(OBJECT),
    since={"anyOf": [_INSTANT, {"type": "null"}], "description": "null: so before the recording"},
    changes=_list(MADE), evidence=_list(_shape(id={"type": "string"}, at=_INSTANT, reason=_TEXT, message=_TEXT)),
)  # fmt: skip


def answer_of(item: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer object over some items."""
    return _shape(
        at=_INSTANT, known_at=_INSTANT, scope={"type": "string"}, horizon=_HORIZON, coverage=_list(COVERED),
        unknown=_list(COVERED), items=_list(item), next=_TEXT,
    )  # fmt: skip


_SERVICE = {
    "source": "kubernetes", "scope": "lab", "type": "core/Service", "kind": "Service", "class": "Service",
    "namespace": "shop", "name": "payment", "uid": "5ffb4138-28a8-4658-999e-e91d43c5fea5",
}  # fmt: skip
_ROW = {
    "path": 'spec.ports[k:{"port":8443,"protocol":"TCP"}].targetPort', "effect": "changed", "before": "https",
    "after": 8444,
}  # fmt: skip
_BETWEEN = {"not_before": "2026-12-01T05:04:41Z", "not_after": "2026-12-01T05:04:41.226415Z"}
_BY = {
    "manager": "kubectl-edit", "user": None, "user_agent": None, "subresource": None, "method": "managedFields",
    "confidence": 0.9, "verb": None, "address": None, "impersonator": None,
}  # fmt: skip
_CHANGE = {
    "id": "9f0c6ed0b8c34b6a8c1f0c2ad1a3be57", "op": "update", "object": _SERVICE, "valid": _BETWEEN,
    "observed_at": "2026-12-01T05:04:41.226415Z", "fields": [_ROW], "actor": _BY,
    "provenance": {"basis": "observed", "confidence": 1.0, "rule": None}, "flags": [], "members": [],
}  # fmt: skip
_LIVED = {**_BETWEEN, "to": None}
_WATCHING = {
    "group_resource": "core/services", "namespaces": None, "state": "watching", "from": "2026-12-01T05:04:39.280791Z",
    "to": None, "reason": None,
}  # fmt: skip
_BELONGS = {
    "predicate": "SELECTS", "src": "kubernetes/lab/core/Service/shop/payment",
    "dst": "kubernetes/lab/core/Pod/shop/payment-5d5f7c-x2x9k", "attrs": {"by": "selector"},
    "valid": {"from": "2026-12-01T05:04:39.280791Z", "to": None},
    "provenance": {"basis": "inferred", "confidence": 1.0, "rule": "selects-pod@1"},
}  # fmt: skip
EXAMPLES: dict[str, dict[str, Any]] = {
    "changes": _CHANGE,
    "show": {
        "object": _SERVICE, "valid": _LIVED, "existed": True, "uncertain": None,
        "state": {"kind": "Service", "metadata": {"name": "payment"}, "spec": {"type": "ClusterIP"}},
        "edges": [_BELONGS],
    },
    "history": {"object": _SERVICE, "valid": _LIVED, "change": _CHANGE},
    "fields": {
        **_ROW, "op": "update", "valid": _BETWEEN, "observed_at": "2026-12-01T05:04:41.226415Z", "actor": _BY,
        "change": _CHANGE["id"],
    },
    "diff": {"object": _SERVICE, "effect": "changed", "fields": [_ROW]},
    "coverage": _WATCHING,
    "evidence": {
        "id": "5b2c6ed0b8c34b6a8c1f0c2ad1a3be57", "kind": "event", "object": _SERVICE,
        "at": "2026-12-01T05:04:41Z", "observed_at": "2026-12-01T05:04:41.230415Z", "field_path": None,
        "severity": "Warning", "reason": "FailedToUpdateEndpoint", "message": "the object has been modified",
        "reporter": "endpoint-controller", "count": 1,
    },
    "dead-letters": {
        "position": 96, "reason": "WrongBase", "detail": "the change is against another state than the stored one",
    },
    "symptoms": {
        "check": "service-no-ready-endpoint", "version": 1, "says": "symptom", "object": _SERVICE,
        "sentence": "it selects 1 pod, none is a ready endpoint",
        "fields": [{"object": "EndpointSlice/shop/payment-w9mq2", "path": "endpoints", "value": []}], "others": [],
        "since": "2026-12-01T05:04:41.226415Z", "changes": [], "evidence": [],
    },
    "findings": {
        "check": "service-port-unserved", "version": 1, "says": "mechanism", "object": _SERVICE,
        "sentence": "port 8443 leads to 8444, which none of its pods declares (https=8443, metrics=9102)",
        "fields": [{"object": "Service/shop/payment", "path": _ROW["path"], "value": 8444}], "others": [],
        "since": "2026-12-01T05:04:41.226415Z",
        "changes": [
            {"id": _CHANGE["id"], "op": "update", "object": _SERVICE, "valid": _BETWEEN, "actor": _BY, "fields": [_ROW]}
        ],
        "evidence": [],
    },
}  # fmt: skip
ITEMS = {
    "changes": CHANGE, "show": SHOWN, "history": HISTORY, "fields": FIELD_CHANGE, "diff": DIFFERENCE,
    "coverage": COVERED,
    "evidence": EVIDENCE, "dead-letters": DEAD_LETTER, "symptoms": FINDING,
    "findings": FINDING,
}  # fmt: skip


def responses(question: str) -> Response:
    """What a path of this question can answer, with an example; 304 only where a fixed past was asked for."""
    example = {
        "at": "2026-12-01T05:05:15.153257Z", "known_at": "2026-12-01T05:05:15.153313Z", "scope": "kubernetes/lab",
        "coverage": [_WATCHING], "unknown": [], "items": [EXAMPLES[question]],
        "next": "WzE3OTYxMDE0ODEyMjY0MTUsOTYsMCwwXQ",
    }  # fmt: skip
    content = {"application/json": {"schema": answer_of(ITEMS[question]), "example": example}}
    out: Response = {
        200: {"description": "The answer object; with an ETag where known_at was given", "content": content},
        304: {"description": "The past as asked for has not changed, which it never does"},
    }
    for code, name, why in (
        (400, "BadInstant", "An instant, path, cursor or parameter that cannot be used, or an instant in the future"),
        (404, "UnknownObject", "An object or scope that was never recorded"),
        (409, "AmbiguousObject", "A short name that fits several objects"),
        (410, "BeyondHorizon", "An instant below the retention horizon"),
        (503, "StoreError", "The store cannot be used"),
    ):
        problem = _shape(
            type={"type": "string"}, title={"type": "string"}, status={"type": "integer"}, detail={"type": "string"}
        )
        problem["properties"]["hint"] = {"type": "string", "description": "what to do"}
        told = {"type": "about:blank", "title": name, "status": code, "detail": why, "hint": "what to do"}
        out[code] = {"description": why, "content": {"application/problem+json": {"schema": problem, "example": told}}}
    return out

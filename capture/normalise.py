"""From an object as the API server sent it to the state that is stored: stripped, redacted, with an identity.

managedFields go on to whoever works out the actor; the copy of the applied object becomes a fingerprint;
resourceVersion and generation travel beside the state. What changed is `capture.diff`'s business.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import orjson

from capture.redact import Redactor
from schema.canonical import Json, digest
from schema.errors import BadRecording
from schema.identity import type_of
from schema.kinds import class_of
from schema.records import ObjectRef, SourceVersion

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Prepared:
    """One object, ready to be compared and recorded. `redacted`: something in it was hidden."""

    ref: ObjectRef
    state: dict[str, Json]
    digest: str
    source_version: SourceVersion
    managed: list[dict[str, Json]]
    redacted: bool


def prepare(obj: dict[str, Json], *, scope: str, redactor: Redactor, source: str = "kubernetes") -> Prepared:
    """Prepare one object; `obj` stays as it was. Raises BadRecording when it has no kind, version or name."""
    api_version, kind, meta = obj.get("apiVersion"), obj.get("kind"), obj.get("metadata")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not isinstance(meta, dict):
        raise BadRecording("an object without apiVersion, kind or metadata")
    name, namespace, uid = meta.get("name"), meta.get("namespace"), meta.get("uid")
    if not isinstance(name, str) or not name:
        raise BadRecording(f"a {kind} without a name")
    type_ = type_of(api_version, kind)
    stripped = {key: value for key, value in meta.items() if key not in _BESIDE}
    applied = None
    annotations = meta.get("annotations")
    if isinstance(annotations, dict) and _APPLIED in annotations:
        applied = redactor.fingerprint(str(annotations[_APPLIED]))
        rest = {key: value for key, value in annotations.items() if key != _APPLIED}
        stripped.pop("annotations")
        if rest:
            stripped["annotations"] = rest
    whole: dict[str, Json] = {**obj, "metadata": stripped}
    if type_ == "core/Secret":
        whole = _folded(whole)
    state = redactor.redact(whole, type_)
    try:
        state_digest = digest(state)
    except (orjson.JSONEncodeError, UnicodeError, RecursionError) as error:
        raise BadRecording(f"{kind} {name} cannot be stored: {error}") from None
    generation, version = meta.get("generation"), meta.get("resourceVersion")
    managed = meta.get("managedFields")
    return Prepared(
        ref=ObjectRef.model_construct(
            source=source,
            scope=scope,
            type=type_,
            kind=kind,
            class_=class_of(type_),
            namespace=namespace if isinstance(namespace, str) and namespace else None,
            name=name,
            uid=uid if isinstance(uid, str) else _derived_uid(meta),
        ),
        state=state,
        digest=state_digest,
        source_version=SourceVersion.model_construct(
            version=version if isinstance(version, str) else None,
            generation=generation if isinstance(generation, int) else None,
            served=api_version,
            last_applied=applied,
        ),
        managed=[one for one in managed if isinstance(one, dict)] if isinstance(managed, list) else [],
        redacted=state is not whole,
    )


_BESIDE = frozenset({"managedFields", "resourceVersion", "generation"})


def _derived_uid(meta: dict[str, Json]) -> str | None:
    """Some aggregated APIs send no uid: then the creation time tells incarnations apart."""
    created = meta.get("creationTimestamp")
    return f"created:{created}" if isinstance(created, str) else None


def _folded(secret: dict[str, Json]) -> dict[str, Json]:
    """stringData said as data, as the API server would store it."""
    plain = secret.get("stringData")
    if not isinstance(plain, dict):
        return secret
    data = secret.get("data")
    folded = dict(data) if isinstance(data, dict) else {}
    for name, value in plain.items():
        folded[name] = (
            base64.b64encode(value.encode("utf-8", "surrogatepass")).decode() if isinstance(value, str) else value
        )
    return {key: value for key, value in secret.items() if key != "stringData"} | {"data": folded}

"""From an object as the API server sent it to the state that is stored: stripped, redacted, with an identity.

managedFields go on to whoever works out the actor; the copy of the applied object becomes a fingerprint;
resourceVersion and generation travel beside the state. What changed is `capture.diff`'s business. Given what the same
object was before, only the fields that moved are redacted, and what did not move is shared with the older state: the
result is the same, it is found sooner and kept once.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import NamedTuple

import orjson

from capture.redact import Redactor
from schema.canonical import Json, canonical, digest, digest_of
from schema.errors import BadRecording
from schema.identity import Key, type_of
from schema.kinds import class_of
from schema.records import ObjectRef, SourceVersion, trusted

HELM = "helm.sh/release.v1"
_HELM_KEPT = frozenset({"apiVersion", "kind", "metadata", "type", "immutable"})
"""Of what Helm keeps in a Secret: a release is all manifests and values of a chart, packed, secrets among them."""
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Prepared(NamedTuple):
    """One object, ready to be compared and recorded. `hidden`: the top-level fields in which something was hidden.
    `prints` and `applied_print`: length and hash of each top-level field, and of the copy of the applied object, as
    they were sent, so that what was made of them can be used again. They are Python's own 64-bit hashes, keyed anew in
    every process: compared with the object's last only, and stored nowhere."""

    ref: ObjectRef
    key: Key
    state: dict[str, Json]
    digest: str
    source_version: SourceVersion
    managed: list[dict[str, Json]]
    hidden: frozenset[str]
    prints: Mapping[str, tuple[int, int]]
    applied_print: int | None

    @property
    def redacted(self) -> bool:
        return bool(self.hidden)


def prepare(
    obj: dict[str, Json], *, scope: str, redactor: Redactor, source: str = "kubernetes", last: Prepared | None = None
) -> Prepared:
    """Prepare one object; it keeps its meaning, though equal parts of it may be swapped for those of `last`, an earlier
    form of the same key under the same redactor. Raises BadRecording when it has no kind, version or name."""
    api_version, kind, meta = obj.get("apiVersion"), obj.get("kind"), obj.get("metadata")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not isinstance(meta, dict):
        raise BadRecording("an object without apiVersion, kind or metadata")
    name, namespace, uid = meta.get("name"), meta.get("namespace"), meta.get("uid")
    if not isinstance(name, str) or not name:
        raise BadRecording(f"a {kind} without a name")
    type_ = type_of(api_version, kind)
    stripped = {key: value for key, value in meta.items() if key not in _BESIDE}
    applied = applied_print = None
    annotations = meta.get("annotations")
    if isinstance(annotations, dict) and _APPLIED in annotations:
        text = str(annotations[_APPLIED])
        applied_print = hash(text)
        same = last is not None and last.applied_print == applied_print
        applied = last.source_version.last_applied if last is not None and same else redactor.fingerprint(text)
        rest = {key: value for key, value in annotations.items() if key != _APPLIED}
        stripped.pop("annotations")
        if rest:
            stripped["annotations"] = rest
    try:
        whole: dict[str, Json] = {**obj, "metadata": stripped}
        if type_ == "core/Secret":
            whole = _folded(whole)
        blob = whole.get("type") == HELM and type_ == "core/Secret"
        if blob:
            whole = {part: value for part, value in whole.items() if part in _HELM_KEPT}
        state, told, hidden, prints = _redacted(whole, type_, redactor, last)
    except (orjson.JSONEncodeError, UnicodeError, RecursionError) as error:
        raise BadRecording(f"{kind} {name} cannot be stored: {error}") from None
    generation, version = meta.get("generation"), meta.get("resourceVersion")
    managed = meta.get("managedFields")
    scoped = namespace if isinstance(namespace, str) and namespace else None
    incarnation = uid if isinstance(uid, str) else _derived_uid(meta)
    if last is not None and last.ref.uid == incarnation and last.key == (source, scope, type_, scoped, name):
        ref, key = last.ref, last.key
    else:
        ref = trusted(
            ObjectRef,
            {
                "source": source, "scope": scope, "type": type_, "kind": kind, "class_": class_of(type_),
                "namespace": scoped, "name": name, "uid": incarnation,
            },
        )  # fmt: skip
        key = ref.key
    return Prepared(
        ref=ref,
        key=key,
        state=state,
        digest=told,
        source_version=trusted(
            SourceVersion,
            {
                "version": version if isinstance(version, str) else None,
                "generation": generation if isinstance(generation, int) else None,
                "served": api_version,
                "last_applied": applied,
                "anew": None,
            },
        ),
        managed=[one for one in managed if isinstance(one, dict)] if isinstance(managed, list) else [],
        hidden=hidden | {"data"} if blob else hidden,
        prints=prints,
        applied_print=applied_print,
    )


def recalled(ref: ObjectRef, state: dict[str, Json], source_version: SourceVersion) -> Prepared:
    """One object as it was stored earlier: what is not stored (raw hashes, managedFields) is not known any more."""
    hidden = frozenset(name for name, value in state.items() if _bears_masks(canonical(value)))
    if state.get("type") == HELM and ref.type == "core/Secret":
        hidden |= {"data"}
    return Prepared(ref, ref.key, state, digest(state), source_version, [], hidden, {}, None)


_BESIDE = frozenset({"managedFields", "resourceVersion", "generation"})


def _derived_uid(meta: dict[str, Json]) -> str | None:
    """Some aggregated APIs send no uid: then the creation time tells incarnations apart."""
    created = meta.get("creationTimestamp")
    return f"created:{created}" if isinstance(created, str) else None


def _redacted(
    whole: dict[str, Json], type_: str, redactor: Redactor, last: Prepared | None
) -> tuple[dict[str, Json], str, frozenset[str], dict[str, tuple[int, int]]]:
    """The state field by field, and its digest: a field sent as it was before is taken over as it was stored."""
    state: dict[str, Json] = {}
    hidden: set[str] = set()
    prints: dict[str, tuple[int, int]] = {}
    spelled: dict[str, bytes] = {}
    before = last.state if last is not None else {}
    for name, value in whole.items():
        raw = canonical(value)
        if isinstance(value, dict | list):
            prints[name] = print_ = len(raw), hash(raw)
            if last is not None and last.prints.get(name) == print_:
                state[name] = before[name]
                spelled[name] = raw
                if name in last.hidden:
                    hidden.add(name)
                    spelled[name] = canonical(before[name])
                continue
            if _bears_masks(raw):
                hidden.add(name)  # Redacted before it came here: the same is said of it again.
        fresh = redactor.section(name, value, type_, raw)
        if fresh is not value:
            hidden.add(name)
            raw = canonical(fresh)
        spelled[name] = raw
        state[name] = share(before[name], fresh) if name in before else fresh
    body = b",".join([canonical(name) + b":" + spelled[name] for name in sorted(spelled)])
    return state, digest_of(b"{" + body + b"}"), frozenset(hidden), prints


def _bears_masks(spelled: bytes) -> bool:
    return b"hmac:" in spelled or b'"fingerprint":"sha256:' in spelled


def share(old: Json, new: Json) -> Json:
    """`new`, made of the very parts of `old` wherever the two are spelled alike, keys in the same order; `old` itself
    if they are alike throughout. Comparing and storing then cost what changed."""
    # Python holds 1, 1.0 and true for equal, and takes no notice of the order of keys; the spelling tells.
    if old == new and orjson.dumps(old) == orjson.dumps(new):
        return old
    if isinstance(new, dict) and isinstance(old, dict):
        for name, value in new.items():
            mine = old.get(name)
            if isinstance(value, str):
                if mine == value:
                    new[name] = mine
            elif isinstance(value, dict | list) and share(mine, value) is mine:
                new[name] = mine
    elif isinstance(new, list) and isinstance(old, list):
        for index, (mine, value) in enumerate(zip(old, new, strict=False)):
            if isinstance(value, str):
                if mine == value:
                    new[index] = mine
            elif isinstance(value, dict | list) and share(mine, value) is mine:
                new[index] = mine
    return new


def _folded(secret: dict[str, Json]) -> dict[str, Json]:
    """stringData said as data, as the API server would store it."""
    plain = secret.get("stringData")
    if not isinstance(plain, dict):
        return secret
    data = secret.get("data")
    folded = dict(data) if isinstance(data, dict) else {}
    for name, value in plain.items():
        folded[name] = base64.b64encode(value.encode()).decode() if isinstance(value, str) else value
    return {key: value for key, value in secret.items() if key != "stringData"} | {"data": folded}

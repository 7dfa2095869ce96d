"""The records of the log, version 1: change, state, amend, retract, coverage, evidence, horizon.

This is the one format that cannot be changed later without pain. Unknown fields are kept (a newer recorder may say
more), an unknown major version or type is refused with BadRecord. Instants are int64 microseconds; ids and digests are
32 hex digits. `parse` and `dump` are the only way in and out.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, TypeAdapter, ValidationError
from pydantic_core import core_schema

from schema.canonical import Json
from schema.errors import BadRecord
from schema.identity import Key
from schema.patch import PatchOp

Instant = Annotated[int, Field(ge=-(2**63), lt=2**63)]
# What orjson parsed is JSON already: pydantic need not walk it again.
_Value = Annotated[Json, GetPydanticSchema(lambda _source, _handler: core_schema.any_schema())]
_State = Annotated[dict[str, Json], GetPydanticSchema(lambda _source, _handler: core_schema.dict_schema())]
_Patch = Annotated[
    list[PatchOp],
    GetPydanticSchema(lambda _source, _handler: core_schema.list_schema(core_schema.dict_schema())),
]
Flag = Literal["final_state_unknown", "from_relist", "epoch_break", "redacted", "duplicate_keys", "noise", "replaced"]
Effect = Literal["added", "removed", "changed", "reordered", "shadowed", "unshadowed"]
Op = Literal["create", "update", "delete", "observe"]


_set = object.__setattr__


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)


class _Part(_Model):
    """A part that most records leave at its default. Frozen, hence hashable, hence not copied for each record."""

    model_config = ConfigDict(frozen=True)


_M = TypeVar("_M", bound=_Model)


def trusted(model: type[_M], values: dict[str, Any], beside: dict[str, Json] | None = None) -> _M:
    """A record or part made of values that need no check, since the caller made each itself: all fields, in their own
    names and types, and `beside` them what newer readers may know. Half the time of checking, which is what
    `model_construct` would save if it were not slower still."""
    made = model.__new__(model)
    _set(made, "__dict__", values)
    _set(made, "__pydantic_fields_set__", set(values))
    _set(made, "__pydantic_extra__", beside or {})
    _set(made, "__pydantic_private__", None)
    return made


class ObjectRef(_Model):
    """Which object, by key and incarnation. `class` is the closed kind of the ontology."""

    source: str
    scope: str
    type: str
    kind: str
    class_: str = Field(alias="class")
    namespace: str | None = None
    name: str
    uid: str | None = None

    @cached_property
    def key(self) -> Key:
        """Asked for many times for each record, so worked out once; a copy may change the uid, never the key."""
        return Key(self.source, self.scope, self.type, self.namespace, self.name)


class Valid(_Model):
    """When it became true: somewhere in (not_before, not_after]. `clock` says what gave the lower bound."""

    not_before: Instant
    not_after: Instant
    clock: str = "recorder"


class SourceVersion(_Part):
    """What the source calls this version, as given, and what the stored state leaves out. `anew`: since when versions
    of the incarnation grow; None: ever since it was first seen. It came back then, or its version had not grown."""

    version: str | None = None
    generation: int | None = None
    served: str | None = None
    last_applied: str | None = None
    anew: Instant | None = None


class FieldChange(_Model):
    """One field, for people and joins: keyed `path`, RFC 6901 `pointer` into the new state (a removal: the old)."""

    path: str
    pointer: str
    effect: Effect
    before: _Value = None
    after: _Value = None


class Actor(_Part):
    """With what tool (`manager`, `user_agent`) and by whom (`user`, as whom `impersonator` acted), by what `verb`, from
    where (`address`: the client's and its proxies'), and how we know."""

    manager: str | None = None
    user: str | None = None
    user_agent: str | None = None
    subresource: str | None = None
    method: Literal["audit", "managedFields", "commit", "none"] = "none"
    confidence: float = Field(default=0.0, ge=0, le=1)
    verb: str | None = None
    address: str | None = None
    impersonator: str | None = None


class Provenance(_Part):
    """How a fact is known. `rule` is id@version of what inferred it."""

    basis: Literal["observed", "declared", "inferred", "asserted"] = "observed"
    confidence: float = Field(default=1.0, ge=0, le=1)
    rule: str | None = None


class Change(_Model):
    """One transition of one object. `base` and `digest` are of the stored state before and after (None: no state)."""

    v: Literal[1] = 1
    type: Literal["change"] = "change"
    id: str
    op: Op
    object: ObjectRef
    valid: Valid
    observed_at: Instant
    source_version: SourceVersion = SourceVersion()
    base: str | None = None
    digest: str | None = None
    patch: _Patch = []
    fields: list[FieldChange] = []
    actor: Actor = Actor()
    provenance: Provenance = Provenance()
    flags: list[Flag] = []
    redaction_key: str | None = None


class State(_Model):
    """The full stored state of a living object: a checkpoint, not a change.

    Retention writes them too, in place of what it drops: `horizon` true, with the id of what they stand for. Only then
    `late` says that it stands outside the chain of patches, and `broken` why that chain was broken there.
    """

    v: Literal[1] = 1
    type: Literal["state"] = "state"
    id: str
    object: ObjectRef
    valid: Valid
    observed_at: Instant
    source_version: SourceVersion = SourceVersion()
    digest: str
    state: _State
    reason: str
    flags: list[Flag] = []
    redaction_key: str | None = None
    horizon: bool = False
    late: bool = False
    broken: str | None = None


class Amend(_Model):
    """Corrects what is said about an earlier change; fields left out stay as they were."""

    v: Literal[1] = 1
    type: Literal["amend"] = "amend"
    id: str
    source: str
    scope: str
    amends: str
    observed_at: Instant
    valid: Valid | None = None
    actor: Actor | None = None
    provenance: Provenance | None = None


class Retract(_Model):
    """Withdraws an earlier change."""

    v: Literal[1] = 1
    type: Literal["retract"] = "retract"
    id: str
    source: str
    scope: str
    retracts: str
    observed_at: Instant
    reason: str


class Span(_Model):
    """Half-open [from, to); the open end is `schema.instants.MAX`."""

    from_: Instant = Field(alias="from")
    to: Instant


class Coverage(_Model):
    """How well one group-resource was watched. `namespaces` None means all of them."""

    v: Literal[1] = 1
    type: Literal["coverage"] = "coverage"
    id: str
    source: str
    scope: str
    group_resource: str
    namespaces: list[str] | None = None
    state: Literal["watching", "gap", "forbidden", "removed", "ended"]
    valid: Span
    epoch: str
    observed_at: Instant
    reason: str | None = None


class Evidence(_Model):
    """Something recorded that bears on an object: a Kubernetes Event, a log line, a metric window, a call. `series`:
    what its occurrences have in common at the source, such as the uid of an Event."""

    v: Literal[1] = 1
    type: Literal["evidence"] = "evidence"
    id: str
    kind: Literal["event", "log", "metric", "call"]
    object: ObjectRef
    at: Instant
    observed_at: Instant
    first_at: Instant | None = None
    field_path: str | None = None
    severity: str | None = None
    reason: str | None = None
    message: str | None = None
    reporter: str | None = None
    count: int = 1
    occurrences: int = 1
    series: str | None = None


class Horizon(_Model):
    """From here on nothing below `at` can be asked about or told: what lay there was dropped."""

    v: Literal[1] = 1
    type: Literal["horizon"] = "horizon"
    id: str
    source: str
    scope: str
    at: Instant
    observed_at: Instant


Record = Change | State | Amend | Retract | Coverage | Evidence | Horizon

_ADAPTER: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="type")])


def dump(record: Record) -> bytes:
    """The record on the wire: compact JSON. Defaults are left out; `v` and `type` always stand."""
    body = record.model_dump(mode="python", by_alias=True, exclude_defaults=True)
    return orjson.dumps({"v": record.v, "type": record.type, **body})


def parse(raw: bytes) -> Record:
    """The record of `raw`. Raises BadRecord with the reason: not JSON, unknown version, unknown type, wrong shape."""
    return parse_body(load(raw))


def load(raw: bytes) -> dict[str, Json]:
    """The JSON object of `raw`, not yet validated. Raises BadRecord when it is none, or of an unknown version."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadRecord(f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRecord("not a JSON object")
    if body.get("v") != 1:
        raise BadRecord(f"unknown record version {body.get('v')!r}", hint="upgrade Hindgraph; the record is kept")
    return body


def parse_body(body: dict[str, Json]) -> Record:
    """The record that a loaded object is. Raises BadRecord: unknown type, wrong shape."""
    try:
        return _ADAPTER.validate_python(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadRecord(f"not a valid record: {where}: {first['msg']}") from None


def scope_of(record: Record) -> tuple[str, str]:
    """(source, scope): the unit of ordering."""
    if isinstance(record, Change | State | Evidence):
        return record.object.source, record.object.scope
    return record.source, record.scope

"""The answer object, the same on all faces: when it was asked about, how well that was watched, and the items.

Names of fields here are relied upon by scripts and versioned with `/v1`. Instants leave as RFC 3339 UTC, an open end
as null. How items are found is `api.questions`; how they look to people is the face's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from schema import instants
from schema.canonical import Json
from schema.identity import Key
from schema.instants import MAX
from schema.records import Change, Evidence
from store.past import Covered, Edge, Version


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gives. `next` is the cursor of the following page; a `fixed` answer can never change.

    Nothing is known of what lay below `horizon` (-MAX: nothing was dropped).
    """

    at: int
    known_at: int
    scope: str
    coverage: list[dict[str, Json]]
    unknown: list[dict[str, Json]]
    items: list[dict[str, Json]] = field(default_factory=list)
    next: str | None = None
    fixed: bool = False
    horizon: int = -MAX

    def as_json(self) -> dict[str, Json]:
        return {
            "at": instants.show(self.at),
            "known_at": instants.show(self.known_at),
            "scope": self.scope,
            "horizon": None if self.horizon == -MAX else instants.show(self.horizon),
            "coverage": [*self.coverage],
            "unknown": [*self.unknown],
            "items": [*self.items],
            "next": self.next,
        }


def moment(instant: int) -> str | None:
    """An instant as answers spell it; the open end is null."""
    return None if instant == MAX else instants.show(instant)


def moment_item(not_before: int, not_after: int) -> dict[str, Json]:
    """An instant that is known between two bounds."""
    return {"not_before": moment(not_before), "not_after": moment(not_after)}


def change_item(change: Change, members: Sequence[Change] = ()) -> dict[str, Json]:
    """A change, with the changes that controllers made because of it."""
    ref = change.object
    return {
        "id": change.id,
        "op": change.op,
        "object": {
            "source": ref.source, "scope": ref.scope, "type": ref.type, "kind": ref.kind, "class": ref.class_,
            "namespace": ref.namespace, "name": ref.name, "uid": ref.uid,
        },
        "valid": moment_item(change.valid.not_before, change.valid.not_after),
        "observed_at": instants.show(change.observed_at),
        "fields": [
            {"path": one.path, "effect": one.effect, "before": one.before, "after": one.after} for one in change.fields
        ],
        "actor": change.actor.model_dump(mode="json"),
        "provenance": change.provenance.model_dump(mode="json"),
        "flags": [*change.flags],
        "members": [change_item(one) for one in members],
    }  # fmt: skip


def object_item(key: Key, kind: str, class_: str, uid: str | None) -> dict[str, Json]:
    return {
        "source": key.source, "scope": key.scope, "type": key.type, "kind": kind, "class": class_,
        "namespace": key.namespace, "name": key.name, "uid": uid,
    }  # fmt: skip


def version_item(version: Version) -> dict[str, Json]:
    """One row of history: it began in (not_before, from] and held until `to`."""
    return {
        "object": object_item(version.key, version.kind, version.class_, version.uid),
        "valid": {
            "not_before": moment(version.not_before),
            "not_after": moment(version.vf),
            "to": moment(version.vt),
        },
    }


def edge_item(edge: Edge) -> dict[str, Json]:
    return {
        "predicate": edge.predicate, "src": str(edge.src), "dst": str(edge.dst), "attrs": edge.attrs,
        "valid": {"from": None if edge.vf is None else moment(edge.vf), "to": moment(edge.vt)},
        "provenance": {"basis": edge.basis, "confidence": edge.confidence, "rule": edge.rule},
    }  # fmt: skip


def evidence_item(one: Evidence) -> dict[str, Json]:
    """Something recorded that bears on an object; `at` is when it took place, as far as the source says."""
    key = one.object.key
    return {
        "id": one.id, "kind": one.kind,
        "object": object_item(key, one.object.kind, one.object.class_, one.object.uid),
        "at": moment(one.at), "observed_at": moment(one.observed_at), "field_path": one.field_path,
        "severity": one.severity, "reason": one.reason, "message": one.message, "reporter": one.reporter,
        "count": one.count,
    }  # fmt: skip


def covered_item(row: Covered) -> dict[str, Json]:
    return {
        "group_resource": row.group_resource,
        "namespaces": None if row.namespaces is None else [*row.namespaces],
        "state": row.state,
        "from": moment(row.vf),
        "to": moment(row.vt),
        "reason": row.reason,
    }

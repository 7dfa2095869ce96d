"""The question of what is wrong: runs the checks over the slice of a moment, and tells what they found.

What counts as wrong is decided in `diagnose`; here only how a finding is spelled. Symptoms are the findings of the
checks that say so.
"""

from __future__ import annotations

from dataclasses import replace

from api.answer import Answer, moment_item, object_item
from api.answer import moment as spelled
from api.questions import Moment, known, tell
from api.slices import read
from diagnose.catalogue import CHECKS, READS, Unknown, run
from diagnose.check import Check, Finding
from diagnose.slices import Made, Slice
from schema import instants
from schema.canonical import Json
from schema.identity import Key
from schema.kinds import class_of
from store.rewind import Rewind

SYMPTOMS = tuple(one for one in CHECKS if one.says == "symptom")


def findings(
    rewind: Rewind, moment: Moment, namespace: str | None = None, checks: tuple[Check, ...] = CHECKS
) -> Answer:
    """What the checks find at the moment, each with the changes that made it so where they were recorded.

    With a namespace: what is found of its objects, or bears on them. A check whose types were not watched is told
    among what is unknown.
    """
    known(rewind, moment.scope, namespace)
    slice_ = read(rewind, moment, READS)
    found, unknown = run(slice_, checks)
    if namespace is not None:
        found = [one for one in found if concerns(one, namespace)]
    answer = tell(rewind, moment, moment.at, [item(slice_, one) for one in found])
    return replace(answer, unknown=[*answer.unknown, *(_unknown_item(one, moment.at) for one in unknown)])


def concerns(one: Finding, namespace: str) -> bool:
    """Whether a finding is of an object of a namespace, or bears on one."""
    return namespace in {key.namespace for key in (one.found.key, *one.found.others)}


def item(slice_: Slice, one: Finding) -> dict[str, Json]:
    """A finding as answers spell it."""
    found = one.found
    return {
        "check": one.check.id,
        "version": one.check.version,
        "says": one.check.says,
        "object": _object(slice_, found.key),
        "sentence": found.sentence,
        "fields": [
            {"object": _short(cited.key), "path": cited.path, "value": cited.value} for cited in found.cited
        ],
        "others": [_object(slice_, key) for key in found.others],
        "since": None if one.since is None else spelled(one.since),
        "changes": [_made(made) for made in found.made],
        "evidence": [
            {"id": heard.id, "at": instants.show(heard.at), "reason": heard.reason, "message": heard.message}
            for heard in found.evidence
        ],
    }  # fmt: skip


def _made(made: Made) -> dict[str, Json]:
    change = made.recorded.change
    return {
        "id": change.id,
        "op": change.op,
        "object": object_item(change.object.key, change.object.kind, change.object.class_, change.object.uid),
        "valid": moment_item(change.valid.not_before, change.valid.not_after),
        "actor": change.actor.model_dump(mode="json"),
        "fields": [
            {"path": row.path, "effect": row.effect, "before": row.before, "after": row.after} for row in made.rows
        ],
    }


def _object(slice_: Slice, key: Key) -> dict[str, Json]:
    seen = slice_.objects.get(key)
    if seen is None:
        return object_item(key, key.kind, class_of(key.type), None)
    return object_item(key, seen.kind, seen.class_, seen.uid)


def _short(key: Key) -> str:
    return "/".join(part for part in (key.kind, key.namespace, key.name) if part)


def _unknown_item(one: Unknown, at: int) -> dict[str, Json]:
    return {
        "group_resource": ", ".join(one.types), "namespaces": None, "state": "unchecked",
        "from": instants.show(at), "to": instants.show(at),
        "reason": f"{one.check.id} can say nothing: not watched",
    }  # fmt: skip

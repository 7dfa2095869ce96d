"""What the reflector found, put into records: change, state and coverage of one scope, with bounds of when. Pure.

Ids are functions of what was seen, so the same input gives the same records for ever. Deciding what happened is left to
`reflector`, with what tool to `actor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from capture.diff import Diff
from capture.kubernetes.actor import NOBODY, instant_of
from capture.normalise import Prepared
from schema.canonical import Json, hash128
from schema.identity import change_id
from schema.instants import MAX, SECOND
from schema.patch import PatchOp
from schema.records import (
    Actor,
    Change,
    Coverage,
    FieldChange,
    Flag,
    Op,
    Provenance,
    SourceVersion,
    Span,
    State,
    Valid,
    trusted,
)

LAG = 10 * SECOND
"""A watch delivers a change within this time; measured: 1.3 s at most."""

_LONGEST_GRACE = 2**31  # Seconds; what lies before the year 1 is taken for no bound anyway.
_OBSERVED = Provenance()  # One for all: pydantic would copy its default into every change.


class Seen(NamedTuple):
    """How a state came in: bounds of when it can have become true, and what to flag."""

    t: int
    since: int
    flags: tuple[Flag, ...] = ()


class Teller:
    """Makes the records of one scope and one run of the recorder."""

    def __init__(self, scope: str, epoch: str, redaction_key: str) -> None:
        self._scope = scope
        self._epoch = epoch
        self._redaction_key = redaction_key

    def change(
        self,
        op: Op,
        new: Prepared,
        valid: Valid,
        seen: Seen,
        *,
        base: str | None = None,
        found: Diff | None = None,
        actor: Actor = NOBODY,
        observed: int | None = None,
        replaced: bool = False,
        last_written: int | None = None,
    ) -> Change:
        """One transition. A create or observe carries the whole state; `found` is then against its predecessor."""
        flags: list[Flag] = list(seen.flags)
        fields: list[FieldChange] = found.fields if found is not None else []
        beside: dict[str, Json] = {}
        if new.redacted:
            flags.append("redacted")
        if found is not None and found.duplicate_keys:
            flags.append("duplicate_keys")
        if op == "update" and found is not None and (found.noise or not fields):
            flags.append("noise")
        if replaced:
            flags.append("replaced")
        if last_written is not None:
            beside["last_written"] = last_written
        if found is not None and found.guessed and new.ref.class_ == "CustomResource":
            beside["guessed_keys"] = list(found.guessed)
        patch: list[PatchOp] = []
        if op == "update" and found is not None:
            patch = found.patch
        elif op in ("create", "observe"):
            patch = [{"op": "add", "path": "", "value": new.state}]
        return trusted(
            Change,
            {
                "v": 1,
                "type": "change",
                "id": _id(new, op, base),
                "op": op,
                "object": new.ref,
                "valid": valid,
                "observed_at": seen.t if observed is None else observed,
                "source_version": new.source_version,
                "base": base,
                "digest": None if op == "delete" else new.digest,
                "patch": patch,
                "fields": fields,
                "actor": actor,
                "provenance": _OBSERVED,
                "flags": flags,
                "redaction_key": self._redaction_key if new.redacted else None,
            },
            beside,
        )

    def state(self, now: Prepared, valid: Valid, t: int) -> State:
        """The whole state of a living object, as it stands after its last change."""
        return State(
            id=_id(now, "state"),
            object=now.ref,
            valid=valid,
            observed_at=t,
            source_version=now.source_version,
            digest=now.digest,
            state=now.state,
            reason="checkpoint",
            flags=["redacted"] if now.redacted else [],
            redaction_key=self._redaction_key if now.redacted else None,
        )

    def coverage(self, name: str, state: str, since: int, t: int, reason: str, *, again: bool = False) -> Coverage:
        """How a watch is doing from `since` on. `again`: the same may have been told of the same instant before."""
        told = (str(t),) if again else ()
        resource, namespace = spelled(name)
        return Coverage.model_validate(
            {
                "id": hash128("coverage", self._scope, name, state, str(since), self._epoch, *told),
                "source": "kubernetes",
                "scope": self._scope,
                "group_resource": resource,
                "namespaces": None if namespace is None else [namespace],
                "state": state,
                "valid": Span(from_=since, to=MAX),
                "epoch": self._epoch,
                "observed_at": t,
                "reason": reason,
            }
        )


_SPACE = "namespace="


def spelled(name: str) -> tuple[str, str | None]:
    """The name of a watch as coverage has it: what of which resource, and in which namespace, if in one only."""
    words = name.split(" ")
    spaces = [word.removeprefix(_SPACE) for word in words if word.startswith(_SPACE)]
    return " ".join(word for word in words if not word.startswith(_SPACE)), spaces[0] if spaces else None


def name_of(group_resource: str, namespaces: Sequence[str] | None) -> str:
    """The name of the watch that coverage tells of; the other way of `spelled`."""
    resource, *more = group_resource.split(" ")
    return " ".join([resource, *(f"{_SPACE}{one}" for one in namespaces or ()), *more])


def _id(one: Prepared, op: str, base: str | None = None) -> str:
    said = one.source_version
    return change_id(one.key, one.ref.uid, op, said.version, base=base, digest=one.digest, anew=said.anew)


def anew(one: Prepared, t: int, before: int | None) -> Prepared:
    """The same, with its versions counted from `t` on, or from just behind where they were counted from `before`."""
    since = t if before is None else max(t, before + 1)
    return one._replace(source_version=trusted(SourceVersion, {**vars(one.source_version), "anew": since}))


def between(lower: int, received: int, claimed: int | None, clock: str) -> Valid:
    """The bounds, tightened by what the object claims if that lies within them; else the claim is kept beside them."""
    if claimed is None or claimed <= lower:
        return bounds(min(lower, received), received)
    if claimed > received:
        return Valid.model_validate({"not_before": min(lower, received), "not_after": received, "claimed": claimed})
    return bounds(claimed, received, clock)


def bounds(not_before: int, not_after: int, clock: str = "recorder") -> Valid:
    """When it became true, as `clock` says."""
    return trusted(Valid, {"not_before": not_before, "not_after": not_after, "clock": clock})


def marked(meta: dict[str, Json]) -> int | None:
    """When deletion was asked for: the timestamp lies a grace period after it."""
    at, grace = instant_of(meta.get("deletionTimestamp")), meta.get("deletionGracePeriodSeconds")
    if at is None or not isinstance(grace, int):
        return at
    # A claim that no calendar holds is none.
    return at - grace * SECOND if 0 <= grace <= _LONGEST_GRACE else None

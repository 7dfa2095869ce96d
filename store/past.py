"""What questions about the past are answered with: versions, edges, changes, coverage, and what could not be applied.

Plain values without a connection. They are read in `store.chronicle` and `store.rewind`; how they look in an answer is
`api.answer`.
"""

from __future__ import annotations

from dataclasses import dataclass

from schema.canonical import Json
from schema.identity import Key
from schema.records import Change


@dataclass(frozen=True, slots=True)
class Version:
    """One object's state over [vf, vt), as believed at the asked known_at (vt MAX: still so).

    It began somewhere in (not_before, vf] and ended somewhere in (ends_not_before, vt]. `change_id` None: a state, or a
    change up to the horizon.
    """

    key: Key
    kind: str
    class_: str
    uid: str | None
    vf: int
    vt: int
    not_before: int
    ends_not_before: int
    sf: int
    n: int
    change_id: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class Edge:
    """One relation over [vf, vt), as believed at the asked known_at. `vf` None: since some time up to the horizon."""

    predicate: str
    src: Key
    dst: Key
    attrs: dict[str, Json]
    basis: str
    confidence: float
    rule: str
    vf: int | None
    vt: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """A change as it is believed now, at its place in the log and in time. Patch and digests stay with the content."""

    seq: int
    vf: int
    change: Change


@dataclass(frozen=True, slots=True)
class Covered:
    """How one group-resource was watched over [vf, vt)."""

    group_resource: str
    namespaces: list[str] | None
    state: str
    vf: int
    vt: int
    reason: str | None
    epoch: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The record at a log position did not fit: over [since, until) the object may be otherwise than is answered."""

    key: Key
    position: int
    since: int
    until: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    position: int
    scope: str
    reason: str
    detail: str

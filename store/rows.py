"""Rows of the ledger and the operations on them: what the planner says and the ledgers do.

A ledger knows three operations (insert, close, supersede) on three kinds of facts (version, edge, coverage) and on the
recorded changes; objects and buckets are only ever inserted. That both ledgers execute the same operations is why they
hold the same rows.
"""

from __future__ import annotations

from typing import NamedTuple

from schema.identity import Key
from schema.instants import MAX


class Interval(NamedTuple):
    """The five integers of a row, and `seq`, the log position that wrote it."""

    vf: int
    vt: int
    vts: int
    sf: int
    st: int
    seq: int

    def visible(self, at: int, known_at: int) -> bool:
        """The row rule."""
        return self.sf <= known_at < self.st and self.vf <= at and (at < self.vt or known_at < self.vts)


class VersionRow(NamedTuple):
    """One interval of one object: content `n` of incarnation `uid`. `lo`, `vlo`: earliest begin and end."""

    oid: int
    span: Interval
    lo: int
    vlo: int
    n: int
    uid: str | None


class EdgeRow(NamedTuple):
    """One interval of one edge; `body` is the canonical JSON of its attributes, basis, confidence and rule."""

    eid: int
    span: Interval
    predicate: str
    src: str
    dst: str
    body: str


class CoverageRow(NamedTuple):
    """One interval of how one group-resource of one scope was watched; `body` is canonical JSON."""

    cid: int
    span: Interval
    scope: str
    body: str


class ChangeRow(NamedTuple):
    """What a record said about an object. `vf` is the instant it took effect, `n` its content (None: a delete).

    `late` rows (full states that arrived after a later change) stand outside the chain of patches.
    """

    seq: int
    sf: int
    id: str
    oid: int
    op: str
    late: bool
    nb: int
    na: int
    vf: int
    n: int | None
    uid: str | None
    noise: bool
    body: bytes


class Content(NamedTuple):
    """State `n` of an object: whole where `anchor == n`, else a patch against `n - 1`."""

    oid: int
    n: int
    anchor: int
    digest: str
    body: bytes


class ObjectRow(NamedTuple):
    """One key and its 64-bit id. It may be there already."""

    oid: int
    key: Key
    kind: str
    class_: str


class BucketRow(NamedTuple):
    """An object that in some state stood in this bucket of a join: who must be looked at when the other side is
    corrected. It may be there already, and is never taken back."""

    bucket: int
    oid: int


Row = VersionRow | EdgeRow | CoverageRow | ChangeRow | Content | ObjectRow | BucketRow


class Insert(NamedTuple):
    row: Row


class Close(NamedTuple):
    """Set `vt` (and `vlo` of a version) and `vts` on the one open row of a fact."""

    table: str
    fact: int
    vt: int
    vts: int
    vlo: int = MAX


class Supersede(NamedTuple):
    """Believe a row no longer: `st = S`."""

    table: str
    fact: int
    vf: int
    seq: int
    sf: int
    st: int


class OpenGap(NamedTuple):
    """From here on the chain of this object is broken."""

    oid: int
    seq: int
    sf: int
    reason: str


class CloseGap(NamedTuple):
    oid: int
    until: int


class SetHorizon(NamedTuple):
    """From here on the scope cannot be asked about instants below `at`."""

    scope: str
    at: int
    seq: int


RowOp = Insert | Close | Supersede | OpenGap | CloseGap | SetHorizon

"""What is held of one group-resource while it is watched: its living objects, and since when its news are in doubt.

Plain state; when it changes, and what that says, is the reflector's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capture.kubernetes.objects import older
from capture.kubernetes.telling import Seen
from capture.normalise import Prepared
from schema.identity import Key
from schema.records import Valid


@dataclass(slots=True)
class Known:
    """A living object. `changes` and `whole_at`: how many since its whole state was last told, and when that was."""

    prepared: Prepared
    valid: Valid
    whole_at: int
    changes: int = 0


@dataclass(slots=True)
class Watch:
    """One group-resource. `last`: when something was last really received; `gap`: the watch is lost since then, up to
    the next LIST; `hole`: a line or object was of no use, up to the next that is; `doubt`: (last good instant before,
    instant of) such a loss, remembered up to the next whole LIST: what an object went through then came in later."""

    listed: bool = False
    last: int | None = None
    gap: bool = False
    hole: bool = False
    doubt: tuple[int, int] | None = None
    version: str | None = None
    known: dict[Key, Known] = field(default_factory=dict)

    def runs_back(self, version: str | None) -> bool:
        """Whether the version of a LIST lies before what was seen already."""
        return older(version, self.version) or any(
            older(version, one.prepared.source_version.version) for one in self.known.values()
        )

    def in_doubt(self, known: Known | None) -> bool:
        """Whether something was lost since this object was last seen."""
        return self.doubt is not None and (known is None or known.valid.not_after <= self.doubt[1])

    def doubted(self, seen: Seen, known: Known | None) -> Seen:
        """What was lost may have been of this object: then its news may be as old as the loss."""
        if self.doubt is None or not self.in_doubt(known):
            return seen
        return Seen(seen.t, min(seen.since, self.doubt[0]), seen.flags)

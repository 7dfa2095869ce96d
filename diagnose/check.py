"""A check: what it holds, in words and as a function over a slice, and what it finds.

The words are data: `docs/checks.md` is generated from them. A check is pure and reads nothing but its slice, so that
which findings there are depends only on what was recorded up to the slice's instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from diagnose.slices import Made, Slice
from schema.canonical import Json
from schema.identity import Key
from schema.records import Evidence

Says = Literal["symptom", "mechanism"]
"""A symptom says that something is visibly wrong, a mechanism how it comes about."""


@dataclass(frozen=True, slots=True)
class Cited:
    """A field of an object and its value at the slice's instant."""

    key: Key
    path: str
    value: Json


@dataclass(frozen=True, slots=True)
class Found:
    """What a check's function gives. `key`: the object that is wrong, or that must be put right; `others`: what it
    bears on. `made`: the changes that made it true, the first the foremost; empty where it was so before the recording.
    `since` is when it became true, where that is not when the last of them was made."""

    key: Key
    sentence: str
    cited: tuple[Cited, ...]
    made: tuple[Made, ...] = ()
    others: tuple[Key, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    since: int | None = None


Find = Callable[[Slice], Iterator[Found]]


@dataclass(frozen=True, slots=True)
class Check:
    """One entry of the catalogue. `reads`: the types without which nothing can be said: where one was not watched, the
    check is unknown. `also`: types it looks at where they were. The rest is for people."""

    id: str
    version: int
    says: Says
    reads: tuple[str, ...]
    also: tuple[str, ...]
    when: str
    why: str
    silent: tuple[str, ...]
    fix: str
    example: str
    find: Find


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's verdict on objects at an instant, with what it rests on."""

    check: Check
    found: Found

    @property
    def since(self) -> int | None:
        """Since when it holds; None: since before the recording, as far as is known."""
        if self.found.since is not None:
            return self.found.since
        return max((one.at for one in self.found.made), default=None)


def check(
    id_: str, *, reads: tuple[str, ...], when: str, why: str, silent: tuple[str, ...], fix: str, example: str,
    also: tuple[str, ...] = (), says: Says = "mechanism", version: int = 1,
) -> Callable[[Find], Check]:  # fmt: skip
    """Declare a function as a check."""

    def declared(find: Find) -> Check:
        return Check(id_, version, says, reads, also, when, why, silent, fix, example, find)

    return declared

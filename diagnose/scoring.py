"""How well a recording with a known truth was answered. Pure: truth and answers in, marks out.

A truth names the causes (object, operation, field with its value after), other objects that count as naming the
component, and whether anything is wrong at all. An answer is a list of what is named, the likeliest first. What is
recorded and when it is asked is the caller's (`api.evaluating`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from diagnose.check import Finding
from schema import instants
from schema.canonical import Json
from schema.errors import BadPath, InputError
from schema.paths import matches
from store.derive.facts import State, maps, text

Component = tuple[str, str | None, str]
"""Kind, namespace, name."""
_HIDDEN = "(redacted)"
"""What a truth writes for a value that no recording may hold."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause as the truth tells it. `path` None: the object as a whole was created or deleted."""

    component: Component
    op: str
    path: str | None
    after: Json
    at: int


@dataclass(frozen=True, slots=True)
class Truth:
    """What was done to a recorded cluster. `visible` False: its cause never enters the API."""

    id: str
    mechanism: str
    healthy: bool
    visible: bool
    causes: tuple[Cause, ...]
    accept: frozenset[Component]


@dataclass(frozen=True, slots=True)
class Named:
    """An object that an answer blames, and the fields of it (path, after); none: the object as a whole, by `op`."""

    component: Component
    op: str
    rows: tuple[tuple[str, Json], ...]


@dataclass(frozen=True, slots=True)
class Score:
    """The marks of one recording. `rank` is the place of the first cause among what was named, from 1; None: not named.

    `causes`: how many of the true ones were named with their field; `beside`: how many things were named that are no
    cause; `noisy`: the instants of a healthy cluster (a whole recording, or what came before the first cause) at which
    something was found.
    """

    id: str
    mechanism: str
    healthy: bool
    visible: bool
    at_1: bool
    at_3: bool
    causes: int
    of: int
    rank: int | None
    beside: int
    noisy: int
    instants: int

    @property
    def right(self) -> bool:
        """Whether a person would have been told the truth: silence where all was well, else the cause first and each
        cause with its field."""
        if self.healthy or not self.visible:
            return self.noisy == 0 and self.beside == 0
        return self.at_1 and self.causes == self.of


def truth_of(told: State) -> Truth:
    """The truth in a file. Raises InputError where it is none."""
    if not isinstance(told.get("healthy"), bool) or not text(told, "id"):
        raise InputError("not a truth file: `id` and `healthy` are missing", hint="docs/checks.md, Scoring")
    causes = tuple(
        Cause(
            _component(one), text(one, "op"), text(one, "path") or None, one.get("after"),
            instants.parse(text(one, "at")),
        )
        for one in maps(told, "causes")
    )  # fmt: skip
    accept = frozenset(_component(one) for one in maps(told, "accept"))
    return Truth(
        text(told, "id"),
        text(told, "mechanism"),
        told["healthy"] is True,
        told.get("visible") is not False,
        causes,
        accept,
    )


def named(findings: Iterable[Finding]) -> list[Named]:
    """What findings blame, in their order, each once: the changes that made them so, else the object that is wrong."""
    found: list[Named] = []
    for one in findings:
        if one.check.says != "mechanism":
            continue
        for made in one.found.made:
            ref = made.recorded.change.object
            rows = tuple((row.path, row.after) for row in made.rows)
            found.append(Named((ref.kind, ref.namespace, ref.name), made.recorded.change.op, rows))
        if not one.found.made:
            key = one.found.key
            rows = tuple((each.path, each.value) for each in one.found.cited if each.key == key)
            found.append(Named((key.kind, key.namespace, key.name), "", rows))
    return [one for place, one in enumerate(found) if one not in found[:place]]


def score(truth: Truth, answer: Sequence[Named], noisy: int, instants: int) -> Score:
    """The marks for an answer, and for the instants at which there should have been none."""
    wanted = {one.component for one in truth.causes} | truth.accept
    components = list(dict.fromkeys(one.component for one in answer))
    hits = [cause for cause in truth.causes if any(_meets(one, cause) for one in answer)]
    places = [place for place, one in enumerate(answer, 1) if any(_meets(one, cause) for cause in truth.causes)]
    return Score(
        truth.id, truth.mechanism, truth.healthy, truth.visible,
        at_1=bool(wanted & set(components[:1])), at_3=bool(wanted & set(components[:3])),
        causes=len(hits), of=len(truth.causes), rank=min(places, default=None),
        beside=sum(one not in wanted for one in components), noisy=noisy, instants=instants,
    )  # fmt: skip


def _meets(one: Named, cause: Cause) -> bool:
    """Whether what is named is a cause: the object, and its field with the value after, or its creation or deletion."""
    if one.component != cause.component:
        return False
    if cause.path is None:
        return one.op == cause.op
    return any(_on(path, cause.path) and _holds(after, cause.after) for path, after in one.rows)


def _on(path: str, wanted: str) -> bool:
    try:
        return matches(path, wanted)
    except BadPath:
        return path == wanted


def _holds(value: Json, wanted: Json) -> bool:
    """Whether a recorded value is the wanted one; a server adds defaults to what was asked for."""
    if wanted is None or wanted == _HIDDEN:
        return True
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(_holds(value.get(name), each) for name, each in wanted.items())
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_holds, value, wanted))
    return value == wanted


def _component(told: State) -> Component:
    return text(told, "kind"), text(told, "namespace") or None, text(told, "name")

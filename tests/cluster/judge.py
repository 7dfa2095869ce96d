"""Holds what was recorded against what is and what was: the ledger against the API, the log against the audit log.

Six questions, each with the objects that fail it: is the state now the same (`differing`), is every version there that
was made while its kind was watched (`lost`), every object that lived while it was (`unseen`), is anything told twice
(`doubled`), at a time at which nobody did it (`misplaced`), or that nobody did (`invented`). It is lenient in nothing:
what may be missing is what coverage says was not watched.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from api.home import opened
from api.settings import Settings
from capture.kubernetes.skipped import is_skipped
from capture.normalise import prepare
from capture.redact import Redactor
from schema import instants
from schema.canonical import digest
from schema.identity import Key
from schema.instants import MAX
from schema.records import Change, Flag, Op, parse
from store.rewind import Rewind
from tests.cluster.truth import Span, Truth, lived
from tests.services.api import Api, Object

EVERYTHING = "*"


class Told(NamedTuple):
    """One change of the log, without its content."""

    id: str
    op: Op
    key: Key
    uid: str | None
    version: str | None
    not_before: int
    not_after: int
    flags: tuple[Flag, ...]

    def __str__(self) -> str:
        bounds = f"({instants.show(self.not_before)}, {instants.show(self.not_after)}]"
        return f"{self.op} {self.key} uid {self.uid} version {self.version} in {bounds} {' '.join(self.flags)}".rstrip()


class Standing(NamedTuple):
    """One living object of the ledger, or of the API in the form in which it would be stored."""

    uid: str | None
    version: str | None
    digest: str


@dataclass(slots=True)
class Past:
    """What a home has recorded of one scope. `watched`: by group-resource, when it was; `unfit`: dead letters and
    objects that something could not be applied to."""

    told: list[Told]
    living: dict[Key, Standing]
    watched: dict[str, list[Span]]
    unfit: list[str]


@dataclass(slots=True)
class Verdict:
    """`excused`: versions that are missing where nothing was watched. `widths`: µs from not_before to not_after of the
    changes that were seen as they came, and of those that a relist found."""

    objects: int = 0
    changes: int = 0
    versions: int = 0
    excused: int = 0
    lives: int = 0
    placed: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    widths: dict[str, list[int]] = field(default_factory=lambda: {"watch": [], "relist": []})
    differing: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)

    FAULTS = ("differing", "lost", "unseen", "doubled", "misplaced", "invented", "unfit")

    @property
    def faults(self) -> dict[str, list[str]]:
        return {name: getattr(self, name) for name in self.FAULTS if getattr(self, name)}

    def __str__(self) -> str:
        lines = [
            f"{self.objects} objects alike now; {self.changes} changes ({_counts(self.ops)})",
            f"{self.versions} versions were made, {self.excused} missing as nobody watched; {self.lives} objects lived",
            f"{self.placed} changes placed; "
            + "; ".join(f"{how} {_spread(found)}" for how, found in self.widths.items()),
        ]
        for name, found in self.faults.items():
            lines += [f"{name}: {len(found)}", *(f"  {one}" for one in found[:8])]
        return "\n".join(lines)


def past_of(home: Path, scope: str) -> Past:
    """Everything that a home has recorded of `kubernetes/SCOPE`."""
    full = f"kubernetes/{scope}"
    with opened(Settings(home=home)) as (log, ledger):
        told: list[Told] = []
        after = 0
        while entries := log.read(after=after, limit=10_000):
            after = entries[-1].position
            records = (parse(entry.raw) for entry in entries if entry.scope == full)
            told += [_told(record) for record in records if isinstance(record, Change)]
        rewind = Rewind(ledger)
        known_at = rewind.watermark(full)
        living = {
            one.key: Standing(one.uid, rewind.source_version(one, known_at).version, digest(rewind.state(one)))
            for one in rewind.objects(full, MAX - 1, known_at)
        }
        watched: dict[str, list[Span]] = defaultdict(list)
        blind: list[Span] = []
        for row in rewind.coverage(full, known_at):
            if row.group_resource == EVERYTHING and row.state != "watching":
                blind.append(Span(row.vf, row.vt))
            elif row.state == "watching":
                watched[row.group_resource].append(Span(row.vf, row.vt))
        unfit = [f"position {one.position}: {one.reason}: {one.detail}" for one in rewind.dead_letters()]
        unfit += [f"{one.key}: {one.reason} at position {one.position}" for one in rewind.broken(full, known_at)]
    return Past(told, living, {name: _without(spans, blind) for name, spans in watched.items()}, unfit)


def standing_now(api: Api, home: Path, scope: str) -> dict[Key, Standing]:
    """Every object of the API that is recorded, in the form in which it would be stored."""
    redactor = Redactor(Settings(home=home).redaction_key())
    found: dict[Key, Standing] = {}
    for resource in api.resources():
        path = f"{resource.api_version}/{resource.name}"
        if not is_skipped(path) and path != "v1/events":
            found.update(_standing(one, scope, redactor) for one in api.list(resource))
    return found


def differences(past: Mapping[Key, Standing], now: Mapping[Key, Standing]) -> list[str]:
    """The objects whose state in the ledger is not that of the API."""
    return [
        f"{key}: recorded {past.get(key, 'nothing')}, there is {now.get(key, 'nothing')}"
        for key in sorted(past.keys() | now.keys(), key=str)
        if past.get(key) != now.get(key)
    ]


def judge(past: Past, now: Mapping[Key, Standing], truth: Truth | None) -> Verdict:
    """The verdict; without a truth (nobody wrote an audit log) on the state and on what is told twice only."""
    verdict = Verdict(len(now), len(past.told), unfit=past.unfit, differing=differences(past.living, now))
    verdict.ops.update(one.op for one in past.told)
    _find_doubled(verdict, past.told)
    if truth is not None:
        _find_lost(verdict, past, truth)
        _find_unseen(verdict, past, truth)
        _find_misplaced(verdict, past.told, truth)
    return verdict


def _find_doubled(verdict: Verdict, told: Iterable[Told]) -> None:
    ids: set[str] = set()
    versions: set[tuple[str | None, str | None]] = set()
    dead: set[str | None] = set()
    for one in told:
        if one.id in ids:
            verdict.doubled.append(f"id {one.id}: {one}")
        ids.add(one.id)
        if "epoch_break" in one.flags:
            # What is told after the server went back may have been told before.
            versions.discard((one.uid, one.version))
            dead.discard(one.uid)
        if one.op == "delete":
            if one.uid in dead:
                verdict.doubled.append(f"gone twice: {one}")
            dead.add(one.uid)
            continue
        if (one.uid, one.version) in versions:
            verdict.doubled.append(f"version told twice: {one}")
        versions.add((one.uid, one.version))


def _find_lost(verdict: Verdict, past: Past, truth: Truth) -> None:
    there = {(one.uid, one.version) for one in past.told if one.op != "delete"}
    for (uid, version), made in truth.versions.items():
        life = truth.lives[uid]
        if _ignored(life.group_resource):
            continue
        verdict.versions += 1
        if (uid, version) in there:
            continue
        if any(one.start <= made.start and made.end < one.end for one in past.watched.get(life.group_resource, ())):
            verdict.lost.append(f"{life} uid {uid} version {version}, made in {_shown(made)}")
        else:
            verdict.excused += 1


def _find_unseen(verdict: Verdict, past: Past, truth: Truth) -> None:
    seen = {one.uid for one in past.told}
    for uid, life in truth.lives.items():
        if _ignored(life.group_resource):
            continue
        verdict.lives += 1
        born, gone = lived(life)
        watched = past.watched.get(life.group_resource, ())
        if uid not in seen and any(max(born, one.start) < min(gone, one.end) for one in watched):
            verdict.unseen.append(f"{life} uid {uid}, which lived {_shown(Span(born, gone))}")


def _find_misplaced(verdict: Verdict, told: Iterable[Told], truth: Truth) -> None:
    for one in told:
        life = truth.lives.get(one.uid or "")
        if life is None:
            if one.op != "observe":  # What was there before the audit log began is not in it.
                verdict.invented.append(f"no request about it: {one}")
            continue
        made = truth.versions.get((one.uid or "", one.version or ""))
        if one.op == "delete":
            done = [life.gone] if life.gone is not None else []
        else:
            done = [made] if made is not None else truth.untold.get(one.uid or "", [])
        if not done:
            if one.op != "observe":
                verdict.invented.append(f"nobody did it: {one}")
            continue
        verdict.placed += 1
        if one.op != "observe":
            verdict.widths["relist" if "from_relist" in one.flags else "watch"].append(one.not_after - one.not_before)
        # An observation bounds only from above when the object was written last.
        lower = -MAX if one.op == "observe" else one.not_before
        if not any(lower <= span.end and span.start <= one.not_after for span in done):
            verdict.misplaced.append(f"{one}, but it was done in {' or '.join(map(_shown, done))}")


def _ignored(group_resource: str) -> bool:
    """Not recorded as objects."""
    group, _, name = group_resource.partition("/")
    return group_resource == "core/events" or is_skipped(f"v1/{name}" if group == "core" else f"{group}/v1/{name}")


def _told(record: Change) -> Told:
    valid = record.valid
    return Told(
        record.id, record.op, record.object.key, record.object.uid, record.source_version.version, valid.not_before,
        valid.not_after, tuple(record.flags),
    )  # fmt: skip


def _standing(one: Object, scope: str, redactor: Redactor) -> tuple[Key, Standing]:
    ready = prepare(one, scope=scope, redactor=redactor)
    return ready.key, Standing(ready.ref.uid, ready.source_version.version, ready.digest)


def _without(spans: Iterable[Span], holes: Iterable[Span]) -> list[Span]:
    """The parts of `spans` outside `holes`."""
    left = list(spans)
    for hole in holes:
        parts = [(Span(one.start, min(one.end, hole.start)), Span(max(one.start, hole.end), one.end)) for one in left]
        left = [part for pair in parts for part in pair if part.start < part.end]
    return sorted(left)


def _shown(span: Span) -> str:
    return " to ".join("now" if t == MAX else instants.show(t) for t in span)


def _counts(found: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(found.items()))


def _spread(found: list[int]) -> str:
    if not found:
        return "none"
    ordered = sorted(found)
    half, most = ordered[len(ordered) // 2], ordered[-1]
    return f"{len(found)} (uncertain by {half / 1e6:.2f} s in the middle, {most / 1e6:.2f} s at most)"

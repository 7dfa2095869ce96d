"""Replaying recordings into a home: capture to log to ledger, each step where the last one left off.

A file that was replayed before is compared with what the log has of it, and goes on behind that; where retention
dropped the first of it, comparing begins at the first record that is left. The first recording after another of its
scope goes on from what was alive then: what happened between them is told as over a lost watch. What a recording holds
is `capture`'s business, what a record means `store`'s; this only joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from api.home import guarded
from api.remembering import living, watched
from api.settings import Settings
from capture.kubernetes.recording import BadLine
from capture.kubernetes.replay import Replay, is_end
from capture.kubernetes.telling import name_of
from capture.redact import Redactor
from schema import instants
from schema.errors import BadRecording, StoreMissing
from schema.instants import MAX, SECOND
from schema.records import Coverage, Record, parse
from store.entries import Entry
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.projector import ProjectStats, project
from store.retain import mend
from store.rewind import Rewind

_BATCH = 1000
_PUSHED = 60 * SECOND
"""System times of what one line tells follow each other by a microsecond: no record lies so far behind its line."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one file gave: records already there from an earlier replay, new ones, and lines that were no use."""

    file: str
    known: int
    added: int
    bad: list[BadLine]


def replay(
    settings: Settings, files: list[Path], scope: str | None = None, progress: Callable[[int], None] | None = None
) -> tuple[list[Replayed], ProjectStats]:
    """Append recordings to the log of a home, then bring its ledger up to it. A file replayed before adds nothing.

    Every header is read before the first record is written: a file that is no recording leaves log and ledger alone.
    """
    told = []
    with ExitStack() as stack:
        stack.enter_context(guarded(settings))
        redactor = Redactor(settings.redaction_key())
        runs = [_opened(file, redactor, scope) for file in files]
        log = stack.enter_context(SqliteLog(settings.log))
        ledger = stack.enter_context(closing(SqliteLedger(settings.ledger)))
        mend(log, ledger, settings.scratch, progress)
        stats = project(log, ledger, progress)
        for file, run in zip(files, runs, strict=True):
            told.append(_replayed(file, run, log, Rewind(ledger), progress))
            more = project(log, ledger, progress)
            stats = ProjectStats(
                stats.applied + more.applied, stats.dead + more.dead, stats.duplicates + more.duplicates,
                more.position or stats.position,
            )  # fmt: skip
    return told, stats


def catch_up(settings: Settings, progress: Callable[[int], None] | None = None) -> ProjectStats:
    """Bring the ledger of a home up to the end of its log; one that is gone is made anew. Raises StoreMissing."""
    with guarded(settings):
        if not settings.log.exists():
            raise StoreMissing(f"there is no log at {settings.home}", hint="hindgraph --home DIR replay FILE...")
        with SqliteLog(settings.log) as log, closing(SqliteLedger(settings.ledger)) as ledger:
            mend(log, ledger, settings.scratch, progress)
            return project(log, ledger, progress)


def _replayed(
    file: Path, run: Replay, log: SqliteLog, rewind: Rewind, progress: Callable[[int], None] | None
) -> Replayed:
    """Append what the log does not have of one file. Raises BadRecording where it is not the file it seems to be."""
    # One file under two scopes is two runs.
    epoch = f"{run.epoch}/{run.scope}"
    known = log.resume(epoch)
    entries = log.of(epoch)
    first = next(entries, None)
    entries = chain([] if first is None else [first], entries)
    horizon = rewind.horizon(f"kubernetes/{run.scope}")
    # Some of what is known of the run lay below the horizon.
    below = log.left(epoch) < known or (first is not None and first.s <= horizon)
    dropped = horizon if below else None
    if dropped is not None and not _began(log, run, epoch):
        _refuse_more(file, run, max([dropped, *(entry.s for entry in entries)]))
        return Replayed(str(file), known, 0, run.bad)
    old = _Old(entries, dropped)
    if dropped is None:
        _recall(file, run, rewind, first)
    added, batch = 0, list[tuple[Record, int]]()

    def flush() -> None:
        nonlocal added, batch
        log.append(batch, epoch=epoch)
        added += len(batch)
        if progress is not None:
            progress(len(batch))
        batch = []

    for record, at in run:
        if old.has(record, at):
            continue
        if not old.finished:
            raise BadRecording(
                f"{file} is not the recording of {run.scope} that began at {instants.show(run.header.started)} and was "
                "replayed before",
                hint="if it is another cluster, give it another --scope",
            )
        if not is_end(record):
            batch.extend((one, at) for one in run.goes_on(old.reopen(), at))
        batch.append((record, at))
        if len(batch) >= _BATCH:
            flush()
    flush()
    return Replayed(str(file), known, added, run.bad)


def _began(log: SqliteLog, run: Replay, epoch: str) -> bool:
    """Whether the scope began with this run, so that it tells the same without what was alive before it."""
    return next((name for name in log.runs() if name.endswith(f"/{run.scope}")), epoch) == epoch


def _refuse_more(file: Path, run: Replay, end: int) -> None:
    """Raises BadRecording where a run tells of a time after what is known of it."""
    if any(at > end for _, at in run):
        raise BadRecording(
            f"{file} has grown, but what it went on from in {run.scope} was dropped by `hindgraph retain`",
            hint="record on into another file and replay that, or replay all recordings into a new home",
        )


class _Old:
    """What the log has of a run. Its records are compared in order, but for coverage: a shorter form of the file was
    told to end where it did, and half a line at its end was a gap; a longer form says neither.

    Where retention `dropped` what lay below an instant, only what was written after it is left as it was: what the run
    tells up to the first of that is taken as known, or up to that instant if there is none.
    """

    def __init__(self, entries: Iterator[Entry], dropped: int | None = None) -> None:
        self._entries = entries
        self._dropped = dropped
        self._next: str | None = None
        self._until = MAX
        self._coverage: dict[str, Coverage] = {}
        self._confirmed: set[str] = set()
        self.finished = False
        self._advance()

    def has(self, record: Record, at: int) -> bool:
        """Whether a record of the run, appended at `at` and asked in order, is there already."""
        if isinstance(record, Coverage):
            self._confirmed.add(record.id)
            return not self._new(at) or record.id in self._coverage
        if record.id == self._next and (self._dropped is None or at > self._dropped - _PUSHED):
            self._dropped = None
            self._advance()
            return True
        return self._dropped is not None and not self._new(at) and at <= self._until

    def _new(self, at: int) -> bool:
        """Whether nothing more of the run is known at this time."""
        return self.finished and (self._dropped is None or at > self._dropped)

    def reopen(self) -> dict[str, int]:
        """The group-resources that were said to be watched no longer, though they were, and since when; said once."""
        ended: dict[str, int] = {}
        for one in self._coverage.values():
            if one.state == "watching":
                ended.pop(name_of(one.group_resource, one.namespaces), None)
            elif one.id not in self._confirmed:
                ended[name_of(one.group_resource, one.namespaces)] = one.valid.from_
        self._confirmed.update(self._coverage)
        return ended

    def _advance(self) -> None:
        for entry in self._entries:
            record = parse(entry.raw)
            if isinstance(record, Coverage):
                self._coverage[record.id] = record
            elif self._dropped is None or entry.s > self._dropped:
                self._next, self._until = record.id, entry.s
                return
        self._next, self._until, self.finished = None, MAX, True


def _recall(file: Path, run: Replay, rewind: Rewind, first: Entry | None) -> None:
    """Tell a run what its scope was when it began. Raises BadRecording where the scope was recorded beyond that."""
    scope = f"kubernetes/{run.scope}"
    if scope not in rewind.scopes():
        return
    known_at = rewind.watermark(scope) if first is None else first.s - 1
    ended = watched(rewind, scope, known_at)
    last = max((at for at in ended.values() if at < MAX), default=None)
    if last is None:
        return
    if run.header.started < last:
        raise BadRecording(
            f"{file} begins at {instants.show(run.header.started)}, but {run.scope} is recorded up to "
            f"{instants.show(last)}",
            hint="replay recordings oldest first, or give it another --scope",
        )
    run.recall(list(living(rewind, scope, known_at)), {name: min(at, last) for name, at in ended.items()})


def _opened(file: Path, redactor: Redactor, scope: str | None) -> Replay:
    """A recording, its name in what is said of it."""
    try:
        return Replay(file, redactor, None if scope is None else scope.removeprefix("kubernetes/"))
    except BadRecording as error:
        named = error.message if str(file) in error.message else f"{file}: {error.message}"
        raise BadRecording(
            named, hint=error.hint or "a recording is JSON Lines, plain or gzip: docs/recordings.md"
        ) from None

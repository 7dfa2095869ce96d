"""Replaying recordings into a home: capture to log to ledger, each step where the last one left off.

What a recording holds is `capture`'s business, what a record means `store`'s; this only joins them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from api.home import guarded
from api.settings import Settings
from capture.kubernetes.recording import BadLine
from capture.kubernetes.replay import Replay
from capture.redact import Redactor
from schema.errors import BadRecording
from schema.records import Record
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.projector import ProjectStats, project
from store.retain import mend

_BATCH = 1000


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
        for file, run in zip(files, runs, strict=True):
            # One file under two scopes is two runs.
            epoch = f"{run.epoch}/{run.scope}"
            known, seen = log.resume(epoch), 0
            batch: list[tuple[Record, int]] = []
            for record in run:
                seen += 1
                if seen <= known:
                    continue
                batch.append(record)
                if len(batch) == _BATCH:
                    log.append(batch, epoch=epoch)
                    batch = []
                    if progress is not None:
                        progress(_BATCH)
            log.append(batch, epoch=epoch)
            told.append(Replayed(str(file), known, max(seen - known, 0), run.bad))
        stats = project(log, ledger, progress)
    return told, stats


def _opened(file: Path, redactor: Redactor, scope: str | None) -> Replay:
    """A recording, its name in what is said of it."""
    try:
        return Replay(file, redactor, None if scope is None else scope.removeprefix("kubernetes/"))
    except BadRecording as error:
        raise BadRecording(f"{file}: {error.message}", hint=error.hint) from None

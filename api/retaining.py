"""Retention of a home: which instant people mean, and what dropping the time below it came to.

The horizon is one instant for the whole home, but no scope is cut behind its own end: the last known state of a cluster
that is no longer recorded can still be asked for. What must stay and how it is dropped is `store.keep`, `store.retain`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from api import home
from api.questions import end_of_coverage
from api.settings import Settings
from schema import instants
from schema.errors import BadInstant, InTheFuture
from store import keep
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.projector import project
from store.retain import mend, retain
from store.rewind import Rewind


@dataclass(frozen=True, slots=True)
class Retained:
    """What was dropped, or would be; `after` is None where nothing was written. Sizes are bytes of log and ledger."""

    plan: keep.Plan
    before: int
    after: int | None


def foresee(settings: Settings, older_than: str, progress: Callable[[int], None]) -> Retained:
    """What `drop` would drop. Writes nothing."""
    with home.opened(settings) as (log, ledger):
        made = keep.plan(log, ledger, horizons(Rewind(ledger), older_than), progress)
    return Retained(made, _size(settings), None)


def drop(settings: Settings, older_than: str, progress: Callable[[int], None]) -> Retained:
    """Drop what lies below an instant, given as RFC 3339 or as an age such as 30d."""
    with home.guarded(settings):
        home.recorded(settings)
        before = _size(settings)
        with SqliteLog(settings.log) as log, closing(SqliteLedger(settings.ledger)) as ledger:
            mend(log, ledger, settings.scratch, progress)
            project(log, ledger, progress)
            asked = horizons(Rewind(ledger), older_than)
            made = retain(log, ledger, lambda: keep.plan(log, ledger, asked, progress), settings.scratch, progress)
        return Retained(made, before, _size(settings))


def horizons(rewind: Rewind, older_than: str) -> dict[str, int]:
    """The new horizon of each scope that gets one. An age counts back from the latest end of coverage.

    Raises BadInstant, and InTheFuture for an instant after everything recorded.
    """
    ends = {scope: end_of_coverage(rewind, scope, rewind.watermark(scope)) for scope in rewind.scopes()}
    newest = max(ends.values(), default=0)
    age = older_than[-1:] in ("d", "h", "m", "s")
    try:
        asked = instants.parse_relative(f"-{older_than}" if age else older_than, newest)
    except BadInstant as error:
        hint = "write an age, as 30d or 12h, or RFC 3339 with a zone, as 2026-03-01T03:00:00Z"
        raise BadInstant(error.message.replace("'-", "'", 1) if age else error.message, hint=hint) from None
    if asked > newest:
        raise InTheFuture(
            f"{instants.show(asked)} lies after everything recorded", hint=f"coverage ends at {instants.show(newest)}"
        )
    wanted = {scope: min(asked, end) for scope, end in ends.items()}
    return {scope: at for scope, at in wanted.items() if at > rewind.horizon(scope)}


def _size(settings: Settings) -> int:
    files = (Path(f"{path}{tail}") for path in (settings.log, settings.ledger) for tail in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())

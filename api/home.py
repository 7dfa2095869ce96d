"""Opening a home: its ledger for questions, its log and ledger for checking one against the other.

Every opener closes what it opened. What a home is made of is `api.settings`; writing to it is `api.replaying` and
`api.retaining`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from api.settings import Settings
from migrations import HINTS
from schema.errors import StoreBusy, StoreCorrupt, StoreError, StoreMissing
from store.files import READ_ONLY
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.retain import outdated
from store.rewind import Rewind
from store.verify import Verdict, verify


@contextmanager
def past(settings: Settings) -> Iterator[Rewind]:
    """The recorded past of a home, read only. Raises StoreMissing where nothing was recorded."""
    with guarded(settings):
        recorded(settings)
        with closing(SqliteLedger(settings.ledger, readonly=True)) as ledger:
            yield Rewind(ledger)


@contextmanager
def guarded(settings: Settings) -> Iterator[None]:
    """What SQLite or the file system says of a home, as an error of ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StoreBusy(f"{settings.home} is being written: {error}", hint="try again") from None
        raise StoreError(
            f"{settings.home} cannot be used: {error}", hint="check the disk and its permissions"
        ) from None
    except sqlite3.DatabaseError as error:
        # The log says so itself.
        raise StoreCorrupt(f"the ledger of {settings.home} is damaged: {error}", hint=HINTS["ledger"]) from None
    except BrokenPipeError:
        raise  # whoever reads the answer went away: nothing of the home
    except PermissionError as error:
        raise StoreError(
            f"{error.filename or settings.home} may not be used: {error.strerror}", hint=READ_ONLY
        ) from None
    except OSError as error:
        raise StoreError(f"{settings.home} cannot be used: {error.strerror}", hint="set --home to a folder") from None


def check(settings: Settings, progress: Callable[[int], None] | None = None) -> Verdict:
    """Compare the ledger of a home with a clean replay of its log. Raises StoreCorrupt where it is known to differ."""
    with opened(settings) as (log, ledger):
        if outdated(log, ledger):
            raise StoreCorrupt(
                "the log was trimmed and the ledger not made anew: retention was interrupted",
                hint="`hindgraph project` makes it anew",
            )
        return verify(log, ledger, progress)


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[SqliteLog, SqliteLedger]]:
    """Log and ledger of a home, read only. Raises StoreMissing where nothing was recorded."""
    with guarded(settings):
        recorded(settings)
        with (
            SqliteLog(settings.log, readonly=True) as log,
            closing(SqliteLedger(settings.ledger, readonly=True)) as ledger,
        ):
            yield log, ledger


def recorded(settings: Settings) -> None:
    """Raises StoreMissing where nothing was recorded."""
    if settings.home.exists() and not settings.home.is_dir():
        raise StoreError(f"{settings.home} is not a folder", hint="set --home to a folder")
    if settings.log.exists() and not settings.ledger.exists():
        raise StoreMissing(f"the ledger of {settings.home} is gone", hint="`hindgraph project` makes it from the log")
    if not settings.ledger.exists():
        raise StoreMissing(
            f"nothing was recorded at {settings.home} yet", hint="hindgraph --home DIR replay FILE..., or set --home"
        )

"""Opening a home: its ledger for questions, its log and ledger for checking one against the other.

Every opener closes what it opened. What a home is made of is `api.settings`; writing to it is `api.replaying`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from api.settings import Settings
from schema.errors import StoreMissing
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.rewind import Rewind
from store.verify import Verdict, verify


@contextmanager
def past(settings: Settings) -> Iterator[Rewind]:
    """The recorded past of a home, read only. Raises StoreMissing where nothing was recorded."""
    _recorded(settings)
    with closing(SqliteLedger(settings.ledger, readonly=True)) as ledger:
        yield Rewind(ledger)


def check(settings: Settings, progress: Callable[[int], None] | None = None) -> Verdict:
    """Compare the ledger of a home with a clean replay of its log."""
    _recorded(settings)
    with SqliteLog(settings.log, readonly=True) as log, closing(SqliteLedger(settings.ledger, readonly=True)) as ledger:
        return verify(log, ledger, progress)


def _recorded(settings: Settings) -> None:
    if not settings.ledger.exists():
        raise StoreMissing(
            f"nothing was recorded at {settings.home} yet", hint="hindgraph --home DIR replay FILE..., or set --home"
        )

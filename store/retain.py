"""Retention: drop what lies below a horizon, so that every question at or above it keeps its answer.

In this order, so that a kill at any moment loses nothing: the ledger is proved against the log; one transaction trims
the log, while a new ledger is made of what is left and compared with the old one, and lasts only if both answer alike;
then the ledger becomes the new one, in a transaction of its own. A ledger that missed that last step is mended by
whoever writes next. What has to stay is planned in `store.keep`; refusing questions is `store.rewind`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from migrations import HINTS
from schema.canonical import canonical, hash128
from schema.errors import StoreCorrupt
from schema.identity import oid as oid_of
from schema.instants import MAX
from schema.records import Horizon, Record
from store.keep import Plan, Stand, record_of
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.projector import project
from store.rewind import Rewind
from store.verify import verify


def retain(
    log: SqliteLog, ledger: SqliteLedger, plan: Callable[[], Plan], scratch: Path, progress: Callable[[int], None]
) -> Plan:  # fmt: skip
    """Drop what `plan` says, after the ledger was found to be what the log says. `scratch` is a path to work at.

    Raises StoreCorrupt, with everything left as it was, when the ledger is not what the log says.
    """
    if not verify(log, ledger, progress).ok:
        raise StoreCorrupt(
            "the ledger is not what the log says, so nothing was dropped",
            hint=HINTS["ledger"],
        )
    made = plan()
    if made.horizons:
        with _fresh(scratch) as fresh:
            kept = ((position, _record(ledger, one)) for position, one in made.kept)
            with log.trimming(made.upto, kept, [(_mark(*item), item[1]) for item in made.horizons.items()]):
                project(log, fresh, progress)
                for scope in Rewind(ledger).scopes():
                    _compare(ledger, fresh, scope, made.horizons.get(scope, ledger.horizon(scope)))
            ledger.become(fresh)
    log.compact()
    return made


def mend(log: SqliteLog, ledger: SqliteLedger, scratch: Path, progress: Callable[[int], None] | None) -> None:
    """Finish what a killed retention left: make the ledger anew when it was made of a log that was trimmed since."""
    _clear(scratch)
    if outdated(log, ledger):
        with _fresh(scratch) as fresh:
            project(log, fresh, progress)
            ledger.become(fresh)


def outdated(log: SqliteLog, ledger: SqliteLedger) -> bool:
    """Whether the ledger holds rows that a log trimmed since no longer gives."""
    return 0 < ledger.end() < log.cut().ended


def _record(ledger: SqliteLedger, kept: Stand | Record | None) -> Record | None:
    return record_of(ledger, kept) if isinstance(kept, Stand) else kept


def _mark(scope: str, at: int) -> Horizon:
    source, _, name = scope.partition("/")
    return Horizon(id=hash128("horizon", scope, str(at)), source=source, scope=name, at=at, observed_at=at)


def _compare(old: SqliteLedger, new: SqliteLedger, scope: str, at: int) -> None:
    """Raise StoreCorrupt unless both ledgers answer alike at the horizon, at the end, and of what changed between."""
    end = Rewind(old).watermark(scope)
    for told, left in zip(_answers(old, scope, at, end), _answers(new, scope, at, end), strict=True):
        if told != left:
            lost = sorted(map(repr, told ^ left))[0]
            raise StoreCorrupt(f"what would be kept answers otherwise: {lost}", hint="nothing was dropped; report this")


def _answers(ledger: SqliteLedger, scope: str, at: int, end: int) -> Iterator[set[tuple[object, ...]]]:
    rewind = Rewind(ledger)
    for t, s in ((at, at), (at, end), (end, end)):
        yield {
            (str(one.key), one.uid, one.vf, one.vt, one.not_before, one.ends_not_before,
             ledger.anchor(oid_of(one.key), one.n)[1])
            for one in rewind.objects(scope, t, s)
        }  # fmt: skip
        yield {
            (one.predicate, str(one.src), str(one.dst), canonical(one.attrs), one.basis, one.confidence, one.rule)
            for one in rewind.edges(scope, t, s)
        }
        yield {
            (one.group_resource, canonical(one.namespaces), one.state, one.vf, one.vt, one.reason, one.epoch)
            for one in rewind.coverage(scope, s)
            if one.vt >= at
        }
        yield {
            (str(one.key), max(one.since, at), one.until, one.reason)
            for one in rewind.broken(scope, s)
            if one.until > at
        }
    source, _, name = scope.partition("/")
    yield set(
        ledger.connection.execute(
            "SELECT c.seq, c.vf, c.id FROM change c JOIN object o ON o.oid = c.oid WHERE o.source = ? AND o.scope = ? "
            f"AND c.vf > ? AND c.st = {MAX} AND c.op NOT IN ('observe', 'state')",
            (source, name, at),
        )
    )


@contextmanager
def _fresh(path: Path) -> Iterator[SqliteLedger]:
    """A new ledger at a path of its own, gone afterwards."""
    _clear(path)
    try:
        with closing(SqliteLedger(path)) as ledger:
            yield ledger
    finally:
        _clear(path)


def _clear(path: Path) -> None:
    for tail in ("", "-wal", "-shm"):
        Path(f"{path}{tail}").unlink(missing_ok=True)

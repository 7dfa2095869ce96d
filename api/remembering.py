"""What was recorded of a scope, as a recorder that goes on needs it: from the shelf it left, caught up from the log, or
from the ledger where the shelf is gone or of another log. How any of it is remembered is `capture`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from api.settings import Settings
from capture.kubernetes.losses import EVERYTHING
from capture.kubernetes.recalling import Recall
from capture.kubernetes.recording import Resource
from capture.kubernetes.shelf import Shelf
from capture.kubernetes.telling import name_of
from capture.normalise import Prepared, recalled
from capture.redact import Redactor
from schema.errors import StoreCorrupt
from schema.instants import MAX, SECOND
from schema.records import ObjectRef, Valid, parse
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.rewind import Rewind

_SILENCE = 5 * 60 * SECOND
"""A recorder tells a watch to be lost that was not heard of for less than this."""


def remember(
    settings: Settings,
    scope: str,
    redactor: Redactor,
    log: SqliteLog,
    ledger: SqliteLedger,
    resources: Iterable[Resource],
    names: Iterable[str],
) -> Shelf:
    """The shelf of a cluster as the log has it, for a recorder that watches `names`; its caller closes it.

    Raises StoreBusy where another process records the same, and StoreCorrupt where log and ledger do not fit.
    """
    resources, names = [*resources], [*names]
    shelf = Shelf(settings.recorder(scope), scope, redactor.redact_text)
    try:
        if not log.cut().position <= shelf.position <= log.end():
            shelf.clear()
        try:
            _catch_up(shelf, log, ledger, resources, names)
        except StoreCorrupt:
            if not shelf.position:
                raise
            shelf.clear()
            _catch_up(shelf, log, ledger, resources, names)
    except BaseException:
        shelf.close()
        raise
    return shelf


def _catch_up(shelf: Shelf, log: SqliteLog, ledger: SqliteLedger, resources: list[Resource], names: list[str]) -> None:
    scope, recall = f"kubernetes/{shelf.scope}", Recall(shelf, resources, names)
    position = shelf.position
    if not position:
        position = ledger.position(scope)[0]
        rewind = Rewind(ledger)
        if position:
            s = rewind.watermark(scope)
            until = watched(rewind, scope, s)
            going_on = {name for name, at in until.items() if at == MAX}
            last = {name: min(at, s - _SILENCE) for name, at in until.items()}
            recall.living(living(rewind, scope, s), last, going_on)
    while entries := log.read(after=position):
        for entry in entries:
            if entry.scope == scope:
                recall.apply(parse(entry.raw))
        position = entries[-1].position
    shelf.commit(position)


def watched(rewind: Rewind, scope: str, known_at: int) -> dict[str, int]:
    """Until when each watch of a scope went, as believed then; MAX: no end was told."""
    until: dict[str, int] = {}
    for row in rewind.coverage(scope, known_at):
        # What began and ended in one instant was watched all the same.
        at = {"watching": row.vt, "ended": row.vf}.get(row.state)
        if at is not None and row.group_resource != EVERYTHING:
            name = name_of(row.group_resource, row.namespaces)
            until[name] = max(until.get(name, at), at)
    return until


def living(rewind: Rewind, scope: str, known_at: int) -> Iterator[tuple[Prepared, Valid]]:
    """What of a scope was alive, as believed then."""
    for version in rewind.objects(scope, MAX - 1, known_at):
        ref = ObjectRef(
            source=version.key.source, scope=version.key.scope, type=version.key.type, kind=version.kind,
            class_=version.class_, namespace=version.key.namespace, name=version.key.name, uid=version.uid,
        )  # fmt: skip
        valid = Valid(not_before=version.not_before, not_after=version.vf)
        yield recalled(ref, rewind.state(version), rewind.source_version(version, known_at)), valid

"""Recordings through the projector: edges kept up change by change are those derived anew from everything; the rows do
not depend on how the log is cut into batches; heads that were dropped from memory come back as they were."""

from __future__ import annotations

import pytest

from schema.instants import MAX
from store import living, projector
from store.ledger import SqliteLedger
from store.projector import Projector, project
from store.rewind import Rewind
from tests.bitemporal.histories import SCOPE, MemoryLog, random_history
from tests.derive.test_derive import RECORDINGS
from tests.projector.recorded import World, records_of, spelled


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_edges_kept_up_are_edges_derived_anew(path):
    log, world, ledger = MemoryLog(), World(), SqliteLedger(":memory:")
    run = Projector(log, ledger)
    rewind = Rewind(ledger)
    records = records_of(path)
    for number, (record, at) in enumerate(records, start=1):
        log.append(record, at)
        world.take(record)
        if number % 40 == 0 or number == len(records):
            run.run()
            now = sorted(map(spelled, rewind.edges(SCOPE, MAX - 1, rewind.watermark(SCOPE))))
            assert now == world.edges(), f"after {number} records"


def _digest(log: MemoryLog, *, batch: int, restart: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(projector, "BATCH", batch)
    ledger = SqliteLedger(":memory:")
    part = MemoryLog()
    run = Projector(part, ledger)
    for start in range(0, len(log.entries), 50):
        part.entries.extend(log.entries[start : start + 50])
        if restart:
            project(part, ledger)
        else:
            run.run()
    return ledger.digest()


@pytest.mark.parametrize("source", ["random", *RECORDINGS[:2]], ids=str)
def test_rows_do_not_depend_on_batches_restarts_or_memory(source, monkeypatch):
    log = MemoryLog()
    for record, at in random_history(23, 250) if source == "random" else records_of(source):
        log.append(record, at)
    whole = SqliteLedger(":memory:")
    project(log, whole)
    wanted = whole.digest()
    for batch, restart, heads in ((1, False, 20_000), (7, True, 20_000), (1000, False, 3), (13, False, 1)):
        monkeypatch.setattr(living, "HEADS", heads)
        got = _digest(log, batch=batch, restart=restart, monkeypatch=monkeypatch)
        assert got == wanted, f"batches of {batch}, restarts {restart}, {heads} heads"

"""The ledger against the oracle, at random (T, S): objects and edges, on both axes, 0 mismatches.

`make test` probes a tenth; HINDGRAPH_FULL=1 (make test-full) all. The seed is printed and taken from HINDGRAPH_SEED.
"""

from __future__ import annotations

import os
import random
import time

from schema.canonical import canonical
from store.ledger import SqliteLedger
from store.projector import project
from store.rewind import Rewind
from tests.bitemporal.histories import SCOPE, MemoryLog, random_history
from tests.bitemporal.oracle import Oracle

FULL = os.environ.get("HINDGRAPH_FULL") == "1"
SEED = int(os.environ.get("HINDGRAPH_SEED", time.time_ns() % 1_000_000))


def _check(seed: int, length: int, instants: int) -> int:
    log, oracle = MemoryLog(), Oracle()
    for record, at in random_history(seed, length):
        oracle.accept(log.append(record, at), record)
    ledger = SqliteLedger(":memory:")
    project(log, ledger)
    rewind = Rewind(ledger)
    rng = random.Random(seed)
    top = log.entries[-1].s + 5
    keys = sorted(
        {str(record.object.key): record.object.key for _, record in oracle.log if hasattr(record, "object")}.items()
    )
    probes = 0
    for _ in range(instants):
        at, known_at = rng.randrange(0, top), rng.randrange(0, top) if rng.random() < 0.7 else top
        wanted = oracle.slice(at, known_at)
        for text, key in keys:
            version = rewind.as_of(key, at, known_at)
            expected = wanted.get(text)
            where = f"seed {seed}, {text} at {at} known at {known_at}"
            assert (version is None) == (expected is None), where
            if version is not None and expected is not None:
                assert rewind.state(version) == expected[1], where
                assert version.uid == expected[0].uid, where
            probes += 1
        edges = {
            (edge.predicate, str(edge.src), str(edge.dst), edge.rule, canonical(edge.attrs))
            for edge in rewind.edges(SCOPE, at, known_at)
        }
        assert edges == oracle.edges(at, known_at), f"seed {seed}, edges at {at} known at {known_at}"
        probes += len(edges)
    ledger.close()
    return probes


def test_ledger_and_oracle_agree_everywhere() -> None:
    probes, seed = 0, SEED
    print(f"HINDGRAPH_SEED={SEED}")
    while probes < (500_000 if FULL else 50_000):
        probes += _check(seed, length=40, instants=60)
        seed += 1
    print(f"{probes} probes over {seed - SEED} histories, 0 mismatches")

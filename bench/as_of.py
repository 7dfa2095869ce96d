"""As-of latency by history depth, against a plain interval table without an anchor walk.

    python -m bench.as_of [--depth 10000] [--probes 2000]

One object of 10 versions, of a tenth of the depth, and of the depth; random instants; answers are compared before they
are timed. The alternative keeps `(key, vf, vt, body)` with an index on key and asks `vf <= T AND T < vt`, as a first
design would: it knows one time axis only and stores every state whole. Also timed: S at a tenth of the history, and
after corrections of a tenth of the changes, whose projection is timed in the last column. Prints milliseconds at p50
and p99, the ratio to depth 10, and bytes per change of both.

What limits ours: one seek in an index, then one whole state and up to 15 patches, parsed and applied in Python. What
would lift it fourfold: whole states more often, at the price of the file; decompressing and parsing in compiled code.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from schema.canonical import Json, digest
from schema.identity import Key
from schema.instants import MAX
from schema.records import Amend, Change, ObjectRef, Record, Valid, dump
from store.ledger import SqliteLedger
from store.projector import project
from store.rewind import Rewind

KEY = Key("kubernetes", "bench", "apps/Deployment", "shop", "cart")
REF = ObjectRef(
    source="kubernetes", scope="bench", type="apps/Deployment", kind="Deployment", class_="Workload",
    namespace="shop", name="cart", uid="u1",
)  # fmt: skip
STEP = 1_000_000


class Entry:
    def __init__(self, position: int, s: int, raw: bytes) -> None:
        self.position, self.s, self.scope, self.raw = position, s, "kubernetes/bench", raw


class ListLog:
    def __init__(self, records: list[Record]) -> None:
        self._entries = [Entry(n + 1, (n + 1) * STEP, dump(record)) for n, record in enumerate(records)]

    def read(self, after: int = 0, limit: int = 1000) -> list[Entry]:
        return self._entries[after : after + limit]


def state(n: int) -> dict[str, Json]:
    env: list[Json] = [{"name": f"SETTING_{i}", "value": str(i)} for i in range(40)]
    container: dict[str, Json] = {"name": "cart", "image": f"registry.example/shop/cart:{n}", "env": env}
    return {"metadata": {"name": "cart"}, "spec": {"template": {"spec": {"containers": [container]}}}}


def history(depth: int, corrections: int) -> list[Record]:
    """`depth` changes a second apart, then amendments that move random ones back by half a second."""
    out: list[Record] = []
    rng = random.Random(depth)
    for n in range(depth):
        at = (n + 1) * STEP
        path = "/spec/template/spec/containers/0/image"
        image = f"registry.example/shop/cart:{n}"
        patch = (
            [{"op": "replace", "path": path, "value": image}] if n else [{"op": "add", "path": "", "value": state(0)}]
        )
        out.append(
            Change(
                id=f"{n:032x}", op="update" if n else "create", object=REF, observed_at=at,
                valid=Valid(not_before=at - 10, not_after=at), base=digest(state(n - 1)) if n else None,
                digest=digest(state(n)), patch=patch,
            )
        )  # fmt: skip
    for n in range(corrections):
        target = rng.randrange(1, depth)
        at = (target + 1) * STEP - rng.randrange(STEP // 2)
        out.append(
            Amend(
                id=f"{n:031x}a", source="kubernetes", scope="bench", amends=f"{target:032x}",
                observed_at=(depth + n + 1) * STEP, valid=Valid(not_before=at - 10, not_after=at),
            )
        )  # fmt: skip
    return out


def timed(ask: Callable[[int], object], instants: list[int]) -> tuple[float, float]:
    spent = []
    for at in instants:
        start = time.perf_counter_ns()
        ask(at)
        spent.append((time.perf_counter_ns() - start) / 1e6)
    return statistics.median(spent), sorted(spent)[int(len(spent) * 0.99)]


def naive(folder: Path, depth: int) -> tuple[Callable[[int], object], int]:
    path = folder / f"naive-{depth}.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE state (key TEXT, vf INTEGER, vt INTEGER, body BLOB)")
    connection.execute("CREATE INDEX state_key ON state (key)")
    rows = [
        (str(KEY), (n + 1) * STEP, (n + 2) * STEP if n < depth - 1 else MAX, orjson.dumps(state(n)))
        for n in range(depth)
    ]
    connection.executemany("INSERT INTO state VALUES (?,?,?,?)", rows)
    connection.commit()

    def ask(at: int) -> object:
        sql = "SELECT body FROM state WHERE key = ? AND vf <= ? AND ? < vt"
        return orjson.loads(connection.execute(sql, (str(KEY), at, at)).fetchone()[0])

    return ask, path.stat().st_size


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probes", type=int, default=2000)
    parser.add_argument("--depth", type=int, default=10_000)
    told = parser.parse_args(arguments)
    probes, deepest = told.probes, told.depth
    table = Table(title="object as of (at, known_at): seek and state")
    for name in (
        "case",
        "depth",
        "p50 ms",
        "p99 ms",
        "x depth 10",
        "interval table p50",
        "x",
        "B/change",
        "theirs",
        "corrected in s",
    ):
        table.add_column(name, justify="right")
    first: float | None = None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case, depth, corrections in (
            ("now", 10, 0), ("now", deepest // 10, 0), ("now", deepest, 0),
            ("S at a tenth", deepest, 0), ("corrected", deepest, deepest // 10),
        ):  # fmt: skip
            path = folder / f"{case}-{depth}.db"
            ledger = SqliteLedger(path)
            records = history(depth, corrections)
            project(ListLog(records[:depth]), ledger)
            start = time.perf_counter()
            project(ListLog(records), ledger)
            correcting = time.perf_counter() - start
            ledger.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            rewind = Rewind(ledger)
            known_at = depth * STEP // 10 if case == "S at a tenth" else MAX - 1
            rng = random.Random(1)
            instants = [rng.randrange(2 * STEP, depth * STEP + STEP) for _ in range(probes)]
            theirs, their_size = naive(folder, depth) if case == "now" else (None, 0)

            def ask(at: int, rewind: Rewind = rewind, known_at: int = known_at) -> dict[str, Json]:
                version = rewind.as_of(KEY, at, known_at)
                assert version is not None
                return rewind.state(version)

            if theirs is not None:
                assert all(ask(at) == theirs(at) for at in instants[:200]), "the two disagree: nothing to time"
            p50, p99 = timed(ask, instants)
            first = first or p50
            row = [case, f"{depth:,}", f"{p50:.3f}", f"{p99:.3f}", f"{p50 / first:.2f}"]
            if theirs is not None:
                other, _ = timed(theirs, instants[:300])
                row += [
                    f"{other:.3f}",
                    f"{other / p50:.1f}",
                    f"{path.stat().st_size / depth:.0f}",
                    f"{their_size / depth:.0f}",
                ]
            elif corrections:
                row += ["", "", "", "", f"{correcting:.1f}"]
            table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()

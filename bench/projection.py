"""Changes a second from log to rows, edges included, and bytes per change of log and ledger apart.

    python -m bench.projection [RECORDING ...] [--changes 20000] [--apps 100] [--rounds 3]

Two inputs: recordings (the bundled ones; half of their changes are first sights of objects, each with all its edges)
and a steady estate (`bench.estate`; mostly statuses). The alternative is what a first design would keep: an interval
table with every state whole, and an edge table in which each new version of a node closes all edges that it gives and
writes them again; one time axis, no corrections, no check of digests. It derives by the same rules from the same
records, and keeps living states and facets in memory as ours does. Both write to files; CPU time, best of the rounds.
The edges that both believe at the end are compared before anything is printed.

What limits ours: the interpreter, two thirds of the time, spread over validation, deriving and rows; SQLite takes a
tenth, packing and hashing another. What would lift it fourfold: a process for each scope, as scopes share no row;
within one scope, validation and deriving in compiled code.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from bench.estate import RESOURCES, Estate
from capture.kubernetes.reflector import Reflector
from capture.kubernetes.replay import capture_file
from capture.redact import Redactor
from schema.canonical import Json
from schema.identity import Key
from schema.instants import MAX
from schema.patch import apply
from schema.records import Change, Record, parse
from store.derive.addresses import Lent
from store.derive.facts import EdgeFact, Facet
from store.derive.sides import NOTHING, Shown, Sides, derived, filled, meet
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.projector import project

BUNDLED = sorted((Path(__file__).parents[1] / "tests" / "recordings").glob("*.jsonl.gz"))
REDACTOR = Redactor(b"bench" * 7)
BATCH = 1000


def recorded(path: Path) -> list[tuple[Record, int]]:
    return list(capture_file(path, redactor=REDACTOR))


def steady(apps: int, changes: int) -> list[tuple[Record, int]]:
    reflector = Reflector("bench", REDACTOR, "bench", RESOURCES)
    return [(record, line.t) for line in Estate(apps).lines(changes) for record in reflector.feed(line)]


def written(path: Path, records: list[tuple[Record, int]]) -> int:
    """Append to a log; returns how many of the records are changes."""
    with SqliteLog(path) as log:
        for start in range(0, len(records), BATCH):
            log.append(records[start : start + BATCH])
    return sum(isinstance(record, Change) for record, _ in records)


def ours(log_path: Path, path: Path) -> tuple[float, set[tuple[str, ...]]]:
    with SqliteLog(log_path, readonly=True) as log:
        ledger = SqliteLedger(path)
        start = time.process_time()
        stats = project(log, ledger)
        spent = time.process_time() - start
    assert stats.dead == 0
    rows = ledger.connection.execute(
        "SELECT predicate, s.key, d.key FROM edge JOIN object s ON s.oid = src JOIN object d ON d.oid = dst "
        "WHERE st = ? AND vt = ?",
        (MAX, MAX),
    )
    found = set(rows)
    ledger.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    ledger.close()
    return spent, found


def theirs(log_path: Path, path: Path) -> tuple[float, set[tuple[str, ...]]]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    for statement in (
        "TABLE node (key TEXT, vf INTEGER, vt INTEGER, body BLOB)",
        "INDEX node_key ON node (key, vf)",
        "TABLE edge (giver TEXT, other TEXT, predicate TEXT, src TEXT, dst TEXT, body TEXT, vf INTEGER, vt INTEGER)",
        f"INDEX edge_giver ON edge (giver) WHERE vt = {MAX}",
        f"INDEX edge_other ON edge (other) WHERE vt = {MAX}",
        "INDEX edge_src ON edge (src, vf)",
        "INDEX edge_dst ON edge (dst, vf)",
    ):
        connection.execute(f"CREATE {statement}")
    plain = Plain(connection)
    with SqliteLog(log_path, readonly=True) as log:
        start, after = time.process_time(), 0
        while batch := log.read(after=after, limit=BATCH):
            connection.execute("BEGIN IMMEDIATE")
            for entry in batch:
                record = parse(entry.raw)
                if isinstance(record, Change):
                    plain.take(record)
            connection.execute("COMMIT")
            after = batch[-1].position
        spent = time.process_time() - start
    found = set(connection.execute("SELECT predicate, src, dst FROM edge WHERE vt = ?", (MAX,)))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return spent, found


class Plain:
    """The interval table: each version closes all edges that its node has a part in giving, and writes them again."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._run = connection.execute
        self._many = connection.executemany
        self._states: dict[str, dict[str, Json]] = {}
        self._shown: dict[str, Shown] = {}
        self._sides: dict[str, Sides] = {}
        self._standing: dict[tuple[int, tuple[str, ...]], dict[str, Facet]] = defaultdict(dict)

    def take(self, record: Change) -> None:
        key, at = str(record.object.key), record.valid.not_after
        self._run(f"UPDATE node SET vt = ? WHERE key = ? AND vt = {MAX}", (at, key))
        for column in ("giver", "other"):
            self._run(f"UPDATE edge SET vt = ? WHERE {column} = ? AND vt = {MAX}", (at, key))
        self._forget(key)
        lent = self._lent(record.object.key)
        if record.op == "delete":
            del self._states[key], self._shown[key]
            if lent is not None:
                self._lend(key, at)
            return
        state = apply(self._states.get(key), record.patch)
        assert isinstance(state, dict)
        self._states[key] = state
        self._run("INSERT INTO node VALUES (?,?,?,?)", (key, at, MAX, orjson.dumps(state)))
        now = derived(record.object, state)
        self._shown[key] = now.shown
        rows = [_row(key, None, fact, at) for fact in now.facts.values()]
        self._many("INSERT INTO edge VALUES (?,?,?,?,?,?,?,?)", rows + self._met(key, at))
        if lent != now.shown.lent:
            self._lend(key, at)

    def _forget(self, key: str) -> None:
        for side, facing in enumerate(self._sides.pop(key, ())):
            for facet in facing:
                del self._standing[side, facet.bucket][key]

    def _met(self, key: str, at: int) -> list[tuple[str | int | None, ...]]:
        """The edges with everybody who lives now, among whom the node stands from here on."""
        rows = []
        self._sides[key] = sides = filled(self._shown[key], self._lent)
        for side, facing in enumerate(sides):
            for facet in facing:
                for other, theirs in self._standing[side ^ 1, facet.bucket].items():
                    rows += [_row(key, other, fact, at) for fact in meet(side, (facet,), (theirs,)).values()]
        for side, facing in enumerate(sides):
            for facet in facing:
                self._standing[side, facet.bucket][key] = facet
        return rows

    def _lend(self, key: str, at: int) -> None:
        """A ConfigMap holds something else: all that its readers have with others is written again."""
        for reader, shown in self._shown.items():
            if any(str(config) == key for config in shown.reads):
                self._run(f"UPDATE edge SET vt = ? WHERE giver = ? AND other <> '' AND vt = {MAX}", (at, reader))
                self._run(f"UPDATE edge SET vt = ? WHERE other = ? AND vt = {MAX}", (at, reader))
                self._forget(reader)
                self._many("INSERT INTO edge VALUES (?,?,?,?,?,?,?,?)", self._met(reader, at))

    def _lent(self, config: Key) -> Lent | None:
        return self._shown.get(str(config), NOTHING.shown).lent


def _row(giver: str, other: str | None, fact: EdgeFact, at: int) -> tuple[str | int | None, ...]:
    body = orjson.dumps([fact.attrs, fact.rule, fact.basis]).decode()
    return giver, other, fact.predicate, fact.src, fact.dst, body, at, MAX


Way = Callable[[Path, Path], tuple[float, set[tuple[str, ...]]]]


def measure(
    way: Way, inputs: Iterable[tuple[Path, int]], folder: Path, rounds: int
) -> tuple[float, int, list[set[tuple[str, ...]]]]:
    """CPU seconds (best of the rounds for each log), bytes on disk, and the edges at the end, over all logs."""
    spent, size = 0.0, 0
    found: list[set[tuple[str, ...]]] = []
    for log, _ in inputs:
        best = float("inf")
        edges: set[tuple[str, ...]] = set()
        for number in range(rounds):
            path = folder / f"{log.stem}-{way.__name__}-{number}.db"
            took, edges = way(log, path)
            best = min(best, took)
        spent, size = spent + best, size + path.stat().st_size
        found.append(edges)
    return spent, size, found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", type=Path, default=BUNDLED)
    parser.add_argument("--changes", type=int, default=20_000)
    parser.add_argument("--apps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    told = parser.parse_args(arguments)
    table = Table(title="projection: changes to rows and edges, one core")
    for name in ("input", "changes", "changes/s", "interval table", "x", "log B/change", "ledger B/change", "theirs B"):
        table.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, sources in (
            ("recordings", [recorded(path) for path in told.recordings]),
            ("steady estate", [steady(told.apps, told.changes)]),
        ):
            logs = [folder / f"{title}-{number}.log" for number in range(len(sources))]
            inputs = [(log, written(log, records)) for log, records in zip(logs, sources, strict=True)]
            changes = sum(count for _, count in inputs)
            spent, size, found = measure(ours, inputs, folder, told.rounds)
            other, their_size, their_found = measure(theirs, inputs, folder, told.rounds)
            assert found == their_found, "the two disagree: nothing to time"
            table.add_row(
                title, f"{changes:,}", f"{changes / spent:,.0f}", f"{changes / other:,.0f}", f"{other / spent:.1f}",
                f"{sum(log.stat().st_size for log in logs) / changes:.0f}", f"{size / changes:.0f}",
                f"{their_size / changes:.0f}",
            )  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    main()

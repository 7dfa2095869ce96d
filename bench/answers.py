"""Slices, diffs and changes on a day of a big estate, each beside the same answer from a plain interval table.

    python -m bench.answers [--objects 10000] [--changes 1000000] [--runs 5]

The day is `bench.day`. Plain keeps whole states in one table with one time axis, and finds what changed by comparing
each state with the one before it. Its answers have no folding, no pages, no system time, no coverage and no actor; what
both say is compared before anything is timed. Prints the median of the runs in seconds; `x plain` above 1 is how many
times longer ours takes.

What limits ours: a slice seeks each object and parses its state, at most 15 patches on a whole one; a page of changes
reads the minutes around each change in its namespace, to fold what belongs together; a field that hardly ever changes
costs a walk through all changes before the asked instant, about 10 µs each. What would lift it fourfold: whole states
more often, at the price of the file, for the first; paths of fields as a table of their own for the last.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import orjson
from rich.console import Console
from rich.table import Table

from api import changes as changed
from api import questions
from bench.day import DAY, RARE, SCOPE, Day, compared, pod
from schema.canonical import Json
from schema.instants import MAX
from store.rewind import Rewind

LIMIT = 50
ENOUGH = 60
"""Seconds after which a question is not asked again."""


class Case(NamedTuple):
    name: str
    ours: Callable[[], list[object]]
    plain: Callable[[], list[object]]


class Ours:
    """The questions as faces ask them."""

    def __init__(self, day: Day) -> None:
        self.rewind = Rewind(day.ledger)
        self.end = day.end

    def slice(self, at: int) -> list[object]:
        """Every state and every edge."""
        states: list[object] = [self.rewind.state(one) for one in self.rewind.objects(SCOPE, at, self.end)]
        edges = self.rewind.edges(SCOPE, at, self.end)
        return [*states, *sorted((str(one.src), str(one.dst)) for one in edges)]

    def diff(self, before: int, at: int) -> list[object]:
        answer = questions.difference(self.rewind, questions.Moment(SCOPE, at, self.end), before)
        return [(_name(item), sorted(_values(item), key=str)) for item in answer.items]

    def changes(
        self, at: int, since: int = -MAX, limit: int = LIMIT, where: changed.Filter | None = None
    ) -> list[object]:
        moment = questions.Moment(SCOPE, at, self.end)
        answer = changed.changes(self.rewind, moment, since=since, where=where, limit=limit)
        return [(_name(item), sorted(_values(item), key=str)) for item in answer.items]


class Plain:
    """The same from the plain table."""

    def __init__(self, day: Day) -> None:
        self._run = day.plain.execute

    def slice(self, at: int) -> list[object]:
        rows = self._run("SELECT body FROM state WHERE vf <= ? AND ? < vt ORDER BY key", (at, at))
        states: list[object] = [orjson.loads(row[0]) for row in rows]
        return [*states, *self._run("SELECT src, dst FROM edge WHERE vf <= ? AND ? < vt ORDER BY src, dst", (at, at))]

    def diff(self, before: int, at: int) -> list[object]:
        old, new = (
            dict(self._run("SELECT key, body FROM state WHERE vf <= ? AND ? < vt", (one, one)).fetchall())
            for one in (before, at)
        )
        found = ((key, compared(old.get(key), new.get(key))) for key in sorted({*old, *new}))
        return [(_short(key), _pairs(rows)) for key, rows in found if rows]

    def changes(
        self, at: int, since: int = -MAX, limit: int = LIMIT, narrow: str = "", value: str = "", leaf: str = ""
    ) -> list[object]:
        where = f"WHERE vf <= ? AND vf > ? {narrow} ORDER BY vf DESC"
        rows = self._run(f"SELECT key, vf, body FROM state {where}", (at, since, *([value] if value else [])))
        found: list[object] = []
        for key, vf, body in rows:
            before = self._run("SELECT body FROM state WHERE key = ? AND vf < ? ORDER BY vf DESC LIMIT 1", (key, vf))
            was = before.fetchone()
            told = [] if was is None else compared(was[0], body)
            if not leaf or any(name.endswith(leaf) for name, _, _ in told):
                found.append((_short(key), _pairs(told)))
            if len(found) == limit:
                break
        return found


def cases(day: Day) -> list[Case]:
    ours, plain = Ours(day), Plain(day)
    end, half, lone = day.end, day.end // 2, pod(RARE)
    minute = DAY // 1440
    return [
        Case("slice now", lambda: ours.slice(end), lambda: plain.slice(end)),
        Case("slice at half time", lambda: ours.slice(half), lambda: plain.slice(half)),
        Case("diff of half time and now", lambda: ours.diff(half, end), lambda: plain.diff(half, end)),
        Case("changes, first page", lambda: ours.changes(end), lambda: plain.changes(end)),
        Case(
            "changes of a minute at half time", lambda: ours.changes(half, half - minute, 1000),
            lambda: plain.changes(half, half - minute, 1000),
        ),
        Case(
            "changes of a namespace", lambda: ours.changes(end, where=changed.Filter(namespace=lone.namespace)),
            lambda: plain.changes(end, narrow="AND namespace = ?", value=lone.namespace or ""),
        ),
        Case(
            "changes of one object", lambda: ours.changes(end, where=changed.Filter(object=lone)),
            lambda: plain.changes(end, narrow="AND key = ?", value=str(lone)),
        ),
        Case(
            "changes of a field that often changes",
            lambda: ours.changes(end, where=changed.Filter(path="spec.**.image")),
            lambda: plain.changes(end, leaf="/image"),
        ),
        Case(
            "the one change of a field", lambda: ours.changes(end, where=changed.Filter(path="spec.priority")),
            lambda: plain.changes(end, leaf="/priority"),
        ),
    ]  # fmt: skip


def timed(ask: Callable[[], list[object]], runs: int) -> float:
    spent: list[float] = []
    while len(spent) < runs and sum(spent) < ENOUGH:
        start = time.perf_counter()
        ask()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    told = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        day = Day(Path(folder), told.objects, told.changes)
        built = time.perf_counter() - start
        table = Table(title=f"{told.objects:,} objects, {day.changes:,} changes in 24 h (built in {built:.0f} s)")
        for name in ("question", "answers", "seconds", "plain table", "x plain"):
            table.add_column(name, justify="left" if name == "question" else "right")
        for case in cases(day):
            found = case.ours()
            assert found == case.plain(), f"{case.name}: the two disagree, nothing to time"
            ours, plain = timed(case.ours, told.runs), timed(case.plain, told.runs)
            table.add_row(case.name, f"{len(found):,}", f"{ours:.4f}", f"{plain:.4f}", f"{ours / plain:.2f}")
        day.close()
    Console(width=120).print(table)


def _name(item: dict[str, Json]) -> str:
    ref = item["object"]
    assert isinstance(ref, dict)
    return f"{ref['namespace']}/{ref['name']}"


def _values(item: dict[str, Json]) -> list[tuple[Json, Json]]:
    rows = item["fields"]
    assert isinstance(rows, list)
    return [(row["before"], row["after"]) for row in rows if isinstance(row, dict)]


def _short(key: str) -> str:
    return "/".join(key.split("/")[-2:])


def _pairs(rows: list[tuple[str, Json, Json]]) -> list[tuple[Json, Json]]:
    return sorted(((before, after) for _, before, after in rows), key=str)


if __name__ == "__main__":
    main()

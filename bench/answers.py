"""Slices and `changes` on a big past, with the plain interval table's answer beside the one it can give.

    python -m bench.answers [--objects 10000] [--changes 1000000]

Builds a ledger of pods spread over namespaces, each changed in turn for 24 hours, by inserting its rows directly (the
projector is timed elsewhere). Then: the slice of all objects with their states now and at half time, `changes` of the
whole day (first page), of one namespace, of one rarely changed object, and by field. The alternative is one table
`(key, vf, vt, body)` with whole states and an index on vf: it can give the same slice and the rows that changed in a
window, but no fields, no folding and no second time axis. Prints seconds at p50 of five runs and the ratio.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from api import changes as changed
from api import questions
from schema.canonical import digest
from schema.identity import Key
from schema.identity import oid as oid_of
from schema.instants import MAX
from schema.records import Actor, Change, FieldChange, ObjectRef, Valid
from store.ledger import SqliteLedger
from store.rewind import Rewind
from store.rows import ChangeRow, Content, Insert, Interval, VersionRow

DAY = 24 * 3600 * 1_000_000
SCOPE = "kubernetes/bench"


def ref(number: int) -> ObjectRef:
    return ObjectRef(
        source="kubernetes", scope="bench", type="core/Pod", kind="Pod", class_="Pod",
        namespace=f"ns-{number % 100}", name=f"pod-{number}", uid=f"u{number}",
    )  # fmt: skip


def state(number: int, turn: int) -> dict:
    meta = {"name": f"pod-{number}", "namespace": f"ns-{number % 100}", "labels": {"app": f"a{number % 50}"}}
    container = {"name": "main", "image": f"registry.example/app:{turn}"}
    env = [{"name": f"SETTING_{n}", "value": str(n)} for n in range(12)]
    return {"metadata": meta, "spec": {"containers": [{**container, "env": env}]}, "status": {"phase": "Running"}}


def build(folder: Path, objects: int, changes: int) -> tuple[Rewind, sqlite3.Connection]:
    ledger = SqliteLedger(folder / "ledger.db")
    plain = sqlite3.connect(folder / "plain.db", isolation_level=None)
    plain.execute("CREATE TABLE state (key TEXT, vf INTEGER, vt INTEGER, body BLOB)")
    turns = max(1, changes // objects)
    step = DAY // (turns * objects)
    refs = [ref(number) for number in range(objects)]
    keys = [one.key for one in refs]
    oids = [oid_of(key) for key in keys]
    seq = 0
    with ledger.transaction():
        for one in refs:
            ledger.add_object(one)
        for turn in range(turns):
            rows: list[tuple[str, int, int, bytes]] = []
            for number in range(objects):
                seq += 1
                at = seq * step
                end = MAX if turn == turns - 1 else at + objects * step
                whole = state(number, turn)
                path = "/spec/containers/0/image"
                patch = [{"op": "replace", "path": path, "value": whole["spec"]["containers"][0]["image"]}]
                field = FieldChange(
                    path='spec.containers[k:{"name":"main"}].image', pointer=path, effect="changed",
                    before=f"registry.example/app:{turn - 1}", after=f"registry.example/app:{turn}",
                )  # fmt: skip
                record = Change(
                    id=f"{seq:032x}", op="update" if turn else "create", object=refs[number], observed_at=at,
                    valid=Valid(not_before=at - 1, not_after=at), digest=digest(whole), fields=[field] if turn else [],
                    actor=Actor(manager="kubectl-edit", method="managedFields", confidence=0.9),
                )  # fmt: skip
                anchor = turn - turn % 32
                body = orjson.dumps(whole if anchor == turn else patch)
                span = Interval(at, end, MAX if end == MAX else end, at, MAX, seq)
                ledger.execute(
                    [
                        Insert(Content(oids[number], turn, anchor, record.digest or "", body)),
                        Insert(VersionRow(oids[number], span, at - 1, end, turn, refs[number].uid)),
                        Insert(
                            ChangeRow(
                                seq, at, record.id, oids[number], record.op, False, at - 1, at, at, turn,
                                refs[number].uid, False, _told(record),
                            )
                        ),
                    ]
                )  # fmt: skip
                rows.append((str(keys[number]), at, end, orjson.dumps(whole)))
            plain.execute("BEGIN")
            plain.executemany("INSERT INTO state VALUES (?,?,?,?)", rows)
            plain.execute("COMMIT")
        ledger.set_position(SCOPE, seq, seq * step, seq * step)
    plain.execute("CREATE INDEX state_vf ON state (vf)")
    return Rewind(ledger), plain


def _told(record: Change) -> bytes:
    """What the ledger keeps of a change beside its content."""
    return orjson.dumps(
        record.model_dump(mode="json", by_alias=True, exclude={"patch", "id", "op", "object"}, exclude_defaults=True)
    )


def timed(ask: Callable[[], object]) -> float:
    spent = []
    for _ in range(5):
        start = time.perf_counter()
        ask()
        spent.append(time.perf_counter() - start)
        if sum(spent) > 60:
            break
    return statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=1_000_000)
    args = parser.parse_args()
    table = Table(title=f"{args.objects:,} objects, {args.changes:,} changes in 24 h")
    for name in ("question", "answers", "seconds", "plain table", "x plain"):
        table.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        rewind, plain = build(Path(folder), args.objects, args.changes)
        top = rewind.watermark(SCOPE)
        moment = questions.Moment(SCOPE, top, top)
        lone = Key("kubernetes", "bench", "core/Pod", "ns-7", "pod-7")

        def slice_at(at: int) -> list[dict]:
            return [rewind.state(version) for version in rewind.objects(SCOPE, at, top)]

        def plain_slice(at: int) -> list[dict]:
            sql = "SELECT body FROM state WHERE vf <= ? AND ? < vt ORDER BY key"
            return [orjson.loads(row[0]) for row in plain.execute(sql, (at, at))]

        def plain_changes() -> list[tuple]:
            return plain.execute("SELECT * FROM state ORDER BY vf DESC LIMIT 50").fetchall()

        def page(**where: object) -> list[dict]:
            return changed.changes(rewind, moment, where=changed.Filter(**where), limit=50).items

        assert slice_at(top // 2) == plain_slice(top // 2), "the two disagree: nothing to time"
        cases: list[tuple[str, Callable[[], list], Callable[[], list] | None]] = [
            ("slice now", lambda: slice_at(top), lambda: plain_slice(top)),
            ("slice at half time", lambda: slice_at(top // 2), lambda: plain_slice(top // 2)),
            ("changes, page 1", page, plain_changes),
            ("changes of a namespace", lambda: page(namespace="ns-7"), None),
            ("changes of one object", lambda: page(object=lone), None),
            ("changes by field", lambda: page(path="spec.**.image"), None),
        ]
        for name, ours, theirs in cases:
            seconds = timed(ours)
            row = [name, f"{len(ours()):,}", f"{seconds:.3f}"]
            if theirs is not None:
                other = timed(theirs)
                row += [f"{other:.3f}", f"{seconds / other:.1f}"]
            table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

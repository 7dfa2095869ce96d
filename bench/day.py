"""A made-up day of a big estate, written at once into a ledger and into the plain table that it is compared with.

Pods on nodes, in a hundred namespaces, each in turn given another image, over 24 hours. Rows are inserted as the
projector would have them, without log or planner: those are timed in `bench.projection`. One pod is also given a
priority, once, early in the day: a change that is rare among all others. Plain is `state (key, namespace, vf, vt,
body)` with whole states and indexes on (key, vf) and vf, and `edge (src, dst, vf, vt)`: a first design with one time
axis.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import cast

import orjson

from schema.canonical import Json, digest, hash64, hash128
from schema.identity import Key
from schema.identity import oid as oid_of
from schema.instants import MAX
from store.ledger import SqliteLedger
from store.rows import ChangeRow, Content, EdgeRow, Insert, Interval, ObjectRow, Row, VersionRow

DAY = 24 * 3600 * 1_000_000
SCOPE = "kubernetes/bench"
RARE = 7
"""The pod whose priority changed."""
_NAMESPACES = 100
_ANCHOR = 16
_IMAGE, _PRIORITY = "/spec/containers/0/image", "/spec/priority"


def pod(number: int) -> Key:
    return Key("kubernetes", "bench", "core/Pod", f"ns-{number % _NAMESPACES}", f"pod-{number}")


def image(turn: int) -> str:
    return f"registry.example/app:{turn}"


def state(number: int, turn: int) -> dict[str, Json]:
    env: list[Json] = [{"name": f"SETTING_{n}", "value": str(n)} for n in range(12)]
    spec: dict[str, Json] = {"containers": [{"name": "main", "image": image(turn), "env": env}]}
    if number == RARE and turn:
        spec["priority"] = 1000
    key = pod(number)
    meta: dict[str, Json] = {"name": key.name, "namespace": key.namespace, "labels": {"app": f"a{number % 50}"}}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


class Day:
    """`ledger` and `plain` hold the same: `objects` pods, each of `turns` states, the last at `end`."""

    def __init__(self, folder: Path, objects: int, changes: int) -> None:
        self.ledger = SqliteLedger(folder / "ledger.db")
        self.plain = sqlite3.connect(folder / "plain.db", isolation_level=None)
        self.plain.execute("PRAGMA journal_mode = WAL")
        self.plain.execute("PRAGMA synchronous = NORMAL")
        self.plain.execute("CREATE TABLE state (key TEXT, namespace TEXT, vf INTEGER, vt INTEGER, body BLOB)")
        self.plain.execute("CREATE TABLE edge (src TEXT, dst TEXT, vf INTEGER, vt INTEGER)")
        self._objects = objects
        self.turns = max(2, changes // objects)
        self._step = DAY // (self.turns * objects)
        self.changes = self.turns * objects
        self.end = self.changes * self._step
        for turn in range(self.turns):
            with self.ledger.transaction():
                self._write(turn)
        with self.ledger.transaction():
            self.ledger.set_position(SCOPE, self.changes, self.end, self.end)
        self.plain.execute("CREATE INDEX state_key ON state (key, vf)")
        self.plain.execute("CREATE INDEX state_vf ON state (vf)")

    def close(self) -> None:
        self.ledger.close()
        self.plain.close()

    def _write(self, turn: int) -> None:
        states: list[tuple[str, str | None, int, int, bytes]] = []
        edges: list[tuple[str, str, int, int]] = []
        for number in range(self._objects):
            seq = turn * self._objects + number + 1
            at = seq * self._step
            end = MAX if turn == self.turns - 1 else at + self._objects * self._step
            whole, key = state(number, turn), pod(number)
            self.ledger.execute(map(Insert, self._rows(number, turn, seq, Interval(at, end, end, at, MAX, seq), whole)))
            states.append((str(key), key.namespace, at, end, orjson.dumps(whole)))
            if turn == 0:
                node = str(_node(number))
                edges.append((str(key), node, at, MAX))
                told = (hash64(f"{key} {node}"), Interval(at, MAX, MAX, at, MAX, seq), "RUNS_ON", str(key), node)
                self.ledger.execute([Insert(EdgeRow(*told, '{"rule":"pod-node@1"}'))])
        self.plain.execute("BEGIN")
        self.plain.executemany("INSERT INTO state VALUES (?,?,?,?,?)", states)
        self.plain.executemany("INSERT INTO edge VALUES (?,?,?,?)", edges)
        self.plain.execute("COMMIT")

    def _rows(self, number: int, turn: int, seq: int, span: Interval, whole: dict[str, Json]) -> list[Row]:
        key = pod(number)
        oid, uid = oid_of(key), f"u{number}"
        fields: list[Json] = []
        patch: list[Json] = []
        if turn:
            path = 'spec.containers[k:{"name":"main"}].image'
            fields.append(_field(path, _IMAGE, "changed", image(turn - 1), image(turn)))
            patch.append({"op": "replace", "path": _IMAGE, "value": image(turn)})
        if turn == 1 and number == RARE:
            fields.append(_field("spec.priority", _PRIORITY, "added", None, 1000))
            patch.append({"op": "add", "path": _PRIORITY, "value": 1000})
        told = {
            "valid": {"not_before": span.vf - 1, "not_after": span.vf}, "observed_at": span.vf, "fields": fields,
            "actor": {"manager": "kubectl-edit", "method": "managedFields", "confidence": 0.9},
        }  # fmt: skip
        anchor = turn - turn % _ANCHOR
        body = orjson.dumps(whole if anchor == turn else patch)
        op = "update" if turn else "create"
        rows: list[Row] = [] if turn else [ObjectRow(oid, key, "Pod", "Pod")]
        return [
            *rows,
            Content(oid, turn, anchor, digest(whole), body),
            VersionRow(oid, span, span.vf - 1, span.vt, turn, uid),
            ChangeRow(
                seq, span.vf, hash128(str(seq)), oid, op, False, span.vf - 1, span.vf, span.vf, turn, uid, False,
                orjson.dumps(told),
            ),
        ]  # fmt: skip


def _node(number: int) -> Key:
    return Key("kubernetes", "bench", "core/Node", None, f"node-{number % 97}")


def _field(path: str, pointer: str, effect: str, before: Json, after: Json) -> dict[str, Json]:
    return {"path": path, "pointer": pointer, "effect": effect, "before": before, "after": after}


def leaves(value: Json, path: str = "") -> dict[str, Json]:
    """Every scalar of a value by its path."""
    if isinstance(value, dict):
        parts = [leaves(one, f"{path}/{name}") for name, one in value.items()]
    elif isinstance(value, list):
        parts = [leaves(one, f"{path}/{number}") for number, one in enumerate(value)]
    else:
        return {path: value}
    return {name: one for part in parts for name, one in part.items()}


def compared(before: bytes | None, after: bytes | None) -> list[tuple[str, Json, Json]]:
    """How two states differ, as somebody with the plain table finds out."""
    old, new = (leaves(cast(Json, orjson.loads(one))) if one else {} for one in (before, after))
    return [(name, old.get(name), new.get(name)) for name in sorted({*old, *new}) if old.get(name) != new.get(name)]

"""What a correction costs: its window, neither the depth of the history nor the size of the scope."""

from __future__ import annotations

import pytest

from schema.canonical import digest
from schema.identity import Key
from schema.instants import MAX
from schema.kinds import class_of
from schema.records import Amend, Change, ObjectRef, Record, Retract, Valid
from store.ledger import SqliteLedger
from store.projector import Projector
from store.rewind import Rewind
from tests.bitemporal.histories import MemoryLog


def ref(type_: str, namespace: str, name: str) -> ObjectRef:
    kind = type_.rpartition("/")[2]
    return ObjectRef(
        source="kubernetes", scope="lab", type=type_, kind=kind, class_=class_of(type_), namespace=namespace,
        name=name, uid=f"{namespace}-{name}",
    )  # fmt: skip


def service(n: int) -> dict:
    return {"metadata": {"name": "s"}, "spec": {"selector": {"app": "a"}, "externalIPs": [str(n)]}}


def pods(namespace: str, count: int, first: int) -> list[Record]:
    out: list[Record] = []
    for n in range(count):
        at, state = first + n, {"metadata": {"labels": {"app": "a"}}, "spec": {}}
        out.append(
            Change(
                id=f"{at:032x}", op="create", object=ref("core/Pod", namespace, f"p{n}"), observed_at=at,
                valid=Valid(not_before=at, not_after=at), digest=digest(state),
                patch=[{"op": "add", "path": "", "value": state}],
            )
        )  # fmt: skip
    return out


def services(depth: int, first: int) -> list[Record]:
    out: list[Record] = []
    for n in range(depth):
        at = first + 10 * n
        patch = [{"op": "replace", "path": "/spec/externalIPs/0", "value": str(n)}]
        out.append(
            Change(
                id=f"{n:031x}5", op="update" if n else "create", object=ref("core/Service", "shop", "s"),
                observed_at=at, valid=Valid(not_before=at - 5, not_after=at), digest=digest(service(n)),
                base=digest(service(n - 1)) if n else None,
                patch=patch if n else [{"op": "add", "path": "", "value": service(0)}],
            )
        )  # fmt: skip
    return out


def cost(depth: int, elsewhere: int, correction: str) -> tuple[int, int]:
    """(statements, steps of SQLite's machine in hundreds) that one correction in the middle takes."""
    log, ledger = MemoryLog(), SqliteLedger(":memory:")
    run = Projector(log, ledger)
    records = [*pods("shop", 3, 1000), *pods("other", elsewhere, 2000), *services(depth, 10_000)]
    for record in records:
        log.append(record, record.observed_at)
    run.run()
    statements, steps = [], [0]

    def step() -> int:
        steps[0] += 1
        return 0

    ledger.connection.set_trace_callback(statements.append)
    ledger.connection.set_progress_handler(step, 100)
    target, end = depth // 2, 10_000 + 10 * depth
    if correction == "amend":
        at = 10_000 + 10 * target - 4
        valid = Valid(not_before=at - 1, not_after=at)
        told: Record = Amend(
            id="a" * 32, source="kubernetes", scope="lab", amends=f"{target:031x}5", observed_at=end, valid=valid
        )
    else:
        told = Retract(
            id="a" * 32, source="kubernetes", scope="lab", retracts=f"{target:031x}5", observed_at=end, reason="test"
        )
    log.append(told, end)
    assert run.run().applied == 1
    ledger.connection.set_trace_callback(None)
    ledger.connection.set_progress_handler(None, 100)
    version = Rewind(ledger).as_of(Key("kubernetes", "lab", "core/Service", "shop", "s"), 10 * target + 9997, MAX - 1)
    assert version is not None
    assert Rewind(ledger).state(version) == service(target if correction == "amend" else target - 1)
    return len(statements), steps[0]


@pytest.mark.parametrize("correction", ["amend", "retract"])
def test_it_costs_the_same_in_a_deep_history_and_a_wide_scope(correction: str) -> None:
    statements, steps = cost(40, 0, correction)
    for depth, elsewhere in ((2000, 0), (40, 500)):
        more, further = cost(depth, elsewhere, correction)
        assert more <= statements + 2
        assert further <= 2 * steps + 10

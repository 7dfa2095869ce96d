"""What the projector promises: poison is buried, duplicates change nothing, a replay gives the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from schema.canonical import digest
from schema.errors import StoreMissing
from schema.identity import Key
from schema.instants import MAX
from schema.kinds import class_of
from schema.records import Change, ObjectRef, Provenance, State, Valid
from store.ledger import SqliteLedger
from store.projector import project
from store.rewind import Rewind
from store.verify import verify
from tests.bitemporal.histories import SCOPE, Entry, MemoryLog, random_history

KEY = Key("kubernetes", "lab", "core/ConfigMap", "shop", "flags")
REF = ObjectRef(
    source="kubernetes", scope="lab", type="core/ConfigMap", kind="ConfigMap", class_="Config", namespace="shop",
    name="flags", uid="u1",
)  # fmt: skip


def ref_of(type_: str, name: str, uid: str) -> ObjectRef:
    kind = type_.rpartition("/")[2]
    return ObjectRef(
        source="kubernetes", scope="lab", type=type_, kind=kind, class_=class_of(type_), namespace="shop", name=name,
        uid=uid,
    )  # fmt: skip


def config(value: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}, "data": {"mode": value}}


def change(number: int, old: str | None, new: str | None, at: int) -> Change:
    if new is None:
        op, patch = "delete", []
    elif old is None:
        op, patch = "create", [{"op": "add", "path": "", "value": config(new)}]
    else:
        op, patch = "update", [{"op": "replace", "path": "/data/mode", "value": new}]
    return Change(
        id=f"{number:032x}", op=op, object=REF, valid=Valid(not_before=at - 5, not_after=at), observed_at=at,
        base=digest(config(old)) if old else None, digest=digest(config(new)) if new else None, patch=patch,
    )  # fmt: skip


def projected(*records: Change | State | bytes) -> tuple[MemoryLog, SqliteLedger]:
    log = MemoryLog()
    for record in records:
        if isinstance(record, bytes):
            log.entries.append(
                Entry(len(log.entries) + 1, (log.entries[-1].s if log.entries else 0) + 1, SCOPE, record)
            )
        else:
            log.append(record, record.observed_at)
    ledger = SqliteLedger(":memory:")
    project(log, ledger)
    return log, ledger


def test_an_object_then_and_now() -> None:
    _, ledger = projected(change(1, None, "a", 100), change(2, "a", "b", 200), change(3, "b", None, 300))
    rewind = Rewind(ledger)
    at = {t: rewind.as_of(KEY, t, MAX - 1) for t in (99, 100, 199, 200, 299, 300)}
    assert at[99] is None
    assert at[300] is None
    assert [rewind.state(version)["data"]["mode"] for t in (100, 199, 200, 299) if (version := at[t])] == list("aabb")
    assert at[199] is not None
    assert (at[199].vt, at[199].ends_not_before) == (200, 195)
    believed_then = rewind.as_of(KEY, 250, 150)
    assert believed_then is not None
    assert rewind.state(believed_then)["data"]["mode"] == "a"
    assert believed_then.vt == MAX


@pytest.mark.parametrize(
    ("poison", "reason"),
    [
        (b"{half", "BadRecord"),
        (b'{"v":7,"type":"change"}', "BadRecord"),
        (b'{"v":1,"type":"gossip"}', "BadRecord"),
        (change(9, "b", "c", 250).model_copy(update={"id": "not hexadecimal"}), "BadRecord"),
        (change(9, "never", "c", 250), "WrongBase"),
        (change(9, "b", "c", 250).model_copy(update={"digest": "0" * 32}), "WrongDigest"),
        (
            change(9, "b", "c", 250).model_copy(update={"patch": [{"op": "remove", "path": "/data/none"}]}),
            "BadPatch",
        ),
    ],
)
def test_poison_is_buried_with_its_reason_and_the_rest_goes_on(poison: Change | bytes, reason: str) -> None:
    log, ledger = projected(change(1, None, "a", 100), change(2, "a", "b", 200), poison, change(3, "b", "d", 300))
    rewind = Rewind(ledger)
    assert [(letter.position, letter.reason) for letter in rewind.dead_letters()] == [(3, reason)]
    version = rewind.as_of(KEY, 300, MAX - 1)
    assert version is not None
    assert rewind.state(version)["data"]["mode"] == "d"
    assert verify(log, ledger).ok


def test_a_full_state_ends_the_gap_that_a_poison_change_opened() -> None:
    fresh = State(
        id="f" * 32, object=REF, valid=Valid(not_before=250, not_after=250), observed_at=250,
        digest=digest(config("x")), state=config("x"), reason="request",
    )  # fmt: skip
    _, ledger = projected(change(1, None, "a", 100), change(2, "never", "c", 200), fresh, change(3, "x", "y", 300))
    rows = ledger.connection.execute("SELECT seq, until < 9223372036854775807 FROM gap").fetchall()
    assert rows == [(2, 1)]
    version = Rewind(ledger).as_of(KEY, 300, MAX - 1)
    assert version is not None
    assert Rewind(ledger).state(version)["data"]["mode"] == "y"


def test_the_same_record_twice_changes_nothing() -> None:
    one, two = change(1, None, "a", 100), change(2, "a", "b", 200)
    log, ledger = projected(one, one, two, two, one)
    assert len(Rewind(ledger).versions(KEY, MAX - 1)) == 2
    assert verify(log, ledger).ok


def test_projecting_in_many_small_runs_gives_the_rows_of_one_run() -> None:
    whole = MemoryLog()
    for record, at in random_history(7, 120):
        whole.append(record, at)
    at_once = SqliteLedger(":memory:")
    project(whole, at_once)
    bit_by_bit = SqliteLedger(":memory:")
    part = MemoryLog()
    for entry in whole.entries:
        part.entries.append(entry)
        project(part, bit_by_bit)
    assert bit_by_bit.digest() == at_once.digest()


def test_a_state_that_left_nothing_may_be_news_when_said_again() -> None:
    told = State(
        id="f" * 32, object=REF, valid=Valid(not_before=110, not_after=120), observed_at=120,
        digest=digest(config("a")), state=config("a"), reason="request",
    )  # fmt: skip
    records = (change(1, None, "a", 100), told, change(2, "a", "b", 150), told)
    log, at_once = projected(*records)
    part, bit_by_bit = MemoryLog(), SqliteLedger(":memory:")
    for entry in log.entries:
        part.entries.append(entry)
        project(part, bit_by_bit)
    assert bit_by_bit.digest() == at_once.digest()
    assert [version.vf for version in Rewind(at_once).versions(KEY, MAX - 1)] == [100, 120, 150]


def test_a_ledger_of_before_is_not_read_but_written_anew(tmp_path: Path) -> None:
    log, _ = projected(change(1, None, "a", 100))
    old = SqliteLedger(tmp_path / "ledger.db")
    project(log, old)
    digest = old.digest()
    old.connection.executescript(
        "DELETE FROM migration WHERE number >= 3; DROP TABLE horizon; DROP INDEX object_namespace;"
        "UPDATE version SET vf = 7;"
        "CREATE INDEX version_open ON version (oid); CREATE INDEX edge_open ON edge (eid);"
    )
    old.close()
    with pytest.raises(StoreMissing, match="older"):
        SqliteLedger(tmp_path / "ledger.db", readonly=True)
    anew = SqliteLedger(tmp_path / "ledger.db")
    project(log, anew)
    assert anew.digest() == digest


@pytest.mark.parametrize("pod_first", [False, True])
def test_two_objects_of_one_uid_stop_nobody(pod_first: bool) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d1", "controller": True}
    twins = [ref_of("apps/ReplicaSet", name, "same") for name in ("one", "two")]
    by = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "one", "uid": "same", "controller": True}
    states = [(twin, {"metadata": {"name": twin.name, "ownerReferences": [owner]}, "spec": {}}) for twin in twins]
    states.append((ref_of("core/Pod", "p", "p1"), {"metadata": {"name": "p", "ownerReferences": [by]}, "spec": {}}))
    states = states[::-1] if pod_first else states
    came = [
        Change(
            id=f"{n:032x}", op="create", object=ref, valid=Valid(not_before=n, not_after=n), observed_at=n,
            digest=digest(state), patch=[{"op": "add", "path": "", "value": state}],
        )
        for n, (ref, state) in enumerate(states, start=1)
    ]  # fmt: skip
    went = [
        Change(
            id=f"{n:032x}", op="delete", object=ref, valid=Valid(not_before=n, not_after=n), observed_at=n,
            base=digest(state),
        )
        for n, (ref, state) in enumerate(reversed(states), start=10)
    ]  # fmt: skip
    log, ledger = projected(*came, *went, change(99, None, "a", 200))
    rewind = Rewind(ledger)
    assert len([edge for edge in rewind.edges(SCOPE, 5, MAX - 1) if edge.rule == "runs-over@2"]) == 2
    assert {edge.dst for edge in rewind.edges(SCOPE, 100, MAX - 1)} == set()
    assert rewind.as_of(KEY, 200, MAX - 1) is not None
    assert verify(log, ledger).ok


def test_verify_sees_a_row_that_was_tampered_with() -> None:
    log, ledger = projected(change(1, None, "a", 100), change(2, "a", "b", 200))
    assert verify(log, ledger).ok
    ledger.connection.execute("UPDATE version SET vf = vf + 1 WHERE vf = 200")
    assert not verify(log, ledger).ok


def test_an_amended_actor_is_shown_and_the_older_belief_kept() -> None:
    from schema.records import Amend

    amend = Amend(
        id="e" * 32, source="kubernetes", scope="lab", amends=f"{2:032x}", observed_at=260,
        provenance=Provenance(confidence=0.5),
    )  # fmt: skip
    _, ledger = projected(change(1, None, "a", 100), change(2, "a", "b", 200), amend)
    rewind = Rewind(ledger)
    newest = rewind.changes(SCOPE, until=MAX - 1, known_at=MAX - 1)[0]
    before = rewind.changes(SCOPE, until=MAX - 1, known_at=250)[0]
    assert (newest.change.provenance.confidence, before.change.provenance.confidence) == (0.5, 1.0)

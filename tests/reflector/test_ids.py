"""No two changes share an id, and no change loses its own: over repetitions, returns, restores and restarts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.kubernetes.recording import Line
from capture.kubernetes.reflector import Reflector
from capture.normalise import recalled
from schema import instants
from schema.canonical import digest
from schema.identity import Key
from schema.patch import apply
from schema.records import Change, State, parse
from schema.records import dump as dumped
from tests.reflector.lines import CMS, T0, S, changes, cm, ev, gap, lst, ops, recalling, reflector, run

LONG_AGO = "2026-02-01T00:00:00Z"


def bare(**said) -> dict:
    body = cm(**said)
    del body["metadata"]["resourceVersion"]
    return body


def world(records: list) -> dict[Key, tuple[Change | State, dict]]:
    """What the records leave, found as a ledger would: no id twice, each patch on the state that it names."""
    told: dict[str, object] = {}
    states: dict[Key, tuple[Change | State, dict]] = {}
    for record in records:
        if not isinstance(record, Change | State):
            continue
        assert told.setdefault(record.id, record) is record, (told[record.id], record)
        key = record.object.key
        if isinstance(record, State):
            assert record.state == states[key][1]
            continue
        before = states.pop(key)[1] if record.op in ("update", "delete") else None
        assert key not in states
        if before is not None:
            assert digest(before) == record.base
        if record.op != "delete":
            after = apply(before, record.patch)
            assert isinstance(after, dict)
            assert digest(after) == record.digest
            states[key] = record, after
    return states


def restarted(records: list) -> Reflector:
    """Another process, told what the records of the last one left."""
    living = [
        (recalled(last.object, state, last.source_version), last.valid) for last, state in world(records).values()
    ]
    return recalling(living, {CMS: max((one.observed_at for one in records), default=T0)})


def test_an_object_that_comes_back_and_goes_again_is_deleted_twice() -> None:
    back = [lst(0, cm()), lst(5), lst(9, cm()), ev(12, "DELETED", cm(rv="140", data="2"))]
    records = run(*back)
    assert ops(records) == ["observe", "delete", "create", "update", "delete"]
    assert world(records) == {}


def test_after_a_restart_too() -> None:
    first = run(lst(0, cm()), lst(5), lst(9, cm()))
    once = run(ev(12, "DELETED", cm(rv="140", data="2")), core=restarted(first))
    whole = run(lst(0, cm()), lst(5), lst(9, cm()), ev(12, "DELETED", cm(rv="140", data="2")))
    assert [one.id for one in changes(once)] == [one.id for one in changes(whole)[-2:]]

    gone = run(lst(0, cm()), lst(5))
    then = run(lst(9, cm()), ev(12, "DELETED", cm(rv="140")), core=restarted(gone))
    assert ops(then) == ["create", "delete"]
    assert world([*gone, *then]) == {}


def test_one_deletion_is_one_whether_the_watch_saw_it_or_a_list_did_not() -> None:
    born = "2026-03-01T03:00:04Z"
    watched = run(lst(0), ev(5, "ADDED", cm(born=born)), ev(9, "DELETED", cm(born=born, rv="140", data="2")))
    listed = run(lst(0), ev(5, "ADDED", cm(born=born)), gap(7), lst(20))
    assert [one.op for one in changes(watched)] == ["create", "update", "delete"]
    assert changes(watched)[-1].id == changes(listed)[-1].id


def test_objects_without_a_version_repeat_themselves_and_no_id() -> None:
    lines = [ev(n, "MODIFIED", bare(data=str(n % 2))) for n in range(1, 7)]
    records = run(lst(0, bare(data="0")), *lines)
    assert ops(records) == ["observe"] + ["update"] * 6
    world(records)


def test_a_restored_backup_uses_its_versions_again() -> None:
    a, b, c = cm(rv="10", data="a"), cm(rv="12", data="b"), cm(rv="12", data="c")
    records = run(
        lst(0, a, rv="11"), ev(3, "MODIFIED", b), gap(5), lst(9, a, rv="11"), ev(12, "MODIFIED", b), lst(15, c)
    )
    assert ops(records) == ["observe", "update", "update", "update", "update"]
    assert [one.source_version.version for one in changes(records)] == ["10", "12", "10", "12", "12"]
    assert "epoch_break" in changes(records)[2].flags
    ((_, state),) = world(records).values()
    assert state["data"] == {"size": "c"}


def test_names_with_and_without_a_namespace_go_in_one_list() -> None:
    whole = cm()
    del whole["metadata"]["namespace"]
    assert (
        ops(run(lst(0, cm(), {**whole, "metadata": {**whole["metadata"], "uid": "u2"}}), lst(5)))[2:] == ["delete"] * 2
    )


BODIES = st.builds(
    lambda name, uid, version, data, born: cm(name=name, uid=uid, rv=version, data=data, born=born),
    st.sampled_from("ab"), st.sampled_from(["u1", "u2"]),
    st.sampled_from(["1", "2", "3", "7", "x", None]), st.sampled_from("12"),
    st.sampled_from([LONG_AGO, "2026-02-02T00:00:00Z", "2199-01-01T00:00:00Z", None]),
)  # fmt: skip
STEPS = st.one_of(
    st.tuples(st.just("LIST"), st.lists(BODIES, max_size=2, unique_by=lambda one: one["metadata"]["name"])),
    st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), BODIES.map(lambda one: [one])),
    st.tuples(st.sampled_from(["GAP", "restart"]), st.just([])),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 15), STEPS), max_size=14), st.sampled_from(["1", "5", None]))
def test_whatever_comes_no_change_shares_an_id(steps: list, version: str | None) -> None:
    core, records, at = reflector(), run(), T0
    for wait, (type_, bodies) in steps:
        at += wait * S + 1
        if type_ == "restart":
            core = restarted(records)
        elif type_ == "LIST":
            records += core.feed(Line(0, at, "v1/configmaps", "LIST", rv=version, items=tuple(bodies)))
            listed = {one["metadata"]["name"]: one["data"]["size"] for one in bodies}
            living = {key.name for key in world(records)}
            assert living == set(listed)
        else:
            body = bodies[0] if bodies else None
            records += core.feed(Line(0, at, "v1/configmaps", type_, object=body))
    world(records)
    assert all(parse(dumped(record)) == record for record in records)


@pytest.mark.parametrize("version", ["9" * 50, "", "-1", "٣"])
def test_what_is_no_number_is_compared_by_equality_only(version: str) -> None:
    records = run(lst(0, cm(rv="10")), ev(1, "MODIFIED", cm(rv=version, data="2")), ev(2, "MODIFIED", cm(rv="11")))
    assert ops(records) == ["observe", "update", "update"]
    assert instants.show(changes(records)[-1].observed_at) == "2026-03-01T03:00:02Z"

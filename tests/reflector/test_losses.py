"""A line or an object that is of no use is a hole in what is known: told, bounded, and closed by what comes next."""

from __future__ import annotations

import gzip

import orjson
import pytest

from capture.kubernetes.recording import BadLine, Line
from capture.kubernetes.replay import Replay
from capture.redact import Redactor
from schema import instants
from schema.records import Change, Coverage
from tests.reflector.lines import T0, S, changes, cm, covers, ev, gap, lst, ops, reflector, run

BROKEN = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "password": "pl4nted-Value"}}
HEADER = {
    "recording": 1, "cluster": "lab", "started": "2026-03-01T03:00:00Z",
    "resources": [{"group": "", "version": "v1", "resource": "configmaps", "kind": "ConfigMap"}],
}  # fmt: skip


def bad(resource="v1/configmaps", t=None, reason="not JSON"):
    return BadLine(7, reason, resource, t)


def test_a_malformed_object_is_a_gap_up_to_the_next_good_line() -> None:
    records = run(lst(0, cm()), ev(5, "MODIFIED", BROKEN), ev(6, "MODIFIED", BROKEN), ev(9, "MODIFIED", cm(rv="11")))
    told = [record for record in records if isinstance(record, Coverage)]
    assert covers(records) == [
        ("watching", "list"), ("gap", "a ConfigMap without a name"), ("watching", "the next good line"),
    ]  # fmt: skip
    assert [(one.group_resource, one.valid.from_) for one in told[1:]] == [
        ("core/configmaps", T0 + 5 * S), ("core/configmaps", T0 + 9 * S),
    ]  # fmt: skip
    assert len({one.id for one in told}) == 3


def test_a_malformed_object_of_a_list_is_a_gap_up_to_the_next_list_or_line() -> None:
    records = run(lst(0, cm(), BROKEN, "?"), lst(9, cm()))
    assert covers(records) == [
        ("watching", "list"), ("gap", "2 of 3 objects of a list cannot be used: not an object"), ("watching", "relist"),
    ]  # fmt: skip


def test_a_bad_line_is_a_gap_of_its_resource_and_of_everything_where_it_names_none() -> None:
    core = reflector()
    out = run(lst(0, cm()), core=core) + core.miss(bad(), T0 + 3 * S)
    out += run(ev(4, "MODIFIED", cm(rv="11", data="2")), core=core)
    out += core.miss(bad(None), T0 + 5 * S) + core.miss(bad(None), T0 + 6 * S)
    out += run(ev(7, "MODIFIED", cm(rv="12", data="3")), core=core) + core.end(T0 + 9 * S)
    told = [(one.group_resource, one.state, (one.valid.from_ - T0) // S) for one in out if isinstance(one, Coverage)]
    assert told == [
        ("core/configmaps", "watching", 0), ("core/configmaps", "gap", 3), ("core/configmaps", "watching", 4),
        ("*", "gap", 5), ("*", "watching", 7), ("*", "ended", 9), ("core/configmaps", "ended", 9),
    ]  # fmt: skip
    assert covers(out)[1] == ("gap", "line 7: not JSON")


def test_a_bad_line_of_what_is_not_recorded_is_no_gap() -> None:
    core = reflector()
    assert core.miss(bad("coordination.k8s.io/v1/leases"), T0) == []
    assert core.counts["skipped"] == 1


def test_a_line_does_not_end_a_watch_that_is_lost() -> None:
    records = run(lst(0), gap(3), ev(5, "ADDED", BROKEN), ev(6, "ADDED", cm()), lst(9, cm()))
    assert covers(records) == [("watching", "list"), ("gap", "disconnect"), ("watching", "relist")]


def test_before_its_first_list_no_line_opens_a_watch() -> None:
    records = run(ev(1, "ADDED", BROKEN), ev(2, "ADDED", cm()), lst(3, cm()))
    assert covers(records) == [("gap", "a ConfigMap without a name"), ("watching", "list")]


def test_what_may_have_happened_in_the_lost_line_is_as_old_as_the_loss() -> None:
    core = reflector()
    run(lst(0, cm(), cm("b", uid="u2")), ev(2, "BOOKMARK", {}), core=core)
    core.miss(bad(), T0 + 30 * S)
    fields = [{"manager": "m", "time": instants.show(T0 + 58 * S)}]
    out = changes(run(ev(60, "MODIFIED", cm(rv="11", data="2", managedFields=fields)), core=core))
    out += changes(run(ev(90, "MODIFIED", cm(rv="12", data="3")), core=core))
    out += changes(run(lst(120, cm(rv="12", data="3")), core=core))
    # The first change may be that of the lost line, the second not; of b nothing was heard since before the loss.
    assert [(one.op, one.object.name, (one.valid.not_before - T0) // S) for one in out] == [
        ("update", "a", -8), ("update", "a", 80), ("delete", "b", -8),
    ]  # fmt: skip
    assert ops(run(lst(130, cm(rv="12", data="3"), cm("c", uid="u3")), core=core)) == ["create"]


def test_an_object_whose_birth_was_lost_is_born_when_it_says() -> None:
    core = reflector()
    run(lst(0), core=core)
    core.miss(bad(), T0 + 30 * S)
    (made,) = changes(run(ev(60, "MODIFIED", cm(born="2026-03-01T03:00:30Z")), core=core))
    assert (made.op, made.valid.not_before - T0) == ("create", 30 * S)


@pytest.mark.parametrize(
    ("lost", "resource"),
    [
        (b'{"t":"2026-03-01T03:00:02.000001Z","r":"v1/configmaps","type":"ADDED","object":{"kind', "core/configmaps"),
        (b'{"half', "*"),
        (b"\xff\xfe", "*"),
        (b'{"t":"2026-03-01T03:00:02Z","r":"v1/configmaps","type":"NEWS"}', "core/configmaps"),
        (b'{"t":"02:00","r":"v1/configmaps","type":"ADDED","object":{}}', "core/configmaps"),
    ],
)
def test_a_recording_with_a_bad_line_says_where_it_is_unsure(tmp_path, lost: bytes, resource: str) -> None:
    def line(second: int, type_: str, **more: object) -> bytes:
        return orjson.dumps({"t": instants.show(T0 + second * S), "r": "v1/configmaps", "type": type_, **more})

    whole = [
        orjson.dumps(HEADER), line(1, "LIST", rv="9", items=[cm()]), lost,
        line(5, "MODIFIED", object=cm(rv="11", data="2")),
    ]  # fmt: skip
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(whole) + b"\n"))
    replay = Replay(path, Redactor(b"k" * 32))
    records = [record for record, _ in replay]
    assert [one.number for one in replay.bad] == [3]
    told = [(one.group_resource, one.state) for one in records if isinstance(one, Coverage)]
    assert told[1:3] == [(resource, "gap"), (resource, "watching")]
    assert [one.op for one in records if isinstance(one, Change)] == ["observe", "update"]


def test_a_truncated_recording_ends_with_a_gap(tmp_path) -> None:
    lines = [HEADER, {"t": "2026-03-01T03:00:01Z", "r": "v1/configmaps", "type": "LIST", "rv": "9", "items": [cm()]}]
    whole = gzip.compress(b"\n".join(map(orjson.dumps, lines)) + b"\n" + bytes(range(256)) * 90)
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(whole[:-40])
    told = [
        (one.group_resource, one.state) for one, _ in Replay(path, Redactor(b"k" * 32)) if isinstance(one, Coverage)
    ]
    assert told[0] == ("core/configmaps", "watching")
    assert ("*", "gap") in told
    assert told[-2:] == [("*", "ended"), ("core/configmaps", "ended")]


def test_the_reason_of_a_gap_holds_no_secret() -> None:
    core = reflector()
    (told,) = core.miss(bad(None, reason="unknown line type 'password=pl4nted-Value'"), T0)
    assert isinstance(told, Coverage)
    assert "pl4nted" not in str(told.reason)


def test_a_watch_that_went_on_from_its_version_says_nothing() -> None:
    core = reflector()
    run(lst(0, cm()), core=core)
    assert run(Line(0, T0 + 4 * S, "v1/configmaps", "RESUMED"), core=core) == []
    assert ops(run(ev(5, "MODIFIED", cm(rv="11", data="2")), core=core)) == ["update"]

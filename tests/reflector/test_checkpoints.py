"""Whole states between changes, so that no chain grows without end; and lists keyed as their CRD declares."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import orjson
import pytest

from capture.kubernetes.lives import CHECKPOINT_AGE, CHECKPOINT_CHANGES
from capture.kubernetes.recording import BadLine, Line, parse_line
from capture.kubernetes.reflector import Reflector
from capture.kubernetes.replay import capture_file
from capture.kubernetes.skipped import is_skipped
from capture.kubernetes.watched import InMemory
from capture.redact import Redactor
from schema.canonical import digest
from schema.patch import apply
from schema.records import Change, State
from tests.reflector.lines import S, changes, cm, ev, lst, ops, reflector, run
from tests.reflector.test_recordings import RECORDINGS


def states(records) -> list[State]:
    return [record for record in records if isinstance(record, State)]


def test_every_so_many_changes_of_an_object_its_whole_state_is_told() -> None:
    core = reflector()
    run(lst(0, cm(rv="1")), core=core)
    written = [
        run(ev(n, "MODIFIED", cm(rv=str(n), data=str(n))), core=core) for n in range(2, 2 * CHECKPOINT_CHANGES + 2)
    ]
    assert [n for n, records in enumerate(written, 1) if states(records)] == [
        CHECKPOINT_CHANGES,
        2 * CHECKPOINT_CHANGES,
    ]
    change, state = written[CHECKPOINT_CHANGES - 1]
    assert isinstance(change, Change)
    assert isinstance(state, State)
    assert (state.digest, state.valid, state.reason) == (change.digest, change.valid, "checkpoint")
    assert digest(state.state) == state.digest
    assert state.id != change.id


def test_the_first_change_after_a_day_is_followed_by_a_whole_state() -> None:
    day = CHECKPOINT_AGE // S
    core = reflector()
    early = run(lst(0, cm(rv="1")), ev(day - 1, "MODIFIED", cm(rv="2", data="2")), core=core)
    late = run(ev(day, "MODIFIED", cm(rv="3", data="3")), ev(day + 1, "MODIFIED", cm(rv="4", data="4")), core=core)
    assert states(early) == []
    assert [type(record).__name__ for record in late] == ["Change", "State", "Change"]


def test_an_object_made_anew_starts_its_count_anew() -> None:
    core = reflector()
    half = CHECKPOINT_CHANGES // 2
    for uid in ("u1", "u2"):
        body = [cm(uid=uid, rv=f"{uid[1]}{n:03}", data=f"{uid}{n}") for n in range(half + 10)]
        records = run(ev(1, "ADDED", body[0]), *(ev(2, "MODIFIED", one) for one in body[1:]), core=core)
        assert states(records) == []
        run(ev(3, "DELETED", body[-1]), core=core)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_each_checkpoint_of_a_recording_is_what_the_patches_give(path) -> None:
    built: dict = {}
    for record, _ in capture_file(path, redactor=Redactor(b"k" * 32)):
        if isinstance(record, State):
            assert record.state == built[record.object.key]
        elif isinstance(record, Change):
            before = built.pop(record.object.key, None)
            if record.op != "delete":
                built[record.object.key] = apply(before if record.op == "update" else None, record.patch)


ROUTES = "gateway.example/v1"


def crd(keys: list[str] | None, *, default: str | None = None) -> dict:
    port = {"type": "integer", **({} if default is None else {"default": default})}
    items = {"type": "object", "properties": {"zone": {"type": "string"}, "port": port}}
    listed: dict = {"type": "array", "items": items}
    if keys:
        listed |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
    inner = {"additionalProperties": {"type": "object", "properties": {"routes": listed}}}
    schema = {"properties": {"spec": {"properties": {"routes": listed, "byTeam": inner}}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gateways.gateway.example", "uid": "c", "resourceVersion": "5"},
        "spec": {
            "group": "gateway.example",
            "names": {"kind": "Gateway", "plural": "gateways"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}, {"name": "v0"}, "odd"],
        },
    }


def gateway(rv: str, routes: list, version: str = ROUTES) -> dict:
    meta = {"name": "g", "namespace": "shop", "uid": "g1", "resourceVersion": rv}
    return {
        "apiVersion": version,
        "kind": "Gateway",
        "metadata": meta,
        "spec": {"routes": routes, "byTeam": {"a": {"routes": routes}}},
    }


def told(*definitions: dict, version: str = ROUTES, before: list | None = None, after: list | None = None) -> Change:
    one, two = {"zone": "eu", "port": 1, "to": "a"}, {"zone": "us", "port": 1, "to": "b"}
    core = reflector()
    run(lst(0, *definitions, r="apiextensions.k8s.io/v1/customresourcedefinitions"), core=core)
    first = gateway("10", before or [one, two], version)
    second = gateway("11", after or [two, {**one, "to": "c"}], version)
    path = f"{version}/gateways"
    return changes(run(lst(1, first, r=path), ev(2, "MODIFIED", second, r=path), core=core))[-1]


def test_lists_of_a_custom_resource_are_keyed_as_its_crd_declares() -> None:
    change = told(crd(["zone", "port"]))
    label = '[k:{"port":1,"zone":"eu"}]'
    assert [(f.path, f.effect, f.before, f.after) for f in change.fields] == [
        (f"spec.byTeam.a.routes{label}.to", "changed", "a", "c"),
        (f"spec.routes{label}.to", "changed", "a", "c"),
    ]
    assert "guessed_keys" not in (change.model_extra or {})


def test_what_a_crd_declared_is_known_to_a_later_run_that_hears_no_more_of_it() -> None:
    memory, path = InMemory(), f"{ROUTES}/gateways"
    one, two = {"zone": "eu", "port": 1, "to": "a"}, {"zone": "us", "port": 1, "to": "b"}
    earlier = Reflector("lab", Redactor(b"k" * 32), "e", memory=memory)
    run(
        lst(0, crd(["zone", "port"]), r="apiextensions.k8s.io/v1/customresourcedefinitions"),
        lst(1, gateway("10", [one, two]), r=path),
        core=earlier,
    )
    later = Reflector("lab", Redactor(b"k" * 32), "e", memory=memory)
    change = changes(run(ev(2, "MODIFIED", gateway("11", [two, {**one, "to": "c"}]), r=path), core=later))[-1]
    assert {one.path for one in change.fields} == {
        'spec.byTeam.a.routes[k:{"port":1,"zone":"eu"}].to', 'spec.routes[k:{"port":1,"zone":"eu"}].to',
    }  # fmt: skip


def test_a_declared_default_stands_for_an_absent_key() -> None:
    change = told(
        crd(["zone", "port"], default=80),
        before=[{"zone": "eu", "to": "a"}],
        after=[{"zone": "eu", "port": 80, "to": "b"}],
    )
    assert 'spec.routes[k:{"port":80,"zone":"eu"}].to' in [f.path for f in change.fields]


def test_without_a_declaration_items_are_compared_whole() -> None:
    for change in (told(), told(crd(None)), told(crd(["zone", "port"]), version="gateway.example/v0")):
        assert {f.path.partition("[")[2][:2] for f in change.fields if f.path.startswith("spec.routes")} == {"h:"}


def test_a_guessed_key_is_said_in_the_record() -> None:
    change = told(before=[{"name": "a", "to": "1"}, {"name": "b"}], after=[{"name": "a", "to": "2"}, {"name": "b"}])
    assert [f.path for f in change.fields][1] == 'spec.routes[k:{"name":"a"}].to'
    assert change.model_extra == {"guessed_keys": ["spec.byTeam.a.routes", "spec.routes"]}


def test_a_changed_crd_holds_from_then_on() -> None:
    core = reflector()
    crds, path = "apiextensions.k8s.io/v1/customresourcedefinitions", f"{ROUTES}/gateways"
    body = crd(["zone"])
    run(lst(0, crd(None), r=crds), lst(1, gateway("10", [{"zone": "eu", "to": "a"}]), r=path), core=core)
    run(ev(2, "MODIFIED", {**body, "metadata": {**body["metadata"], "resourceVersion": "6"}}, r=crds), core=core)
    (change,) = changes(run(ev(3, "MODIFIED", gateway("11", [{"zone": "eu", "to": "b"}]), r=path), core=core))
    assert change.fields[-1].path == 'spec.routes[k:{"zone":"eu"}].to'


SKIPPED = tomllib.loads(files("schema").joinpath("tables/skipped.toml").read_text())["skip"]


@pytest.mark.parametrize("entry", SKIPPED, ids=lambda entry: entry["group"])
def test_each_skipped_entry_fits_its_example_and_not_its_counter_example(entry: dict) -> None:
    assert is_skipped(entry["applies"])
    assert not is_skipped(entry["not"])
    core = reflector()
    assert ops(run(lst(0, cm(), r=entry["applies"]), core=core)) == []
    assert core.counts["skipped"] == 1


def test_a_line_of_a_skipped_resource_is_told_from_its_beginning() -> None:
    start = b'{"t":"2026-03-01T03:00:02.000001Z","r":"coordination.k8s.io/v1/leases","type":"MODIFIED","object":'
    line = parse_line(2, start + b'{"never":"parsed"}}\n')
    assert isinstance(line, Line)
    assert (line.type, line.resource, line.object) == ("MODIFIED", "coordination.k8s.io/v1/leases", None)
    half = parse_line(2, start + b'{"never":')
    assert isinstance(half, BadLine)
    assert half.resource == "coordination.k8s.io/v1/leases"
    other = parse_line(
        2, orjson.dumps({"r": "coordination.k8s.io/v1/leases", "type": "GAP", "t": "2026-03-01T03:00:02Z"})
    )
    assert isinstance(other, Line)


def test_an_object_of_twenty_megabytes_is_captured_whole() -> None:
    large = "x" * 20_000_000
    core = reflector()
    raw = orjson.dumps({"t": "2026-03-01T03:00:02Z", "r": "v1/configmaps", "type": "ADDED", "object": cm(data=large)})
    line = parse_line(2, raw)
    assert isinstance(line, Line)
    (made,) = changes(run(lst(0), line, core=core))
    assert made.patch[0]["value"]["data"]["size"] == large
    (update,) = changes(run(ev(5, "MODIFIED", cm(rv="11", data=large + "y")), core=core))
    assert [(f.path, f.after["length"]) for f in update.fields] == [("data.size", 20_000_001)]
    assert len(orjson.dumps(update.fields[0].model_dump())) < 3000

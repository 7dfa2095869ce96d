"""Whatever the API server sends is recorded, or told as a gap of its resource and counted; never a traceback."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.kubernetes.objects import LEVELS
from schema.identity import parse_key
from schema.records import Change, Evidence, Record, dump, parse
from tests.reflector.lines import cm, covers, ev, event, heard, lst, ops, reflector, run

EVENTS = "v1/events"


def deep(levels: int) -> Any:
    nested: Any = "x"
    for level in range(levels):
        nested = [nested] if level % 2 else {"a": nested}
    return nested


def with_meta(**said: Any) -> dict[str, Any]:
    body = cm()
    return {**body, "metadata": {**body["metadata"], **said}}


MALFORMED: dict[str, dict[str, Any]] = {
    "too deep": {**cm(), "data": deep(LEVELS)},
    "far too deep": {**cm(), "data": deep(5000)},
    "metadata too deep": with_meta(labels=deep(300)),
    "no apiVersion": {name: value for name, value in cm().items() if name != "apiVersion"},
    "no kind": {name: value for name, value in cm().items() if name != "kind"},
    "a kind of two": {**cm(), "kind": "A/B"},
    "an empty kind": {**cm(), "kind": ""},
    "a kind that is a list": {**cm(), "kind": ["ConfigMap"]},
    "a kind that is deep": {**cm(), "kind": deep(1020)},
    "a copy of the applied object that is deep": with_meta(
        annotations={"kubectl.kubernetes.io/last-applied-configuration": deep(5000)}
    ),
    "a group of two": {**cm(), "apiVersion": "a/b/v1"},
    "an empty group": {**cm(), "apiVersion": "/v1"},
    "an empty version": {**cm(), "apiVersion": "apps/"},
    "an empty apiVersion": {**cm(), "apiVersion": ""},
    "an integer over 64 bits": {**cm(), "data": {"size": 2**64}},
    "a generation over 64 bits": with_meta(generation=2**63),
    "a version of 5000 digits": with_meta(resourceVersion="9" * 5000),
    "a version of half a character": with_meta(resourceVersion="\ud800"),
    "no name": with_meta(name=None),
    "an empty name": with_meta(name=""),
    "a name that is a number": with_meta(name=7),
    "a namespace that is a list": with_meta(namespace=["shop"]),
    "metadata that is a list": {**cm(), "metadata": [cm()["metadata"]]},
    "no metadata": {name: value for name, value in cm().items() if name != "metadata"},
    "half a character": {**cm(), "data": {"size": "\ud800"}},
    "a name of half a character": with_meta(name="\ud800"),
}
# What lists leave out is taken from what they are lists of.
IN_LISTS = {name: body for name, body in MALFORMED.items() if name not in ("no apiVersion", "no kind")}


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_object_is_a_gap_and_counted(body: dict[str, Any], type_: str) -> None:
    core = reflector()
    records = run(lst(0, cm(name="b", uid="u2")), ev(5, type_, body), core=core)
    assert (ops(records), [state for state, _ in covers(records)]) == (["observe"], ["watching", "gap"])
    assert core.counts["malformed"] == 1
    assert ops(run(ev(6, "MODIFIED", cm(rv="11", data="2")), core=core)) == ["create"]
    assert all(parse(dump(record)) == record for record in records)


@pytest.mark.parametrize("said", [{"code": deep(1020)}, {"code": 2**70}, {"reason": deep(1020)}, {"code": "410"}, {}])
def test_an_error_that_says_nothing_of_use_is_one(said: dict[str, Any]) -> None:
    (_, gap) = run(lst(0), ev(1, "ERROR", {"kind": "Status", **said}))
    assert parse(dump(gap)) == gap
    assert covers([gap])[0][0] == "gap"


def test_the_reason_of_an_error_is_cut_and_redacted() -> None:
    status = {"kind": "Status", "reason": "password=pl4nted-Value " + "x" * 100_000}
    told = [str(reason) for _, reason in covers(run(lst(0), ev(1, "ERROR", status)))]
    assert len(told[1]) == 1000
    assert "pl4nted" not in told[1]


@pytest.mark.parametrize("body", IN_LISTS.values(), ids=IN_LISTS)
def test_a_malformed_object_of_a_list_is_a_gap_and_counted(body: dict[str, Any]) -> None:
    core = reflector()
    records = run(lst(0, cm(name="b", uid="u2"), body), core=core)
    assert (ops(records), [state for state, _ in covers(records)]) == (["observe"], ["watching", "gap"])
    assert core.counts["malformed"] == 1
    assert all(parse(dump(record)) == record for record in records)


ABOUT: dict[str, dict[str, Any]] = {
    "no object": {"involvedObject": None},
    "an object that is a list": {"involvedObject": [{"kind": "Pod", "name": "p"}]},
    "no name": {"involvedObject": {"kind": "Pod"}},
    "no kind": {"involvedObject": {"name": "p"}},
    "a kind of two": {"involvedObject": {"kind": "A/B", "name": "p"}},
    "a group of two": {"involvedObject": {"apiVersion": "a/b/v1", "kind": "Pod", "name": "p"}},
    "an empty group": {"involvedObject": {"apiVersion": "/v1", "kind": "Pod", "name": "p"}},
    "a name that is a number": {"involvedObject": {"kind": "Pod", "name": 7}},
    "a namespace that is a list": {"involvedObject": {"kind": "Pod", "name": "p", "namespace": ["shop"]}},
    "a count over 64 bits": {"count": 2**64},
    "too deep": {"involvedObject": deep(300)},
    "half a character": {"message": "\ud800"},
    "metadata that is a list": {"metadata": []},
}


@pytest.mark.parametrize("said", ABOUT.values(), ids=ABOUT)
def test_an_event_about_nothing_is_a_gap_and_counted(said: dict[str, Any]) -> None:
    for line in (ev(5, "ADDED", {**event(), **said}, r=EVENTS), lst(5, {**event(), **said}, r=EVENTS)):
        core = reflector()
        records = run(lst(0, r=EVENTS), line, core=core)
        assert [one for one in records if isinstance(one, Evidence)] == []
        assert "gap" in [state for state, _ in covers(records)]
        assert core.counts["malformed"] == 1
        assert len(heard(ev(9, "ADDED", event(), r=EVENTS), core=core)) == 1


@pytest.mark.parametrize("claim", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "now", 7, None])
def test_a_claimed_instant_that_is_none_is_as_if_it_were_not_there(claim: Any) -> None:
    (found,) = heard(ev(1, "ADDED", {**event(), "lastTimestamp": claim, "eventTime": claim}, r=EVENTS))
    assert found.at == found.observed_at
    managed = [{"manager": "m", "time": claim}]
    marked = with_meta(creationTimestamp=claim, deletionTimestamp=claim, managedFields=managed, resourceVersion="11")
    records = run(lst(0, cm()), ev(1, "MODIFIED", marked), ev(2, "DELETED", marked), ev(3, "ADDED", marked))
    assert ops(records)[:3] == ["observe", "update", "delete"]


@pytest.mark.parametrize("said", [{"manager": "\ud800"}, {"fieldsV1": deep(5000)}, {"time": "9" * 5000}])
def test_a_manager_that_says_nothing_of_use_does_not_spoil_the_object(said: dict[str, Any]) -> None:
    one = with_meta(managedFields=[{"manager": "m", "time": "2026-03-01T03:00:04Z", "fieldsV1": {}, **said}])
    two = {**copy.copy(one), "metadata": {**one["metadata"], "resourceVersion": "11"}, "data": {"size": "2"}}
    two["metadata"]["managedFields"] = [{"manager": "m", "fieldsV1": {}, **said, "time": "2026-03-01T03:00:04Z"}]
    for new in (two, {**two, "metadata": {**two["metadata"], "managedFields": [{**said, "fieldsV1": deep(5000)}]}}):
        records = run(lst(0, one), ev(5, "MODIFIED", new))
        assert ops(records) == ["observe", "update"]
        assert all(parse(dump(record)) == record for record in records)


NAMES = st.text(st.sampled_from("ab-/%2FD5") | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(
    NAMES, NAMES | st.just("-"), NAMES.filter(lambda kind: kind != "Status"), st.sampled_from(["v1", "apps/v1"]) | NAMES
)
def test_what_is_stored_has_a_key_that_reads_back(name: str, namespace: str, kind: str, api_version: str) -> None:
    body = {**with_meta(name=name, namespace=namespace), "kind": kind, "apiVersion": api_version}
    about = {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name}
    core = reflector()
    records = run(ev(1, "ADDED", body), ev(2, "ADDED", {**event(), "involvedObject": about}, r=EVENTS), core=core)
    stored = [record for record in records if isinstance(record, Change | Evidence)]
    for record in stored:
        assert parse_key(str(record.object.key)) == record.object.key
    assert len(stored) + core.counts["malformed"] == 2


ODD = st.one_of(
    st.none(), st.booleans(), st.sampled_from([0, -1, 2**31, 2**63 - 1, 2**63, -(2**70), 1e300, 0.0]),
    st.sampled_from(["", "-", "/", "%", "\ud800", "9" * 5000, "9999-12-31T23:59:59-23:59", "2026-03-01T03:00:00Z"]),
    st.sampled_from([[], {}, [[]], [{}], [None], {"": None}, {"a": [1, "b"]}]),
    st.sampled_from([LEVELS - 9, LEVELS]).map(deep),
)  # fmt: skip

WHOLE = {
    **cm(
        annotations={"a/b": "c", "kubectl.kubernetes.io/last-applied-configuration": "{}"}, generation=1,
        labels={"app": "x"}, deletionTimestamp="2026-03-01T03:00:34Z", deletionGracePeriodSeconds=30, finalizers=["a"],
        managedFields=[{"manager": "m", "operation": "Update", "time": "2026-03-01T03:00:04Z", "fieldsV1": {"f:": {}}}],
        ownerReferences=[{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "o", "controller": True}],
    ),
    "spec": {
        "containers": [{"name": "web", "env": [{"name": "A", "value": "1"}], "command": ["a"], "image": "x"}],
        "group": "a.example", "names": {"kind": "A", "plural": "as"},
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": {"type": "object"}}}}}],
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "x"},
}  # fmt: skip
KINDS = [("v1", "ConfigMap"), ("v1", "Secret"), ("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, one in below for place in places(one, (*path, name)))]


def changed(body: Any, place: tuple[Any, ...], odd: Any) -> Any:
    if not place:
        return odd
    body = copy.copy(body)
    body[place[0]] = changed(body[place[0]], place[1:], odd)
    return body


def objects(whole: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    kept = [place for place in places(whole) if place]
    return st.builds(changed, st.just(whole), st.sampled_from(kept), ODD)


@pytest.mark.parametrize("levels", [LEVELS - 9, 250, 600, 1020, 5000])
@pytest.mark.parametrize(("api_version", "kind"), KINDS)
def test_wherever_something_is_deep_it_is_recorded_or_told(api_version: str, kind: str, levels: int) -> None:
    whole: dict[str, Any] = {**WHOLE, "apiVersion": api_version, "kind": kind}
    for place in places(whole):
        core = reflector()
        records = run(lst(0, copy.deepcopy(whole)), core=core)
        counted = core.counts.total()
        if place:
            records += run(ev(1, "MODIFIED", changed(copy.deepcopy(whole), place, deep(levels))), core=core)
            assert len(records) > 2 or core.counts.total() > counted, place
        assert all(parse(dump(record)) == record for record in records)
    for place in places(event()):
        if place:
            records = run(ev(1, "ADDED", changed(event(), place, deep(levels)), r=EVENTS))
            assert len(records) == 1, place


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(KINDS).flatmap(
        lambda kind: st.lists(objects({**WHOLE, "apiVersion": kind[0], "kind": kind[1]}), min_size=1, max_size=4)
    ),
    st.lists(objects(event(lastTimestamp="2026-03-01T02:00:00Z", series={"count": 2})), max_size=2),
)
def test_no_object_however_odd_is_lost_in_silence(bodies: list[dict[str, Any]], events: list[dict[str, Any]]) -> None:
    core = reflector()
    records: list[Record] = run(lst(0, copy.deepcopy(WHOLE)), core=core)
    for second, body in enumerate(bodies):
        before, counted = len(records), core.counts.total()
        records += core.feed(ev(second, "MODIFIED" if second % 3 else "DELETED", copy.deepcopy(body)))
        assert len(records) > before or core.counts.total() > counted
    records += run(lst(20, *copy.deepcopy(bodies)), lst(30, *events, r=EVENTS), core=core)
    for record in records:
        assert parse(dump(record)) == record

"""Records: what is dumped parses to the same, what a newer recorder adds is kept, what is not ours is BadRecord."""

from __future__ import annotations

from typing import get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.errors import BadRecord
from schema.records import Change, Coverage, Evidence, Record, dump, parse, scope_of

REF = {
    "source": "kubernetes",
    "scope": "lab",
    "type": "apps/Deployment",
    "kind": "Deployment",
    "class": "Workload",
    "namespace": "shop",
    "name": "cart",
    "uid": "u",
}
VALID = {"not_before": 1, "not_after": 2}
EXAMPLES: dict[str, dict[str, object]] = {
    "change": {"id": "1", "op": "update", "object": REF, "valid": VALID, "observed_at": 3},
    "state": {"id": "2", "object": REF, "valid": VALID, "observed_at": 3, "digest": "d", "state": {}, "reason": "x"},
    "amend": {"id": "3", "source": "kubernetes", "scope": "lab", "amends": "1", "observed_at": 3},
    "retract": {
        "id": "4",
        "source": "kubernetes",
        "scope": "lab",
        "retracts": "1",
        "observed_at": 3,
        "reason": "x",
    },
    "coverage": {
        "id": "5",
        "source": "kubernetes",
        "scope": "lab",
        "group_resource": "apps/deployments",
        "state": "watching",
        "valid": {"from": 1, "to": 2},
        "epoch": "e",
        "observed_at": 3,
    },
    "evidence": {"id": "6", "kind": "event", "object": REF, "at": 1, "observed_at": 3},
    "horizon": {"id": "7", "source": "kubernetes", "scope": "lab", "at": 1, "observed_at": 3},
}
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
int64 = st.integers(-(2**63), 2**63 - 1)


def _wire(name: str, **more: object) -> bytes:
    return orjson.dumps({"v": 1, "type": name, **EXAMPLES[name], **more})


def test_there_is_an_example_of_every_type() -> None:
    assert {model.model_fields["type"].default for model in get_args(Record)} == set(EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_record_reads_back_and_keeps_what_it_does_not_know(name: str) -> None:
    record = parse(_wire(name, from_the_future={"deep": [1, None]}))
    assert parse(dump(record)) == record
    body = orjson.loads(dump(record))
    assert body["from_the_future"] == {"deep": [1, None]}
    assert body.items() >= {"v": 1, "type": name}.items()
    assert scope_of(record) == ("kubernetes", "lab")


@given(st.dictionaries(st.text(max_size=4), values, max_size=4), int64, values, values)
def test_any_change_reads_back(state: dict[str, object], at: int, before: object, after: object) -> None:
    record = parse(
        _wire(
            "change",
            observed_at=at,
            patch=[{"op": "add", "path": "", "value": state}],
            fields=[{"path": "a", "pointer": "/a", "effect": "changed", "before": before, "after": after}],
        )
    )
    assert isinstance(record, Change)
    again = parse(dump(record))
    assert again == record
    assert dump(again) == dump(record)


def test_the_names_that_python_cannot_spell_stand_on_the_wire() -> None:
    change, coverage = orjson.loads(dump(parse(_wire("change")))), orjson.loads(dump(parse(_wire("coverage"))))
    assert change["object"]["class"] == "Workload"
    assert coverage["valid"] == {"from": 1, "to": 2}
    assert isinstance(parse(_wire("coverage")), Coverage)
    assert isinstance(parse(_wire("evidence")), Evidence)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.parametrize("version", [None, 0, 2, "1", [1]])
def test_an_unknown_version_is_refused_whatever_the_type(name: str, version: object) -> None:
    with pytest.raises(BadRecord, match="unknown record version"):
        parse(_wire(name, v=version))


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_field_that_is_missing_is_refused_by_name(name: str) -> None:
    for field in EXAMPLES[name]:
        body = {key: value for key, value in EXAMPLES[name].items() if key != field}
        with pytest.raises(BadRecord, match=field):
            parse(orjson.dumps({"v": 1, "type": name, **body}))


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"v":1}', b'{"v":1,"type":"gossip"}', _wire("change", observed_at=2**63)],
)
def test_what_is_no_record_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRecord):
        parse(raw)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_record_or_refused(raw: bytes) -> None:
    with pytest.raises(BadRecord):
        parse(raw)

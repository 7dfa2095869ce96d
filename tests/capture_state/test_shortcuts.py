"""What is found by shortcuts (taken over, shared, remembered) is what a first look would find."""

from __future__ import annotations

import copy

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.diff import diff
from capture.kubernetes.recording import BadLine, open_recording
from capture.kubernetes.reflector import Reflector
from capture.normalise import prepare, recalled, share
from capture.redact import Redactor
from schema.canonical import canonical
from schema.records import Change
from tests.capture_state.test_diff import JSON
from tests.reflector.test_recordings import RECORDINGS

KEY = b"k" * 32


def spelled(value: object) -> bytes:
    return orjson.dumps(value)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_every_change_of_a_recording_is_what_a_first_look_at_both_states_gives(path) -> None:
    header, lines = open_recording(path)
    reflector = Reflector("lab", Redactor(KEY), "e", header.resources)
    bodies: dict[tuple, dict] = {}
    states: dict[object, dict] = {}
    compared = 0
    for line in lines:
        assert not isinstance(line, BadLine)
        sent = [item for item in (*line.items, line.object) if isinstance(item, dict)]
        for body in copy.deepcopy(sent):
            meta = body.get("metadata", {})
            bodies[meta.get("uid"), meta.get("resourceVersion")] = body
        for record in reflector.feed(line):
            if not isinstance(record, Change) or record.op == "delete":
                continue
            # A redactor of its own has seen nothing and remembers nothing.
            body = bodies[record.object.uid, record.source_version.version]
            named = {"apiVersion": record.source_version.served, "kind": record.object.kind, **body}
            fresh = prepare(copy.deepcopy(named), scope="lab", redactor=Redactor(KEY))
            # Since when versions are counted is no matter of one look.
            said = record.source_version.model_copy(update={"anew": None})
            assert (record.digest, record.object, said) == (
                fresh.digest, fresh.ref, fresh.source_version,
            )  # fmt: skip
            assert ("redacted" in record.flags) == bool(fresh.hidden)
            if record.op == "update":
                found = diff(states[record.object.key], fresh.state, fresh.ref.type)
                assert spelled(record.patch) == spelled(found.patch)
                assert record.fields == found.fields
                compared += 1
            states[record.object.key] = fresh.state
    assert compared > 100


@given(JSON, JSON)
def test_sharing_changes_no_spelling(old: object, new: object) -> None:
    before, wanted = spelled(old), spelled(new)
    shared = share(old, new)
    assert spelled(shared) == wanted
    assert spelled(old) == before
    assert (shared is old) == (before == wanted)


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_what_python_holds_for_equal_and_json_does_not_is_not_shared(old: object, new: object) -> None:
    assert share({"x": [old]}, {"x": [new]})["x"][0] is new


def test_a_secret_that_comes_back_is_hidden_again() -> None:
    def body(value: str, status: str) -> dict:
        container = {"name": "c", "env": [{"name": "DB_PASSWORD", "value": value}]}
        meta = {"name": "p", "namespace": "shop", "uid": "u"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
        return {**pod, "status": {"phase": status}}

    redactor, last = Redactor(KEY), None
    for value, status in (("one-Secret-1", "a"), ("one-Secret-1", "b"), ("two-Secret-2", "b"), ("one-Secret-1", "b")):
        last = prepare(body(value, status), scope="lab", redactor=redactor, last=last)
        assert value not in str(last.state)
        assert last.hidden == {"spec"}
        assert last.state == prepare(body(value, status), scope="lab", redactor=redactor).state


TEXTS = st.sampled_from(
    [
        "name", "value", "valueFrom", "env", "args", "command", "password", "DB_PASSWORD", "token", "secretName", "key",
        "caBundle", "-p", "-a", "-c", "-phunter2x", "--token", "--token=abcdefgh", "mysql", "redis-cli", "-aHidden",
        "annotations", "data", "Secret", "kind", "optional", "passwordSecret", "extraArgs", "curl", "-u",
        "app:hunter2x", "PASSWORD=true story", "hunter2", "a-secret-value", '{"apiVersion":"v1","kind":"Pod"}',
        "curl -u app:hunter2x", "a b", "sh -c 'x -p y'", "password: abc", "http://u:p@h/", "10.0.0.1",
        "2026-01-01T00:00:00Z", 'quo"te', 'pass"word', "back\\slash", "line\nbreak", "é", "",
    ]
)  # fmt: skip
PAIRS = st.fixed_dictionaries(
    {}, optional={"name": TEXTS, "key": TEXTS, "value": TEXTS, "valueFrom": st.just({}), "scope": TEXTS, "zone": TEXTS}
)
CONTAINERS = st.fixed_dictionaries(
    {}, optional={"env": st.lists(PAIRS, max_size=3), "args": st.lists(TEXTS), "command": st.lists(TEXTS)}
)
TREES = st.recursive(
    TEXTS | st.integers(-9, 9) | st.none() | PAIRS | CONTAINERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)
SEEN = Redactor(KEY)  # Remembers from one example to the next, as in a long run.


@given(TEXTS, TREES)
@settings(max_examples=2000, deadline=None)
def test_a_field_found_clean_by_its_texts_is_one_in_which_a_walk_hides_nothing(name: str, tree: object) -> None:
    walked = Redactor(KEY).section(name, copy.deepcopy(tree), "apps/Deployment")
    for redactor in (Redactor(KEY), SEEN):
        assert redactor.section(name, copy.deepcopy(tree), "apps/Deployment", canonical(tree)) == walked


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_no_field_of_a_recording_is_found_clean_that_is_not(path) -> None:
    redactor = Redactor(KEY)
    proven = 0
    for line in open_recording(path)[1]:
        assert not isinstance(line, BadLine)
        for body in (*line.items, line.object):
            for name, value in (body or {}).items():
                if isinstance(value, dict | list):
                    fresh = redactor.section(name, value, "x/Y", canonical(value))
                    assert fresh == redactor.section(name, value, "x/Y")
                    proven += fresh is value
    assert proven > 100


def test_what_stands_beside_a_secret_name_is_not_remembered() -> None:
    redactor = Redactor(KEY)
    container = {"name": "c", "env": [{"name": "DB_PASSWORD", "value": "pl4nted"}], "args": ["--token", "pl4nted"]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    for _ in range(2):
        prepare(copy.deepcopy(body), scope="lab", redactor=redactor)
    kept = str([vars(redactor), vars(redactor._proofs)])
    assert "containers" in kept
    assert "pl4nted" not in kept


def test_what_is_recalled_from_a_store_knows_what_is_hidden_in_it() -> None:
    container = {"name": "c", "env": [{"name": "DB_PASSWORD", "value": "pl4nted"}]}
    meta = {"name": "p", "namespace": "shop", "uid": "u"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}, "status": {}}
    one = prepare(body, scope="lab", redactor=Redactor(KEY))
    again = recalled(one.ref, orjson.loads(orjson.dumps(one.state)), one.source_version)
    assert (again.digest, again.hidden) == (one.digest, one.hidden)
    assert prepare(body, scope="lab", redactor=Redactor(KEY), last=again).state == one.state

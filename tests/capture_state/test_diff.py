"""The differ: the patch is exact, the paths are keyed, what is only spelled otherwise is no field."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.diff import diff
from capture.kubernetes.replay import Replay
from capture.noise import is_noise
from capture.redact import Redactor
from schema.canonical import digest
from schema.patch import apply
from schema.paths import Name, parse
from schema.records import Change
from tests.reflector.test_recordings import RECORDINGS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.sampled_from(["spec", "data", "metadata"]), JSON)


def deployment(**container: object) -> dict:
    return {"spec": {"template": {"spec": {"containers": [{"name": "cart", **container}]}}}}


def told(old: dict, new: dict, type_: str = "apps/Deployment") -> list[tuple[str, str, object, object]]:
    return [(field.path, field.effect, field.before, field.after) for field in diff(old, new, type_).fields]


@given(OBJECT, OBJECT)
def test_the_patch_gives_exactly_the_new_state(old: dict, new: dict) -> None:
    patch = diff(old, new, "apps/Deployment").patch
    assert digest(apply(old, patch)) == digest(new)
    assert digest(jsonpatch.apply_patch(old, patch)) == digest(new)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_every_recorded_state_is_rebuilt_by_patches(path) -> None:
    states: dict = {}
    for record, _ in Replay(path, Redactor(b"k" * 32)):
        if not isinstance(record, Change):
            continue
        key = record.object.key
        if record.op == "delete":
            states.pop(key)
            continue
        states[key] = apply(states.get(key) if record.op == "update" else None, record.patch)
        assert digest(states[key]) == record.digest


def test_a_shadowed_variable_shows_the_value_that_counts() -> None:
    one = {"name": "CACHE", "value": "a:1"}
    two = {"name": "CACHE", "value": "b:2"}
    path = 'spec.template.spec.containers[k:{"name":"cart"}].env[k:{"name":"CACHE"}]'
    fields = told(deployment(env=[one]), deployment(env=[one, two]))
    assert (f"{path}.value", "shadowed", "a:1", "b:2") in fields
    assert (f"{path}#2", "added", None, two) in fields
    assert diff(deployment(env=[one]), deployment(env=[one, two]), "apps/Deployment").duplicate_keys
    assert (f"{path}.value", "unshadowed", "b:2", "a:1") in told(deployment(env=[one, two]), deployment(env=[one]))


def test_service_ports_are_keyed_by_port_and_protocol() -> None:
    old = {"spec": {"ports": [{"port": 8443, "targetPort": "https"}]}}
    new = {"spec": {"ports": [{"port": 8443, "targetPort": 8444}]}}
    path = 'spec.ports[k:{"port":8443,"protocol":"TCP"}].targetPort'
    assert told(old, new, "core/Service") == [(path, "changed", "https", 8444)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (deployment(resources={"limits": {"cpu": "1000m"}}), deployment(resources={"limits": {"cpu": "1"}})),
        (deployment(resources={"limits": {"memory": "3072Mi"}}), deployment(resources={"limits": {"memory": "3Gi"}})),
        ({"spec": {"a": None}}, {"spec": {}}),
        ({"spec": {"at": "2026-01-01T00:00:00Z"}}, {"spec": {"at": "2026-01-01T00:00:00.000Z"}}),
        ({"apiVersion": "apps/v1beta1"}, {"apiVersion": "apps/v1"}),
    ],
)
def test_another_spelling_has_a_patch_no_fields_and_is_noise(old: dict, new: dict) -> None:
    result = diff(old, new, "apps/Deployment")
    assert result.patch
    assert not result.fields
    assert result.noise


def test_an_empty_pod_selector_is_not_an_absent_one() -> None:
    assert told({"spec": {}}, {"spec": {"podSelector": {}}}) == [("spec.podSelector", "added", None, {})]


def test_a_port_number_is_not_its_spelling() -> None:
    assert told({"spec": {"port": 80}}, {"spec": {"port": "80"}}) == [("spec.port", "changed", 80, "80")]


def test_reordering_is_told_where_order_has_meaning() -> None:
    a, b = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
    assert [effect for _, effect, _, _ in told(deployment(env=[a, b]), deployment(env=[b, a]))] == ["reordered"]
    one, two = {"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}
    assert told({"status": {"conditions": [one, two]}}, {"status": {"conditions": [two, one]}}) == []


def test_the_order_of_address_families_is_told() -> None:
    old, new = ({"spec": {"ipFamilies": families}} for families in (["IPv4", "IPv6"], ["IPv6", "IPv4"]))
    assert told(old, new, "core/Service") == [("spec.ipFamilies", "reordered", ["IPv4", "IPv6"], ["IPv6", "IPv4"])]


def test_true_is_not_one() -> None:
    assert told({"spec": {"a": {"b": 1}}}, {"spec": {"a": {"b": True}}}) == [("spec.a.b", "changed", 1, True)]


def test_a_survivor_of_two_is_compared_with_the_one_that_counted() -> None:
    one, two = {"name": "A", "value": "a"}, {"name": "A", "value": "b"}
    effects = [effect for _, effect, _, _ in told(deployment(env=[one, two]), deployment(env=[two]))]
    assert effects == ["removed", "removed", "removed"]


def test_the_order_of_attached_volumes_is_no_news_and_an_attachment_is() -> None:
    one, two = "kubernetes.io/csi/a", "kubernetes.io/csi/b"
    old = {"status": {"volumesInUse": [one, two]}}
    assert told(old, {"status": {"volumesInUse": [two, one]}}, "core/Node") == []
    path = f'status.volumesInUse[v:"{two}"]'
    assert told(old, {"status": {"volumesInUse": [one]}}, "core/Node") == [(path, "removed", two, None)]
    assert not diff(old, {"status": {"volumesInUse": [one]}}, "core/Node").noise


def test_words_of_a_sentence_are_compared_in_their_sequence() -> None:
    old = ["--port=80", "--log=info", "--color", "--verbose"]
    new = ["--port=80", "--quick", "--log=debug", "--color", "--verbose"]
    path = 'spec.template.spec.containers[k:{"name":"cart"}].args'
    assert told(deployment(args=old), deployment(args=new)) == [
        (path, "changed", old, new),
        (f"{path}[i:1]", "changed", "--log=info", "--quick"),
        (f"{path}[i:2]", "added", None, "--log=debug"),
    ]
    assert told(deployment(args=old), deployment(args=old[:2])) == [
        (path, "changed", old, old[:2]),
        (f"{path}[i:2]", "removed", "--color", None),
        (f"{path}[i:3]", "removed", "--verbose", None),
    ]


def test_a_sentence_too_long_to_compare_is_said_to_differ() -> None:
    words = [f"--flag-{n}" for n in range(501)]
    assert [effect for _, effect, _, _ in told(deployment(command=words), deployment(command=words[1:]))] == ["changed"]


NOISE = tomllib.loads(files("schema").joinpath("tables/noise.toml").read_text())["noise"]


@pytest.mark.parametrize("entry", NOISE, ids=lambda entry: entry["types"][0])
def test_each_noise_entry_fits_its_example_and_not_its_counter_example(entry: dict) -> None:
    def names(path: str) -> tuple[str, ...]:
        return tuple(step.text for step in parse(path) if isinstance(step, Name))

    for type_ in entry["types"]:
        type_ = "apps/Deployment" if type_ == "*" else type_
        assert is_noise(type_, names(entry["applies"]))
        assert not is_noise(type_, names(entry["not"]))
        assert all(isinstance(step, Name) for path in entry["paths"] for step in parse(path))
        assert all(is_noise(type_, names(path)) for path in entry["paths"])


def test_noise_of_one_type_is_news_of_another() -> None:
    assert not is_noise("apps/Deployment", ("status", "refreshTime"))
    assert not is_noise("batch/Job", ("operation",))

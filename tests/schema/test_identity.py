"""Keys and ids: a key survives its text form, no two keys share one, and an id depends on nothing but its input."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schema.errors import BadKey
from schema.identity import Key, change_id, edge_id, oid, parse_key, type_of

# Written once; whoever changes it breaks every log there is.
GOLDEN = (-1887351382470674145, "9cdb8e4808fb21c5f06f74c86c3b16ad")

# Slashes, percent signs and encoded ones are drawn often: they are what the text form has to keep apart.
segments = st.text(st.sampled_from("ab-/%25F") | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
types = st.one_of(
    st.builds(type_of, st.sampled_from(["v1", "apps/v1", "a.example.com/v1beta1"]), st.sampled_from(["Pod", "X"])),
    st.builds("{}/{}".format, segments.filter(lambda text: "/" not in text), segments),
)
namespaces = st.none() | segments | st.just("-")
keys = st.builds(Key, segments, segments, types, namespaces, segments)


@given(keys)
@example(Key("%2F", "%25", "core/Pod", "%252F", "/%"))
@example(Key("a", "-", "core/A/B", "-", "%2D"))
@example(Key("a", "b", "%2F/%", "%2D", "-"))
def test_a_key_reads_back_from_its_text(key: Key) -> None:
    assert parse_key(str(key)) == key


@given(keys, keys)
def test_two_keys_have_two_texts(one: Key, other: Key) -> None:
    assert (one == other) == (str(one) == str(other))


@given(st.text())
def test_any_text_is_a_key_or_refused(text: str) -> None:
    with contextlib.suppress(BadKey):
        assert len(parse_key(text)) == 5


@given(keys)
def test_ids_fit_sqlite_and_do_not_depend_on_the_form_of_the_key(key: Key) -> None:
    assert oid(key) == oid(str(key))
    assert -(2**63) <= oid(key) < 2**63


@pytest.mark.parametrize("text", ["", "a/b/c/d/e", "a/b/c/d/e/f/g", "a/b/c/d//f"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BadKey):
        parse_key(text)


def test_type_and_kind() -> None:
    assert type_of("v1", "Pod") == "core/Pod"
    assert type_of("apps/v1", "Deployment") == "apps/Deployment"
    assert parse_key("kubernetes/lab/apps/Deployment/shop/cart").kind == "Deployment"


def test_a_delete_is_one_whatever_version_it_was_seen_at_and_everything_else_tells_changes_apart() -> None:
    key = parse_key("kubernetes/lab/apps/Deployment/shop/cart")
    assert change_id(key, "u", "delete", "7", base="a") == change_id(key, "u", "delete")
    assert change_id(key, "u", "delete") != change_id(key, "u", "delete", anew=1)
    ids = {
        change_id(key, uid, op, version, base=base, digest=digest, anew=anew)
        for uid in ("u", "w")
        for op in ("create", "update", "state")
        for version in ("7", None)
        for base in ("a", "b", None)
        for digest in ("a", "b")
        for anew in (None, 0, 7)
    }
    assert len(ids) == 216


def test_parallel_edges_are_told_apart() -> None:
    assert edge_id("ROUTES_TO", "a", "b", "80") != edge_id("ROUTES_TO", "a", "b", "81")


def test_ids_are_the_same_for_ever() -> None:
    key = parse_key("kubernetes/lab/apps/Deployment/shop/cart")
    assert (oid(key), change_id(key, "u", "update", "7", base="a", digest="b")) == GOLDEN

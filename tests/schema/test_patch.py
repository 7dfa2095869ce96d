"""Patches: `apply` does what the jsonpatch library does, refuses with BadPatch only, and leaves its input alone."""

from __future__ import annotations

import contextlib
import copy

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.canonical import Json, canonical
from schema.errors import BadPatch
from schema.patch import PatchOp, apply, escape

names = st.sampled_from(["a", "b", "a/b", "~", "~1", "0", "-", ""])
leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=12
)
documents = st.dictionaries(names, values, max_size=4)
pointers = st.lists(names | st.sampled_from(["1", "2"]), min_size=1, max_size=3).map(
    lambda tokens: "".join("/" + escape(token) for token in tokens)
)
operations = st.builds(
    lambda verb, path, value: (
        {"op": verb, "path": path} if verb == "remove" else {"op": verb, "path": path, "value": value}
    ),
    st.sampled_from(["add", "remove", "replace"]),
    pointers,
    values,
)


@given(documents, documents)
def test_a_patch_made_by_the_library_applies(old: dict[str, Json], new: dict[str, Json]) -> None:
    made = jsonpatch.make_patch(old, new).patch
    # The library also writes `move`; Hindgraph's records never do.
    if any(op["op"] not in ("add", "remove", "replace") for op in made):
        return
    assert canonical(apply(old, made)) == canonical(new)


@given(documents, st.lists(operations, max_size=4))
def test_what_applies_applies_as_in_the_library(old: dict[str, Json], patch: list[PatchOp]) -> None:
    before = copy.deepcopy(old)
    try:
        new = apply(old, patch)
    except BadPatch:
        new = None
    assert canonical(old) == canonical(before)
    if new is not None:
        assert canonical(new) == canonical(jsonpatch.apply_patch(before, copy.deepcopy(patch)))


@given(documents, st.lists(operations, max_size=4))
def test_values_of_a_patch_are_not_altered_by_later_operations(old: dict[str, Json], patch: list[PatchOp]) -> None:
    before = canonical(patch)
    with contextlib.suppress(BadPatch):
        apply(old, patch)
    assert canonical(patch) == before


def test_a_subtree_that_is_not_touched_is_shared() -> None:
    old: dict[str, Json] = {"a": {"x": 1}, "b": {"y": 2}}
    new = apply(old, [{"op": "replace", "path": "/a/x", "value": 3}])
    assert isinstance(new, dict)
    assert new["b"] is old["b"]
    assert new["a"] is not old["a"]


@pytest.mark.parametrize(
    "op",
    [
        {"op": "move", "from": "/a", "path": "/b", "value": 1},
        {"op": "add", "path": "/a"},
        {"path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "add", "path": "/l/3", "value": 1},
        {"op": "replace", "path": "/l/-", "value": 1},
        {"op": "add", "path": "/n/x", "value": 1},
    ],
)
def test_what_does_not_fit_is_refused(op: PatchOp) -> None:
    with pytest.raises(BadPatch):
        apply({"a": 1, "l": [1, 2], "n": 5}, [op])

"""The closed sets as tables: every entry is whole, and its examples hold."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from schema.errors import IllegalEdge
from schema.kinds import CLASSES, class_of
from schema.predicates import PREDICATES, check, legal

_TABLES = files("schema").joinpath("tables")
KINDS = tomllib.loads(_TABLES.joinpath("kinds.toml").read_text())["class"]
ENTRIES = tomllib.loads(_TABLES.joinpath("predicates.toml").read_text())["predicate"]


@pytest.mark.parametrize("entry", KINDS, ids=lambda entry: entry["id"])
def test_a_class_has_its_types_and_not_others(entry):
    assert entry["meaning"]
    assert entry["types"]
    assert all(class_of(type_) == entry["id"] for type_ in entry["types"])
    assert all(class_of(type_) != entry["id"] for type_ in entry["not"])


def test_no_type_is_in_two_classes():
    types = [type_ for entry in KINDS for type_ in entry["types"]]
    assert len(types) == len(set(types))
    assert len({entry["id"] for entry in KINDS}) == len(KINDS) == len(CLASSES)


def test_an_unknown_type_is_a_custom_resource():
    assert class_of("example.com/Whatever") == "CustomResource"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_a_predicate_joins_its_classes_and_not_others(entry):
    assert entry["cardinality"] in ("one-to-one", "one-to-many", "many-to-one", "many-to-many")
    assert set(entry["bases"]) <= {"observed", "declared", "inferred", "asserted"}
    named = {name for pair in entry["pairs"] for side in pair for name in side}
    assert named <= CLASSES | {"*"}
    check(entry["id"], *entry["applies"])
    with pytest.raises(IllegalEdge):
        check(entry["id"], *entry["not"])


def test_predicates_are_listed_once_and_unknown_ones_refused():
    assert len(PREDICATES) == len(ENTRIES)
    assert not legal("KNOWS", "Pod", "Node")
    with pytest.raises(IllegalEdge):
        check("KNOWS", "Pod", "Node")

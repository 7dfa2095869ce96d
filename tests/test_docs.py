"""What is not documented does not exist: each field of a record, predicate, symptom and error is named in its page."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from schema.errors import HindgraphError
from schema.records import Record

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("model", get_args(Record))
def test_every_field_of_a_record_is_documented_in_its_section(model: type) -> None:
    page = (ROOT / "docs/events.md").read_text()
    name = model.model_fields["type"].default
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    words = set(re.findall(r"\w+", section[1]))
    assert not set(model.model_fields) - {"v", "type"} - words


def test_every_predicate_is_in_the_table_of_the_graph_page() -> None:
    page = (ROOT / "docs/predicates.md").read_text()
    table = tomllib.loads((ROOT / "schema/tables/predicates.toml").read_text())
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))
    assert documented == {entry["id"] for entry in table["predicate"]}


def test_every_symptom_is_documented() -> None:
    page = (ROOT / "docs/symptoms.md").read_text()
    documented = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    code = (ROOT / "diagnose/symptoms.py").read_text()
    assert sorted(documented) == sorted(re.findall(r'_symptom\("([a-z-]+)"', code))


def _tree(error: type[HindgraphError]) -> list[type[HindgraphError]]:
    return [error, *(below for child in error.__subclasses__() for below in _tree(child))]


def test_every_error_is_documented_with_its_answers() -> None:
    page = (ROOT / "docs/errors.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)` \| `(\w+)` \| (\d+) \| (\d+) \|", page, re.MULTILINE))
    public = [error for error in _tree(HindgraphError) if error.__module__ == "schema.errors"]
    assert documented == {(e.__name__, e.__bases__[0].__name__, str(e.exit_code), str(e.status)) for e in public}

"""What is not documented does not exist: each field of a record, predicate, check and error is named in its page."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from api.cli import app
from api.openapi import ITEMS
from capture.kubernetes.recording import TYPES
from diagnose.page import page
from schema.errors import HindgraphError
from schema.records import Effect, Flag, Op, Record

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("model", get_args(Record))
def test_every_field_of_a_record_is_documented_in_its_section(model: type) -> None:
    page = (ROOT / "docs/events.md").read_text()
    name = model.model_fields["type"].default
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    words = set(re.findall(r"\w+", section[1]))
    assert not set(model.model_fields) - {"v", "type"} - words


def test_every_type_of_line_of_a_recording_is_documented() -> None:
    page = (ROOT / "docs/recordings.md").read_text()
    types = {word for row in re.findall(r"^\| ((?:`[A-Z]+` ?)+)\|", page, re.MULTILINE) for word in row.split()}
    assert {word.strip("`") for word in types} == TYPES


def test_every_predicate_is_in_the_table_of_the_graph_page() -> None:
    page = (ROOT / "docs/predicates.md").read_text()
    table = tomllib.loads((ROOT / "schema/tables/predicates.toml").read_text())
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))
    assert documented == {entry["id"] for entry in table["predicate"]}


def test_the_page_of_the_checks_is_what_the_catalogue_says() -> None:
    assert (ROOT / "docs/checks.md").read_text() == page(), "run `make docs`"


def _tree(error: type[HindgraphError]) -> list[type[HindgraphError]]:
    return [error, *(below for child in error.__subclasses__() for below in _tree(child))]


def test_every_error_is_documented_with_its_answers() -> None:
    page = (ROOT / "docs/errors.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)` \| `(\w+)` \| (\d+) \| (\d+) \|", page, re.MULTILINE))
    public = [error for error in _tree(HindgraphError) if error.__module__ == "schema.errors"]
    assert documented == {(e.__name__, e.__bases__[0].__name__, str(e.exit_code), str(e.status)) for e in public}


def test_every_name_of_an_answer_is_documented() -> None:
    words = set(re.findall(r"[\w-]+", (ROOT / "docs/answers.md").read_text()))
    for question, item in ITEMS.items():
        assert question.split("/")[0] in words or question == "show"
        assert not set(item["required"]) - words, question
    flags = set(get_args(Flag)) | set(get_args(Effect)) | set(get_args(Op))
    assert not flags - words


def test_every_command_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert f" {name}" in readme, name


def test_every_rule_of_redaction_is_documented_with_its_example() -> None:
    page = (ROOT / "docs/redaction.md").read_text()
    table = tomllib.loads((ROOT / "schema/tables/redaction.toml").read_text())
    headings = {
        "name": "name", "exact": "name of a password", "field": "field", "reference": "field that refers",
        "harmless": "harmless value", "pointer": "name and value", "address": "address", "shape": "shape",
        "argument": "flag",
    }  # fmt: skip
    assert headings.keys() == table.keys()
    for section, heading in headings.items():
        rows = re.search(rf"^\| {heading} \|.*\n\|---.*\n((?:\|.*\n)+)", page, re.MULTILINE)
        assert rows is not None, heading
        assert re.findall(r"^\| ([^|]+) \| `", rows[1], re.MULTILINE) == [entry["id"] for entry in table[section]]

"""Migrations go forward only, once each, and never over a database they do not understand."""

from __future__ import annotations

import sqlite3

import pytest

from migrations import migrate, migrations_of, pending
from schema.errors import StoreCorrupt, StoreVersion


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "0001_first.sql").write_text("-- a; comment\nCREATE TABLE a (x TEXT);\nINSERT INTO a VALUES ('1;\n2');\n")
    (folder / "0002_second.sql").write_text("ALTER TABLE a ADD COLUMN y; -- why\n-- the end\n")
    (folder / "README.md").write_text("not a migration")
    return tmp_path


@pytest.fixture
def connection(tmp_path):
    opened = sqlite3.connect(tmp_path / "room.db", isolation_level=None)
    yield opened
    opened.close()


def schema_of(connection):
    return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def test_applies_what_is_missing_and_only_that(connection, root):
    assert migrate(connection, "room", root) == 2
    before = schema_of(connection)
    assert migrate(connection, "room", root) == 0
    (root / "room" / "0003_third.sql").write_text("CREATE TABLE b (x);")
    assert migrate(connection, "room", root) == 1
    assert len(schema_of(connection)) == len(before) + 1
    assert connection.execute("SELECT x, y FROM a").fetchall() == [("1;\n2", None)]


def test_a_newer_database_is_refused(connection, root):
    migrate(connection, "room", root)
    (root / "room" / "0002_second.sql").unlink()
    with pytest.raises(StoreVersion, match="migration 2"):
        migrate(connection, "room", root)


def test_an_edited_migration_is_refused_and_line_ends_are_no_edit(connection, root):
    migrate(connection, "room", root)
    file = root / "room" / "0001_first.sql"
    text = file.read_text()
    file.write_bytes(text.replace("\n", "\r\n").encode())
    assert migrate(connection, "room", root) == 0
    file.write_text(text + "-- edited\n")
    with pytest.raises(StoreCorrupt, match="migration 1"):
        migrate(connection, "room", root)


def test_a_failing_migration_leaves_nothing(connection, root):
    (root / "room" / "0003_third.sql").write_text("CREATE TABLE b (x);\nINSERT INTO nowhere VALUES (1);\n")
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, "room", root)
    assert schema_of(connection) == []
    (root / "room" / "0003_third.sql").write_text("CREATE TABLE b (x)")
    with pytest.raises(ValueError, match="middle of a statement"):
        migrate(connection, "room", root)
    assert schema_of(connection) == []


def test_another_room_and_another_kind_of_file_are_refused(connection, tmp_path, root):
    migrate(connection, "room", root)
    with pytest.raises(StoreCorrupt, match="is a room, not a log"):
        migrate(connection, "log")
    (tmp_path / "text").write_text("hello" * 1000)
    other = sqlite3.connect(tmp_path / "text", isolation_level=None)
    for call in (migrate, pending):
        with pytest.raises(StoreCorrupt):
            call(other, "log")
    other.close()


def test_numbers_have_no_holes(root):
    (root / "room" / "0004_fourth.sql").write_text("")
    with pytest.raises(ValueError, match=r"\[1, 2, 4\]"):
        migrations_of("room", root)


@pytest.mark.parametrize("room", ["log", "ledger"])
def test_the_shipped_rooms_apply_cleanly(room):
    connection = sqlite3.connect(":memory:", isolation_level=None)
    count = len(migrations_of(room))
    assert count > 0
    assert (pending(connection, room), migrate(connection, room), pending(connection, room)) == (count, count, 0)
    connection.close()

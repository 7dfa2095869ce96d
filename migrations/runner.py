"""The migration runner: which files a room has, which of them a database has seen, and applying the rest.

A migration is `sqlite/<room>/<four digits>_<name>.sql`, numbered from 1 without holes. Its checksum is kept with the
database, so that a file edited after it was applied is found out instead of leaving two databases that differ. All
pending migrations of one call are one transaction. Foreign rooms of one database do not exist: one file, one room.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from schema.errors import StoreCorrupt, StoreVersion

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql\Z", re.ASCII)
_TABLE = (
    "CREATE TABLE IF NOT EXISTS migration "
    "(room TEXT NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, checksum BLOB NOT NULL, "
    "PRIMARY KEY (room, number)) STRICT, WITHOUT ROWID"
)


HINTS = {
    "log": "restore the file from a copy, or replay the recordings into a new home",
    "recorder": "record again: it is made anew from log and ledger",
    "ledger": "move ledger.sqlite* away and run `hindgraph project`: it is made anew from the log",
}
"""What to do about the file of a room that cannot be used."""


class Migration(NamedTuple):
    number: int
    name: str
    sql: str
    checksum: bytes


def migrations_of(room: str, root: Traversable | None = None) -> list[Migration]:
    """The migrations of a room in order. Raises ValueError when the shipped files are not 1, 2, 3 …"""
    folder = (root or files("migrations") / "sqlite") / room
    found: list[Migration] = []
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        match = _NAME.match(file.name)
        if match is None:
            continue
        # Line ends are one spelling, so that a checkout on another system has the same checksum.
        sql = file.read_text(encoding="utf-8").replace("\r\n", "\n")
        found.append(Migration(int(match[1]), match[2], sql, blake2b(sql.encode(), digest_size=16).digest()))
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations of {room} are not numbered 1, 2, 3 …: {[each.number for each in found]}")
    return found


def migrate(connection: sqlite3.Connection, room: str, root: Traversable | None = None) -> int:
    """Bring the database to the newest schema of its room; returns how many migrations were applied.

    The connection must be outside a transaction. Raises StoreVersion when a newer Hindgraph wrote the database, and
    StoreCorrupt when a migration it has applied is not the one shipped here, or when the file is no database.
    """
    wanted = migrations_of(room, root)
    try:
        if _pending(connection, room, wanted) == []:
            return 0
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again under the lock: another process may have migrated meanwhile.
            connection.execute(_TABLE)
            missing = _pending(connection, room, wanted)
            for each in missing:
                for statement in _statements(each.sql):
                    connection.execute(statement)
                row = (room, each.number, each.name, each.checksum)
                connection.execute("INSERT INTO migration VALUES (?, ?, ?, ?)", row)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise StoreCorrupt(f"the {room} is damaged: {error}", hint=HINTS.get(room)) from error
    return len(missing)


def pending(connection: sqlite3.Connection, room: str) -> int:
    """How many migrations the database lacks, for readers that must not write. Raises like `migrate`."""
    try:
        return len(_pending(connection, room, migrations_of(room)))
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise StoreCorrupt(f"the {room} is damaged: {error}", hint=HINTS.get(room)) from error


def _pending(connection: sqlite3.Connection, room: str, wanted: list[Migration]) -> list[Migration]:
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migration'").fetchone()
    if there is None:
        return wanted
    rows: list[tuple[str, int, str, bytes]] = connection.execute(
        "SELECT room, number, name, checksum FROM migration ORDER BY number"
    ).fetchall()
    for other, number, name, checksum in rows:
        if other != room:
            raise StoreCorrupt(f"this database is a {other}, not a {room}", hint=HINTS.get(room))
        if number > len(wanted):
            raise StoreVersion(
                f"this {room} has migration {number} ({name}); this Hindgraph knows {len(wanted)}",
                hint="use the Hindgraph that wrote it, or a newer one",
            )
        if checksum != wanted[number - 1].checksum:
            raise StoreCorrupt(
                f"migration {number} ({name}) of this {room} is not the one shipped here", hint=HINTS.get(room)
            )
    if [row[1] for row in rows] != list(range(1, len(rows) + 1)):
        raise StoreCorrupt(f"the applied migrations of this {room} have holes", hint=HINTS.get(room))
    return wanted[len(rows) :]


def _statements(sql: str) -> Iterator[str]:
    """Statement by statement: `executescript` would commit the transaction that we are in."""
    begun = ""
    for line in sql.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            yield begun
            begun = ""
    if any(line.strip() and not line.strip().startswith("--") for line in begun.splitlines()):
        raise ValueError(f"a migration ends in the middle of a statement: {begun.strip()[:80]!r}")

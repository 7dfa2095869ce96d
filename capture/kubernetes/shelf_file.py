"""The SQLite file of a shelf: opened for one process, written in one transaction from commit to commit, and thrown away
where it is damaged. What is in it is `shelf`'s business, but for tables of what was set last, which look alike.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from migrations import HINTS, migrate
from schema.errors import StoreBusy, StoreCorrupt, StoreError

K = TypeVar("K")
V = TypeVar("V")

_CACHE = 16 * 1024  # KiB of pages that SQLite holds.
_LEFT = 32 * 1024 * 1024  # Bytes of write-ahead log that are kept as a file when they are not needed any more.


class File:
    """A file of the room `recorder`, held by this process until it is closed.

    Raises StoreBusy when another process has it, StoreVersion when a newer Hindgraph wrote it, StoreError when it
    cannot be written, and StoreCorrupt, at any use, when it is damaged: then it is gone as well.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}") from None
        with self._guard():
            self._connection = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
        try:
            # One process has it; no memory need be shared.
            self.run("PRAGMA locking_mode = EXCLUSIVE")
            self.run("PRAGMA journal_mode = WAL")
            # What a power cut takes back is applied again from the log.
            self.run("PRAGMA synchronous = NORMAL")
            self.run(f"PRAGMA journal_size_limit = {_LEFT}")
            self.run(f"PRAGMA cache_size = -{_CACHE}")
            with self._guard():
                migrate(self._connection, "recorder")
        except StoreCorrupt:  # Of another room, say.
            self.discard()
            raise
        except BaseException:
            self.close()
            raise

    def run(self, sql: str, *values: int | str | bytes | None) -> list[Any]:
        """The rows of one statement."""
        with self._guard():
            return self._connection.execute(sql, values).fetchall()

    def write(self, sql: str, *values: int | str | bytes | None) -> list[Any]:
        """The same, of one that changes something; that lasts from `commit` on."""
        with self._guard():
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
            return self._connection.execute(sql, values).fetchall()

    def commit(self) -> None:
        if self._connection.in_transaction:
            self.run("COMMIT")

    def close(self) -> None:
        self._connection.close()

    def discard(self) -> None:
        """Close it and take it away."""
        self.close()
        for tail in ("", "-wal", "-shm", "-journal"):
            self.path.with_name(self.path.name + tail).unlink(missing_ok=True)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What comes from the file is what was written, or the file is damaged."""
        try:
            yield
        except ValueError as error:
            raise self._damaged(error) from None

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """SQLite's complaints as ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StoreBusy(f"another process uses {self.path}", hint="stop it, or use another home") from None
            hint = "check the disk and its permissions"
            raise StoreError(f"{self.path} cannot be used: {error}", hint=hint) from None
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> StoreCorrupt:
        self.discard()
        return StoreCorrupt(f"{self.path} was damaged: {error}", hint=HINTS["recorder"])


class Table(Generic[K, V]):
    """What was set last, up to `bound`, in one table: see `recent`."""

    def __init__(
        self,
        file: File,
        table: str,
        bound: int,
        *,
        name: Callable[[K], str],
        key: Callable[[str], K],
        write: Callable[[V], bytes],
        read: Callable[[K, bytes], V],
    ) -> None:
        self._file = file
        self._bound = bound
        self._name, self._key, self._write, self._read = name, key, write, read
        self._get = f"SELECT body FROM {table} WHERE key = ?"
        newest = f"(SELECT coalesce(max(id), 0) + 1 FROM {table})"
        self._set = f"INSERT INTO {table} (id, key, body) VALUES ({newest}, ?, ?)"
        self._forget = f"DELETE FROM {table} WHERE key = ? RETURNING body"
        self._oldest = f"DELETE FROM {table} WHERE id = (SELECT min(id) FROM {table})"
        self._names = f"SELECT key FROM {table} ORDER BY id"
        self._count: int = file.run(f"SELECT count(*) FROM {table}")[0][0]

    def get(self, key: K, /) -> V | None:
        rows = self._file.run(self._get, self._name(key))
        return self._value(key, rows[0][0]) if rows else None

    def __setitem__(self, key: K, value: V, /) -> None:
        name = self._name(key)
        self._count += 1 - len(self._file.write(self._forget, name))
        self._file.write(self._set, name, self._write(value))
        if self._count > self._bound:
            self._file.write(self._oldest)
            self._count -= 1

    def forget(self, key: K, /) -> V | None:
        if not self._file.run(self._get, self._name(key)):
            return None
        self._count -= 1
        return self._value(key, self._file.write(self._forget, self._name(key))[0][0])

    def names(self) -> list[K]:
        return [self._key(name) for (name,) in self._file.run(self._names)]

    def _value(self, key: K, body: bytes) -> V:
        with self._file.reading():
            return self._read(key, body)

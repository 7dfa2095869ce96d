"""The reading half of a log: its records in order, each found to be what was written, and what is counted of them.

Rows and their chain are `store.chain`, how bodies are packed `schema.packing`; writing is `store.log`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from migrations import HINTS
from schema.errors import StoreBusy, StoreCorrupt, StoreError
from schema.packing import PLAIN, Packer
from store.chain import READ, Cut, Row, checked, corrupt, cut_of

BLOB = -1
"""The `coding` of a row whose body is the digest of a blob."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record as the log keeps it: `raw` is its JSON, `s` its system time, `scope` its `source/scope`."""

    position: int
    s: int
    scope: str
    raw: bytes


class Entries:
    """What can be asked of an open log file."""

    path: Path
    _connection: sqlite3.Connection
    _packer: Packer

    def read(self, after: int = 0, limit: int = 1000) -> list[Entry]:
        """Up to `limit` records behind position `after`, each checked against the chain.

        Raises StoreCorrupt naming the first position that is not what was written.
        """
        start, wanted = max(after, 0), max(limit, 0)
        rows: list[Row] = []
        with self._still():
            cut = self.cut()
            try:
                rows.extend(self._connection.execute(READ, {"after": start, "limit": wanted + (start > 0)}))
            except sqlite3.DatabaseError as error:
                with self._guard(f"position {rows[-1][0] + 1 if rows else start or 1}"):
                    raise error
            found = []
            for position, s, scope, coding, body in islice(checked(rows, start, cut), wanted):
                try:
                    raw = self._blob(position, body) if coding == BLOB else self._packer.unpack(coding, body)
                except ValueError as error:
                    raise corrupt(position, f"does not unpack: {error}") from None
                found.append(Entry(position, s, scope, raw))
        return found

    @contextmanager
    def _still(self) -> Iterator[None]:
        """Several reads of one state of the file, whatever another process writes meanwhile."""
        if self._connection.in_transaction:
            yield
            return
        with self._guard():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def cut(self) -> Cut:
        """Where retention has cut the log."""
        with self._guard():
            return cut_of(self._connection)

    def _blob(self, position: int, name: bytes) -> bytes:
        with self._guard(f"position {position}"):
            row = self._connection.execute("SELECT body FROM blob WHERE digest = ?", (name,)).fetchone()
        if row is None:
            raise corrupt(position, "has lost its body")
        raw = self._packer.unpack(PLAIN, row[0])
        if blake2b(raw, digest_size=16).digest() != name:
            raise corrupt(position, "has another body than was written")
        return raw

    def end(self) -> int:
        """The last position; 0 for an empty log."""
        with self._guard():
            return int(self._connection.execute("SELECT coalesce(max(position), 0) FROM entry").fetchone()[0])

    def scopes(self) -> list[str]:
        with self._guard():
            return [row[0] for row in self._connection.execute("SELECT name FROM scope ORDER BY name")]

    def count(self, scope: str) -> int:
        """How many records of a `source/scope` were written."""
        return self._counted("scope", scope)

    def resume(self, epoch: str) -> int:
        """How many records of this run or file were written: a replay skips so many."""
        return self._counted("epoch", epoch)

    def of(self, epoch: str) -> Iterator[Entry]:
        """The records of a run or file that are still there, in order."""
        with self._guard():
            rows = self._connection.execute(
                "SELECT position FROM entry WHERE epoch = (SELECT id FROM epoch WHERE name = ?) ORDER BY position",
                (epoch,),
            )
            positions = [row[0] for row in rows]
        wanted = set(positions)
        after = positions[0] - 1 if positions else 0
        while wanted and after < positions[-1]:
            for entry in self.read(after=after):
                after = entry.position
                if after in wanted:
                    yield entry

    def left(self, epoch: str) -> int:
        """How many records of a run or file are still there; fewer than `resume` where retention dropped some."""
        with self._guard():
            sql = "SELECT count(*) FROM entry WHERE epoch = (SELECT id FROM epoch WHERE name = ?)"
            return int(self._connection.execute(sql, (epoch,)).fetchone()[0])

    def runs(self) -> list[str]:
        """The runs and files that records came from, in the order in which they began to be written."""
        with self._guard():
            return [row[0] for row in self._connection.execute("SELECT name FROM epoch ORDER BY id")]

    def _counted(self, table: str, name: str) -> int:
        with self._guard():
            row = self._connection.execute(f"SELECT count FROM {table} WHERE name = ?", (name,)).fetchone()
        return 0 if row is None else int(row[0])

    @contextmanager
    def _guard(self, where: str = "some position") -> Iterator[None]:
        """SQLite's complaints as ours; a full disk and the like stay an error of the store, not of its content."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StoreBusy(f"the log {self.path} is held by another process") from error
            hint = "check the disk and its permissions"
            raise StoreError(f"the log {self.path} cannot be used: {error}", hint=hint) from error
        except sqlite3.DatabaseError as error:
            raise StoreCorrupt(f"the log {self.path} is damaged at {where}: {error}", hint=HINTS["log"]) from error

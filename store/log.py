"""The embedded log: the records of every scope in one SQLite file, in order, never changed after they were written.

It gives positions and system times, keeps records small, and lets one process write at a time; reading them, with
knowing when a row is not what was written, is `store.entries`. What records mean is not known here beyond their scope
and instants; making rows and answers of them is `store.projector` and `store.rewind`. One append is one transaction:
after kill -9 a batch is there whole or not at all, and `resume` says how many records of a run or file are, so that its
replay continues behind them.
Retention may leave out records below its horizon (`trimming`): positions and counts stay what they were.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Self

from migrations import HINTS, migrate, pending
from schema.errors import BadRecord, Oversize, StoreBusy, StoreCorrupt, StoreError, StoreMissing
from schema.instants import MAX
from schema.packing import NEWEST, Packer
from schema.records import Amend, Change, Record, State, dump, scope_of
from store.chain import GENESIS, link, rewrite
from store.entries import BLOB, Entries
from store.files import READ_ONLY, connect

BLOB_OVER = 512 * 1024
"""A body of more bytes than this is kept once, by digest, apart from the rows that are read in order."""


LARGEST = 256 * 1024 * 1024
"""A record of more bytes than this is refused: four times the longest line that capture reads."""


class SqliteLog(Entries):
    """One log file, with `<file>.lock` beside it for the one writer.

    Raises StoreMissing when `readonly` and nothing is there, StoreBusy when another writer holds it, StoreError when
    not `readonly` and it may only be read, StoreVersion when a newer Hindgraph wrote it, StoreCorrupt when it is not a
    log or lost rows at its end.
    """

    def __init__(self, path: Path | str, *, readonly: bool = False) -> None:
        self.path = Path(path)
        self.readonly = readonly
        self._packer = Packer()
        self._lock: int | None = None
        if readonly and not self.path.exists():
            raise StoreMissing(f"no log at {self.path}", hint="record or replay something first")
        if not readonly:
            self._lock = _take(self.path)
        try:
            with self._guard():
                self._connection = connect(self.path, readonly=readonly)
            try:
                with self._guard():
                    self._open()
                    self._load()
            except BaseException:
                self._connection.close()
                raise
        except BaseException:
            self._release()
            raise

    def _open(self) -> None:
        if self.readonly:
            if pending(self._connection, "log"):
                raise StoreMissing(
                    f"the log {self.path} is of an older Hindgraph", hint="`hindgraph project` brings it up"
                )
            return
        # The log is what everything else is rebuilt from: an append that returned has reached the disk.
        self._connection.execute("PRAGMA synchronous = FULL")
        migrate(self._connection, "log")

    def _load(self) -> None:
        """What appending needs to remember, as the file has it; a count that does not fit means lost rows."""
        run = self._connection.execute
        run("BEGIN")
        try:
            last = run("SELECT position, chain FROM entry ORDER BY position DESC LIMIT 1").fetchone()
            self._last: tuple[int, bytes] = last or (0, GENESIS)
            self._scopes: dict[str, tuple[int, int]] = {
                name: (id_, s) for id_, name, s in run("SELECT id, name, s FROM scope")
            }
            self._epochs: dict[str, int] = {name: id_ for id_, name in run("SELECT id, name FROM epoch")}
            written = run("SELECT coalesce(sum(count), 0) FROM scope").fetchone()[0]
        finally:
            run("ROLLBACK")
        if written != self._last[0]:
            raise StoreCorrupt(
                f"the log {self.path} ends at position {self._last[0]}, but {written} records were written",
                hint=HINTS["log"],
            )

    # -- writing

    def append(self, batch: Sequence[tuple[Record, int]], *, epoch: str = "") -> list[int]:
        """Append records with their append times, all or none; returns their positions.

        `epoch` names the run of a recorder or the recording file they come from; `resume` counts by it. Raises
        BadRecord when a record's instants leave no room for a system time after it, Oversize when one is too large.
        """
        ready = _ready(batch)
        if not ready:
            return []
        with self._writing():
            return self._write(ready, epoch)

    @contextmanager
    def trimming(
        self, upto: int, kept: Iterable[tuple[int, Record | None]], closing: Sequence[tuple[Record, int]]
    ) -> Iterator[None]:
        """Leave of the records up to `upto` those at the `kept` positions, in order, some replaced; append `closing`.

        The block reads the log as it will be; all of it lasts if the block ends well, and nothing of it otherwise.
        """
        with self._writing():
            stowed = ((position, None if one is None else self._stow(dump(one))) for position, one in kept)
            cut = rewrite(self._connection, upto, stowed)
            self._write(_ready(closing), "")
            run = self._connection.execute
            run("DELETE FROM blob WHERE digest NOT IN (SELECT body FROM entry WHERE coding = ?)", (BLOB,))
            run("DELETE FROM trim")
            run("INSERT INTO trim VALUES (?, ?, ?, ?)", (cut.position, cut.anchor, cut.seal, self._last[0]))
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self.readonly:
            raise StoreError(f"the log {self.path} is open for reading only")
        with self._guard():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._load()
                raise

    def compact(self) -> None:
        """Give the space of what was trimmed back to the disk."""
        with self._guard():
            if self._connection.execute("PRAGMA freelist_count").fetchone()[0]:
                self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _write(self, ready: Sequence[tuple[str, int, bytes]], epoch: str) -> list[int]:
        run = self._connection.execute
        if epoch not in self._epochs:
            id_ = run("INSERT INTO epoch (name, count) VALUES (?, 0) RETURNING id", (epoch,)).fetchone()[0]
            self._epochs[epoch] = id_
        position, chain = self._last
        counts: dict[str, int] = {}
        rows: list[tuple[int, int, int, int, int, bytes, bytes]] = []
        for scope, floor, raw in ready:
            if scope not in self._scopes:
                insert = "INSERT INTO scope (name, s, count) VALUES (?, ?, 0) RETURNING id"
                self._scopes[scope] = (run(insert, (scope, -MAX)).fetchone()[0], -MAX)
            id_, before = self._scopes[scope]
            s = max(before + 1, floor)
            if s >= MAX:
                raise BadRecord(f"no system time is left after {before}: an instant at the end of time in {scope}")
            coding, body = self._stow(raw)
            position += 1
            chain = link(chain, position, s, scope, epoch, coding, body)
            rows.append((position, s, id_, self._epochs[epoch], coding, body, chain))
            self._scopes[scope] = (id_, s)
            counts[scope] = counts.get(scope, 0) + 1
        self._connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        for scope, count in counts.items():
            id_, s = self._scopes[scope]
            run("UPDATE scope SET s = ?, count = count + ? WHERE id = ?", (s, count, id_))
        run("UPDATE epoch SET count = count + ? WHERE id = ?", (len(rows), self._epochs[epoch]))
        self._last = (position, chain)
        return [row[0] for row in rows]

    def _stow(self, raw: bytes) -> tuple[int, bytes]:
        if len(raw) > LARGEST:
            hint = "nothing of its batch was written; leave out what makes it so large"
            raise Oversize(f"a record of {len(raw):,} bytes: {LARGEST:,} is the most", hint=hint)
        if len(raw) <= BLOB_OVER:
            return NEWEST, self._packer.pack(raw)
        name = blake2b(raw, digest_size=16).digest()
        packed = self._packer.pack_plain(raw)
        self._connection.execute("INSERT OR IGNORE INTO blob VALUES (?, ?)", (name, packed))
        return BLOB, name

    # -- closing

    def close(self) -> None:
        self._connection.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _floor(record: Record, at: int) -> int:
    """The least system time a record may have: nothing is believed before it was appended, seen, or had happened."""
    if isinstance(record, Change | State | Amend) and record.valid is not None:
        return max(at, record.observed_at, record.valid.not_after)
    return max(at, record.observed_at)


def _ready(batch: Sequence[tuple[Record, int]]) -> list[tuple[str, int, bytes]]:
    """(scope, least system time, body) of records with their append times."""
    return [
        (f"{source}/{scope}", _floor(record, at), dump(record))
        for record, at in batch
        for source, scope in [scope_of(record)]
    ]


def _take(path: Path) -> int:
    """The writer's lock; it ends with the process, so a killed writer never leaves it behind."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"the log {path} cannot be written: {error.strerror}", hint=READ_ONLY) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise StoreBusy(f"another process is writing to {path}", hint="stop it, or use another home") from error
    return handle

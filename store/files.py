"""Opening one SQLite file of a home in the way that its permissions allow.

Reading a file with a write-ahead log takes shared memory beside it, which a folder of another user or a read-only mount
does not give. Such a file is opened as one that nobody changes, unless somebody is at it and that memory is there. What
is in the file, and who may write when, is not known here.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from schema.errors import StoreError

MEMORY = ":memory:"
READ_ONLY = "read it as it is, write as the user it belongs to, or use another home"
"""What to do about a file or folder that cannot be written."""
_WAIT = 10
"""Seconds to wait for a lock that another process has for a moment."""


def connect(path: Path | str, *, readonly: bool) -> sqlite3.Connection:
    """A connection to the file at `path` (":memory:": a throw-away one), made if need be unless `readonly`.

    Raises StoreError where it is to be written and may only be read, and sqlite3.Error where it does not open.
    """
    if str(path) == MEMORY:
        return _opened(MEMORY)
    file = Path(path).absolute()
    if os.access(file if file.exists() else file.parent, os.W_OK) and os.access(file.parent, os.W_OK):
        connection = _opened(f"{file.as_uri()}?mode={'rw' if readonly else 'rwc'}")
    elif readonly:
        connection = _opened(f"{file.as_uri()}?mode=ro{'' if _at_work(file) else '&immutable=1'}")
    else:
        raise StoreError(f"{file} may only be read here", hint=READ_ONLY)
    if readonly:
        connection.execute("PRAGMA query_only = ON")
    else:
        connection.execute("PRAGMA journal_mode = WAL")
    return connection


def _opened(name: str) -> sqlite3.Connection:
    return sqlite3.connect(name, timeout=_WAIT, uri=name != MEMORY, isolation_level=None, check_same_thread=False)


def _at_work(file: Path) -> bool:
    """Whether the write-ahead log is in use, or has what did not reach the file."""
    log, memory = (file.with_name(file.name + tail) for tail in ("-wal", "-shm"))
    return log.exists() and (log.stat().st_size > 0 or memory.exists())

"""Follows an API server's audit log on disk: whole lines as they come, across rotation, from where an earlier run was.

A file is rotated by renaming it and beginning anew, as the API server itself does, or by truncating it. What was
renamed is read to its end first, however often that happened. The place to go on from later is the caller's to keep; it
lies some way back, and lines that are read twice do no harm. What they say is left to `audit_event`. Reading blocks,
for milliseconds: the caller polls, in a thread if that is too long.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from capture.kubernetes.audit import WINDOW
from schema.canonical import hash128

MOST = 4 * 1024 * 1024
"""Bytes that one poll reads."""

CAP = 64 * 1024 * 1024
"""Longest line that is given out."""

_HEAD = 256  # Bytes by which a file is known again; two lines of an audit log differ in fewer.


class Place(NamedTuple):
    """A position between two lines. `head`: of the first bytes, up to there, of a file whose inode may be another's by
    now."""

    inode: int
    offset: int
    head: str


class AuditFile:
    """One audit log, from `place` on, or from its beginning.

    `counts`: lines that were cut or too long, truncations, and whether the place was lost (what was rotated away is
    gone or compressed). `settled`: the place to keep for a later run; what was read since may still wait for its
    change.
    """

    def __init__(self, path: Path, place: Place | None = None, *, cap: int = CAP) -> None:
        self.counts: Counter[str] = Counter()
        self.settled: Place | None = None
        self._path = path
        self._cap = cap
        self._file: IO[bytes] | None = None
        self._rest = b""
        self._offset = 0  # Of the first byte of `_rest`.
        self._skipping = False
        self._places: deque[tuple[int, Place]] = deque()
        if place is not None:
            self._go_to(place)

    def poll(self, now: int) -> list[bytes]:
        """The lines that came by `now`, up to about MOST bytes of them; none while there is no file."""
        lines = self._read()
        while not lines and self._is_over():
            lines = self._read()  # What came before it was renamed.
            if not lines:
                if not self._next():
                    break
                lines = self._read()
        place = self.place
        if place is not None and (not self._places or self._places[-1][1] != place):
            self._places.append((now, place))
        while self._places and self._places[0][0] <= now - WINDOW:
            self.settled = self._places.popleft()[1]
        return lines

    @property
    def place(self) -> Place | None:
        """Behind the last line that was given out."""
        if self._file is None:
            return None
        return Place(os.fstat(self._file.fileno()).st_ino, self._offset, _head(self._file, self._offset))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> list[bytes]:
        if self._file is None:
            return []
        if os.fstat(self._file.fileno()).st_size < self._offset + len(self._rest):
            self.counts["truncated"] += 1
            self._begin_at(0)
        read = self._file.read(MOST)
        *lines, rest = (self._rest + read).split(b"\n")
        self._offset += sum(len(line) + 1 for line in lines)
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        if len(rest) > self._cap:
            self.counts["too long"] += not self._skipping
            self._offset += len(rest)
            self._skipping, rest = True, b""
        self._rest = rest
        return [line for line in lines if line.strip()]

    def _is_over(self) -> bool:
        """Whether there is another file where this one was, or the first."""
        try:
            there = self._path.stat().st_ino
        except OSError:
            return False
        return self._file is None or there != os.fstat(self._file.fileno()).st_ino

    def _next(self) -> bool:
        """Goes on with the file that came after this one."""
        following = self._path
        if self._file is not None:
            mine = os.fstat(self._file.fileno())
            later = [
                (at, path) for at, inode, path in _family(self._path) if at > mine.st_mtime_ns and inode != mine.st_ino
            ]
            following = min(later)[1] if later else self._path
        try:
            file = following.open("rb")
        except OSError:
            return False
        self.counts["cut"] += bool(self._rest)
        self.close()
        self._file = file
        self._begin_at(0)
        return True

    def _go_to(self, place: Place) -> None:
        for _, inode, path in _family(self._path):
            if inode != place.inode:
                continue
            with suppress(OSError):
                file = path.open("rb")
                if os.fstat(file.fileno()).st_size >= place.offset and _head(file, place.offset) == place.head:
                    self._file, self.settled = file, place
                    self._begin_at(place.offset)
                    return
                file.close()
        self.counts["place lost"] += 1  # What is there now is read from its beginning.

    def _begin_at(self, offset: int) -> None:
        assert self._file is not None
        self._file.seek(offset)
        self._rest, self._offset, self._skipping = b"", offset, False


def _family(path: Path) -> list[tuple[int, int, Path]]:
    """(mtime in ns, inode, path) of a log and what it was rotated to: `audit-TIME.log` and `audit.log.1` of
    `audit.log`, not what is compressed."""
    found: list[tuple[int, int, Path]] = []
    with suppress(OSError):
        for one in path.parent.iterdir():
            number = one.name.removeprefix(f"{path.name}.")
            if one == path or number.isdigit() or (one.name.startswith(f"{path.stem}-") and one.suffix == path.suffix):
                with suppress(OSError):
                    about = one.stat()
                    found.append((about.st_mtime_ns, about.st_ino, one))
    return sorted(found)


def _head(file: IO[bytes], offset: int) -> str:
    return hash128(os.pread(file.fileno(), min(offset, _HEAD), 0).hex())

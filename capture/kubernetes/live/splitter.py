"""Bytes of a stream into its lines: split at the newline byte, so that no character is ever cut. Pure.

A line of any length is taken up to a hard cap, beyond which it is dropped and counted, and the next one is read.
"""

from __future__ import annotations

from collections.abc import Iterator

CAP = 64 * 1024 * 1024
"""Longest line that is kept, in bytes. An object is 1.5 MiB at most in etcd."""


class Splitter:
    """One stream. `held`: bytes of the line that is not ended yet, those of a dropped one included."""

    def __init__(self, cap: int = CAP) -> None:
        self._cap = cap
        self._pieces: list[bytes] = []
        self.held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """The lines that end in this chunk, without their newline; None for each that was longer than the cap."""
        first, *rest = chunk.split(b"\n")
        self._hold(first)
        for piece in rest:
            yield self._line()
            self._hold(piece)

    def _hold(self, piece: bytes) -> None:
        self.held += len(piece)
        if self.held > self._cap:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)

    def _line(self) -> bytes | None:
        line = None if self.held > self._cap else b"".join(self._pieces)
        self._pieces.clear()
        self.held = 0
        return line

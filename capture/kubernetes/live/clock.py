"""The two clocks of a recorder: a steady one to wait by, and instants, which never go back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


def _wall() -> int:
    return time.time_ns() // 1000


class Clock:
    """`steady` is the event loop's, in seconds; instants are microseconds since 1970 by the clock of this machine."""

    def __init__(self, wall: Callable[[], int] = _wall) -> None:
        self._wall = wall
        self._last = 0

    @property
    def steady(self) -> float:
        return asyncio.get_running_loop().time()

    def instant(self) -> int:
        """Now; where the machine's clock was set back, the latest that was told."""
        self._last = max(self._last, self._wall())
        return self._last

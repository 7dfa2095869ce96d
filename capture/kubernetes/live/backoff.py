"""How long to wait before asking again: doubled with each failure, bounded, and never the same for all. Pure but for
the random numbers it is given."""

from __future__ import annotations

import random

FIRST = 0.8
LONGEST = 30.0
FORBIDDEN = (60.0, 300.0)
"""Seconds before a forbidden part is tried again: at first, and later on."""

SHORT = 1.0
"""A watch that ends sooner than this and said nothing has failed."""


class Backoff:
    """Of one part. Seconds."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.failures = 0

    def failed(self, at_least: float = 0.0) -> float:
        """One more failure: how long to wait. At least as long as the server says."""
        self.failures += 1
        wait = min(LONGEST, FIRST * 2.0 ** min(self.failures - 1, 10))
        return max(at_least, wait / 2) + self._rng.random() * wait / 2

    def forbidden(self) -> float:
        """Rights seldom come back; who grants them should not have to wait for ever."""
        self.failures += 1
        wait = FORBIDDEN[0] if self.failures < 5 else FORBIDDEN[1]
        return wait * (0.75 + 0.5 * self._rng.random())

    def spread(self, seconds: float) -> float:
        """Something between nothing and this, so that not all ask at once."""
        return self._rng.random() * seconds

    def worked(self) -> None:
        self.failures = 0

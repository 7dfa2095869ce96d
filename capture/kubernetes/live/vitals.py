"""How each watch is doing, for `/metrics` and `/healthz`: plain counts and times that its follower keeps.

A watch is a zombie when it broke its own promise: each thing that it does ends within a time that it says before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

GRACE = 30.0
"""Seconds beyond a promise until a watch counts as a zombie: a machine may be busy."""

State = Literal["starting", "listing", "watching", "lost", "forbidden", "removed", "stopped"]


@dataclass(slots=True)
class Vitals:
    """Of one part. Times are seconds of the steady clock, `skew` how far the server's clock is ahead of ours.

    `heard`: when something came last; `due`: until when something has to happen, None while it waits for the log;
    `lag`: how old at most the last line was when it came, beyond what a watch takes."""

    part: str
    state: State = "starting"
    heard: float | None = None
    due: float | None = field(default=None)
    lines: int = 0
    bytes: int = 0
    lists: int = 0
    connections: int = 0
    losses: int = 0
    bad: int = 0
    oversize: int = 0
    crashes: int = 0
    held: float = 0.0
    lag: float = 0.0
    skew: float | None = None

    def is_zombie(self, now: float) -> bool:
        """Whether it did not do in time what it was about to do."""
        return self.state != "stopped" and self.due is not None and now > self.due + GRACE

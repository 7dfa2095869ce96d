"""What was read and is not recorded yet: lines in the order in which they came, bounded for each part and for all.

Who puts a line in where there is no room waits, and reads nothing meanwhile: so a slow log slows the watches down, the
server holds back what it has, and nothing is dropped. How long one waited tells how old a line may be; that is
`follow`'s.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import NamedTuple

from capture.kubernetes.recording import BadLine, Line

OF_ONE = 2 * 1024 * 1024
OF_ALL = 16 * 1024 * 1024
"""Bytes, as they were sent, of one part and of all that wait. Parsed they take about six times as much. A line that is
longer is let in where nothing else of its part waits."""


class Item(NamedTuple):
    """One line and the part it is of; `size`: its bytes as they were sent."""

    part: str
    line: Line | BadLine
    size: int


class Inbox:
    """One for all parts. `held`: bytes that wait, by part."""

    def __init__(self, of_one: int = OF_ONE, of_all: int = OF_ALL) -> None:
        self._of_one = of_one
        self._of_all = of_all
        self._items: deque[Item] = deque()
        self._total = 0
        self._came = asyncio.Event()
        self._went = asyncio.Condition()
        self.held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._items)

    def has_room(self, part: str) -> bool:
        return self._total < self._of_all and (self.held[part] < self._of_one or not self.held[part])

    async def put(self, item: Item) -> None:
        """Puts a line in, as soon as there is room for another of its part."""
        if not self.has_room(item.part):
            async with self._went:
                await self._went.wait_for(lambda: self.has_room(item.part))
        self.push(item)

    def push(self, item: Item) -> None:
        """Puts a line in whether there is room or not: for the few that tell of losses."""
        self._items.append(item)
        self._total += item.size
        self.held[item.part] += item.size
        self._came.set()

    async def take(self, lines: int, size: int) -> list[Item]:
        """Waits for what comes, and takes up to so many lines and about so many bytes."""
        while not self._items:
            self._came.clear()
            await self._came.wait()
        out: list[Item] = []
        taken = 0
        while self._items and len(out) < lines and taken < size:
            out.append(self._items.popleft())
            taken += out[-1].size
        return out

    async def done(self, items: list[Item]) -> None:
        """These are recorded: there is room for others."""
        for item in items:
            self.held[item.part] -= item.size
            self._total -= item.size
        async with self._went:
            self._went.notify_all()

"""What was set last, by key, up to a bound: beyond it what was longest not set is forgotten. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Protocol[K, V]):
    """Values by key; looking at one does not keep it."""

    def get(self, key: K, /) -> V | None: ...
    def __setitem__(self, key: K, value: V, /) -> None: ...

    def forget(self, key: K, /) -> V | None:
        """What it was."""
        ...

    def names(self) -> list[K]:
        """What was longest not set first."""
        ...


class Newest(Generic[K, V]):
    """In memory, at most `bound` of them."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        # The oldest is dropped for each new one: a plain dict walks over all that was dropped before.
        self._held: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, /) -> V | None:
        return self._held.get(key)

    def __setitem__(self, key: K, value: V, /) -> None:
        self._held[key] = value
        self._held.move_to_end(key)
        if len(self._held) > self._bound:
            self._held.popitem(last=False)

    def forget(self, key: K, /) -> V | None:
        return self._held.pop(key, None)

    def names(self) -> list[K]:
        return [*self._held]

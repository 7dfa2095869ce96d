"""What cases of checks are made of: a world in which a check finds what it is for, and worlds in which it is silent."""

from __future__ import annotations

from dataclasses import dataclass, field

from diagnose.check import Check
from tests.diagnose.world import World


@dataclass
class Cases:
    """`finds`: (world, (kind, name) of what is blamed, (kind, name) of the first change that made it so or None)."""

    check: Check
    finds: list[tuple[World, tuple[str, str], tuple[str, str] | None]] = field(default_factory=list)
    silent: list[World] = field(default_factory=list)

    def find(self, world: World, blamed: str, made: str | None = None) -> Cases:
        self.finds.append((world, _pair(blamed), None if made is None else _pair(made)))
        return self

    def quiet(self, *worlds: World) -> Cases:
        self.silent.extend(worlds)
        return self


def _pair(text: str) -> tuple[str, str]:
    kind, _, name = text.partition("/")
    return kind, name

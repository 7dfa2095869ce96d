"""Which fields are no news when they change alone: the table `noise.toml`. Pure.

Masked by exact path and object type, never by how a name ends. What is noise is still recorded; views leave it out.
"""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from importlib.resources import files

from schema.paths import Name, parse


@lru_cache(16384)
def is_noise(type_: str, names: tuple[str, ...]) -> bool:
    """Whether the field at these names (an item of a list: any one name), or one above it, is in the table."""
    return any(
        len(names) >= len(pattern) and all(want in ("*", name) for want, name in zip(pattern, names, strict=False))
        for pattern in _patterns(type_)
    )


@cache
def _patterns(type_: str) -> tuple[tuple[str, ...], ...]:
    table = tomllib.loads(files("schema").joinpath("tables/noise.toml").read_text(encoding="utf-8"))
    return tuple(
        tuple(step.text for step in parse(path) if isinstance(step, Name))
        for entry in table["noise"]
        if type_ in entry["types"] or "*" in entry["types"]
        for path in entry["paths"]
    )

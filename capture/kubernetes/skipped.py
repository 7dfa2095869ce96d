"""Which resources are counted and not recorded: the table `skipped.toml`. Pure."""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from importlib.resources import files


@lru_cache(4096)
def group_resource(path: str) -> str:
    """The storage identity of a watched path: `apps/v1/deployments` → `apps/deployments`, `v1/pods` → `core/pods`."""
    parts = path.split("/")
    return f"{parts[0]}/{parts[2]}" if len(parts) == 3 else f"core/{parts[-1]}"


@lru_cache(4096)
def is_skipped(path: str) -> bool:
    """Whether lines of this path (`coordination.k8s.io/v1/leases`) give no records."""
    group, _, resource = group_resource(path).partition("/")
    skipped = _table().get(group, frozenset())
    return resource in skipped or "*" in skipped


@cache
def _table() -> dict[str, frozenset[str]]:
    table = tomllib.loads(files("schema").joinpath("tables/skipped.toml").read_text(encoding="utf-8"))
    return {entry["group"]: frozenset(entry["resources"]) for entry in table["skip"]}

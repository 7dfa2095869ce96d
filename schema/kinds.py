"""The closed classes of nodes, and which class a type belongs to.

The list is the table `tables/kinds.toml`; concrete kinds stay on the object as `type` and `kind`. A type that no class
names is a CustomResource. What may be related to what is left to `schema.predicates`.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files

_TABLE = tomllib.loads(files("schema").joinpath("tables/kinds.toml").read_text(encoding="utf-8"))["class"]
_CLASS_OF: dict[str, str] = {type_: entry["id"] for entry in _TABLE for type_ in entry["types"]}

CLASSES: frozenset[str] = frozenset(entry["id"] for entry in _TABLE)
"""Every class there is."""


def class_of(type: str) -> str:
    """The class of a type: `apps/Deployment` → `Workload`; an unknown type is a `CustomResource`."""
    return _CLASS_OF.get(type, "CustomResource")

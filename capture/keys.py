"""How the items of a list are told apart: by keys of the built-in types, by what a CRD declares, else by a guess. Pure.

Keys of built-in types are the table `list_keys.toml`. A CRD says them in its schema (`x-kubernetes-list-map-keys`).
Where neither does, a field that is unique in both states will do. What differs between two items is left to
`capture.diff`.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files

from schema.canonical import Json, canonical

_GUESSES = ("name", "key", "id", "uid", "type", "ip", "path", "host")


@dataclass(frozen=True, slots=True)
class ListRule:
    """`ordered`: the order of the items has meaning. `defaults` stand for an absent key."""

    keys: tuple[str, ...]
    ordered: bool = False
    defaults: dict[str, Json] = field(default_factory=dict)
    guessed: bool = False

    def tells(self, items: Sequence[Json]) -> bool:
        """Whether every item has the keys."""
        for item in items:
            if not isinstance(item, dict):
                return False
            for key in self.keys:
                if key not in item and key not in self.defaults:
                    return False
        return True


@dataclass(frozen=True, slots=True)
class _Entry:
    names: frozenset[str]
    under: frozenset[str]
    types: frozenset[str]
    rule: ListRule


class Declared:
    """The list keys that one version of a CRD declares, by the names on the way to the list; `*` is any one step."""

    def __init__(self, schema: Json) -> None:
        self._rules = dict(_declared(schema, ()))

    def rule(self, names: tuple[str, ...]) -> ListRule | None:
        """The rule for the list at these names, if there is one."""
        for pattern, rule in self._rules.items():
            if len(pattern) == len(names) and all(
                want in ("*", name) for want, name in zip(pattern, names, strict=True)
            ):
                return rule
        return None


def declared_by(crd: dict[str, Json]) -> dict[tuple[str, str], Declared]:
    """What a CustomResourceDefinition declares, by the apiVersion and kind under which its objects are served."""
    spec = _map(crd.get("spec"))
    versions = spec.get("versions")
    return {
        (f"{spec.get('group')}/{version.get('name')}", str(_map(spec.get("names")).get("kind"))): Declared(
            _map(version.get("schema")).get("openAPIV3Schema")
        )
        for version in map(_map, versions if isinstance(versions, list) else ())
    }


@lru_cache(8192)
def table_rule(type_: str, names: tuple[str, ...]) -> ListRule | None:
    """The entry of the table for the list at these names of an object of this type."""
    name = names[-1] if names else ""
    for entry in _table():
        fits = name in entry.names and (not entry.types or type_ in entry.types)
        if fits and (not entry.under or entry.under & set(names)):
            return entry.rule
    return None


def guessed_rule(old: Sequence[Json], new: Sequence[Json]) -> ListRule | None:
    """A field that every item has, as a string, and no two of one state share."""
    for key in _GUESSES:
        mine, theirs = ([item.get(key) if isinstance(item, dict) else None for item in items] for items in (old, new))
        if {*map(type, mine), *map(type, theirs)} != {str}:
            continue
        if len(set(map(str, mine))) == len(mine) and len(set(map(str, theirs))) == len(theirs):
            return ListRule((key,), guessed=True)
    return None


def labels(items: Sequence[Json], rule: ListRule) -> list[str]:
    """The items by their keys, in the alphabet of field paths; `#2` after the second of one key."""
    out = []
    for item in items:
        values = [item.get(key, rule.defaults.get(key)) for key in rule.keys] if isinstance(item, dict) else [None]
        scalar = all(isinstance(value, str | int | float) or value is None for value in values)
        out.append(_label(rule.keys, *values) if scalar else _spelled(rule.keys, values))
    if len(set(out)) == len(out):
        return out
    seen: Counter[str] = Counter()
    for index, label in enumerate(out):
        seen[label] += 1
        if seen[label] > 1:
            out[index] = f"{label}#{seen[label]}"
    return out


@lru_cache(16384, typed=True)
def _label(keys: tuple[str, ...], *values: Json) -> str:
    return _spelled(keys, values)


def _spelled(keys: Sequence[str], values: Sequence[Json]) -> str:
    return f"[k:{canonical(dict(zip(keys, values, strict=True))).decode()}]"


def _map(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _declared(schema: Json, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ListRule]]:
    if not isinstance(schema, dict):
        return
    properties, items, more = (schema.get(name) for name in ("properties", "items", "additionalProperties"))
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") == "map" and isinstance(keys, list) and keys:
        fields = items.get("properties") if isinstance(items, dict) else None
        defaults = {
            str(key): body["default"]
            for key in keys
            if isinstance(fields, dict) and isinstance(body := fields.get(str(key)), dict) and "default" in body
        }
        yield names, ListRule(tuple(map(str, keys)), defaults=defaults)
    for name, body in properties.items() if isinstance(properties, dict) else ():
        yield from _declared(body, (*names, name))
    for body in (items, more):
        yield from _declared(body, (*names, "*"))


@lru_cache(1)
def _table() -> tuple[_Entry, ...]:
    table = tomllib.loads(files("schema").joinpath("tables/list_keys.toml").read_text(encoding="utf-8"))
    return tuple(
        _Entry(
            frozenset(entry["names"]),
            frozenset(entry.get("under", ())),
            frozenset(entry.get("types", ())),
            ListRule(tuple(entry["keys"]), entry.get("ordered", False), entry.get("defaults", {})),
        )
        for entry in table["list"]
    )


NOTHING_DECLARED = Declared(None)
"""For types that no CRD describes."""

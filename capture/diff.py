"""What changed between two stored states: a patch for machines, keyed field paths for people. Pure.

The patch is exact: applied to the old state it gives the new one. The fields are compared in a comparison form
(quantities, absent and empty, instants) that exists only here, so a change in spelling alone has a patch and no fields.
How list items are told apart and what counts as noise are tables. Both states are redacted before they come here.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files

import orjson

from schema.canonical import Json, canonical, digest
from schema.errors import BadInstant
from schema.instants import parse
from schema.patch import PatchOp, escape
from schema.records import Effect, FieldChange

_CUT = 2048
_PRESENCE = frozenset(
    {"podSelector", "namespaceSelector", "selector", "emptyDir", "resources", "securityContext", "from", "to"}
)
_QUANTITIES = frozenset(
    {"requests", "limits", "hard", "used", "capacity", "allocatable", "default", "defaultRequest", "max", "min"}
)
_SUFFIX = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)} | {
    unit: Fraction(base**power)
    for base, units in ((1000, "kMGTPE"), (1024, ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")))
    for power, unit in enumerate(units, 1)
}
_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,2}))?\Z")
_ORDERED = frozenset({"clusterIPs", "ipFamilies", "envFrom", "sources"})
"""Keyless lists whose order has meaning: the primary family, the later source that wins."""
_BARE = re.compile(r"[^.\[\]/\"#]+\Z")


@dataclass(frozen=True, slots=True)
class Diff:
    """`noise`: nothing in it is news. `duplicate_keys`: a keyed list holds one key more than once."""

    patch: list[PatchOp]
    fields: list[FieldChange]
    noise: bool
    duplicate_keys: bool


@dataclass(frozen=True, slots=True)
class _ListRule:
    names: frozenset[str]
    keys: tuple[str, ...]
    under: frozenset[str]
    types: frozenset[str]
    ordered: bool
    defaults: dict[str, Json]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the walk is: shown path, pointer, and the plain names on the way (list keys by their values)."""

    path: str
    pointer: str
    names: tuple[str, ...]

    def field(self, name: str) -> _Place:
        shown = name if _BARE.match(name) else None
        path = f"{self.path}.{shown}" if shown and self.path else shown or f"{self.path}[{orjson.dumps(name).decode()}]"
        return _Place(path, f"{self.pointer}/{escape(name)}", (*self.names, name))

    def item(self, label: str, index: int, name: str) -> _Place:
        return _Place(f"{self.path}{label}", f"{self.pointer}/{index}", (*self.names, name))


def diff(
    old: dict[str, Json], new: dict[str, Json], type: str, list_keys: Mapping[str, tuple[str, ...]] | None = None
) -> Diff:
    """The difference of two stored states of one object of `type` (`apps/Deployment`).

    `list_keys` holds what a CRD declares, by dotted path of the list.
    """
    walk = _Walk(type, list_keys or {})
    walk.compare(old, new, _Place("", "", ()))
    patch: list[PatchOp] = []
    _patch(old, new, "", patch)
    noisy = _noise_paths(type)
    noise = all(any(_fits(names, one) for one in noisy) for names in walk.names)
    return Diff(patch, walk.fields, noise, walk.duplicates)


class _Walk:
    def __init__(self, type_: str, declared: Mapping[str, tuple[str, ...]]) -> None:
        self._type = type_
        self._declared = declared
        self.fields: list[FieldChange] = []
        self.names: list[tuple[str, ...]] = []
        self.duplicates = False

    def compare(self, old: Json, new: Json, place: _Place) -> None:
        # Python holds 1 and true for equal; JSON does not.
        if old is new or (old == new and canonical(old) == canonical(new)):
            return
        if isinstance(old, dict) and isinstance(new, dict) and not (_is_mask(old) or _is_mask(new)):
            # What is the very same object in both needs no look: `capture.normalise` shares what did not move.
            differ = [name for name in new if name not in old or old[name] is not new[name]]
            differ += [name for name in old if name not in new]
            for name in sorted(differ):
                if not place.names and name == "apiVersion":
                    continue
                below = place.field(name)
                if name not in old:
                    self._appear(new[name], below, "added")
                elif name not in new:
                    self._appear(old[name], below, "removed")
                else:
                    self.compare(old[name], new[name], below)
        elif isinstance(old, list) and isinstance(new, list):
            self._lists(old, new, place)
        elif not _alike(old, new, place.names):
            if _empty(old, place.names):
                self._appear(new, place, "added")
            elif _empty(new, place.names):
                self._appear(old, place, "removed")
            else:
                self._say(place, "changed", old, new)

    def _appear(self, value: Json, place: _Place, effect: Effect) -> None:
        """A whole subtree came or went: an entry for it, for every map and keyed item in it, and for its leaves."""
        if _empty(value, place.names):
            return
        self._say(place, effect, value if effect == "removed" else None, value if effect == "added" else None)
        if isinstance(value, dict) and not _is_mask(value):
            for name in sorted(value):
                self._appear(value[name], place.field(name), effect)
        elif isinstance(value, list):
            keys = self._keys(value, [], place)
            if keys is not None:
                for index, (label, item) in enumerate(_labelled(value, keys)):
                    self._appear(item, place.item(label, index, label), effect)

    def _say(self, place: _Place, effect: Effect, before: Json, after: Json) -> None:
        self.names.append(place.names)
        change = FieldChange(
            path=place.path, pointer=place.pointer, effect=effect, before=_cut(before), after=_cut(after)
        )
        self.fields.append(change)

    def _lists(self, old: list[Json], new: list[Json], place: _Place) -> None:
        rule = self._rule(place)
        keys = self._keys(old, new, place)
        if keys is None:
            self._bag(old, new, place)
            return
        before, after = dict(_labelled(old, keys)), dict(_labelled(new, keys))
        old_at = {label: index for index, label in enumerate(before)}
        new_at = {label: index for index, label in enumerate(after)}
        shadowed = _repeated(before) | _repeated(after)
        self.duplicates = self.duplicates or bool(shadowed)
        for label in [*before, *(label for label in after if label not in before)]:
            if label not in after:
                self._appear(before[label], place.item(label, old_at[label], "*"), "removed")
            elif label not in before:
                self._appear(after[label], place.item(label, new_at[label], "*"), "added")
            elif _count(label, before) == _count(label, after) or label not in shadowed:
                self.compare(before[label], after[label], place.item(label, new_at[label], "*"))
        for label in sorted(shadowed):
            self._effective(label, before, after, new_at, place)
        kept = [label for label in before if label in after]
        if rule is not None and rule.ordered and kept != [label for label in after if label in before]:
            self._say(place, "reordered", list(kept), [label for label in after if label in before])

    def _effective(
        self, label: str, before: dict[str, Json], after: dict[str, Json], at: dict[str, int], place: _Place
    ) -> None:
        """Of several items with one key the last counts: say how that one changed, at the path without ordinal."""
        was, now = _last(label, before), _last(label, after)
        if was is None or now is None or was == now:
            return
        effect: Effect = "shadowed" if _count(label, after) >= _count(label, before) else "unshadowed"
        spot = place.item(label, at[label], "*")
        if isinstance(was, dict) and isinstance(now, dict):
            for name in sorted(was.keys() | now.keys()):
                if was.get(name) != now.get(name):
                    self._say(spot.field(name), effect, was.get(name), now.get(name))
        else:
            self._say(spot, effect, was, now)

    def _bag(self, old: list[Json], new: list[Json], place: _Place) -> None:
        """No key: compare as a bag of contents; the order of scalars such as `args` is part of the content."""
        scalars = not any(isinstance(item, dict | list) for item in (*old, *new))
        if scalars and place.names[-1:] and place.names[-1] in ("command", "args"):
            self._say(place, "changed", list(old), list(new))
            return
        left = Counter(canonical(item) for item in old)
        right = Counter(canonical(item) for item in new)
        for body in sorted((left - right).elements()):
            item = orjson.loads(body)
            self._say(place.item(_content(item), old.index(item), "*"), "removed", item, None)
        for body in sorted((right - left).elements()):
            item = orjson.loads(body)
            self._say(place.item(_content(item), new.index(item), "*"), "added", None, item)
        if left == right and place.names[-1:] and place.names[-1] in _ORDERED:
            self._say(place, "reordered", list(old), list(new))

    def _rule(self, place: _Place) -> _ListRule | None:
        declared = self._declared.get(".".join(place.names))
        if declared:
            return _ListRule(frozenset(), declared, frozenset(), frozenset(), False, {})
        name = place.names[-1] if place.names else ""
        for rule in _list_rules():
            fits = name in rule.names and (not rule.types or self._type in rule.types)
            if fits and (not rule.under or rule.under & set(place.names)):
                return rule
        return None

    def _keys(self, old: Sequence[Json], new: Sequence[Json], place: _Place) -> _ListRule | None:
        """How to tell the items apart, or None: by a table or declared key, else by a field that is unique in both."""
        items = [*old, *new]
        if not items or not all(isinstance(item, dict) for item in items):
            return None
        rule = self._rule(place)
        if rule is not None and all(
            isinstance(item, dict) and all(key in item or key in rule.defaults for key in rule.keys) for item in items
        ):
            return rule
        for key in ("name", "key", "id", "uid", "type", "ip", "path", "host"):
            values = [item.get(key) for item in items if isinstance(item, dict)]
            if all(isinstance(value, str) for value in values):
                mine, theirs = values[: len(old)], values[len(old) :]
                if len(set(mine)) == len(mine) and len(set(theirs)) == len(theirs):
                    return _ListRule(frozenset(), (key,), frozenset(), frozenset(), False, {})
        return None


def _labelled(items: Sequence[Json], rule: _ListRule) -> Iterator[tuple[str, Json]]:
    seen: Counter[str] = Counter()
    for item in items:
        if isinstance(item, dict):
            keys = {key: item.get(key, rule.defaults.get(key)) for key in rule.keys}
            label = f"[k:{canonical(keys).decode()}]"
            seen[label] += 1
            yield label if seen[label] == 1 else f"{label}#{seen[label]}", item


def _repeated(labels: dict[str, Json]) -> set[str]:
    return {label.rpartition("#")[0] for label in labels if "]#" in label}


def _count(label: str, labels: dict[str, Json]) -> int:
    return sum(one == label or one.startswith(f"{label}#") for one in labels)


def _last(label: str, labels: dict[str, Json]) -> Json:
    found = [item for one, item in labels.items() if one == label or one.startswith(f"{label}#")]
    return found[-1] if found else None


def _is_mask(value: Json) -> bool:
    """A redacted value is one leaf."""
    return isinstance(value, dict) and value.keys() == {"redacted", "length"}


def _content(item: Json) -> str:
    if isinstance(item, dict | list):
        return f"[h:{digest(item)[:8]}]"
    return f"[v:{orjson.dumps(item).decode()}]"


def _cut(value: Json) -> Json:
    if value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) < _CUT // 6):
        return value
    body = orjson.dumps(value)
    if len(body) <= _CUT:
        return value
    text = value if isinstance(value, str) else body.decode()
    return {"cut": text[:512], "digest": digest(value), "length": len(text)}


def _empty(value: Json, names: tuple[str, ...]) -> bool:
    return value is None or (value in ({}, []) and not (names and names[-1] in _PRESENCE))


def _alike(old: Json, new: Json, names: tuple[str, ...]) -> bool:
    """Equal in the comparison form: absent and empty, one quantity or one instant spelled twice."""
    if _empty(old, names) and _empty(new, names):
        return True
    if len(names) > 1 and names[-2] in _QUANTITIES:
        mine, theirs = _quantity(old), _quantity(new)
        return mine is not None and mine == theirs
    if isinstance(old, str) and isinstance(new, str) and old[4:5] == "-" == new[4:5]:
        try:
            return parse(old) == parse(new)
        except BadInstant:
            return False
    return False


def _quantity(value: Json) -> Fraction | None:
    match = _QUANTITY.match(str(value)) if isinstance(value, str | int | float) else None
    if match is None:
        return None
    number, suffix, exponent = match.groups()
    return Fraction(number) * (_SUFFIX[suffix or ""] if exponent is None else Fraction(10) ** int(exponent))


def _patch(old: Json, new: Json, pointer: str, out: list[PatchOp]) -> None:
    if old is new or (old == new and canonical(old) == canonical(new)):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old:
            if name not in new:
                out.append({"op": "remove", "path": f"{pointer}/{escape(name)}"})
            elif old[name] is not new[name]:
                _patch(old[name], new[name], f"{pointer}/{escape(name)}", out)
        for name in new:
            if name not in old:
                out.append({"op": "add", "path": f"{pointer}/{escape(name)}", "value": new[name]})
    elif isinstance(old, list) and isinstance(new, list) and old and new:
        common = min(len(old), len(new))
        ops: list[PatchOp] = []
        for index in range(common):
            if old[index] is not new[index]:
                _patch(old[index], new[index], f"{pointer}/{index}", ops)
        ops.extend({"op": "remove", "path": f"{pointer}/{index}"} for index in range(len(old) - 1, common - 1, -1))
        ops.extend({"op": "add", "path": f"{pointer}/-", "value": item} for item in new[common:])
        whole: PatchOp = {"op": "replace", "path": pointer, "value": new}
        out.extend(ops if len(orjson.dumps(ops)) < len(orjson.dumps(whole)) else [whole])
    else:
        out.append({"op": "replace", "path": pointer, "value": new})


def _fits(names: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if len(names) < len(pattern):
        return False
    return all(want in ("*", name) for name, want in zip(names, pattern, strict=False))


@cache
def _list_rules() -> tuple[_ListRule, ...]:
    table = tomllib.loads(files("schema").joinpath("tables/list_keys.toml").read_text())
    return tuple(
        _ListRule(
            frozenset(entry["names"]), tuple(entry["keys"]), frozenset(entry.get("under", ())),
            frozenset(entry.get("types", ())), entry.get("ordered", False), entry.get("defaults", {}),
        )
        for entry in table["list"]
    )  # fmt: skip


@cache
def _noise_paths(type_: str) -> tuple[tuple[str, ...], ...]:
    table = tomllib.loads(files("schema").joinpath("tables/noise.toml").read_text())
    out = []
    for entry in table["noise"]:
        if type_ in entry["types"] or "*" in entry["types"]:
            for path in entry["paths"]:
                head, mark, rest = path.partition("annotations.")
                out.append((*head.strip(".").split("."), "annotations", rest) if mark else tuple(path.split(".")))
    return tuple(out)

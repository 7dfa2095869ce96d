"""What changed between two stored states: a patch for machines, keyed field paths for people. Pure.

The patch is exact: applied to the old state it gives the new one. The fields are compared in a form that exists only
while comparing (`capture.comparison`), so a change in spelling alone has a patch and no fields. How list items are told
apart is `capture.keys`, what is no news `capture.noise`. Both states are redacted before they come here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

import orjson

from capture.comparison import alike, cut, empty, is_mask, same
from capture.keys import NOTHING_DECLARED, Declared, ListRule, guessed_rule, labels, table_rule
from capture.noise import is_noise
from schema.canonical import Json, canonical, digest
from schema.patch import PatchOp, escape
from schema.paths import field_name
from schema.records import Effect, FieldChange, trusted

_ORDERED = frozenset({"clusterIPs", "ipFamilies", "envFrom", "sources"})
"""Keyless lists whose order has meaning: the primary family, the later source that wins."""

_SEQUENCES = frozenset({"command", "args"})
"""Lists of words that are one sentence: the one place where an index says where."""

_LONGEST_SEQUENCE = 500  # Words beyond which a sequence is only said to differ: comparing takes the square.


class Diff(NamedTuple):
    """`noise`: nothing in it is news. `duplicate_keys`: a keyed list holds one key more than once. `guessed`: lists
    whose keys nobody declared."""

    patch: list[PatchOp]
    fields: list[FieldChange]
    noise: bool
    duplicate_keys: bool
    guessed: tuple[str, ...]


_Place = tuple[str, str, tuple[str, ...]]
"""Where the walk is: shown path, pointer, and the plain names on the way (`*` for an item)."""


def _field(place: _Place, name: str) -> _Place:
    path, pointer, names = place
    shown, token = _spelling(name)
    return (path + shown if path else shown.removeprefix("."), pointer + token, (*names, name))


def _item(place: _Place, label: str, index: int) -> _Place:
    path, pointer, names = place
    return path + label, f"{pointer}/{index}", (*names, "*")


@lru_cache(16384)
def _spelling(name: str) -> tuple[str, str]:
    """A name as a step of a path and as a token of a pointer."""
    return field_name(name), f"/{escape(name)}"


def diff(old: dict[str, Json], new: dict[str, Json], type: str, declared: Declared = NOTHING_DECLARED) -> Diff:
    """The difference of two stored states of one object of `type` (`apps/Deployment`); `declared`: by its CRD."""
    walk = _Walk(type, declared)
    walk.compare(old, new, ("", "", ()))
    patch: list[PatchOp] = []
    _patch(old, new, "", patch)
    noise = all(is_noise(type, names) for names in walk.names)
    return Diff(patch, walk.fields, noise, walk.duplicates, tuple(walk.guessed))


class _Walk:
    def __init__(self, type_: str, declared: Declared) -> None:
        self._type = type_
        self._declared = declared
        self.fields: list[FieldChange] = []
        self.names: list[tuple[str, ...]] = []
        self.duplicates = False
        self.guessed: dict[str, None] = {}

    def compare(self, old: Json, new: Json, place: _Place) -> None:
        if same(old, new):
            return
        names = place[2]
        if isinstance(old, dict) and isinstance(new, dict) and not (is_mask(old) or is_mask(new)):
            # What is the very same object in both needs no look: `capture.normalise` shares what did not move.
            differ = [name for name in new if name not in old or old[name] is not new[name]]
            differ += [name for name in old if name not in new]
            for name in sorted(differ):
                if not names and name == "apiVersion":
                    continue
                below = _field(place, name)
                if name not in old:
                    self._appear(new[name], below, "added")
                elif name not in new:
                    self._appear(old[name], below, "removed")
                else:
                    self.compare(old[name], new[name], below)
        elif isinstance(old, list) and isinstance(new, list):
            self._lists(old, new, place)
        elif not alike(old, new, names):
            if empty(old, names):
                self._appear(new, place, "added")
            elif empty(new, names):
                self._appear(old, place, "removed")
            else:
                self._say(place, "changed", old, new)

    def _appear(self, value: Json, place: _Place, effect: Effect) -> None:
        """A whole subtree came or went: an entry for it, for every map and keyed item in it, and for its leaves."""
        tree = isinstance(value, dict | list)
        if value is None or (tree and empty(value, place[2])):
            return
        before, after = (value, None) if effect == "removed" else (None, value)
        self._say(place, effect, before, after)
        if not tree:
            return
        if isinstance(value, dict) and not is_mask(value):
            for name in sorted(value):
                self._appear(value[name], _field(place, name), effect)
        elif isinstance(value, list):
            rule = self._rule(value, (), place)
            if rule is not None:
                for index, label in enumerate(labels(value, rule)):
                    self._appear(value[index], _item(place, label, index), effect)

    def _say(self, place: _Place, effect: Effect, before: Json, after: Json) -> None:
        path, pointer, names = place
        self.names.append(names)
        shown = {"path": path, "pointer": pointer, "effect": effect, "before": cut(before), "after": cut(after)}
        self.fields.append(trusted(FieldChange, shown))

    def _lists(self, old: list[Json], new: list[Json], place: _Place) -> None:
        rule = self._rule(old, new, place)
        if rule is None:
            self._bag(old, new, place)
            return
        mine, theirs = labels(old, rule), labels(new, rule)
        before, after = dict(zip(mine, old, strict=True)), dict(zip(theirs, new, strict=True))
        at = {label: index for index, label in enumerate(theirs)}
        shadowed = _repeated(mine) | _repeated(theirs)
        self.duplicates = self.duplicates or bool(shadowed)
        for index, label in enumerate(mine):
            if label not in after:
                self._appear(before[label], _item(place, label, index), "removed")
            elif before[label] is not after[label] and (
                label not in shadowed or _count(label, mine) == _count(label, theirs)
            ):
                self.compare(before[label], after[label], _item(place, label, at[label]))
        for label in theirs:
            if label not in before:
                self._appear(after[label], _item(place, label, at[label]), "added")
        for label in sorted(shadowed):
            self._effective(label, before, after, _item(place, label, at.get(label, 0)))
        if rule.ordered and mine != theirs:
            kept, now = [one for one in mine if one in after], [one for one in theirs if one in before]
            if kept != now:
                self._say(place, "reordered", list(kept), list(now))

    def _effective(self, label: str, before: dict[str, Json], after: dict[str, Json], spot: _Place) -> None:
        """Of several items with one key the last counts: say how that one changed, at the path without ordinal."""
        was, now = _last(label, before), _last(label, after)
        if was is None or now is None or was == now:
            return
        effect: Effect = "shadowed" if _count(label, after) >= _count(label, before) else "unshadowed"
        if isinstance(was, dict) and isinstance(now, dict):
            for name in sorted(was.keys() | now.keys()):
                if was.get(name) != now.get(name):
                    self._say(_field(spot, name), effect, was.get(name), now.get(name))
        else:
            self._say(spot, effect, was, now)

    def _bag(self, old: list[Json], new: list[Json], place: _Place) -> None:
        """No key: a sentence word by word, anything else as a bag of contents."""
        name = "".join(place[2][-1:])
        if name in _SEQUENCES and all(isinstance(item, str) for item in (*old, *new)):
            self._sequence([str(item) for item in old], [str(item) for item in new], place)
            return
        left = Counter(canonical(item) for item in old)
        right = Counter(canonical(item) for item in new)
        for body in sorted((left - right).elements()):
            item = orjson.loads(body)
            self._say(_item(place, _content(item), old.index(item)), "removed", item, None)
        for body in sorted((right - left).elements()):
            item = orjson.loads(body)
            self._say(_item(place, _content(item), new.index(item)), "added", None, item)
        if left == right and name in _ORDERED:
            self._say(place, "reordered", list(old), list(new))

    def _sequence(self, old: list[str], new: list[str], place: _Place) -> None:
        """The sentence as a whole, then the words that came, went or took the place of another."""
        self._say(place, "changed", list(old), list(new))
        if max(len(old), len(new)) > _LONGEST_SEQUENCE:
            return
        for verb, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if verb == "equal":
                continue
            common = min(old_to - old_from, new_to - new_from)
            for step in range(common):
                spot = _item(place, f"[i:{new_from + step}]", new_from + step)
                self._say(spot, "changed", old[old_from + step], new[new_from + step])
            for index in range(old_from + common, old_to):
                self._say(_item(place, f"[i:{index}]", index), "removed", old[index], None)
            for index in range(new_from + common, new_to):
                self._say(_item(place, f"[i:{index}]", index), "added", None, new[index])

    def _rule(self, old: Sequence[Json], new: Sequence[Json], place: _Place) -> ListRule | None:
        """How to tell the items apart, or None: what the CRD declares, what the table says, else a guess."""
        path, _, names = place
        items = [*old, *new]
        if not items or not all(isinstance(item, dict) for item in items):
            return None
        for rule in (self._declared.rule(names), table_rule(self._type, names)):
            if rule is not None and rule.tells(items):
                return rule
        rule = guessed_rule(old, new)
        if rule is not None:
            self.guessed[path] = None
        return rule


def _repeated(found: list[str]) -> set[str]:
    return {label.rpartition("#")[0] for label in found if label[-1] != "]"}


def _count(label: str, found: Sequence[str] | dict[str, Json]) -> int:
    return sum(one == label or one.startswith(f"{label}#") for one in found)


def _last(label: str, found: dict[str, Json]) -> Json:
    return next((item for one, item in reversed(found.items()) if one == label or one.startswith(f"{label}#")), None)


def _content(item: Json) -> str:
    if isinstance(item, dict | list):
        return f"[h:{digest(item)[:8]}]"
    return f"[v:{orjson.dumps(item).decode()}]"


def _patch(old: Json, new: Json, pointer: str, out: list[PatchOp]) -> None:
    if same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old:
            if name not in new:
                out.append({"op": "remove", "path": pointer + _spelling(name)[1]})
            elif old[name] is not new[name]:
                _patch(old[name], new[name], pointer + _spelling(name)[1], out)
        for name in new:
            if name not in old:
                out.append({"op": "add", "path": pointer + _spelling(name)[1], "value": new[name]})
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

"""The comparison form: when two values that are spelled apart mean the same. It exists only while comparing. Pure.

Quantities are compared as numbers, times as instants, absent and empty are one but where presence has a meaning. What
is stored, and which fields are said to differ, is left to `capture.diff`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

import orjson

from schema.canonical import Json, canonical, digest
from schema.errors import BadInstant
from schema.instants import parse

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


def same(old: Json, new: Json) -> bool:
    """Equal as JSON. Python alone holds 1 and true for equal."""
    if old is new:
        return True
    if isinstance(new, str):
        return old == new
    return old == new and canonical(old) == canonical(new)


def empty(value: Json, names: tuple[str, ...]) -> bool:
    """As good as absent at the place of these names."""
    return value is None or (value in ({}, []) and not (names and names[-1] in _PRESENCE))


def alike(old: Json, new: Json, names: tuple[str, ...]) -> bool:
    """Equal in the comparison form: absent and empty, one quantity or one instant spelled twice."""
    if empty(old, names) and empty(new, names):
        return True
    if len(names) > 1 and names[-2] in _QUANTITIES:
        mine, theirs = _quantity(str(old)), _quantity(str(new))
        return mine is not None and mine == theirs
    if isinstance(old, str) and isinstance(new, str) and old[4:5] == "-" == new[4:5]:
        mark = _instant(old)
        return mark is not None and mark == _instant(new)
    return False


def is_mask(value: Json) -> bool:
    """A redacted value is one leaf."""
    return isinstance(value, dict) and len(value) == 2 and "redacted" in value and "length" in value


def cut(value: Json) -> Json:
    """The value as a field shows it: what is long is told by its beginning, digest and length."""
    if isinstance(value, str):
        if len(value) < _CUT // 6:
            return value
    elif not isinstance(value, dict | list):
        return value
    body = orjson.dumps(value)
    if len(body) <= _CUT:
        return value
    text = value if isinstance(value, str) else body.decode()
    return {"cut": text[:512], "digest": digest(value), "length": len(text)}


@lru_cache(4096)
def _quantity(text: str) -> Fraction | None:
    match = _QUANTITY.match(text)
    if match is None:
        return None
    number, suffix, exponent = match.groups()
    return Fraction(number) * (_SUFFIX[suffix or ""] if exponent is None else Fraction(10) ** int(exponent))


@lru_cache(4096)
def _instant(text: str) -> int | None:
    try:
        return parse(text)
    except BadInstant:
        return None

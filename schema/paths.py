"""Field paths: the alphabet in which a change names a field, and the patterns people ask with.

A path is written in the spelling of Kubernetes' managed fields: names joined by dots, list items told apart by key
(`containers[k:{"name":"web"}]`), by value (`finalizers[v:"x"]`), by content (`rules[h:1a2b3c4d]`) or, in a sentence of
words, by index (`args[i:2]`), `#2` after an item whose key occurs twice, and `["app.kubernetes.io/name"]` for a name
that is no bare word. People may write `[web]` or `[name=web]` or a part of the keys for an item, `*` for any one step
and `**` for any number. Who differs is `capture.diff`; here is only the language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import orjson

from schema.canonical import Json, canonical
from schema.errors import BadPath

_BARE = re.compile(r"[^.\[\]/\"#]+\Z")
_NAME = re.compile(r"[^.\[\]#]+")
_ORDINAL = re.compile(r"#([1-9]\d{0,5})")
_LONGEST = 4096
"""Characters; a path of Kubernetes is a tenth of this, and whoever writes more means harm."""
_HINT = 'write names joined by dots, as in spec.template.spec.containers[web].image; quote odd names: ["a.b/c"]'


@dataclass(frozen=True, slots=True)
class Name:
    """A field of a map; in a pattern `*` is any one step and `**` any number of them."""

    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list. `kind`: `k` keys, `v` value, `h` content hash, `i` index, `part` some keys, `word` any
    key's value. `value` is canonical JSON, but for `h`, `i` and `word`, which are bare text; `ordinal` counts items of
    one key from 1.
    """

    kind: str
    value: str
    ordinal: int = 1


Step = Name | Item
_ANY = Name("**")


def field_name(name: str) -> str:
    """One name as it is spelled in a path, with the dot before it where it takes one."""
    return f".{name}" if _BARE.match(name) else f"[{orjson.dumps(name).decode()}]"


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[Step, ...]:
    """The steps of a path or pattern. Raises BadPath."""
    if len(text) > _LONGEST:
        raise BadPath(f"a field path of {len(text)} characters: {_LONGEST} is the most", hint=_HINT)
    steps: list[Step] = []
    at = 0
    while at < len(text):
        if text[at] == "[":
            step, at = _bracket(text, at)
            steps.append(step)
            continue
        if steps and text[at] == ".":
            at += 1
        elif steps:
            raise BadPath(f"not a field path: {text[:200]!r}: a dot is missing at {at}", hint=_HINT)
        match = _NAME.match(text, at)
        if match is None:
            raise BadPath(f"not a field path: {text[:200]!r}: no name at {at}", hint=_HINT)
        steps.append(Name(match[0]))
        at = match.end()
    if not steps:
        raise BadPath("an empty field path", hint=_HINT)
    return tuple(steps)


def show(steps: Sequence[Step], *, short: bool = False) -> str:
    """The text of some steps; `short` writes `[web]` where one bare word is the whole key."""
    out = ""
    for step in steps:
        if isinstance(step, Name):
            out += field_name(step.text)
        else:
            mark = f"#{step.ordinal}" if step.ordinal > 1 else ""
            out += f"[{_short(step) if short else _long(step)}]{mark}"
    return out.removeprefix(".")


def shorten(path: str) -> str:
    """A recorded path as tables show it; what does not parse is shown as it is."""
    try:
        return show(parse(path), short=True)
    except BadPath:
        return path


def matches(path: str, pattern: str) -> bool:
    """Whether a recorded path meets a pattern, or lies below what the pattern names. Raises BadPath."""
    return _match(parse(path), _pattern(pattern))


def _match(path: tuple[Step, ...], pattern: tuple[Step, ...]) -> bool:
    """Follows all ends of the pattern that each beginning of the path can have reached: time is path x pattern."""
    reached = _over_stars({0}, pattern)
    for step in path:
        if len(pattern) in reached:
            return True
        following = set()
        for at in reached:
            if pattern[at] == _ANY:
                following.add(at)
            elif _meets(step, pattern[at]):
                following.add(at + 1)
        reached = _over_stars(following, pattern)
    return len(pattern) in reached


def _over_stars(reached: set[int], pattern: tuple[Step, ...]) -> set[int]:
    """A `**` may stand for nothing; no two of them follow each other."""
    return reached | {at + 1 for at in reached if at < len(pattern) and pattern[at] == _ANY}


@lru_cache(maxsize=256)
def _pattern(text: str) -> tuple[Step, ...]:
    """A pattern with its runs of `**` made one."""
    steps = parse(text)
    return tuple(one for one, before in zip(steps, (None, *steps), strict=False) if not one == before == _ANY)


def _meets(step: Step, wanted: Step) -> bool:
    if wanted == Name("*") or (isinstance(wanted, Item) and wanted.kind == "word" and wanted.value == "*"):
        return isinstance(wanted, Name) or isinstance(step, Item)
    if isinstance(step, Name) or isinstance(wanted, Name):
        return step == wanted
    if wanted.ordinal > 1 and wanted.ordinal != step.ordinal:
        return False
    if wanted.kind == "word":
        return wanted.value in _words(step)
    if wanted.kind == "part" and step.kind == "k":
        keys = orjson.loads(step.value)
        return all(name in keys and _text(keys[name]) == text for name, text in orjson.loads(wanted.value).items())
    return (step.kind, step.value) == (wanted.kind, wanted.value)


def _bracket(text: str, start: int) -> tuple[Step, int]:
    end = _closing(text, start)
    inner = text[start + 1 : end]
    if inner.startswith('"'):
        return Name(str(_json(inner, text))), end + 1
    kind, colon, rest = inner.partition(":")
    if colon and kind in ("k", "v"):
        value = _json(rest, text)
        if kind == "k" and not isinstance(value, dict):
            raise BadPath(f"not a field path: {text[:200]!r}: k: takes a map of keys", hint=_HINT)
        item = Item(kind, canonical(value).decode())
    elif colon and kind in ("h", "i"):
        item = Item(kind, rest)
    elif "=" in inner:
        pairs = [pair.partition("=") for pair in inner.split(",")]
        if not all(name and mark for name, mark, _ in pairs):
            raise BadPath(f"not a field path: {text[:200]!r}: write [key=value]", hint=_HINT)
        item = Item("part", canonical({name: value for name, _, value in pairs}).decode())
    elif inner:
        item = Item("word", inner)
    else:
        raise BadPath(f"not a field path: {text[:200]!r}: empty brackets", hint=_HINT)
    mark = _ORDINAL.match(text, end + 1)
    if mark is None:
        return item, end + 1
    return Item(item.kind, item.value, int(mark[1])), mark.end()


def _closing(text: str, start: int) -> int:
    """The bracket that closes the one at `start`; brackets inside JSON strings do not count."""
    quoted = False
    depth = 0
    at = start
    while at < len(text):
        char = text[at]
        if quoted:
            at += char == "\\"
            quoted = char != '"'
        elif char == '"':
            quoted = True
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise BadPath(f"not a field path: {text[:200]!r}: a bracket stays open", hint=_HINT)


def _json(body: str, text: str) -> Json:
    try:
        value: Json = orjson.loads(body)
        canonical(value)
    except (orjson.JSONDecodeError, TypeError):  # not JSON, or nested beyond what can be written again
        raise BadPath(f"not a field path: {text[:200]!r}: {body[:80]!r} is not JSON", hint=_HINT) from None
    return value


def _long(item: Item) -> str:
    if item.kind in ("k", "v", "h", "i"):
        return f"{item.kind}:{item.value}"
    if item.kind == "part":
        return ",".join(f"{name}={value}" for name, value in orjson.loads(item.value).items())
    return item.value


def _short(item: Item) -> str:
    """One bare word where that is the whole key, `key=value` for more keys; else the full form."""
    if item.kind == "i":
        return item.value
    if item.kind not in ("k", "v"):
        return _long(item)
    value = orjson.loads(item.value)
    if item.kind == "v":
        return value if isinstance(value, str) and _BARE.match(value) and "=" not in value else _long(item)
    pairs = [(name, _text(one)) for name, one in value.items()]
    if not all(_BARE.match(text) and not set("=,:") & set(text) for _, text in pairs):
        return _long(item)
    if len(pairs) == 1 and isinstance(next(iter(value.values())), str):
        return pairs[0][1]
    return ",".join(f"{name}={text}" for name, text in pairs)


def _words(item: Item) -> list[str]:
    if item.kind == "k":
        return [_text(one) for one in orjson.loads(item.value).values()]
    return [_text(orjson.loads(item.value))] if item.kind == "v" else [item.value]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value).decode()

"""What is taken for a credential: the table `redaction.toml`, compiled. Pure; what is put in its place is `redact`'s.

A name can make a value secret (`DB_PASSWORD`), a shape can (a private key), and some values no name makes secret
(ports, durations, the path of a file). Patterns are bounded, so that a text takes a time in proportion to its length.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

_TABLE = tomllib.loads(files("schema").joinpath("tables/redaction.toml").read_text(encoding="utf-8"))

MASK = re.compile(r"hmac:[0-9a-f]{16}")
"""A fingerprint in one word."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A form of credentials. Texts without one of `needles` need no search; `harmless`: harmless values stay; `named`:
    it is a credential only under the name of one."""

    pattern: re.Pattern[str]
    needles: tuple[str, ...]
    harmless: bool
    named: bool

    def may_be_in(self, text: str) -> bool:
        for needle in self.needles:  # noqa: SIM110  Much faster than any(), and asked of every text.
            if needle in text:
                return True
        return False


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag whose next or glued word is a credential; surely so where one of `clients` is called. `after`: of the word
    only what follows this mark. `others`: programs to which the flag says something else; where no client is called and
    none of them, what comes next is hidden if it is like no file."""

    flag: str
    clients: frozenset[str]
    after: str
    others: frozenset[str]

    def is_likely(self, word: str, called: frozenset[str]) -> bool:
        """Whether the word is a credential although no client is called."""
        return bool(self.others) and not self.others & called and word[:1] not in ("/", ".", "=")


def _union(entries: list[dict[str, str]]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{entry['pattern']})" for entry in entries), re.IGNORECASE)


def _shape(entry: dict[str, str]) -> Shape:
    pattern = re.compile(entry["pattern"], re.MULTILINE | (re.IGNORECASE if entry.get("ignore_case") else re.NOFLAG))
    return Shape(pattern, tuple(entry["needles"]), bool(entry.get("harmless")), "name" in pattern.groupindex)


_NAME = _union(_TABLE["name"])
_NAME_NEEDLES = tuple(sorted({needle for one in _TABLE["name"] for needle in one["needles"]}))
_PLACE = _union([one for one in _TABLE["name"] if "place" in one])
_LITERAL = _union([one for one in _TABLE["name"] if "place" not in one])
_EXACT = _union(_TABLE["exact"])
_FIELD = _union(_TABLE["field"])
_REFERENCE = _union(_TABLE["reference"])
_HARMLESS = _union(_TABLE["harmless"])
_EVER = _union([one for one in _TABLE["harmless"] if "ever" in one])
_ADDRESS = _union(_TABLE["address"])
_POINTERS = [(re.compile(one["pattern"], re.IGNORECASE), re.compile(one["values"])) for one in _TABLE["pointer"]]

SHAPES = tuple(map(_shape, _TABLE["shape"]))
FLAGS = tuple(
    Flag(one["flag"], frozenset(one["clients"]), one.get("after", ""), frozenset(one.get("others", [])))
    for one in _TABLE["argument"]
)
CLIENTS = re.compile(
    rf"(?<![\w-])(?:{'|'.join(sorted({re.escape(name) for flag in FLAGS for name in flag.clients}))})"
    r"\s(?:[^\n]{0,1024}?\s)?-"
)
"""Where a text calls one of the programs whose flags are known."""

LONG_FLAG = re.compile(r"[a-z][a-z0-9.-]*\Z|[a-z][A-Za-z0-9._-]*=")
"""What a word after one dash is called, if it is a flag of its own and no value glued to a letter."""

ASSIGNMENT = re.compile(
    rf"(?<![\w.-])(?=[\w.-]*?(?:{_NAME.pattern}))(?P<name>[\w.-]++)(?:\\{{0,8}}[\"'])?\]?(?P<mark>[ \t]{{0,8}}"
    rf"(?::=|=>|==|[=:：]{{1,2}}(?!//))[ \t]{{0,8}})(?:[!&][\w!.-]{{0,64}}[ \t]{{1,8}}){{0,2}}",
    re.IGNORECASE,
)
"""What is set under the name of a credential, up to where its value begins."""


def makes_secret(name: str) -> bool:
    """Whether a value under this name of a variable, flag or key is a credential; of a text, whether such a name can be
    in it. Remembers nothing."""
    lower = name.lower()
    for needle in _NAME_NEEDLES:
        if needle in lower:
            return _NAME.search(name) is not None
    return False


is_secret_name = lru_cache(65_536)(makes_secret)
"""The same for what is surely a name."""


def is_secret_field(name: str) -> bool:
    """Whether the text of a field of this name, in any object, is a credential. Remembers nothing."""
    return _FIELD.search(name) is not None


class _SecretFields(dict[str, bool]):
    """Names of fields already judged; a look-up is all that most texts of an object cost."""

    def __missing__(self, name: str) -> bool:
        if len(self) >= 65_536:
            self.clear()
        self[name] = is_secret_field(name)
        return self[name]


SECRET_FIELDS = _SecretFields()
"""The same for what is surely the name of a field."""


def is_reference(field: str) -> bool:
    """Whether what such a field holds says where a credential lies."""
    return _REFERENCE.search(field) is not None


def is_exact(name: str) -> bool:
    """Whether under this name even a number is a credential."""
    return _EXACT.search(name) is not None


def is_harmless(value: str, name: str = "") -> bool:
    """Whether no name, or not this one, makes this value a secret."""
    return (_EVER if name and _EXACT.search(name) else _HARMLESS).fullmatch(value) is not None


def is_pointer(name: str, value: str) -> bool:
    """Whether the name says where a credential lies, and the value is such a place."""
    return any(names.search(name) and values.fullmatch(value) for names, values in _POINTERS)


def is_address(value: str) -> bool:
    """Whether of this value under a secret name only the credential in it need be hidden."""
    return _ADDRESS.fullmatch(value) is not None


def stays(name: str, value: str) -> bool:
    """Whether a value under the name of a credential is none, or what was one has been hidden already."""
    if MASK.fullmatch(value) or is_harmless(value, name) or is_pointer(name, value):
        return True
    if not is_address(value):
        return False
    return "hmac:" in value or (_PLACE.search(name) is not None and _LITERAL.search(name) is None)

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


@dataclass(frozen=True, slots=True)
class Shape:
    """A form of credentials. Texts without one of `needles` need no search; `harmless`: harmless values stay."""

    pattern: re.Pattern[str]
    needles: tuple[str, ...]
    harmless: bool

    def may_be_in(self, text: str) -> bool:
        return any(needle in text for needle in self.needles)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag whose next or glued word is a credential; surely so where one of `clients` is called."""

    flag: str
    clients: frozenset[str]
    in_shell: re.Pattern[str]


def _any(section: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{entry['pattern']})" for entry in _TABLE[section]), flags)


_NAME = _any("name")
_FIELD = _any("field")
_HARMLESS = _any("harmless")
_ADDRESS = _any("address")
_POINTERS = [(re.compile(one["pattern"], re.IGNORECASE), re.compile(one["values"])) for one in _TABLE["pointer"]]

SHAPES = tuple(
    Shape(
        re.compile(entry["pattern"], re.IGNORECASE if entry.get("ignore_case") else re.NOFLAG),
        tuple(entry["needles"]),
        entry.get("harmless", False),
    )
    for entry in _TABLE["shape"]
)
FLAGS = tuple(
    Flag(
        entry["flag"],
        frozenset(entry["clients"]),
        re.compile(rf"(?P<kept>(?<!\S){re.escape(entry['flag'])}\s{{0,4}}[\"']?)(?P<secret>[^\s\"']+)"),
    )
    for entry in _TABLE["argument"]
)
SECRET_FLAG_IN_SHELL = re.compile(
    rf"(?P<kept>(?<!\S)--?(?=[\w.-]{{0,64}}?(?:{_NAME.pattern}))[\w.-]{{1,128}}\s{{1,4}}[\"']?)(?P<secret>[^\s\"'-][^\s\"']*)",
    re.IGNORECASE,
)
LONG_FLAG = re.compile(r"[a-z][a-z0-9.-]*\Z|[a-z][A-Za-z0-9._-]*=")
"""What a word after one dash is called, if it is a flag of its own and no value glued to a letter."""


def makes_secret(name: str) -> bool:
    """Whether a value under this name of a variable, flag or key is a credential. Remembers nothing."""
    return _NAME.search(name) is not None


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


def is_harmless(value: str) -> bool:
    """Whether no name makes this value a secret."""
    return _HARMLESS.fullmatch(value) is not None


def is_pointer(name: str, value: str) -> bool:
    """Whether the name says where a credential lies, and the value is such a place."""
    return any(names.search(name) and values.fullmatch(value) for names, values in _POINTERS)


def is_address(value: str) -> bool:
    """Whether of this value under a secret name only the credential in it need be hidden."""
    return _ADDRESS.fullmatch(value) is not None

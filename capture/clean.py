"""A proof, by its texts alone, that in a value there is nothing to hide: many times faster than a walk. Pure.

A value's texts, names and values alike, are what stands between quotes in its canonical spelling. If each of them is
clean wherever it stands, and none that makes another text secret stands where it would, no walk could hide anything.
A cluster says the same texts over and over, so they are judged once and remembered; how a text is judged is
`capture.redact`'s. What is not proven is walked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import orjson

from capture.patterns import is_secret_field, makes_secret

_ROOM = 16_000_000  # Bytes of texts that are remembered.


class Judgement(NamedTuple):
    """`proven`: there is nothing to hide. `fresh`: texts judged for the first time that are clean, to be remembered."""

    proven: bool
    fresh: list[bytes]


class CleanTexts:
    """The texts that were judged clean. `is_inert` tells whether a text is clean wherever it stands, and hides nothing
    after it as a flag would; names of credentials are watched here."""

    def __init__(self, is_inert: Callable[[str], bool]) -> None:
        self._is_inert = is_inert
        self._inert: set[bytes] = set()
        self._naming: dict[bytes, bool] = {}  # Names of credentials, and whether a field of that name holds one.
        self._room = _ROOM

    def judge(self, spelled: bytes) -> Judgement:
        """What can be said of the value in this canonical spelling."""
        readable = _readable(spelled)
        if readable is None or (b'"kind":"Secret"' in spelled and b'ata":' in spelled):
            return Judgement(False, [])
        texts = readable.split(b'"')[1::2]
        fresh: list[bytes] = []
        proven = True
        if not self._inert.issuperset(texts):
            for text in set(texts) - self._inert:
                plain = _plain(text)
                if not self._is_inert(plain):
                    proven = False
                    continue
                fresh.append(text)
                field = is_secret_field(plain)
                if (field or makes_secret(plain)) and _hides(text, field, readable):
                    proven = False
        for text in self._naming.keys() & texts:
            if _hides(text, self._naming[text], readable):
                proven = False
        return Judgement(proven, fresh)

    def learn(self, judged: Judgement, spelled: bytes) -> None:
        """Remembers what was judged clean and still stands in `spelled`, the value as it was told: what stood beside
        the name of a secret does not, and is never kept."""
        readable = spelled if judged.proven else _readable(spelled) or b""
        for text in judged.fresh:
            if judged.proven or b'"' + text + b'"' in readable:
                self._room -= len(text) + 64
                if self._room < 0:
                    self._inert.clear()
                    self._naming.clear()
                    self._room = _ROOM
                self._inert.add(text)
                plain = _plain(text)
                field = is_secret_field(plain)
                if field or makes_secret(plain):
                    self._naming[text] = field


def _readable(spelled: bytes) -> bytes | None:
    """The spelling with escaped quotes as NULs, which JSON has none of, so that each quote left begins or ends a text;
    None where a backslash is escaped too."""
    if b"\\" not in spelled:
        return spelled
    return None if b"\\\\" in spelled else spelled.replace(b'\\"', b"\0")


def _plain(text: bytes) -> str:
    return str(orjson.loads(b'"' + text.replace(b"\0", b'\\"') + b'"'))


def _hides(text: bytes, field: bool, spelled: bytes) -> bool:
    """Whether the text is the name of a secret field, or may stand as `name` or `key` beside a `value`: keys are
    sorted, so that a value would follow its name before `valueFrom` or the end of the map."""
    if field and b'"' + text + b'":' in spelled:
        return True
    said = b'"name":"' + text + b'"'
    if said in spelled and spelled.count(said) != spelled.count(said + b',"valueFrom":') + spelled.count(said + b"}"):
        return True
    said = b'"key":"' + text + b'"'
    return said in spelled and spelled.count(said) != spelled.count(said + b',"name":') + spelled.count(said + b"}")

"""Free text without credentials: what has the shape of one, what is set under the name of one, packed copies. Pure.

Texts are messages, settings files, scripts. Of YAML, JSON, INI, properties, TOML and the like only names, marks,
quotes, lines and indentation are read, since half of what clusters hold is a template or cut short. What is taken for a
credential is `capture.patterns`; command lines are `capture.arguments`; where texts stand is `capture.redact`'s.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

from capture.patterns import ASSIGNMENT, MASK, SHAPES, Shape, is_exact, is_harmless, is_secret_name, makes_secret, stays

_DEEPEST = 4  # Copies within copies that are opened.
_PACKED = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}={0,2}")
_HEX = re.compile(r"[0-9a-f-]*\Z")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_READABLE = bytes(range(32, 127)) + b"\t\r\n"
_MANIFEST = re.compile(
    r"^[ \t]{0,32}(?:- )?[\"']?kind[\"']?[ \t]{0,8}:[ \t]{0,8}[\"']?Secret\b"
    r"|[{,]\s{0,32}\\{0,8}\"kind\\{0,8}\"\s{0,8}:\s{0,8}\\{0,8}\"Secret\\{0,8}\"",
    re.MULTILINE,
)
_MANIFEST_DATA = re.compile(r"\b(?:data|stringData)\\{0,8}[\"']?[ \t]{0,8}:\s{0,8}(?=\S)")
_DOCUMENT = re.compile(r"^---", re.MULTILINE)

_OWN_LINE = re.compile(r"[ \t\ufeff]*(?:- )*[ \t]*(?:(?:export|set|ENV|local|declare)[ \t]+)?[#;]*[ \t]*[\"'$]?")
_SCRIPT = re.compile(r"\A#!|^[ \t]{0,32}(?:set -[a-z]+|export \w{1,64}=|exec |fi\b|done\b|esac\b)", re.MULTILINE)
_QUOTE = re.compile(r"\\{0,8}(?:\"\"\"|'''|[\"'])")
_IN_DOUBLE = re.compile(r"(?:[^\"\\]|\\.)*+", re.DOTALL)
_IN_SINGLE = re.compile(r"(?:[^'\\]|\\.|'')*+", re.DOTALL)
_LIST = re.compile(r"\[(?P<inside>[^\[\]{}]{1,65536})\]")
_INLINE = re.compile(
    r"(?:\\\r?\n[ \t]{0,64}|\$\{[^{}]{1,128}\}|\{\{[^{}]{1,200}\}\}"
    r"|\$\([^()]{1,256}\)|`[^`\n]{1,256}`|[^\s\"',;&<>(){}\[\]\\`]|\\(?![\"'n])"
    r"|[(){}\[\]](?![\s,;:.]|\Z)|,(?!\s|[\w.-]{1,64}[=:]))++"
)
_PROSE = re.compile(r"[A-Za-z][a-z']{0,24}[.,]? [\"'A-Za-z0-9]")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?[ \t]*(?:#.*)?\Z")
_INNER = re.compile(r"[\"']?(?:value|data|content|plain|plaintext|literal)[\"']?[ \t]{0,8}[:=][ \t]{0,8}")
_MAP = re.compile(r"[\"']?[\w./-]{1,253}[\"']?[ \t]{0,8}:(?:\s|\Z)")


def decoded(value: str) -> bytes | None:
    """What a text in base64, in either alphabet, with or without its end, holds; None if it is none."""
    try:
        bare = value.rstrip("=").encode("ascii").translate(_URL_SAFE)
        return base64.b64decode(bare + b"=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


class Texts:
    """Hides in texts with the masks of `fingerprint`; `script` hides in the command lines of a text."""

    def __init__(self, fingerprint: Callable[[str], str], script: Callable[[str], str]) -> None:
        self._fingerprint = fingerprint
        self._script = script

    def hidden(self, text: str, depth: int = 0, *, command: bool = False) -> str:
        """The text without credentials; the same text where there are none. `command`: a line for a shell, in which a
        value ends with its word."""
        fresh = text if command else self._script(text)
        naming = makes_secret(text)
        for shape in SHAPES:
            if (naming or not shape.named) and shape.may_be_in(fresh):
                fresh = self._without(shape, fresh)
        if naming:
            fresh = self._settings(fresh, command=command or _SCRIPT.search(fresh) is not None)
        if "Secret" in fresh and _MANIFEST.search(fresh) and "ata" in fresh:
            fresh = self._manifests(fresh)
        if len(fresh) >= 20:
            fresh = _PACKED.sub(lambda found: self._packed(found[0], depth), fresh)
        return fresh if fresh != text else text

    def _without(self, shape: Shape, text: str) -> str:
        """The text with what has this shape masked: the group `secret`, or all of it."""
        parts = "secret" in shape.pattern.groupindex

        def masked(found: re.Match[str]) -> str:
            secret = found["secret"] if parts else None
            if secret is None:
                return self._fingerprint(found[0])
            bare = secret.strip("\"'")
            if (shape.harmless and is_harmless(bare)) or MASK.fullmatch(bare):
                return found[0]
            if shape.named and (not is_secret_name(found["name"]) or stays(found["name"], bare)):
                return found[0]
            start = found.start()
            before, after = found.start("secret") - start, found.end("secret") - start
            return found[0][:before] + self._fingerprint(secret) + found[0][after:]

        return shape.pattern.sub(masked, text)

    def _packed(self, word: str, depth: int) -> str:
        """A word that may be base64 of a text, which is judged as that text would be."""
        body = None if depth >= _DEEPEST or _HEX.match(word) else decoded(word)
        if not body:
            return word
        plain = body.replace(b"\0", b"")
        if len(plain.translate(None, _READABLE)) * 8 > len(plain):
            return word
        inside = plain.decode("latin-1")
        return word if self.hidden(inside, depth + 1) is inside else self._fingerprint(word)

    def _manifests(self, text: str) -> str:
        """Secrets, written out, are hidden document by document; of which no map is called data are references."""
        starts = [0, *(found.start() for found in _DOCUMENT.finditer(text) if found.start()), len(text)]
        out = []
        for start, end in pairwise(starts):
            one = text[start:end]
            whole = _MANIFEST.search(one) and _MANIFEST_DATA.search(one)
            out.append(self._manifest(one) if whole else one)
        return "".join(out)

    def _manifest(self, one: str) -> str:
        body = one.removeprefix("---").strip()
        return one.replace(body, self._fingerprint(body)) if body else one

    # -- settings

    def _settings(self, text: str, *, command: bool) -> str:
        """What is set under names of credentials, hidden: to the end of its quotes, its list, its block, its line or
        its word."""
        out: list[str] = []
        done = at = line = 0
        several = "\n" in text
        while (found := ASSIGNMENT.search(text, at)) is not None:
            line = max(line, text.rfind("\n", line, found.start()) + 1)
            at = found.end()
            name = found["name"].rstrip(".-")
            mark, quoted = found["mark"], text[at : at + 1] in ("'", '"')
            if mark == ":" and text[at : at + 1].strip() and not quoted and not is_exact(name):
                continue  # An image and its tag, or the like.
            spaced = mark != "=" or (not command and several and name[:1] != "-")
            alone = spaced and (several or "=" in mark) and _OWN_LINE.fullmatch(text, line, found.start()) is not None
            for start, end in _values(text, found, name, line if alone else None):
                bare = text[start:end]
                if not stays(name, bare) and not MASK.fullmatch(bare):
                    out += [text[done:start], self._fingerprint(bare)]
                    done = end
                at = max(at, end)
        return "".join([*out, text[done:]]) if out else text


def _values(text: str, found: re.Match[str], name: str, line: int | None) -> Iterator[tuple[int, int]]:
    """The places of what may be credentials, set at the end of `found`. `line`: where its line begins, if that is all
    its own."""
    at = found.end()
    quote = _QUOTE.match(text, at)
    if quote is not None:
        end = _closing(text, quote.end(), quote[0])
        yield quote.end(), end if end >= 0 else _end_of_line(text, quote.end())
        return
    listed = _LIST.match(text, at)
    if listed is not None:
        yield listed.span("inside")
        return
    if line is None:
        inline = _INLINE.match(text, at)
        if inline is not None and not (found["mark"][-1:] in " \t" and _PROSE.match(text, at)):
            yield at, at + len(inline[0].rstrip(".:!?") or inline[0])
        return
    end = _end_of_line(text, at)
    said = text[at:end].strip()
    if not said or _BLOCK.match(said):
        yield from _block(text, line, end, name, whole=bool(said))
        return
    if said[0] in "`$" and (inline := _INLINE.match(text, at)) is not None and is_harmless(inline[0], name):
        return  # The output of a command, and what is called with it.
    while text[end - 1] == "\\" and end < len(text):  # Goes on in the next line.
        end = _end_of_line(text, end + 1)
    last = at + len(text[at:end].rstrip().rstrip(",;"))
    if said[0] not in "{[(":
        yield at, last


def _block(text: str, line: int, at: int, name: str, *, whole: bool) -> Iterator[tuple[int, int]]:
    """What stands deeper below a line that ends at `at`: a text, a list of credentials, or a map with one."""
    deep = _column(text, line, marks=True)
    flat = _column(text, line)
    first = last = -1
    while at < len(text):
        start = at + 1
        end = _end_of_line(text, start)
        said = text[start:end].strip()
        column = _column(text, start)
        if said and column <= deep and not (not whole and said.startswith("- ") and column >= flat):
            break
        at = end
        if not said:
            continue
        begin = start + column
        if whole:
            first, last = begin if first < 0 else first, begin + len(said)
            continue
        if said.startswith("- "):
            begin += 2
        inner = _INNER.match(text, begin, end)
        if inner is not None:
            begin = inner.end()
        elif _MAP.match(text, begin, end):
            break
        value = text[begin:end].strip()
        bare = value.strip("\"'")
        if value and (begin > start + column or " " not in value):
            begin += text[begin:end].index(bare)
            yield begin, begin + len(bare)
    if first >= 0:
        yield first, last


def _closing(text: str, at: int, quote: str) -> int:
    """Where the quote that was opened before `at` is closed, -1 if it is not; escaped quotes close nothing."""
    if len(quote) == 1:
        inside = (_IN_DOUBLE if quote == '"' else _IN_SINGLE).match(text, at)
        end = at if inside is None else inside.end()
        return end if text[end : end + 1] == quote else -1
    found = _end_of(quote).search(text, at)
    return -1 if found is None else found.start()


@lru_cache(64)
def _end_of(quote: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\\){re.escape(quote)}")


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


_INDENT = re.compile(r"[ \t]*")
_MARKS = re.compile(r"[ \t]*(?:- )*")


def _column(text: str, line: int, *, marks: bool = False) -> int:
    """How deep the line stands that begins at `line`; with `marks`, those of list items count."""
    found = (_MARKS if marks else _INDENT).match(text, line)
    return found.end() - line if found is not None else 0

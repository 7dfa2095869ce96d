"""Command lines without credentials: the word after a flag, glued to it, or anywhere in a line for a shell. Pure.

A line for a shell is cut into commands and words as a shell would, those within quotes and substitutions too, and each
word is judged as one of a list of arguments would be. Which flags ask for a credential, of which programs, is the
table's (`capture.patterns`); what stands in a word besides is hidden as in any text (`capture.texts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from capture.patterns import CLIENTS, FLAGS, LONG_FLAG, is_exact, is_harmless, is_pointer, is_secret_name, stays
from capture.texts import Texts
from schema.canonical import Json

_DEEPEST = 6  # Commands within commands that are cut into words.
_WORD = re.compile(
    r"(?:[^\s;&|<>()'\"`\\$]|\$\((?:[^()]|\([^()]{0,256}\)){0,1024}+\)|\$|`[^`]{0,4096}+`|'[^']{0,65536}+'"
    r"|\"(?:[^\"\\]|\\.){0,65536}+\"|\\{1,8}+'[^'\\]{0,4096}+\\{1,8}+'|\\{1,8}+\"[^\"\\]{0,4096}+\\{1,8}+\"|\\[^\r\n]"
    r"|['\"`\\](?!\r?\n))++",
    re.DOTALL,
)
_AROUND = re.compile(r"\\{0,8}[\"']|`|\$\(")
_SUBSTITUTIONS = ("`", "$(")
_END = re.compile(r"[\n;&|]")
_CONTINUED = re.compile(r"\\\r?\n")
_NAME = re.compile(r"[\w.\[\]-]{1,256}\Z")
_FLAG = re.compile(r"--?[A-Za-z][A-Za-z-]{0,64}(?:=.*)?|-|--", re.DOTALL)
_SLASHED = re.compile(r"(?P<name>/[A-Za-z]{1,64}):(?P<secret>.+)", re.DOTALL)
_SPLIT = re.compile(r"[\s`(\"']+")
_FLAGS = frozenset(flag.flag for flag in FLAGS)
_NOBODY: frozenset[str] = frozenset()


class Arguments:
    """Hides in command lines with the masks of `fingerprint`."""

    def __init__(self, texts: Texts, fingerprint: Callable[[str], str]) -> None:
        self._texts = texts
        self._fingerprint = fingerprint

    def words(self, items: Sequence[Json], called: frozenset[str], depth: int = 0) -> list[Json]:
        """A list of words, of which `called` may be programs."""
        out: list[Json] = []
        before = ""  # The flag whose value comes next, if it is a credential.
        for item in items:
            if not isinstance(item, str):
                out.append(item)
                before = ""
            elif before and (item[:1] != "-" or (before[:2] == "--" and not _FLAG.fullmatch(item))):
                out.append(self._asked(before, item, called, depth))
                before = ""
            else:
                out.append(self.word(item, called, depth))
                asks = item[:1] == "-" and "=" not in item and " " not in item
                before = item if asks and (item in _FLAGS or is_secret_name(item)) else ""
        return out

    def word(self, item: str, called: frozenset[str] = _NOBODY, depth: int = 0) -> str:
        """One word, or a line for a shell."""
        name, mark, value = item.partition("=")
        blank = any(one in item for one in " \n\t`")
        alone = not blank or _WORD.fullmatch(item) is not None
        named = mark != "" and _NAME.match(name) is not None
        if named and is_secret_name(name) and (alone or name[:1] == "-"):
            return f"{name}={self._value(name, value, depth)}"
        glued = self._glued(item, called, depth, alone) if item[:1] == "-" else None
        if glued is not None:
            return glued
        if not alone:
            return self._whole(self.line(item, depth), depth)
        before, bare, after = _opened(value if named else item)
        if blank and (named or before in _SUBSTITUTIONS):
            inside = f"{before}{self.line(bare, depth + 1)}{after}"
            return self._whole(f"{name}={inside}" if named else inside, depth)
        slashed = _SLASHED.fullmatch(item)
        if slashed is not None and is_exact(slashed["name"]):
            return f"{slashed['name']}:{self._value(slashed['name'], slashed['secret'], depth)}"
        return self._whole(item, depth)

    def _glued(self, item: str, called: frozenset[str], depth: int, alone: bool) -> str | None:
        """A flag and what is glued to it; None if it is no flag that asks for a credential."""
        for flag in FLAGS:
            glued = item.removeprefix(flag.flag) if item.startswith(flag.flag) else ""
            if flag.flag[:2] == "--":
                glued = glued[1:] if glued[:1] == "=" else ""
            if glued and (flag.clients & called or (alone and not flag.after and not LONG_FLAG.match(glued))):
                return item.removesuffix(glued) + self._asked(flag.flag, glued, called, depth)
        return None

    def _whole(self, text: str, depth: int) -> str:
        """The text, hidden in as a text; what is a part of another is hidden with the other."""
        return text if depth else self._texts.hidden(text, command=True)

    def line(self, text: str, depth: int = 0) -> str:
        """A text for a shell, command by command; the same text where there is nothing to hide."""
        if depth > _DEEPEST:
            return text
        out: list[str] = []
        done = 0
        for command in _commands(text):
            parts = [_opened(found[0]) for found in command]
            inside = [part[1] for part in parts]
            fresh = self.words(inside, programs(inside), depth + 1)
            for found, (before, was, after), now in zip(command, parts, fresh, strict=True):
                if isinstance(now, str) and now != was:
                    out += [text[done : found.start()], before, now, after]
                    done = found.end()
        return "".join([*out, text[done:]]) if out else text

    def script(self, text: str) -> str:
        """A text that may call programs."""
        return self.line(text) if " -" in text and CLIENTS.search(text) else text

    def _value(self, name: str, value: str, depth: int) -> str:
        """What is set under the name of a credential."""
        before, bare, after = _opened(value)
        if before in _SUBSTITUTIONS:
            return before + self.line(bare, depth + 1) + after
        fresh = bare if stays(name, bare) else self._texts.hidden(bare)
        if stays(name, fresh):
            return before + (self.line(fresh, depth + 1) if "$(" in fresh or "`" in fresh else fresh) + after
        return before + self._fingerprint(bare) + after

    def _asked(self, flag: str, word: str, called: frozenset[str], depth: int) -> str:
        """The word that a flag asked for."""
        if flag not in _FLAGS:
            return self._value(flag, word, depth)
        before, bare, after = _opened(word)
        for one in FLAGS:
            # `-p` may make directories where no client is called, the others are their clients' only.
            if one.flag != flag or not (one.clients & called or one.is_likely(bare, called)):
                continue
            user, mark, rest = bare.partition(one.after) if one.after else ("", "", bare)
            rest = rest.strip("\\\"' ")
            if not rest or is_harmless(rest) or is_pointer(flag, rest):
                return word
            return before + user + mark + self._fingerprint(rest) + after
        return self.word(word, called, depth + 1) if depth <= _DEEPEST else word


def programs(words: Sequence[Json]) -> frozenset[str]:
    """The last path segments of all words, and of the words in those with blanks."""
    return frozenset(one.rpartition("/")[2] for word in words if isinstance(word, str) for one in _SPLIT.split(word))


def _commands(text: str) -> Iterator[list[re.Match[str]]]:
    """The words of a text, command by command."""
    words: list[re.Match[str]] = []
    for found in _WORD.finditer(text):
        if words and _END.search(_CONTINUED.sub("", text[words[-1].end() : found.start()])):
            yield words
            words = []
        words.append(found)
    if words:
        yield words


def _opened(word: str) -> tuple[str, str, str]:
    """What stands before, in and after the quotes or the substitution that a word is all of; nothing if it is not."""
    around = _AROUND.match(word)
    if around is None:
        return "", word, ""
    before = around[0]
    after = ")" if before == "$(" else before
    inside = word[len(before) : -len(after)]
    if len(word) < len(before) + len(after) or not word.endswith(after) or before in inside:
        return "", word, ""
    return before, inside, after

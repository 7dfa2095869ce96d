"""Secrets end here: every value that is or looks like a credential becomes a keyed fingerprint. Pure.

Equal values stay equal and nothing can be guessed back without the key. Places: Secret data, copies of the applied
object in annotations, env values and arguments, ConfigMap values, fields called after a credential, webhook CA bundles,
and free text. What is taken for one is `capture.patterns`. Redaction is copy-on-write and idempotent, so a redacted
recording replays to the same log. Texts found clean are remembered, since a cluster says the same ones over and over; a
text with anything to hide is never kept.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable

from capture.certificates import described, is_description
from capture.clean import CleanTexts
from capture.patterns import (
    FLAGS,
    LONG_FLAG,
    SECRET_FIELDS,
    SECRET_FLAG_IN_SHELL,
    SHAPES,
    is_address,
    is_harmless,
    is_pointer,
    is_secret_name,
    makes_secret,
)
from schema.canonical import Json, canonical

_MASK = re.compile(r"hmac:[0-9a-f]{16}")
_PLAIN = re.compile(r"[0-9a-fTZ:.+-]*\Z")
"""Times, addresses, digests, uids: letters of which no shape could be made."""
_ROOM = 16_000_000  # Characters of clean texts that are remembered.
_BARE = frozenset({"apiVersion", "kind"})
_FLAGS = tuple(flag.flag for flag in FLAGS)
_SENTENCES = frozenset({"args", "command"})


class Redactor:
    """Masks with one key. `key_id` names the key without telling it."""

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError("a redaction key has at least 16 bytes")
        self._key = key
        self.key_id = hmac.digest(key, b"key id", "sha256").hex()[:8]
        self._clean: set[str] = set()
        self._leaves: set[str] = set()
        self._texts = CleanTexts(self._is_inert)
        self._room = _ROOM

    def redact(self, obj: dict[str, Json], type: str) -> dict[str, Json]:
        """The object without credentials; the same object where there is nothing to hide."""
        return _each(obj, lambda name, value: self.section(name, value, type))

    def section(self, name: str, value: Json, type: str, spelled: bytes | None = None) -> Json:
        """One top-level field of an object of `type`: what is hidden in it depends on no other field. `spelled`, its
        canonical spelling if that is at hand, often shows that there is nothing, many times faster than a walk."""
        if name in _BARE:
            return value
        if name == "metadata":
            return self._metadata(value)
        if type == "core/Secret" and name in ("data", "stringData"):
            if isinstance(value, dict) and not _is_mask(value):
                return _each(value, self._secret)
            return self._fingerprint(value)
        if type == "core/ConfigMap" and isinstance(value, dict):
            if name == "data":
                return _each(value, self._named)
            if name == "binaryData":
                return _each(value, self._binary)
        if isinstance(value, dict | list):
            if spelled is None or SECRET_FIELDS[name]:
                return self._walk(value, name)
            judged = self._texts.judge(spelled)
            fresh = value if judged.proven else self._walk(value, name)
            if judged.fresh:
                self._texts.learn(judged, spelled if fresh is value else canonical(fresh))
            return fresh
        return self._leaf(value, name) if isinstance(value, str) else value

    def redact_text(self, text: str) -> str:
        """Free text without what has the shape of a credential."""
        if text in self._clean or _PLAIN.match(text):
            return text
        fresh = self._shaped(text)
        if fresh != text:
            return fresh
        self._spend(len(text))
        self._clean.add(text)
        return text

    def fingerprint(self, text: str) -> str:
        """A keyed fingerprint of a whole text, in one word."""
        return text if _MASK.fullmatch(text) else "hmac:" + self._mac(text.encode("utf-8", "surrogatepass"))

    # -- places

    def _metadata(self, meta: Json) -> Json:
        if not isinstance(meta, dict):
            return meta
        annotations = meta.get("annotations")
        if not isinstance(annotations, dict):
            return meta
        cleaned = _each(annotations, self._annotation)
        return meta if cleaned is annotations else {**meta, "annotations": cleaned}

    def _annotation(self, _: str, value: Json) -> Json:
        if not isinstance(value, str):
            return value
        if value.lstrip()[:1] in ("{", "[") and '"kind"' in value and '"apiVersion"' in value:
            return self.fingerprint(value)  # A copy of an object.
        return self.redact_text(value)

    def _secret(self, _: str, value: Json) -> Json:
        told = described(base64.b64decode(value)) if isinstance(value, str) and _is_base64(value) else None
        return self._fingerprint(value) if told is None else told

    def _binary(self, name: str, value: Json) -> Json:
        """What base64 of a ConfigMap holds is judged as its text would be; NULs between letters are no disguise."""
        if not isinstance(value, str) or not _is_base64(value):
            return self._named(name, value)
        text = base64.b64decode(value).replace(b"\0", b"").decode("latin-1")
        return value if self._named(name, text) is text else self._fingerprint(value)

    def _named(self, name: str, value: Json) -> Json:
        """A value under a name: hidden whole where the name says so, else only what has the shape of a credential."""
        if not isinstance(value, str):
            return value if _is_mask(value) else self._fingerprint(value)
        if _MASK.fullmatch(value):
            return value
        if not is_secret_name(name) or is_harmless(value) or is_pointer(name, value):
            return self.redact_text(value)
        fresh = self._shaped(value)
        return fresh if "hmac:" in fresh and is_address(value) else self._fingerprint(value)

    def _is_inert(self, text: str) -> bool:
        """Whether this text is clean wherever it stands, and hides nothing after it as a flag would."""
        if text[:1] == "-" and (text.startswith(_FLAGS) or makes_secret(text)):
            return False
        return _PLAIN.match(text) is not None or self._argument(text, frozenset()) == text

    def _walk(self, node: dict[str, Json] | list[Json], field: str) -> Json:
        """Every text below `node`, which is the value of `field`. This is where capture spends its time."""
        clean = self._leaves
        if isinstance(node, dict):
            out = node
            if "name" in node and isinstance(node.get("value"), str):
                out = self._pair(node)
            for name, value in out.items():
                if isinstance(value, str):
                    if value in clean and not SECRET_FIELDS[name]:
                        continue
                    fresh = self._leaf(value, name)
                elif isinstance(value, list) and name in _SENTENCES:
                    fresh = self._arguments(value, _programs(node))
                elif isinstance(value, dict | list):
                    fresh = self._walk(value, name)
                else:
                    continue
                if fresh is not value:
                    if out is node:
                        out = dict(node)
                    out[name] = fresh
            return out
        items: list[Json] | None = None
        for index, item in enumerate(node):
            if isinstance(item, str):
                fresh = item if item in clean and not SECRET_FIELDS[field] else self._leaf(item, field)
            elif isinstance(item, dict | list):
                fresh = self._walk(item, field)
            else:
                continue
            if fresh is not item:
                items = list(node) if items is None else items
                items[index] = fresh
        return node if items is None else items

    def _pair(self, node: dict[str, Json]) -> dict[str, Json]:
        """A name and its value side by side, as in env."""
        name, value = node["name"], node["value"]
        if isinstance(name, str):
            fresh = self._named(name, value)
            if fresh is not value:
                return {**node, "value": fresh}
        return node

    def _leaf(self, value: str, name: str) -> Json:
        if SECRET_FIELDS[name] and value:
            told = described(value.encode("utf-8", "replace"))
            if told is not None:
                return told
            return value if is_harmless(value) or _MASK.fullmatch(value) else self._fingerprint(value)
        short = len(value) < 12 and "://" not in value and "=" not in value
        fresh = value if short else self.redact_text(value)
        if fresh is value:
            self._spend(len(value))
            self._leaves.add(value)
        return fresh

    # -- arguments

    def _arguments(self, items: list[Json], programs: frozenset[str]) -> list[Json]:
        out: list[Json] = []
        before = ""  # The flag whose value comes next, if it is a credential.
        for item in items:
            if not isinstance(item, str):
                out.append(item)
                before = ""
                continue
            if before and not item.startswith("-"):
                stays = is_harmless(item) or is_pointer(before, item) or not _is_value(before, item, programs)
                out.append(item if stays else self.fingerprint(item))
                before = ""
                continue
            out.append(self._argument(item, programs))
            asks = item.startswith("-") and "=" not in item
            before = item if asks and (is_secret_name(item) or any(item == flag.flag for flag in FLAGS)) else ""
        return out if out != items else items

    def _argument(self, item: str, programs: frozenset[str]) -> str:
        if any(blank in item for blank in " \n\t"):
            item = self._hide(SECRET_FLAG_IN_SHELL, item, harmless=True)
            words = frozenset(item.replace("/", " ").split())
            for flag in FLAGS:
                if flag.clients & words:
                    item = self._hide(flag.in_shell, item, harmless=True)
            return self._shaped(item)
        name, mark, value = item.partition("=")
        if mark and is_secret_name(name):
            if is_harmless(value) or is_pointer(name, value):
                return self._shaped(item)
            fresh = self._shaped(value)
            return f"{name}={fresh if 'hmac:' in fresh and is_address(value) else self.fingerprint(value)}"
        for flag in FLAGS:
            glued = item.removeprefix(flag.flag) if item.startswith(flag.flag) else ""
            called = flag.clients & programs
            if glued and not is_harmless(glued) and (called or not LONG_FLAG.match(glued)):
                return flag.flag + self.fingerprint(glued) if _is_value(flag.flag, glued, programs) else item
        return self._shaped(item)

    # -- masks

    def _hide(self, pattern: re.Pattern[str], text: str, *, harmless: bool) -> str:
        """The text with what the pattern finds masked: the group `secret`, or all of it."""
        parts = "secret" in pattern.groupindex

        def masked(found: re.Match[str]) -> str:
            secret = found["secret"] if parts else None
            if secret is None:
                return self.fingerprint(found[0])
            if harmless and is_harmless(secret):
                return found[0]
            start = found.start()
            before, after = found.start("secret") - start, found.end("secret") - start
            return found[0][:before] + self.fingerprint(secret) + found[0][after:]

        return pattern.sub(masked, text)

    def _shaped(self, text: str) -> str:
        """The text without shapes of credentials, kept nowhere."""
        fresh = text
        for shape in SHAPES:
            if shape.may_be_in(fresh):
                fresh = self._hide(shape.pattern, fresh, harmless=shape.harmless)
        return fresh if fresh != text else text

    def _spend(self, length: int) -> None:
        """Makes room for one more remembered text."""
        self._room -= length + 64
        if self._room < 0:
            self._clean.clear()
            self._leaves.clear()
            self._room = _ROOM

    def _mac(self, body: bytes) -> str:
        return hmac.digest(self._key, body, "sha256").hex()[:16]

    def _fingerprint(self, value: Json) -> Json:
        if _is_mask(value):
            return value
        body = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else canonical(value)
        return {"redacted": f"hmac:{self._mac(body)}", "length": _class(len(body))}


def _each(values: dict[str, Json], hide: Callable[[str, Json], Json]) -> dict[str, Json]:
    """The values through `hide`, copied only when one of them moved."""
    out = values
    for name, value in values.items():
        fresh = hide(name, value)
        if fresh is not value:
            if out is values:
                out = dict(values)
            out[name] = fresh
    return out


def _programs(container: dict[str, Json]) -> frozenset[str]:
    """The last path segments of every word of a container's command and arguments."""
    found = (container.get(name) for name in _SENTENCES)
    words = (word for part in found if isinstance(part, list) for word in part if isinstance(word, str))
    return frozenset(word.rpartition("/")[2] for word in words)


def _is_value(flag: str, word: str, programs: frozenset[str]) -> bool:
    """Whether a word at this flag is a credential: `-p` may make directories where no client is called, `-a` is one of
    its clients only."""
    for one in FLAGS:
        if one.flag == flag:
            return bool(one.clients & programs) or (flag == "-p" and word[:1] not in ("/", ".", "="))
    return True


def _is_base64(value: str) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_mask(value: Json) -> bool:
    if isinstance(value, dict) and value.keys() == {"redacted", "length"}:
        return _MASK.fullmatch(str(value["redacted"])) is not None
    return is_description(value)


def _class(length: int) -> str:
    """A length told roughly: the next power of two, at least 16."""
    return f"<={max(16, 1 << max(0, length - 1).bit_length())}"

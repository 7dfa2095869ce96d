"""Secrets end here: every value that is or looks like a credential becomes a keyed fingerprint. Pure.

Equal values stay equal and nothing can be guessed back without the key. Places: Secret data, copies of the applied
object in annotations, env values and arguments, ConfigMap values, fields called after a credential, webhook CA bundles,
and free text. What is taken for one is `capture.patterns`. Redaction is copy-on-write and idempotent, so a redacted
recording replays to the same log. Texts found clean are remembered, since a cluster says the same ones over and over; a
text with anything to hide is never kept.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable

from capture.arguments import Arguments, programs
from capture.certificates import described, is_description
from capture.clean import CleanTexts
from capture.patterns import (
    FLAGS,
    MASK,
    SECRET_FIELDS,
    is_exact,
    is_harmless,
    is_reference,
    is_secret_name,
    makes_secret,
    stays,
)
from capture.texts import Texts, decoded
from schema.canonical import Json, canonical

_LENGTH = re.compile(r"<=(?:16|32|64|128|256|512|[1-9][0-9]{3,9})")
_PLAIN = re.compile(r"[0-9a-fTZ:.+-]*\Z")
"""Times, addresses, digests, uids: letters of which no shape could be made."""
_ROOM = 16_000_000  # Characters of clean texts that are remembered.
_BARE = frozenset({"apiVersion", "kind"})
_FLAGS = tuple(flag.flag for flag in FLAGS)
_SENTENCES = ("args", "Args", "command", "Command", "script", "entrypoint")
"""How fields that hold command lines are called, or end."""
_VALUES = frozenset({"value", "plain", "plaintext", "literal", "data", "content"})
"""How a credential is called in a map that stands under its name."""
_NAMING = frozenset({"name", "namespace", "uid", "generateName", "creationTimestamp", "deletionTimestamp"})
"""Of the metadata: who an object is, and when it was."""
_OPEN = frozenset({"metadata", "type", "immutable"})
"""Of a Secret: what is no secret."""


class Redactor:
    """Masks with one key. `key_id` names the key without telling it."""

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError("a redaction key has at least 16 bytes")
        self._key = key
        self.key_id = hmac.digest(key, b"key id", "sha256").hex()[:8]
        self._clean: set[str] = set()
        self._leaves: set[str] = set()
        self._proofs = CleanTexts(self._is_inert)
        self._texts = Texts(self.fingerprint, self._script)
        self._arguments = Arguments(self._texts, self.fingerprint)
        self._room = _ROOM

    def redact(self, obj: dict[str, Json], type: str) -> dict[str, Json]:
        """The object without credentials; the same object where there is nothing to hide."""
        return _each(obj, lambda name, value: self.section(name, value, type))

    def section(self, name: str, value: Json, type: str, spelled: bytes | None = None) -> Json:
        """One top-level field of an object of `type`: what is hidden in it depends on no other field. `spelled`, its
        canonical spelling if that is at hand, often shows that there is nothing, many times faster than a walk."""
        if name in _BARE:
            return value
        if type == "core/Secret" and name not in _OPEN:
            return self._secrets(value)
        if type == "core/ConfigMap" and name in ("data", "binaryData") and isinstance(value, dict):
            return _each(value, self._named if name == "data" else self._binary)
        if isinstance(value, dict | list):
            if spelled is None or SECRET_FIELDS[name]:
                return self._section(value, name)
            judged = self._proofs.judge(spelled)
            fresh = value if judged.proven else self._section(value, name)
            if judged.fresh:
                self._proofs.learn(judged, spelled if fresh is value else canonical(fresh))
            return fresh
        return self._leaf(value, name) if isinstance(value, str) else value

    def redact_text(self, text: str) -> str:
        """Free text without what has the shape of a credential."""
        if text in self._clean or _PLAIN.match(text):
            return text
        fresh = self._shaped(text)
        if fresh is not text:
            return fresh
        self._spend(len(text))
        self._clean.add(text)
        return text

    def fingerprint(self, text: str) -> str:
        """A keyed fingerprint of a whole text, in one word."""
        return text if MASK.fullmatch(text) else "hmac:" + self._mac(text.encode("utf-8", "surrogatepass"))

    # -- places

    def _section(self, value: dict[str, Json] | list[Json], name: str) -> Json:
        if name == "metadata" and isinstance(value, dict):
            return _each(value, lambda part, inner: inner if part in _NAMING else self._value(part, inner))
        return self._walk(value, name)

    def _value(self, name: str, value: Json) -> Json:
        """Any value under the name of a field."""
        if name == "annotations" and isinstance(value, dict):
            return _each(value, self._annotation)
        if isinstance(value, str):
            return self._leaf(value, name)
        return self._walk(value, name) if isinstance(value, dict | list) else value

    def _annotation(self, name: str, value: Json) -> Json:
        if not isinstance(value, str):
            return self._value(name, value)
        if _is_copy(value):
            return self.fingerprint(value)
        return self._leaf(value, name.rpartition("/")[2])

    def _secrets(self, value: Json) -> Json:
        """What a Secret holds."""
        if isinstance(value, dict) and not _is_mask(value):
            return _each(value, self._secret)
        return value if value is None else self._fingerprint(value)

    def _secret(self, _: str, value: Json) -> Json:
        body = decoded(value) if isinstance(value, str) else None
        told = None if body is None else described(body)
        return self._fingerprint(value) if told is None else told

    def _binary(self, name: str, value: Json) -> Json:
        """What base64 of a ConfigMap holds is judged as its text would be; NULs between letters are no disguise."""
        body = decoded(value) if isinstance(value, str) else None
        if body is None:
            return self._named(name, value)
        text = body.replace(b"\0", b"").decode("latin-1")
        return value if self._named(name, text) is text else self._fingerprint(value)

    def _named(self, name: str, value: Json) -> Json:
        """A value under a name: hidden whole where the name says so, else only what has the shape of a credential."""
        if not isinstance(value, str):
            return value if _is_mask(value) else self._fingerprint(value)
        if MASK.fullmatch(value):
            return value
        if not is_secret_name(name) or stays(name, value):
            return self.redact_text(value)
        fresh = self._shaped(value)
        return fresh if stays(name, fresh) else self._fingerprint(value)

    def _script(self, text: str) -> str:
        return self._arguments.script(text)

    def _shaped(self, text: str) -> str:
        """The text without what it says of credentials, kept nowhere; the same text where there is nothing."""
        fresh = self._texts.hidden(text)
        return text if fresh == text else fresh

    def _is_inert(self, text: str) -> bool:
        """Whether this text is clean wherever it stands, and hides nothing after it as a flag would."""
        if text[:1] == "-" and (text.startswith(_FLAGS) or makes_secret(text)):
            return False
        if _PLAIN.match(text):
            return True
        if _is_copy(text) or self._arguments.word(text) != text:
            return False
        return not makes_secret(text) or self._shaped(text) is text

    def _walk(self, node: dict[str, Json] | list[Json], field: str) -> Json:
        """Every text below `node`, which is the value of `field`. This is where capture spends its time."""
        clean = self._leaves
        if isinstance(node, dict):
            out = node
            if "value" in node and ("name" in node or "key" in node):
                out = self._pair(node)
            for name, value in out.items():
                if isinstance(value, str):
                    if value in clean and not SECRET_FIELDS[name]:
                        continue
                    fresh = self._leaf(value, "" if SECRET_FIELDS[name] and is_reference(field) else name)
                elif isinstance(value, dict | list):
                    fresh = self._below(name, value, node)
                elif type(value) is int and SECRET_FIELDS[name] and is_exact(name):
                    fresh = self._fingerprint(value)
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
                fresh = self._leaf(item, field)
            elif isinstance(item, dict | list):
                fresh = self._walk(item, field)
            else:
                continue
            if fresh is not item:
                items = list(node) if items is None else items
                items[index] = fresh
        return node if items is None else items

    def _below(self, name: str, value: dict[str, Json] | list[Json], node: dict[str, Json]) -> Json:
        """A map or list under the name of a field of `node`."""
        if isinstance(value, list):
            if not name.endswith(_SENTENCES):
                return self._walk(value, name)
            first = node.get("command") if name == "args" else None
            whole = [*first, *value] if isinstance(first, list) else value
            said = [
                one for key, part in node.items() if key.endswith(_SENTENCES) and isinstance(part, list) for one in part
            ]
            fresh = self._arguments.words(whole, programs(said))[len(whole) - len(value) :]
            return self._walk(value if fresh == value else fresh, name)
        if _is_mask(value):
            return value
        if name == "annotations":
            return _each(value, self._annotation)
        if name in ("data", "stringData") and node.get("kind") == "Secret":
            return self._secrets(value)
        if SECRET_FIELDS[name]:
            return _each(value, lambda key, inner: self._value(name if key in _VALUES else key, inner))
        return self._walk(value, name)

    def _pair(self, node: dict[str, Json]) -> dict[str, Json]:
        """A name and its value side by side, as in env."""
        name, value = node["name"] if "name" in node else node["key"], node["value"]
        if isinstance(name, str) and isinstance(value, str):
            fresh = self._named(name, value)
            if fresh is not value:
                return {**node, "value": fresh}
        return node

    def _leaf(self, value: str, name: str) -> Json:
        if value in self._leaves and not SECRET_FIELDS[name]:
            return value
        if value and SECRET_FIELDS[name]:
            told = described(value.encode("utf-8", "replace"))
            if told is not None:
                return told
            return value if is_harmless(value, name) or MASK.fullmatch(value) else self._fingerprint(value)
        if name.endswith(_SENTENCES):
            return self._arguments.word(value)
        short = len(value) < 12 and "://" not in value and "=" not in value
        fresh = value if short else self.redact_text(value)
        if fresh is value and self._is_inert(value):
            self._spend(len(value))
            self._leaves.add(value)
        return fresh

    # -- masks

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


def _is_copy(text: str) -> bool:
    """Whether a text is a copy of an object."""
    return text.lstrip()[:1] in ("{", "[") and '"kind"' in text and '"apiVersion"' in text


def _is_mask(value: Json) -> bool:
    if isinstance(value, dict) and value.keys() == {"redacted", "length"}:
        return bool(MASK.fullmatch(str(value["redacted"])) and _LENGTH.fullmatch(str(value["length"])))
    return is_description(value)


def _class(length: int) -> str:
    """A length told roughly: the next power of two, at least 16."""
    return f"<={max(16, 1 << max(0, length - 1).bit_length())}"

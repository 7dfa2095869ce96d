"""Secrets end here: every value that is or looks like a credential becomes a keyed fingerprint. Pure.

Equal values stay equal and nothing can be guessed back without the key. Places: Secret data, copies of the applied
object in annotations, env values and arguments, ConfigMap values, webhook CA bundles, and free text. Redaction is
copy-on-write and idempotent, so a redacted recording replays to the same log. Texts found clean are remembered, since
a cluster says the same ones over and over; a text with anything to hide is never kept.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from hashlib import sha256

from schema.canonical import Json, canonical

_NAME = re.compile(
    r"passw|passphrase|secret|token|api[-_.]?key|apikey|credential|private[-_.]?key|access[-_.]?key|\bpwd\b|_pwd|auth_?key|dsn\b",
    re.IGNORECASE,
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s/@:]*):([^\s/@]+)@")
_SHAPES = re.compile(
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"  # JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bgithub_pat_[A-Za-z0-9_]{20,}\b"
    r"|\bglpat-[A-Za-z0-9_-]{16,}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}\b|\bAIza[A-Za-z0-9_-]{30,}\b|\bsk_live_[A-Za-z0-9]{16,}\b"
)
_ASSIGNED = re.compile(
    r"((?:passw(?:or)?d|passphrase|secret|token|api[-_]?key|credentials?|pwd)[A-Za-z0-9_-]*[\"']?\s*[=:]\s*[\"']?)"
    r"([^\s\"',;&]+)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"(?:[A-Za-z0-9.-]+:\d{1,5}|[+-]?\d+(?:\.\d+)?|(?:\d+(?:ns|us|ms|s|m|h|d))+|true|false|)\Z", re.IGNORECASE
)
_MASK = re.compile(r"hmac:[0-9a-f]{16}")
_BARE = frozenset({"apiVersion", "kind"})
_SECRET_KEYS = frozenset({"data", "stringData"})
_CONFIG_KEYS = frozenset({"data", "binaryData"})
_UNWALKED = {"core/Secret": _SECRET_KEYS | _CONFIG_KEYS, "core/ConfigMap": _SECRET_KEYS | _CONFIG_KEYS}
_PLAIN = re.compile(r"[0-9a-fTZ:.+-]*\Z")
"""Times, addresses, digests, uids: letters of which no pattern above could be made."""
_ROOM = 16_000_000  # Characters of clean texts that are remembered.


class Redactor:
    """Masks with one key. `key_id` names the key without telling it."""

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError("a redaction key has at least 16 bytes")
        self._key = key
        self.key_id = hmac.new(key, b"key id", sha256).hexdigest()[:8]
        self._clean: set[str] = set()
        self._leaves: set[str] = set()
        self._room = _ROOM

    def redact(self, obj: dict[str, Json], type: str) -> dict[str, Json]:
        """The object without credentials; the same object where there is nothing to hide."""
        return _each(obj, lambda name, value: self.section(name, value, type))

    def section(self, name: str, value: Json, type: str) -> Json:
        """One top-level field of an object of `type`: what is hidden in it depends on no other field."""
        if name in _BARE:
            return value
        if name == "metadata":
            return self._metadata(value)
        if name in _UNWALKED.get(type, ()):
            if type == "core/Secret" and name in _SECRET_KEYS:
                hide = self._fingerprint
                return _each(value, lambda _, one: hide(one)) if isinstance(value, dict) else hide(value)
            if type == "core/ConfigMap" and name in _CONFIG_KEYS and isinstance(value, dict):
                return _each(value, lambda key, one: self._shaped(one, key))
            return value
        if isinstance(value, dict | list):
            return self._walk(value, name)
        return self._leaf(value, name) if isinstance(value, str) else value

    def redact_text(self, text: str) -> str:
        """Free text without what has the shape of a credential."""
        if text in self._clean or _PLAIN.match(text):
            return text
        fresh = _URL.sub(lambda found: f"{found[1]}:{self._token(found[2])}@", text)
        fresh = _SHAPES.sub(lambda found: self._token(found[0]), fresh)
        fresh = _ASSIGNED.sub(
            lambda found: found[0] if _HARMLESS.match(found[2]) else found[1] + self._token(found[2]), fresh
        )
        if fresh != text:
            return fresh
        self._remember(text, self._clean)
        return text

    def _remember(self, text: str, clean: set[str]) -> None:
        self._room -= len(text) + 64
        if self._room < 0:
            self._clean.clear()
            self._leaves.clear()
            self._room = _ROOM
        clean.add(text)

    def _metadata(self, meta: Json) -> Json:
        if not isinstance(meta, dict):
            return meta
        annotations = meta.get("annotations")
        if not isinstance(annotations, dict):
            return meta
        cleaned = _each(annotations, lambda _, value: self._annotation(value))
        return meta if cleaned is annotations else {**meta, "annotations": cleaned}

    def _walk(self, node: dict[str, Json] | list[Json], field: str) -> Json:
        """Every text below `node`, which is the value of `field`. This is where capture spends its time."""
        clean = self._leaves
        if isinstance(node, dict):
            out = node
            if field == "env" or ("name" in node and isinstance(node.get("value"), str)):
                out = self._named_value(node)
            for name, value in out.items():
                if isinstance(value, str):
                    if value in clean and name != "caBundle":
                        continue
                    fresh = self._leaf(value, name)
                elif isinstance(value, dict | list):
                    fresh = self._walk(value, name)
                else:
                    continue
                if fresh is not value:
                    if out is node:
                        out = dict(node)
                    out[name] = fresh
            return out
        if field in ("args", "command"):
            return self._arguments(node)
        items: list[Json] | None = None
        for index, item in enumerate(node):
            if isinstance(item, str):
                fresh = item if item in clean and field != "caBundle" else self._leaf(item, field)
            elif isinstance(item, dict | list):
                fresh = self._walk(item, field)
            else:
                continue
            if fresh is not item:
                items = list(node) if items is None else items
                items[index] = fresh
        return node if items is None else items

    def _named_value(self, node: dict[str, Json]) -> dict[str, Json]:
        name, value = node.get("name"), node.get("value")
        if isinstance(name, str) and isinstance(value, str):
            fresh = self._shaped(value, name)
            if fresh is not value:
                return {**node, "value": fresh}
        return node

    def _leaf(self, value: str, name: str) -> Json:
        if name == "caBundle":
            return self._fingerprint(value)
        short = len(value) < 12 and "://" not in value and "=" not in value
        fresh = value if short else self.redact_text(value)
        if fresh is value:
            self._remember(value, self._leaves)
        return fresh

    def _arguments(self, items: list[Json]) -> list[Json]:
        out: list[Json] = []
        secret_next = False
        for item in items:
            if not isinstance(item, str):
                out.append(item)
                secret_next = False
            elif secret_next and not item.startswith("-") and not _HARMLESS.match(item):
                out.append(self._token(item))
                secret_next = False
            else:
                flag, mark, value = item.partition("=")
                if mark and _NAME.search(flag) and not _HARMLESS.match(value):
                    out.append(f"{flag}={self._token(value)}")
                else:
                    out.append(self.redact_text(item))
                secret_next = not mark and item.startswith("-") and _NAME.search(item) is not None
        return items if out == items else out

    def _shaped(self, value: Json, name: str) -> Json:
        """A value under a name: hidden whole where the name says so, else only what has the shape of a credential."""
        if not isinstance(value, str):
            return value if _is_mask(value) else self._fingerprint(value)
        fresh = self.redact_text(value)
        if fresh is not value or _MASK.fullmatch(value):
            return fresh
        if (
            _NAME.search(name)
            and not _HARMLESS.match(value)
            and "\n" not in value.strip()
            and not value.startswith("$(")
        ):
            return self._fingerprint(value)
        return value

    def _annotation(self, value: Json) -> Json:
        if not isinstance(value, str):
            return value
        if value.lstrip()[:1] in ("{", "[") and '"kind"' in value and '"apiVersion"' in value:
            return self._token(value)
        return self.redact_text(value)

    def fingerprint(self, text: str) -> str:
        """A keyed fingerprint of a whole text, in one word."""
        return self._token(text)

    def _token(self, text: str) -> str:
        return text if _MASK.fullmatch(text) else "hmac:" + self._mac(text.encode("utf-8", "surrogatepass"))

    def _mac(self, body: bytes) -> str:
        return hmac.new(self._key, body, sha256).hexdigest()[:16]

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


def _is_mask(value: Json) -> bool:
    return (
        isinstance(value, dict) and value.keys() == {"redacted", "length"} and bool(_MASK.match(str(value["redacted"])))
    )


def _class(length: int) -> str:
    """A length told roughly: the next power of two, at least 16."""
    return f"<={max(16, 1 << max(0, length - 1).bit_length())}"

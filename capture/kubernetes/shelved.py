"""How what is known of objects is written on the shelf: packed JSON, and back.

Not written are the prints of fields as they were sent (they are of one process, see `capture.normalise`) and owners of
fields that cannot be stored or may show a credential in the key of a list: without them the next state is redacted
afresh, and told of whom its own times name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from capture.kubernetes.gone import Predecessor
from capture.kubernetes.watched import Known
from capture.normalise import Prepared
from schema.canonical import Json
from schema.identity import Key
from schema.kinds import class_of
from schema.packing import NEWEST, Packer
from schema.records import ObjectRef, SourceVersion, Valid, trusted

_ITEM = re.compile(r'"[kv]:((?:[^"\\]|\\.)*)"')
"""The key or value of an item of a list, in the spelling of managedFields."""


class Codec:
    """`redact_text`: what text looks like without credentials; text that it changes is not written."""

    def __init__(self, redact_text: Callable[[str], str]) -> None:
        self._redact_text = redact_text
        self._packer = Packer(level=3, checked=True)

    def known(self, known: Known) -> tuple[int, bytes]:
        """Its size when it is spelled out, and packed."""
        valid = known.valid
        told = [valid.not_before, valid.not_after, valid.clock, valid.model_extra or None]
        return self._pack([told, known.whole_at, known.changes, *self._prepared(known.prepared)])

    def known_again(self, key: Key, body: bytes) -> tuple[int, Known]:
        """Raises ValueError where these are not the bytes that were written."""
        raw = self._packer.unpack(NEWEST, body)
        (not_before, not_after, clock, more), whole_at, changes, *rest = orjson.loads(raw)
        valid = trusted(Valid, {"not_before": not_before, "not_after": not_after, "clock": clock}, more)
        return len(raw), Known(_prepared_again(key, rest), valid, whole_at, changes)

    def predecessor(self, one: Predecessor) -> bytes:
        return self._pack([one.watch, one.version, *self._prepared(one.prepared._replace(managed=[]))])[1]

    def predecessor_again(self, key: Key, body: bytes) -> Predecessor:
        """Raises ValueError where these are not the bytes that were written."""
        watch, version, *rest = orjson.loads(self._packer.unpack(NEWEST, body))
        return Predecessor(_prepared_again(key, rest), watch, version)

    def _pack(self, told: list[object]) -> tuple[int, bytes]:
        raw = orjson.dumps(told)
        return len(raw), self._packer.pack(raw)

    def _prepared(self, one: Prepared) -> list[object]:
        said = one.source_version
        return [
            one.ref.uid, one.digest, [said.version, said.generation, said.served, said.last_applied, said.anew],
            sorted(one.hidden), one.state, self._owners(one.managed),
        ]  # fmt: skip

    def _owners(self, managed: list[dict[str, Json]]) -> list[Json]:
        try:
            text = orjson.dumps(managed).decode()
        except orjson.JSONEncodeError:
            return []
        if any(self._redact_text(item) != item for item in _ITEM.findall(text)):
            return []
        return [*managed]


def _prepared_again(key: Key, told: list[Any]) -> Prepared:
    uid, digest, (version, generation, served, last_applied, anew), hidden, state, managed = told
    ref = trusted(
        ObjectRef,
        {
            "source": key.source, "scope": key.scope, "type": key.type, "kind": key.kind, "class_": class_of(key.type),
            "namespace": key.namespace, "name": key.name, "uid": uid,
        },
    )  # fmt: skip
    said = {"version": version, "generation": generation, "served": served, "last_applied": last_applied, "anew": anew}
    return Prepared(ref, key, state, digest, trusted(SourceVersion, said), managed, frozenset(hidden), {}, None)

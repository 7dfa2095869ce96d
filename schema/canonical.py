"""One spelling and one hash for JSON values: digests of states, ids of records, oids of keys.

Everything here must give the same result for ever and on every machine: ids in logs depend on it.
"""

from __future__ import annotations

from hashlib import blake2b, sha256

import orjson

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def canonical(value: object) -> bytes:
    """The one spelling of a JSON value: sorted keys, no blanks, UTF-8."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest(value: object) -> str:
    """128 bits of the SHA-256 of the canonical spelling, as 32 hex digits."""
    return digest_of(canonical(value))


def digest_of(spelled: bytes) -> str:
    """The digest of a value that is in its canonical spelling already. Of states by the kilobyte, SHA-256 is what
    processors have instructions for."""
    return sha256(spelled).hexdigest()[:32]


def hash128(*parts: str) -> str:
    """128-bit hash of some strings, kept apart by a byte that UTF-8 cannot hold; 32 hex digits."""
    return blake2b(b"\xff".join([part.encode("utf-8", "surrogatepass") for part in parts]), digest_size=16).hexdigest()


def hash64(text: str) -> int:
    """Signed 64-bit hash of a string: the compact id of a key (`oid`) or of an edge (`eid`)."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)

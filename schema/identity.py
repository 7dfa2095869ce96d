"""Who is who: the key of an object, the reference that records carry, and the ids derived from them.

A key is (source, scope, type, namespace, name); at any instant at most one object holds it. An incarnation of it is a
uid. `type` is `group/Kind`, the core group spelled `core`. The text form has always six segments:
`kubernetes/lab/apps/Deployment/shop/cart`, `-` for no namespace, `/` and `%` inside a segment (and a namespace that is
`-`) percent-encoded.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from schema.canonical import hash64, hash128
from schema.errors import BadKey


class Key(NamedTuple):
    """One object's key; `str()` gives the text form that stores and answers use."""

    source: str
    scope: str
    type: str
    namespace: str | None
    name: str

    def __str__(self) -> str:
        return _text(self)

    @property
    def kind(self) -> str:
        return self.type.rpartition("/")[2]

    @property
    def source_scope(self) -> str:
        """`source/scope`, as logs, coverage and questions name a scope."""
        return f"{self.source}/{self.scope}"


@lru_cache(maxsize=32_768)  # The same few keys are written again and again; about 500 bytes each.
def _text(key: Key) -> str:
    group, _, kind = key.type.partition("/")
    parts = [_quote(key.source), _quote(key.scope), _quote(group), _quote(kind)]
    if not key.namespace:
        parts.append("-")
    else:
        parts.append("%2D" if key.namespace == "-" else _quote(key.namespace))
    return "/".join([*parts, _quote(key.name)])


def parse_key(text: str) -> Key:
    """The key of a six-segment text form. Raises BadKey."""
    parts = text.split("/")
    if len(parts) != 6 or not all(parts):
        raise BadKey(f"not an object key: {text[:200]!r}", hint="write SOURCE/SCOPE/GROUP/KIND/NAMESPACE/NAME")
    source, scope, group, kind, namespace, name = parts
    return Key(
        _unquote(source),
        _unquote(scope),
        f"{_unquote(group)}/{_unquote(kind)}",
        None if namespace == "-" else _unquote(namespace),
        _unquote(name),
    )


def type_of(api_version: str, kind: str) -> str:
    """`apps/v1`, `Deployment` → `apps/Deployment`; `v1`, `Pod` → `core/Pod`."""
    group, slash, _ = api_version.rpartition("/")
    return f"{group if slash else 'core'}/{kind}"


def oid(key: Key | str) -> int:
    """64-bit id of a key; stores check it for collision."""
    return hash64(str(key))


def change_id(
    key: Key,
    uid: str | None,
    op: str,
    version: str | None = None,
    *,
    base: str | None = None,
    digest: str | None = None,
    anew: int | None = None,
) -> str:
    """Id of a change or state: the same input has the same id for ever, and what differs has another.

    Within one stretch of an incarnation (since `anew`, see SourceVersion) versions grow, so each names one transition
    between two states. A delete ends the stretch, and carries nothing else: one that the watch saw and the same one
    found by a relist, which did not see the last version, are one."""
    stretch = "" if anew is None else str(anew)
    if op == "delete":
        return hash128(str(key), uid or "", op, stretch)
    return hash128(str(key), uid or "", op, stretch, version or "", base or "", digest or "")


def edge_id(predicate: str, src: str, dst: str, discriminator: str) -> int:
    """64-bit id of an edge: hash of predicate, both keys and what tells parallel edges apart."""
    return hash64("\n".join((predicate, src, dst, discriminator)))


def _quote(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F") if "/" in text or "%" in text else text


def _unquote(text: str) -> str:
    return text.replace("%2F", "/").replace("%2D", "-").replace("%25", "%") if "%" in text else text

"""Edges that one stored state implies by itself.

Every rule is a function of (reference, state) that yields facts; which rules a type has stands at the end. Rules that
read a pod or a pod template are in `store.derive.pods`, those of delivery and catalogue in `store.derive.origin`.
"""

from __future__ import annotations

from collections.abc import Iterator

from schema.records import ObjectRef
from store.derive.facts import EdgeFact, State, fact, key_in, made_up, maps, owner_key, text


def contains(ref: ObjectRef, _state: State) -> Iterator[EdgeFact]:
    if ref.namespace:
        where = key_in(ref, "core/Namespace", ref.namespace)
    else:
        where = made_up(ref, "Cluster", ref.scope)
    yield fact("CONTAINS", where, ref.key, "contains@1")


def owns(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    for owner in maps(state, "metadata", "ownerReferences"):
        key = owner_key(ref, owner)
        if key is not None:
            uid = text(owner, "uid")
            attrs: State = {"uid": uid, "controller": owner.get("controller") is True}
            yield fact("OWNS", key, ref.key, "owns@1", discriminator=uid, attrs=attrs)


_EVERY = (contains, owns)


def derive(ref: ObjectRef, state: State) -> list[EdgeFact]:
    """Every edge that the state implies, each (predicate, source, target, discriminator) once."""
    if ref.class_ == "Evidence":
        return []
    found: dict[tuple[str, str, str, str], EdgeFact] = {}
    for rule in _EVERY:
        for edge in rule(ref, state):
            found.setdefault((edge.predicate, edge.src, edge.dst, edge.discriminator), edge)
    return list(found.values())

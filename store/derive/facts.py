"""What deriving gives, and the small tools every rule uses: edge facts, facets, safe reading of untrusted states.

A state is what an API server sent: any field may be missing or of another shape. The readers here give an empty value
then, so that rules never raise over odd input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from schema.canonical import Json
from schema.identity import Key, edge_id, type_of
from schema.kinds import class_of
from schema.predicates import check, legal
from schema.records import ObjectRef

State = dict[str, Json]


class EdgeFact(NamedTuple):
    """One relation that follows from a state or a pair of states; `src` and `dst` are keys as text."""

    predicate: str
    src: str
    dst: str
    discriminator: str
    attrs: dict[str, Json]
    basis: str
    confidence: float
    rule: str

    @property
    def name(self) -> tuple[str, str, str, str]:
        """What tells the edge from all others; `eid` is its hash."""
        return self.predicate, self.src, self.dst, self.discriminator

    @property
    def eid(self) -> int:
        """The 64-bit id under which ledgers keep the edge."""
        return edge_id(self.predicate, self.src, self.dst, self.discriminator)


Named = dict[tuple[str, str, str, str], EdgeFact]
"""Facts by name."""


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement of a label selector."""

    key: str
    operator: str
    values: frozenset[str]


class Clause(NamedTuple):
    """One named selector of an object: a webhook of a configuration, or the only selector there is.

    `need` are the labels that it asks for by value, as nearly all do; `terms` the other requirements.
    """

    name: str
    need: frozenset[tuple[str, str]]
    terms: tuple[Term, ...]
    facts: tuple[tuple[str, str], ...] = ()

    def meets(self, labels: frozenset[tuple[str, str]]) -> bool:
        """Whether labels meet every requirement."""
        return self.need <= labels and (not self.terms or _hold(self.terms, dict(labels)))


class Address(NamedTuple):
    """One host that a template names. `path` is the field of object `of` (key as text: the workload, or a ConfigMap)
    that says so, `via` the field of the workload that takes it from there, `parts` the fields that were put into it by
    `$(NAME)` or say its port, each as `OBJECT PATH`. `form`: see `store.derive.hosts.FORMS`."""

    host: str
    port: int | None
    form: str
    path: str
    of: str
    via: str = ""
    parts: tuple[str, ...] = ()


class Facet(NamedTuple):
    """All that one side of a join needs to know of an object. Only facets of one bucket can match, and an object shows
    at most one for each bucket. `said`: addresses that can be of the bucket's Service, and whether as one of its pods.
    """

    bucket: tuple[str, ...]
    key: Key
    labels: frozenset[tuple[str, str]] = frozenset()
    clauses: tuple[Clause, ...] = ()
    facts: tuple[str, ...] = ()
    said: tuple[tuple[Address, bool], ...] = ()


def clause(name: str, terms: Iterable[Term], facts: tuple[tuple[str, str], ...] = ()) -> Clause:
    """A selector out of all its requirements."""
    need: set[tuple[str, str]] = set()
    rest: list[Term] = []
    for term in terms:
        if term.operator == "In" and len(term.values) == 1:
            (value,) = term.values
            need.add((term.key, value))
        else:
            rest.append(term)
    return Clause(name, frozenset(need), tuple(rest), facts)


def _hold(terms: tuple[Term, ...], labels: dict[str, str]) -> bool:
    """Whether labels meet every requirement; an operator that Kubernetes does not have is met by nothing."""
    for term in terms:
        value = labels.get(term.key)
        if term.operator == "In":
            good = value is not None and value in term.values
        elif term.operator == "NotIn":
            good = value is None or value not in term.values
        elif term.operator == "Exists":
            good = value is not None
        else:
            good = term.operator == "DoesNotExist" and value is None
        if not good:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join: which types can stand there, and what a state of such a type shows."""

    accepts: Callable[[str], bool]
    facets: Callable[[ObjectRef, State], tuple[Facet, ...]]

    def __call__(self, ref: ObjectRef, state: State) -> tuple[Facet, ...]:
        return self.facets(ref, state) if self.accepts(ref.type) else ()


@dataclass(frozen=True, slots=True)
class JoinRule:
    """A rule over pairs of objects of one scope."""

    id: str
    left: Side
    right: Side
    match: Callable[[Facet, Facet], list[EdgeFact]]


def one(facet: Callable[[ObjectRef, State], Facet | None]) -> Callable[[ObjectRef, State], tuple[Facet, ...]]:
    """A side that shows at most one facet."""

    def facets(ref: ObjectRef, state: State) -> tuple[Facet, ...]:
        return () if (found := facet(ref, state)) is None else (found,)

    return facets


def fact(
    predicate: str, src: Key, dst: Key, rule: str, *, discriminator: str = "", attrs: State | None = None,
    basis: str = "declared", confidence: float = 1.0,
) -> EdgeFact:  # fmt: skip
    """An edge fact; raises IllegalEdge when the ontology does not know the predicate between these classes."""
    _check(predicate, src.type, dst.type)
    return EdgeFact(predicate, str(src), str(dst), discriminator, attrs or {}, basis, confidence, rule)


@lru_cache(maxsize=4096)
def _check(predicate: str, src: str, dst: str) -> None:
    check(predicate, class_of(src), class_of(dst))


def may(predicate: str, src: Key, dst: Key) -> bool:
    """Whether both keys can be written and the pair is legal: asked where a user may name any kind, as an object must
    not be refused for what it names."""
    return sound(src) and sound(dst) and legal(predicate, class_of(src.type), class_of(dst.type))


def sound(key: Key) -> bool:
    """Whether the text form of the key can be read back: a group, a kind and a name, nothing more."""
    group, slash, kind = key.type.partition("/")
    return bool(group and slash and kind and "/" not in kind and key.name)


def at(node: Json, *path: str) -> Json:
    """The value at a path of map keys, None when it is not there."""
    for step in path:
        if not isinstance(node, dict):
            return None
        node = node.get(step)
    return node


def text(node: Json, *path: str) -> str:
    """The string at a path, empty when there is none."""
    for step in path:
        if not isinstance(node, dict):
            return ""
        node = node.get(step)
    return node if isinstance(node, str) else ""


def maps(node: Json, *path: str) -> Iterator[State]:
    """The maps in the list at a path."""
    value = at(node, *path)
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield item


def strings(node: Json, *path: str) -> dict[str, str]:
    """The map of strings at a path: labels, annotations, a plain selector."""
    value = at(node, *path)
    return {k: v for k, v in value.items() if isinstance(v, str)} if isinstance(value, dict) else {}


_CLUSTER_SCOPED = frozenset(
    {
        "core/Node", "core/Namespace", "core/PersistentVolume", "storage.k8s.io/StorageClass",
        "apiextensions.k8s.io/CustomResourceDefinition", "apiregistration.k8s.io/APIService",
        "rbac.authorization.k8s.io/ClusterRole", "rbac.authorization.k8s.io/ClusterRoleBinding",
        "scheduling.k8s.io/PriorityClass", "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io/MutatingWebhookConfiguration",
    }
)  # fmt: skip


def key_in(ref: ObjectRef, type_: str, name: str, namespace: str | None = None) -> Key:
    """The key of another object of the same scope, cluster-scoped where its type says so."""
    return Key(ref.source, ref.scope, type_, None if type_ in _CLUSTER_SCOPED else namespace, name)


def made_up(ref: ObjectRef, kind: str, name: str, namespace: str | None = None) -> Key:
    """The key of a thing that Kubernetes has no object for: a container, an image, a user."""
    return Key(ref.source, ref.scope, f"hindgraph.io/{kind}", namespace, name)


def owner_key(ref: ObjectRef, owner: State) -> Key | None:
    """The key of an owner reference, None when it does not name one."""
    type_ = type_of(text(owner, "apiVersion"), text(owner, "kind"))
    key = key_in(ref, type_, text(owner, "name"), ref.namespace)
    return key if sound(key) else None


def controller_of(state: State) -> State | None:
    """The owner reference that controls the object."""
    return next(
        (owner for owner in maps(state, "metadata", "ownerReferences") if owner.get("controller") is True), None
    )

"""Whom a workload calls, by the addresses that it is given: a join of templates with the Services that they name.

A template stands in a bucket for each Service that one of its addresses can be; the ConfigMaps that it reads decide
with it which these are (`store.derive.sides` says when they are asked for). An edge is there while both are. Observed
calls are told by evidence, not here.
"""

from __future__ import annotations

from collections import defaultdict

from schema.identity import Key
from schema.records import ObjectRef
from store.derive.addresses import Lender, Lent, Template, said, template_of
from store.derive.facts import Address, EdgeFact, Facet, State, fact, text
from store.derive.hosts import FORMS, candidates

RULE = "calls-address@1"
_FROM_CONFIG = 0.9  # A file can name what its reader never asks for.


def call_facets(template: Template, lender: Lender) -> tuple[Facet, ...]:
    """A facet for each Service that the template's addresses can be."""
    by: dict[tuple[str, ...], list[tuple[Address, bool]]] = defaultdict(list)
    for address in said(template, lender).addresses:
        for target in candidates(address.host, template.key.namespace or ""):
            by[template.key.scope, target.namespace, target.name].append((address, target.pod))
    return tuple(Facet(bucket, template.key, said=tuple(by[bucket])) for bucket in sorted(by))


def alone(ref: ObjectRef, state: State) -> tuple[Facet, ...]:
    """The same for an object to which no ConfigMap lends anything."""
    template = template_of(ref, state)
    return () if template is None else call_facets(template, nobody)


def nobody(_: Key) -> Lent | None:
    """The lender where there is no ConfigMap."""
    return None


def service_facet(ref: ObjectRef, state: State) -> Facet | None:
    """A Service by its name; only a headless one has names for its pods."""
    headless = text(state, "spec", "clusterIP") == "None"
    return Facet((ref.scope, ref.namespace or "", ref.name), ref.key, facts=("headless",) if headless else ())


def calls(left: Facet, right: Facet) -> list[EdgeFact]:
    """An edge for each address of the template that is this Service."""
    return [
        _call(left, right, address) for address, pod in left.said if not pod or right.facts == ("headless",)
    ]  # fmt: skip


def _call(left: Facet, right: Facet, address: Address) -> EdgeFact:
    attrs: State = {"host": address.host, "form": address.form, "path": address.path}
    mark = address.path
    if address.port is not None:
        attrs["port"] = address.port
    if address.via:
        attrs |= {"of": address.of, "via": address.via}
        mark = f"{address.via} < {address.of} {address.path}"
    if address.parts:
        attrs["parts"] = [*address.parts]
    declared = address.form == "service name"
    confidence = FORMS[address.form]
    return fact(
        "CALLS", left.key, right.key, RULE, discriminator=f"{mark} {address.host}:{address.port or ''}", attrs=attrs,
        basis="declared" if declared else "inferred",
        confidence=confidence if declared or not address.via else round(confidence * _FROM_CONFIG, 2),
    )  # fmt: skip

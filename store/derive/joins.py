"""Rules over two objects of one scope: label selectors, ownership over one step, revisions, definitions of kinds, and
calls by name (`store.derive.calls`).

Each side first becomes a facet: the little that the rule needs. Facets are compared only inside one bucket, and a
change that leaves an object's facet as it was touches no pair. Taints against tolerations and joins across scopes are
left to questions, which work them out on the slice.
"""

from __future__ import annotations

from collections.abc import Callable

from schema.canonical import Json
from schema.identity import type_of
from schema.kinds import class_of
from schema.records import ObjectRef
from store.derive.calls import RULE, alone, calls, service_facet
from store.derive.facts import (
    Clause,
    EdgeFact,
    Facet,
    JoinRule,
    Side,
    State,
    Term,
    at,
    clause,
    controller_of,
    fact,
    maps,
    one,
    owner_key,
    strings,
    text,
)

# Groups that the API server serves by itself: no definition of theirs is there to meet.
_BUILT_IN = frozenset(
    f"{name}.k8s.io"
    for name in (
        "admissionregistration", "apiextensions", "apiregistration", "authentication", "authorization", "certificates",
        "coordination", "discovery", "events", "flowcontrol.apiserver", "internal.apiserver", "networking", "node",
        "rbac.authorization", "resource", "scheduling", "storage", "storagemigration",
    )
)  # fmt: skip
_WEBHOOKS = {
    "admissionregistration.k8s.io/ValidatingWebhookConfiguration": "deny",
    "admissionregistration.k8s.io/MutatingWebhookConfiguration": "mutate",
}


def terms_of(selector: Json) -> tuple[Term, ...] | None:
    """The requirements of a LabelSelector; an empty one selects everything, a missing one nothing (None)."""
    if not isinstance(selector, dict):
        return None
    terms = [Term(key, "In", frozenset({value})) for key, value in sorted(strings(selector, "matchLabels").items())]
    for item in maps(selector, "matchExpressions"):
        values = item.get("values")
        wanted = frozenset(v for v in values if isinstance(v, str)) if isinstance(values, list) else frozenset()
        terms.append(Term(text(item, "key"), text(item, "operator"), wanted))
    return tuple(terms)


def _selector(ref: ObjectRef, state: State) -> Facet | None:
    if ref.type == "core/Service":
        plain = strings(state, "spec", "selector")
        terms = terms_of({"matchLabels": dict(plain)}) if plain else None
    elif ref.type == "policy/PodDisruptionBudget":
        terms = terms_of(at(state, "spec", "selector"))
    else:
        terms = terms_of(at(state, "spec", "podSelector") or {})
    if terms is None:
        return None
    return Facet((ref.scope, ref.namespace or ""), ref.key, clauses=(clause("", terms),))


def _pod_labels(ref: ObjectRef, state: State) -> Facet | None:
    return Facet((ref.scope, ref.namespace or ""), ref.key, frozenset(strings(state, "metadata", "labels").items()))


def _template_labels(ref: ObjectRef, state: State) -> Facet | None:
    owner = controller_of(state)
    over = owner_key(ref, owner) if owner is not None else None
    if over is not None and _makes_pods(over.type):
        return None  # a ReplicaSet of a Deployment would only say again what its Deployment says
    job = at(state, "spec", "jobTemplate") if ref.type == "batch/CronJob" else state
    template = at(job, "spec", "template")
    if not isinstance(template, dict):
        return None
    return Facet((ref.scope, ref.namespace or ""), ref.key, frozenset(strings(template, "metadata", "labels").items()))


def _selects(by: str) -> Callable[[Facet, Facet], list[EdgeFact]]:
    rule = f"selects-{by}@1"

    def match(left: Facet, right: Facet) -> list[EdgeFact]:
        if not left.clauses[0].meets(right.labels):
            return []
        return [fact("SELECTS", left.key, right.key, rule, discriminator=by, attrs={"by": by}, basis="inferred")]

    return match


def _middle(ref: ObjectRef, state: State) -> Facet | None:
    """A ReplicaSet or Job that a workload controls: the step between the workload and its pods."""
    owner = controller_of(state)
    over = owner_key(ref, owner) if owner is not None else None
    if not ref.uid or owner is None or over is None or not _makes_pods(over.type):
        return None
    return Facet((ref.scope, ref.namespace or "", ref.uid), over, facts=(str(ref.key), text(owner, "uid")))


def _controlled_pod(ref: ObjectRef, state: State) -> Facet | None:
    uid = text(controller_of(state), "uid")
    return Facet((ref.scope, ref.namespace or "", uid), ref.key) if uid else None


def _runs(left: Facet, right: Facet) -> list[EdgeFact]:
    over, owner_uid = left.facts
    attrs: State = {"over": over, "owner_uid": owner_uid}
    # The step's key and not only its uid: an edge must be of one pair, even where two objects claim one uid.
    mark = f"{left.bucket[2]} {over}"
    return [fact("RUNS", left.key, right.key, "runs-over@2", discriminator=mark, attrs=attrs, basis="inferred")]


def _revision(ref: ObjectRef, state: State) -> Facet | None:
    uid = text(controller_of(state), "uid")
    number = text(state, "metadata", "annotations", "deployment.kubernetes.io/revision")
    if not uid or not (number.isascii() and number.isdigit()) or len(number) > 18:
        return None
    return Facet((ref.scope, ref.namespace or "", uid), ref.key, facts=(str(int(number)),))


def _succeeds(left: Facet, right: Facet) -> list[EdgeFact]:
    mine, theirs = int(left.facts[0]), int(right.facts[0])
    if mine != theirs + 1 or left.key == right.key:
        return []
    return [fact("SUCCEEDS", left.key, right.key, "succeeds@1", attrs={"revision": mine}, basis="observed")]


def _webhooks(ref: ObjectRef, state: State) -> Facet | None:
    clauses: dict[str, Clause] = {}
    for hook in maps(state, "webhooks"):
        scopes = [text(rule, "scope") or "*" for rule in maps(hook, "rules")]
        if not scopes or all(scope == "Cluster" for scope in scopes):
            continue
        name = text(hook, "name")
        facts = (("failure_policy", text(hook, "failurePolicy") or "Fail"), ("webhook", name))
        # A missing selector selects every namespace here, other than in a budget.
        clauses.setdefault(name, clause(name, terms_of(at(hook, "namespaceSelector") or {}) or (), facts))
    return (
        Facet((ref.scope,), ref.key, clauses=tuple(clauses.values()), facts=(_WEBHOOKS[ref.type],)) if clauses else None
    )


def _namespace(ref: ObjectRef, state: State) -> Facet | None:
    labels = {"kubernetes.io/metadata.name": ref.name, **strings(state, "metadata", "labels")}
    return Facet((ref.scope,), ref.key, frozenset(labels.items()))


def _constrains(left: Facet, right: Facet) -> list[EdgeFact]:
    found = []
    for hook in left.clauses:
        if hook.meets(right.labels):
            attrs: State = {"effect": left.facts[0], **dict(hook.facts)}
            found.append(
                fact(
                    "CONSTRAINS", left.key, right.key, "webhook-namespace@1", discriminator=hook.name, attrs=attrs,
                    basis="inferred",
                )
            )  # fmt: skip
    return found


def _custom(ref: ObjectRef, _state: State) -> Facet | None:
    return Facet((ref.scope, ref.type), ref.key)


def _definition(ref: ObjectRef, state: State) -> Facet | None:
    kind = text(state, "spec", "names", "kind")
    return Facet((ref.scope, type_of(text(state, "spec", "group") + "/-", kind)), ref.key) if kind else None


def _instance_of(left: Facet, right: Facet) -> list[EdgeFact]:
    return [fact("INSTANCE_OF", left.key, right.key, "instance-of@1")]


def _only(*types: str) -> Callable[[str], bool]:
    return frozenset(types).__contains__


def _makes_pods(type_: str) -> bool:
    return class_of(type_) == "Workload"


def _runs_something(type_: str) -> bool:
    return type_ == "core/Pod" or _makes_pods(type_)


def _defined(type_: str) -> bool:
    group = type_.partition("/")[0]
    return "." in group and group not in _BUILT_IN


_POD_LABELS, _POD_OWNER = Side(_only("core/Pod"), one(_pod_labels)), Side(_only("core/Pod"), one(_controlled_pod))
_SELECTOR = Side(_only("core/Service", "policy/PodDisruptionBudget", "networking.k8s.io/NetworkPolicy"), one(_selector))
_REVISION = Side(_only("apps/ReplicaSet"), one(_revision))

_WEBHOOK, _NAMESPACE = Side(_only(*_WEBHOOKS), one(_webhooks)), Side(_only("core/Namespace"), one(_namespace))
_DEFINITION = Side(_only("apiextensions.k8s.io/CustomResourceDefinition"), one(_definition))
_SERVICE = Side(_only("core/Service"), one(service_facet))

JOINS: tuple[JoinRule, ...] = (
    JoinRule("selects-pod@1", _SELECTOR, _POD_LABELS, _selects("pod")),
    JoinRule("selects-template@1", _SELECTOR, Side(_makes_pods, one(_template_labels)), _selects("template")),
    JoinRule("runs-over@2", Side(_only("apps/ReplicaSet", "batch/Job"), one(_middle)), _POD_OWNER, _runs),
    JoinRule("succeeds@1", _REVISION, _REVISION, _succeeds),
    JoinRule("webhook-namespace@1", _WEBHOOK, _NAMESPACE, _constrains),
    JoinRule("instance-of@1", Side(_defined, one(_custom)), _DEFINITION, _instance_of),
    JoinRule(RULE, Side(_runs_something, alone), _SERVICE, calls),
)
"""Every rule over pairs."""

"""What stands between a workload and its pods at the door: webhooks, quotas, limit ranges, pod security."""

from __future__ import annotations

from collections.abc import Iterator

from diagnose.check import Cited, Found, check
from diagnose.checks.containers import endings
from diagnose.checks.scheduling import newest
from diagnose.checks.symptoms import shortage, waits
from diagnose.placing import chosen
from diagnose.slices import GRACE, Made, Slice, beside
from diagnose.templates import (
    JOB,
    POD,
    REPLICA_SET,
    SERVING,
    WORKLOADS,
    containers,
    labels_of,
    lives,
    place,
    quantity,
    ready,
    spec_of,
    tops,
)
from schema.canonical import Json
from schema.identity import Key
from schema.records import Evidence
from store.derive.facts import State, at, maps, strings, text

VALIDATING = "admissionregistration.k8s.io/ValidatingWebhookConfiguration"
MUTATING = "admissionregistration.k8s.io/MutatingWebhookConfiguration"
_SERVICE, _SLICES, _SPACE = "core/Service", "discovery.k8s.io/EndpointSlice", "core/Namespace"
QUOTA, RANGE = "core/ResourceQuota", "core/LimitRange"
_MAKERS = (REPLICA_SET, JOB, "apps/StatefulSet", "apps/DaemonSet")


def refused(slice_: Slice, words: str) -> Iterator[tuple[Key, Evidence]]:
    """(root, what was heard) of each workload whose pods could not be created for a reason with these words, and that
    still lacks them."""
    told: set[Key] = set()
    for maker, state in slice_.of(*_MAKERS):
        heard = [one for one in slice_.heard(maker, "FailedCreate") if words in (one.message or "")]
        root = slice_.root(maker)
        if heard and root not in told and _short(maker, state):
            told.add(root)
            yield root, heard[-1]


def _short(maker: Key, state: State) -> bool:
    if maker.type == JOB:
        done = any(text(one, "type") in ("Complete", "Failed") for one in maps(state, "status", "conditions"))
        return not done and not at(state, "status", "active")
    return shortage(maker.type, state) is not None


def creates_pods(hook: State) -> bool:
    """Whether a webhook is asked when a pod is created."""
    for rule in maps(hook, "rules"):
        groups, kinds, operations = (_listed(rule, name) for name in ("apiGroups", "resources", "operations"))
        if {"", "*"} & groups and {"pods", "*", "*/*"} & kinds and {"CREATE", "*"} & operations:
            return True
    return False


def _listed(rule: State, name: str) -> set[str]:
    value = rule.get(name)
    return {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()


def _meets(slice_: Slice, hook: State, root: Key, state: State) -> bool:
    """Whether a webhook is asked for the pods of a workload."""
    space = beside(root, _SPACE, root.namespace or "")
    labels = {"kubernetes.io/metadata.name": space.name, **strings(slice_.state(space), "metadata", "labels")}
    near, thing = at(hook, "namespaceSelector"), at(hook, "objectSelector")
    return (not isinstance(near, dict) or chosen(near, labels)) and (
        not isinstance(thing, dict) or chosen(thing, labels_of(root, state))
    )


@check(
    "webhook-blocks", reads=(_SERVICE, _SLICES), also=(VALIDATING, MUTATING, _SPACE, *WORKLOADS),
    when="a webhook that must answer (failurePolicy Fail) is asked for the pods of a workload, and the Service behind "
    "it is not there or has no ready endpoint",
    why="no such pod can be created: those that go are not replaced",
    silent=(
        "failurePolicy is Ignore",
        "it is called by a URL: what is there was not recorded",
        "its Service lost its last endpoint within 10 s, as in a restart",
        "no workload's pods meet its rules and selectors",
        "another workload serves it again",
    ),
    fix="bring the webhook's Service back, or set failurePolicy to Ignore until it is",
    example="failurePolicy goes from Ignore to Fail, and nothing answers behind the Service",
)  # fmt: skip
def webhook_blocks(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(VALIDATING, MUTATING):
        for hook in maps(state, "webhooks"):
            service = at(hook, "clientConfig", "service")
            if text(hook, "failurePolicy") == "Ignore" or not isinstance(service, dict) or not creates_pods(hook):
                continue
            backend = beside(key, _SERVICE, text(service, "name"), text(service, "namespace"))
            down = _down(slice_, backend)
            if down is None:
                continue
            meant = [one for one, body in tops(slice_) if _meets(slice_, hook, one, body)]
            # What serves the webhook itself is not what it blocks, but its own pods may well be.
            path = f"webhooks[name={text(hook, 'name')}]"
            fields = ("failurePolicy", "rules", "namespaceSelector", "objectSelector", "clientConfig")
            made = slice_.changed(key, *(f"{path}.{each}" for each in fields))
            gone = [*slice_.deleted(backend), *down[1]]
            blamed = newest(*made, *gone)
            if not meant or (blamed and not slice_.lasts(blamed[0].at)):
                continue
            told = [heard for _, heard in refused(slice_, "webhook") if text(hook, "name") in (heard.message or "")]
            cited = (
                Cited(key, f"{path}.failurePolicy", hook.get("failurePolicy", "Fail")),
                Cited(backend, "", down[0]),
            )
            sentence = f"{text(hook, 'name')} must answer before a pod is created, and {backend.name} {down[0]}"
            yield Found(key, sentence, cited, blamed, tuple(meant), tuple(told[:1]))


def _down(slice_: Slice, service: Key) -> tuple[str, list[Made]] | None:
    """Why nothing answers behind a Service, and the change that made it so; None where something does."""
    if slice_.state(service) is None:
        return "is not there", []
    slices = [
        key
        for key, state in slice_.of(_SLICES)
        if key.namespace == service.namespace
        and text(state, "metadata", "labels", "kubernetes.io/service-name") == service.name
    ]
    ends = [one for key in slices for one in maps(slice_.state(key), "endpoints")]
    if any(at(one, "conditions", "ready") is not False for one in ends):
        return None
    return "has no ready endpoint", [made for key in slices for made in slice_.changed(key, "endpoints") if made.rows]


@check(
    "webhook-rewrites", reads=(POD, MUTATING), also=(*WORKLOADS, RANGE, _SPACE),
    when="a pod has other resources, image or environment than its template, is not well, and a webhook is asked when "
    "such pods are created",
    why="what runs is not what the workload says: its template is sound and its pods are not",
    silent=(
        "the pod is ready and was not killed for want of memory",
        "the webhook only adds: sidecars, variables, limits where the template has none",
        "a LimitRange or a VerticalPodAutoscaler explains it",
        "no webhook that changes pods was there when the pod was made",
    ),
    fix="narrow the webhook, or put right what it writes",
    example="a new webhook cuts limits.memory of each new pod to 24Mi; the template says 256Mi; the pod is OOMKilled",
)  # fmt: skip
def webhook_rewrites(slice_: Slice) -> Iterator[Found]:
    told: set[tuple[Key, Key]] = set()
    for pod, state in slice_.of(POD):
        root = slice_.root(pod)
        if not lives(state) or not _unwell(slice_, pod, state) or root == pod:
            continue
        rewritten = list(_rewritten(slice_, pod, state))
        born = slice_.created(pod)
        if not rewritten or any("vpa" in name.lower() for name in strings(state, "metadata", "annotations")):
            continue
        hooks = []
        for key, body in slice_.of(MUTATING):
            if any(
                creates_pods(one) and _meets(slice_, one, root, slice_.state(root) or {})
                for one in maps(body, "webhooks")
            ):
                made = slice_.changed(key, "webhooks")
                hooks.append((key, [one for one in made if not born or one.at <= born[0].at]))
        if not hooks:
            continue
        # The one that came or changed last before the pod; where none did, any of them may have done it.
        hooks.sort(key=lambda one: (-max((made.at for made in one[1]), default=0), str(one[0])))
        key, made = hooks[0]
        if (not made and len(hooks) > 1) or (root, key) in told:
            continue
        told.add((root, key))
        path, was, now = rewritten[0]
        cited = tuple(
            each
            for path, was, now in rewritten
            for each in (Cited(pod, f"spec.{path}", now), Cited(root, f"{place(root.type)}spec.{path}", was))
        )
        sentence = f"{path} of {root.name}'s pods is {now}, their template says {was}"
        yield Found(key, sentence, cited, tuple(made), (root, pod))


def _unwell(slice_: Slice, pod: Key, state: State) -> bool:
    """Whether a pod that is old enough to be well is not, or was killed for want of memory."""
    if any(text(ended, "reason") == "OOMKilled" for _, _, ended in endings(state)):
        return True
    born = slice_.created(pod)
    return not ready(state) and (
        next(waits(state), None) is not None or not born or slice_.lasts(born[0].at, 6 * GRACE)
    )


def _rewritten(slice_: Slice, pod: Key, state: State) -> Iterator[tuple[str, Json, Json]]:
    """(path, template's, pod's) of what a pod has otherwise than the template that it was made of."""
    makers = slice_.sources(pod, "OWNS")
    maker = next((one for one in makers if slice_.state(one) is not None), None)
    if maker is None:
        return
    mine = dict(containers(spec_of(pod, state)))
    for path, one in containers(spec_of(maker, slice_.state(maker) or {})):
        other = mine.get(path)
        if other is None:
            continue
        for kind in ("limits", "requests"):
            wanted, got = at(one, "resources", kind), at(other, "resources", kind)
            for name in wanted if isinstance(wanted, dict) else ():
                was, now = at(wanted, name), at(got, name)
                if quantity(was) != quantity(now):
                    yield f"{path}.resources.{kind}.{name}", was, now
        if text(one, "image") and text(one, "image") != text(other, "image"):
            yield f"{path}.image", one.get("image"), other.get("image")
        given = {text(entry, "name"): entry.get("value") for entry in maps(other, "env")}
        for entry in maps(one, "env"):
            name = text(entry, "name")
            if "value" in entry and given.get(name) != entry["value"]:
                yield f"{path}.env[name={name}].value", entry["value"], given.get(name)


@check(
    "quota-rejects", reads=(QUOTA,), also=(*WORKLOADS, POD),
    when="pods could not be created for a ResourceQuota, and are still missing; or a recorded change set a quota below "
    "what is used already",
    why="pods that go are not replaced, and nothing new comes",
    silent=(
        "there is room: less is used than allowed, and nothing was refused lately",
        "the workload that was refused has its pods by now",
        "a full quota that nobody asks more of",
    ),
    fix="allow more, or let the workloads ask for less",
    example="spec.hard.pods goes from 60 to 9, 12 pods are there; exceeded quota: shop-budget",
)  # fmt: skip
def quota_rejects(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(QUOTA):
        hard, used = at(state, "spec", "hard"), at(state, "status", "used")
        heard = [
            (root, one)
            for words in (f"exceeded quota: {key.name}", f"failed quota: {key.name}")
            for root, one in refused(slice_, words)
            if root.namespace == key.namespace
        ]
        over = []
        for name in hard if isinstance(hard, dict) else ():
            allowed, there = quantity(at(hard, name)), quantity(at(used, name))
            if allowed is not None and there is not None and there > allowed:
                over.append(name)
        made = [one for one in slice_.changed(key, "spec.hard") if one.rows or one.recorded.change.op == "create"]
        if not heard and not (over and made and slice_.lasts(made[0].at)):
            continue
        named = over or [
            name
            for name in (hard if isinstance(hard, dict) else ())
            if any(name in (one.message or "") for _, one in heard)
        ]
        cited = tuple(
            each
            for name in named
            for each in (
                Cited(key, f"spec.hard[{name}]", at(hard, name)),
                Cited(key, f"status.used[{name}]", at(used, name)),
            )
        )
        asked = [one for root, _ in heard for one in _grown(slice_, root)]
        what = (
            ", ".join(f"{at(used, name)} of {at(hard, name)} {name}" for name in named)
            or "what it demands is not declared"
        )
        sentence = f"{what} used in {key.namespace}; no more is created"
        yield Found(
            key, sentence, cited, newest(*made, *asked), tuple(root for root, _ in heard),
            tuple(one for _, one in heard[:1]),
        )  # fmt: skip


def _grown(slice_: Slice, root: Key) -> list[Made]:
    """The newest change by which a workload asks for more."""
    path = f"{place(root.type)}spec.containers[*].resources"
    return [one for one in slice_.changed(root, "spec.replicas", path) if one.rows]


@check(
    "limit-range-contradicts", reads=(RANGE, *SERVING), also=(POD, REPLICA_SET),
    when="a LimitRange allows a container less, or demands more, than a template asks for, and a recorded change made "
    "it so or a pod was refused for it",
    why="new pods of the workload are refused",
    silent=(
        "the template lies within the range",
        "the template says nothing of that resource: it gets the default",
        "the change is younger than 10 s",
        "the workload asks for no pods",
    ),
    fix="let range and template agree",
    example="max.memory goes to 128Mi, the template's limit is 256Mi",
)  # fmt: skip
def limit_range_contradicts(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(RANGE):
        for root, body in tops(slice_, *SERVING):
            if root.namespace != key.namespace:
                continue
            for path, bound, value, where in _outside(state, spec_of(root, body)):
                full = f"{place(root.type)}spec.{path}"
                made = newest(*slice_.changed(key, "spec.limits"), *(m for m in slice_.changed(root, full) if m.rows))
                heard = [one for maker, one in refused(slice_, "per Container") if maker == root]
                if not heard and (not made or not slice_.lasts(made[0].at)):
                    continue
                cited = (Cited(key, f"spec.limits.{where}", bound), Cited(root, full, value))
                sentence = f"{root.kind} {root.name} asks for {value} at {path}, the range has {where} {bound}"
                yield Found(made[0].key if made else key, sentence, cited, made, (root, key), tuple(heard[:1]))
                break


def _outside(state: State, spec: State) -> Iterator[tuple[str, Json, Json, str]]:
    """(path, bound, value, which bound) of what a pod spec asks for beyond a range."""
    for row in maps(state, "spec", "limits"):
        if text(row, "type") != "Container":
            continue
        for which, kinds in (("max", ("limits", "requests")), ("min", ("requests", "limits"))):
            bounds = row.get(which)
            for name, bound in (bounds if isinstance(bounds, dict) else {}).items():
                for path, one in containers(spec):
                    for kind in kinds:
                        value = at(one, "resources", kind, name)
                        number, limit = quantity(value), quantity(bound)
                        if number is None or limit is None:
                            continue
                        if (number > limit) if which == "max" else (number < limit):
                            yield f"{path}.resources.{kind}.{name}", bound, value, f"{which}.{name}"


@check(
    "pod-security-rejects", reads=(_SPACE,), also=(*WORKLOADS, POD),
    when="pods could not be created since they violate the level of pod security that their namespace enforces, and "
    "are still missing",
    why="pods that go are not replaced",
    silent=(
        "the workload has its pods by now",
        "the namespace only warns or audits",
        "nothing was heard of a refusal for 5 minutes",
    ),
    fix="let the template keep to the level, or enforce another",
    example="the label enforce goes to restricted; violates PodSecurity: allowPrivilegeEscalation != false",
)  # fmt: skip
def pod_security_rejects(slice_: Slice) -> Iterator[Found]:
    told: dict[Key, list[tuple[Key, Evidence]]] = {}
    for root, heard in refused(slice_, "violates PodSecurity"):
        told.setdefault(beside(root, _SPACE, root.namespace or ""), []).append((root, heard))
    for space, each in told.items():
        label = 'metadata.labels["pod-security.kubernetes.io/enforce"]'
        path = [f"{place(root.type)}spec" for root, _ in each]
        mine = [one for one in slice_.changed(space, label) if one.rows]
        theirs = [
            one
            for (root, _), where in zip(each, path, strict=True)
            for one in slice_.changed(root, f"{where}.containers[*].securityContext", f"{where}.securityContext",
                                      f"{where}.hostNetwork", f"{where}.volumes")
            if one.rows
        ]  # fmt: skip
        made = newest(*mine, *theirs)
        value = at(slice_.state(space), "metadata", "labels", "pod-security.kubernetes.io/enforce")
        sentence = (
            f"{space.name} enforces {value}, which the pods of {', '.join(root.name for root, _ in each)} violate"
        )
        yield Found(
            made[0].key if made else space, sentence, (Cited(space, label, value),), made,
            tuple(root for root, _ in each), tuple(heard for _, heard in each[:1]),
        )  # fmt: skip


CHECKS = (
    webhook_blocks, webhook_rewrites, quota_rejects, limit_range_contradicts, pod_security_rejects,
)  # fmt: skip

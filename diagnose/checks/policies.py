"""Who may reach whom: workloads that network policies cut off from what they call, or from who calls them.

How policies add up is `diagnose.reach`; who calls whom `diagnose.checks.calls`.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnose.check import Cited, Found, check
from diagnose.checks.calls import callers
from diagnose.checks.scheduling import newest
from diagnose.checks.services import SERVICE
from diagnose.checks.symptoms import selected
from diagnose.reach import POLICY, Pod, Way, allows, isolating, named_port, selects, ways
from diagnose.slices import Made, Slice, beside
from diagnose.templates import POD, WORKLOADS, lives, place, pods_of
from schema.identity import Key
from store.derive.facts import State, at, maps

_SPACE = "core/Namespace"
_DNS = 53
_Cut = dict[tuple[int, Way], tuple[Made, list[tuple[Key, Key, str]]]]
"""By the place of a change and the direction: who was cut off, from what, and what to call that."""


@check(
    "network-policy-isolates", reads=(POLICY, POD, SERVICE), also=(*WORKLOADS, _SPACE, "core/ConfigMap"),
    when="network policies do not let a workload reach a Service that it is given the address of, or DNS, which it "
    "needs for that; or let nobody at all reach a Service; and a recorded change made it so",
    why="the connection is dropped without a word: callers wait until they give up",
    silent=(
        "another policy allows it: they add up",
        "no recorded change of a policy or of labels made it so: not every address is dialled",
        "no pod of one side is there",
        "the change is younger than 10 s",
        "the peer is outside of the cluster",
    ),
    fix="let a policy allow what is needed, on both sides",
    example="a policy limits the egress of checkout to DNS; it can no longer reach payment",
)  # fmt: skip
def network_policy_isolates(slice_: Slice) -> Iterator[Found]:
    if next(slice_.of(POLICY), None) is None:
        return
    cut: _Cut = {}
    for service, state in slice_.of(SERVICE):
        behind = [Pod(key, body) for key, body in selected(slice_, service)]
        if not behind:
            continue
        edges = callers(slice_, service)
        for edge in edges:
            mine = [Pod(key, body) for key, body in pods_of(slice_, edge.src) if lives(body)]
            if not mine:
                continue
            port = edge.attrs.get("port")
            target, call = _target(state, port, behind[0]), (edge.src, service)
            _judge(slice_, cut, "Egress", mine[0], behind[0], target, behind[0], call)
            _judge(slice_, cut, "Ingress", behind[0], mine[0], target, behind[0], call)
            _names(slice_, cut, mine[0], edge.src)
        if not edges:
            _nobody(slice_, cut, behind, service)
    for (_, way), (made, each) in cut.items():
        verb = "reach" if way == "Egress" else "be reached by"
        who = dict.fromkeys(one for one, _, _ in each)
        whom = ", ".join(dict.fromkeys(what for _, _, what in each))
        sentence = f"{', '.join(f'{one.kind} {one.name}' for one in who)} can no longer {verb} {whom}"
        body = slice_.state(made.key)
        field = "spec" if made.key.type == POLICY else "metadata.labels"
        cited = (Cited(made.key, field, at(body, *field.split("."))),)
        others = dict.fromkeys(key for one, two, _ in each for key in (one, two))
        yield Found(made.key, sentence, cited, (made,), tuple(others))


def _target(service: State, port: object, pod: Pod) -> int | None:
    """The port of the pod that a port of its Service leads to; None where that is not known."""
    listed = list(maps(service, "spec", "ports"))
    one = next((each for each in listed if each.get("port") == port), listed[0] if len(listed) == 1 else None)
    target = one.get("targetPort") if one is not None else port
    if isinstance(target, str):
        number = named_port(pod, target)
        return None if number == -1 else number
    return target if isinstance(target, int) else None


def _judge(
    slice_: Slice, cut: _Cut, way: Way, end: Pod, other: Pod,
    port: int | None, to: Pod, call: tuple[Key, Key],
) -> None:  # fmt: skip
    """Note a call that the policies on one end do not allow, under the change that made it so."""
    policies = isolating(slice_, end, way)
    if policies and not allows(slice_, policies, way, other, port, to):
        caller, service = call
        out = way == "Egress"
        subject, what = (caller, f"Service {service.name}") if out else (service, f"{caller.kind} {caller.name}")
        for made in _why(slice_, way, end, other, policies):
            _note(cut, made, way, (subject, service if way == "Egress" else caller, what))


def _names(slice_: Slice, cut: _Cut, pod: Pod, root: Key) -> None:
    """Note that a workload may not ask for names."""
    policies = isolating(slice_, pod, "Egress")
    servers = [Pod(key, body) for key, body in slice_.of(POD) if _serves_names(body) and key.namespace == "kube-system"]
    if not policies or not servers:
        return
    if any(allows(slice_, policies, "Egress", servers[0], _DNS, servers[0], each) for each in ("UDP", "TCP")):
        return
    for made in _why(slice_, "Egress", pod, servers[0], policies):
        _note(cut, made, "Egress", (root, servers[0].key, "DNS"))


def _serves_names(pod: State) -> bool:
    return at(pod, "metadata", "labels", "k8s-app") == "kube-dns" and lives(pod)


def _nobody(
    slice_: Slice, cut: _Cut, behind: list[Pod], service: Key
) -> None:  # fmt: skip
    """Note a Service that no pod at all may reach."""
    policies = isolating(slice_, behind[0], "Ingress")
    if not policies:
        return
    rest = (Pod(key, state) for key, state in slice_.of(POD) if lives(state) and key not in {one.key for one in behind})
    if not any(allows(slice_, policies, "Ingress", other, None, behind[0]) for other in rest):
        for made in _why(slice_, "Ingress", behind[0], None, policies):
            _note(cut, made, "Ingress", (service, service, "anybody"))


def _note(cut: _Cut, made: Made, way: Way, told: tuple[Key, Key, str]) -> None:
    _, each = cut.setdefault((made.recorded.seq, way), (made, []))
    if told not in each:
        each.append(told)


def _why(slice_: Slice, way: Way, end: Pod, other: Pod | None, policies: list[tuple[Key, State]]) -> tuple[Made, ...]:
    """The newest change of a policy on one end, or of labels, by which it was cut off; if it has outlived its grace."""
    found = [made for key, _ in policies for made in slice_.changed(key, "spec")]
    for one in slice_.past.recent(POLICY):
        key = one.change.object.key
        if one.change.op == "delete" and key.namespace == end.key.namespace and slice_.state(key) is None:
            before = slice_.past.before(key, one.vf)
            if before is not None and way in ways(before) and selects(before, end.labels):
                found.append(Made(one))
    for each in (end, other):
        if each is not None:
            root = slice_.root(each.key)
            space = beside(each.key, _SPACE, each.key.namespace or "")
            found += [made for made in slice_.changed(root, f"{place(root.type)}metadata.labels") if made.rows]
            found += [made for made in slice_.changed(space, "metadata.labels") if made.rows]
    made = newest(*found)
    return made if made and slice_.lasts(made[0].at) else ()


CHECKS = (network_policy_isolates,)

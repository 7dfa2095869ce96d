"""Services and what stands behind them: what they select, and where their ports lead.

That nobody behind a Service is ready is a symptom (`symptoms`); who may reach it is `policies`, who calls it `calls`.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from diagnose.check import Cited, Found, check
from diagnose.checks.symptoms import selected
from diagnose.slices import Made, Slice, becomes
from diagnose.templates import CRON_JOB, JOB, POD, WORKLOADS, containers, labels_of, place, spec_of, tops
from schema.canonical import Json
from schema.identity import Key
from store.derive.facts import State, at, maps, strings, text

SERVICE = "core/Service"


def selector(service: State) -> dict[str, str]:
    """What a Service selects by; empty where it selects nothing of its own, as an ExternalName."""
    return {} if text(service, "spec", "type") == "ExternalName" else strings(service, "spec", "selector")


def ending(slice_: Slice, key: Key) -> bool:
    """Whether an object or its namespace is on its way out."""
    space = key._replace(type="core/Namespace", namespace=None, name=key.namespace or "")
    return any(
        at(slice_.state(one), "metadata", "deletionTimestamp") is not None for one in (key, space)
    )  # fmt: skip


@check(
    "service-selects-nothing", reads=(SERVICE, POD, *WORKLOADS),
    when="the selector of a Service matches no pod and no pod template of its namespace",
    why="such a Service has no endpoints: whoever calls it is refused at once",
    silent=(
        "it has no selector, or is an ExternalName",
        "a template matches that is scaled to zero, or whose pods cannot be made: other checks tell of that",
        "the change that took its pods away is younger than 10 s",
        "it was so before the recording and only one of its labels is missing: leader election labels pods like that",
        "it or its namespace is on its way out",
    ),
    fix="compare the selector with the labels of the pods that should serve, and put right whichever was changed",
    example="spec.selector gets lane: steady, which no pod carries; the pods behind it are well",
)  # fmt: skip
def service_selects_nothing(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(SERVICE):
        wanted = selector(state)
        if not wanted or slice_.out(key, "SELECTS") or ending(slice_, key):
            continue
        made = _newest([*slice_.changed(key, "spec.selector"), *_left(slice_, key, wanted)])
        near = {
            name
            for one, owner in _candidates(slice_, key)
            if len(missing := [each for each in wanted.items() if each not in labels_of(one, owner).items()]) == 1
            for name, _ in missing
        }
        if (near and not made) or (made and not slice_.lasts(made[0].at)):
            continue
        hint = f"; all but {', '.join(sorted(near))} match" if near else ""
        asked = ", ".join(f"{name}={value}" for name, value in sorted(wanted.items()))
        yield Found(key, f"nothing carries {asked}{hint}", (Cited(key, "spec.selector", {**wanted}),), made)


def _candidates(slice_: Slice, service: Key) -> Iterator[tuple[Key, State]]:
    return ((key, state) for key, state in tops(slice_) if key.namespace == service.namespace)


def _left(slice_: Slice, service: Key, wanted: dict[str, str]) -> list[Made]:
    """The newest change by which something that matched a selector ceased to."""
    found = []
    for type_ in (*WORKLOADS, POD):
        path = f"{place(type_)}metadata.labels"
        for one in slice_.past.recent(type_):
            key, change = one.change.object.key, one.change
            rows = tuple(row for row in change.fields if row.path.startswith(path))
            if key.namespace != service.namespace or not (change.op == "delete" or rows):
                continue
            if slice_.root(key) != key:
                continue
            before = slice_.past.before(key, one.vf)
            if before is not None and not at(before, "metadata", "ownerReferences"):
                labels = labels_of(key, before)
                if wanted.items() <= labels.items():
                    found.append(Made(one, rows))
                    break
    return found


def _newest(made: list[Made]) -> tuple[Made, ...]:
    return tuple(sorted(made, key=lambda one: (one.at, one.recorded.seq))[-1:])


# -- ports


@check(
    "service-port-unserved", reads=(SERVICE, POD),
    when="a Service's target port is a name that none of its pods declares; or a number that none of them declares, "
    "and a recorded change took the Service, or its pods, from a port that was declared",
    why="traffic for that port goes nowhere, or to a port on which nobody listens",
    silent=(
        "a number was there before: a container may listen on a port that it does not declare",
        "the Service is headless: its callers dial the pods",
        "one of its pods declares the port, as during a rollout",
        "it selects no pod",
    ),
    fix="let targetPort name a port that the pods declare",
    example="targetPort goes from https to 8444, while the pods declare https=8443 and metrics=9102",
)  # fmt: skip
def service_port_unserved(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(SERVICE):
        pods = selected(slice_, key)
        if not pods or not selector(state) or text(state, "spec", "clusterIP") == "None":
            continue
        ports = [port for _, pod in pods for port in declared(at(pod, "spec"))]
        there = ", ".join(sorted({f"{one.get('name', '-')}={one.get('containerPort')}" for one in ports})) or "none"
        for port in maps(state, "spec", "ports"):
            target = port.get("targetPort")
            if target is None or serves(ports, target):
                continue
            path = f"spec.ports[k:{_keyed(port)}].targetPort"
            made = slice_.changed(key, path, fits=becomes(target))
            made = [*made, *_redeclared(slice_, [pod for pod, _ in pods], target)]
            if isinstance(target, int) and not _moved(made, ports, target):
                continue
            sentence = f"port {port.get('port')} leads to {target}, which none of its pods declares ({there})"
            others = tuple(pod for pod, _ in pods)
            yield Found(key, sentence, (Cited(key, path, target),), _newest(made), others)


def _keyed(port: State) -> str:
    return orjson.dumps({"port": port.get("port"), "protocol": port.get("protocol", "TCP")}).decode()


def declared(spec: Json) -> list[State]:
    """The ports that a pod spec declares, those of sidecars included."""
    if not isinstance(spec, dict):
        return []
    return [
        port
        for path, one in containers(spec)
        if path.startswith("containers") or text(one, "restartPolicy") == "Always"
        for port in maps(one, "ports")
    ]


def serves(ports: list[State], target: Json) -> bool:
    """Whether one of the declared ports is the target, by name or number."""
    return target is not None and any(target in (one.get("name"), one.get("containerPort")) for one in ports)


def _redeclared(slice_: Slice, pods: list[Key], target: Json) -> list[Made]:
    """The newest changes by which the workloads of pods ceased to declare a port."""
    found = []
    for root in dict.fromkeys(map(slice_.root, pods)):
        for made in slice_.changed(root, f"{place(root.type)}spec.containers[*].ports"):
            before, after = slice_.past.before(root, made.at), slice_.state(root)
            was, now = (declared(spec_of(root, one)) if one else [] for one in (before, after))
            if serves(was, target) and not serves(now, target) and now:
                found.append(made)
    return found


def _moved(made: list[Made], ports: list[State], target: Json) -> bool:
    """Whether a number became wrong by a recorded change: the Service's, away from a port that its pods declare; or
    the pods', away from the number."""
    return any(one.key.type != SERVICE or any(serves(ports, row.before) for row in one.rows) for one in made)


# -- strangers


@check(
    "service-selects-strangers", reads=(SERVICE, POD, *WORKLOADS),
    when="the pods of a Service belong to several workloads, some of which serve its target port and some do not; and "
    "a recorded change made it so, or the port is a name",
    why="a share of the requests goes to pods that do not answer them",
    silent=(
        "all of the workloads declare the port: canaries, blue and green twins",
        "the other pods are those of a Job",
        "a number was declared by only some of them before the recording: declaring is optional",
        "the new workload is younger than 10 s, or has no pods",
    ),
    fix="narrow the selector, or give the other workload's pods other labels",
    example="a new worker carries the label by which the Service of its sibling selects, and declares no port",
)  # fmt: skip
def service_selects_strangers(slice_: Slice) -> Iterator[Found]:
    for key, state in slice_.of(SERVICE):
        pods = selected(slice_, key)
        if not selector(state):
            continue
        owners: dict[Key, list[State]] = {}
        for pod, body in pods:
            root = slice_.root(pod)
            if root.type not in (JOB, CRON_JOB):
                owners.setdefault(root, []).append(body)
        if len(owners) < 2:
            continue
        for port in maps(state, "spec", "ports"):
            target = port.get("targetPort")
            serving = {
                root: any(serves(declared(at(pod, "spec")), target) for pod in each) for root, each in owners.items()
            }
            strangers = [root for root, good in serving.items() if not good]
            if not strangers or len(strangers) == len(owners):
                continue
            made = _newest(
                [
                    *slice_.changed(key, "spec.selector"),
                    *(one for root in strangers for one in slice_.created(root)),
                    *(one for root in strangers for one in slice_.changed(root, f"{place(root.type)}metadata.labels")),
                ]
            )
            if (not made and not isinstance(target, str)) or (made and not slice_.lasts(made[0].at)):
                continue
            names = ", ".join(f"{one.kind} {one.name}" for one in strangers)
            cited = (
                Cited(key, "spec.selector", {**selector(state)}),
                Cited(key, f"spec.ports[k:{_keyed(port)}].targetPort", target),
                *(
                    Cited(one, f"{place(one.type)}metadata.labels", {**labels_of(one, slice_.state(one) or {})})
                    for one in strangers
                ),
            )
            yield Found(
                key, f"it also selects pods of {names}, which do not serve {target}", cited, made, tuple(owners)
            )
            break


CHECKS = (service_selects_nothing, service_port_unserved, service_selects_strangers)

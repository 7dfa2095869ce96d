"""Containers that do not come up or do not stay up: images, starts, memory, crashes, probes, init containers.

What blames a template names the change of it that made the pods so. References that are missing are `config`, rights
`access`, what a webhook made of a template `admission`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from diagnose.check import Cited, Found, check
from diagnose.checks.services import SERVICE
from diagnose.checks.symptoms import waits
from diagnose.slices import GRACE, Made, Slice
from diagnose.templates import JOB, POD, WORKLOADS, containers, lives, place, quantity, ready, spec_of
from schema.identity import Key
from schema.instants import SECOND
from schema.records import Evidence
from store.derive.facts import State, at, maps, text

IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable",
     "ImageInspectError", "SignatureValidationFailed"}
)  # fmt: skip
_CRASH = "CrashLoopBackOff"
_LATELY = 1800 * SECOND
_SOON = 600 * SECOND
_SLOW = 60 * SECOND
"""How long a probe that nobody touched may fail, or an init container run, before it is told."""
_MISSING = re.compile(r"couldn't find key|not found", re.IGNORECASE)


def _part(name: str) -> str:
    """The pattern of a container of a pod spec, be it an ordinary one or an init container."""
    return f"*[name={name}]"


def of_template(slice_: Slice, pod: Key, *below: str) -> tuple[Key, list[Made]]:
    """Who answers for a pod's spec, and the newest change of it there. The pod must have come after that: what was
    changed since is not what the pod is made of."""
    root = slice_.root(pod)
    path = place(root.type)
    made = slice_.changed(root, *(f"{path}spec.{each}" for each in below))
    born = slice_.created(pod)
    # A recorder may see the pod before the change that led to it, by less than a second.
    if made and pod != root and born and made[0].at > born[0].at + SECOND:
        return root, []
    return root, made


def _settled(slice_: Slice, pod: Key, grace: int = GRACE) -> bool:
    """Whether a pod has been there for longer than its grace."""
    born = slice_.created(pod)
    return not born or slice_.lasts(born[0].at, grace)


def _image_of(root: Key, state: State | None, name: str) -> tuple[str, State] | None:
    for path, one in containers(spec_of(root, state or {})):
        if text(one, "name") == name:
            return f"{place(root.type)}spec.{path}", one
    return None


@check(
    "image-cannot-be-pulled", reads=(POD,), also=WORKLOADS,
    when="a container waits because its image cannot be pulled (ErrImagePull, ImagePullBackOff, InvalidImageName)",
    why="the pod cannot start, and what it replaces may be gone already",
    silent=("the pod is younger than 10 s", "the pod is over or on its way out", "it waits for something else"),
    fix="let the image name a tag that the registry has, or give the pods what the registry asks for",
    example="image goes from recommend:1.4.2 to recommend:1.4.3-fix2, and the container waits: ImagePullBackOff",
)  # fmt: skip
def image_cannot_be_pulled(slice_: Slice) -> Iterator[Found]:
    told: set[tuple[Key, str]] = set()
    for pod, state in slice_.of(POD):
        for path, name, waiting in waits(state):
            reason = text(waiting, "reason")
            root, made = of_template(slice_, pod, f"{_part(name)}.image", "imagePullSecrets")
            if reason not in IMAGE_REASONS or (root, name) in told or not _settled(slice_, pod):
                continue
            told.add((root, name))
            there = _image_of(root, slice_.state(root), name)
            cited = [Cited(pod, f"{path}.reason", reason), Cited(pod, f"{path}.message", waiting.get("message"))]
            image = text(there[1], "image") if there else ""
            if there:
                cited.insert(0, Cited(root, f"{there[0]}.image", image))
            yield Found(root, f"container {name} waits: {reason}, image {image}", tuple(cited), tuple(made), (pod,))


@check(
    "container-cannot-start", reads=(POD,), also=WORKLOADS,
    when="a container waits with a reason that is neither its turn, its image nor a crash, as CreateContainerError or "
    "RunContainerError; reasons that are not known are shown as they are",
    why="the pod cannot start",
    silent=(
        "the pod is younger than 10 s",
        "it waits for a key or object that is not there, which reference-missing tells",
        "the pod is over or on its way out",
    ),
    fix="read the message; look at the command, the mounts and the security context that were changed",
    example="the command names a file that the image does not have: RunContainerError, executable file not found",
)  # fmt: skip
def container_cannot_start(slice_: Slice) -> Iterator[Found]:
    told: set[tuple[Key, str]] = set()
    for pod, state in slice_.of(POD):
        for path, name, waiting in waits(state):
            reason, message = text(waiting, "reason"), text(waiting, "message")
            root = slice_.root(pod)
            if reason in IMAGE_REASONS or reason == _CRASH or (root, name) in told or not _settled(slice_, pod):
                continue
            if reason == "CreateContainerConfigError" and _MISSING.search(message):
                continue
            told.add((root, name))
            below = ("command", "args", "securityContext", "volumeMounts", "env", "envFrom", "image", "lifecycle")
            _, made = of_template(
                slice_, pod, *(f"{_part(name)}.{each}" for each in below), "volumes", "securityContext"
            )
            cited = (Cited(pod, f"{path}.reason", reason), Cited(pod, f"{path}.message", message))
            yield Found(root, f"container {name} cannot start: {message or reason}", cited, tuple(made), (pod,))


@check(
    "out-of-memory", reads=(POD,), also=(*WORKLOADS, SERVICE),
    when="a container was killed for want of memory, lately or again and again, even if it runs again now",
    why="it needs more than its limit allows, be it that the limit was lowered, that it was changed, or that a new "
    "caller came shortly before: it will be killed again",
    silent=(
        "it was killed before the recording, or longer than half an hour ago, and is ready now",
        "the pod has another limit than its template, which webhook-rewrites tells",
        "it ended for another reason",
    ),
    fix="give it the memory it needs, or take back what made it need more",
    example="limits.memory goes from 512Mi to 64Mi; the container's last state is OOMKilled",
)  # fmt: skip
def out_of_memory(slice_: Slice) -> Iterator[Found]:
    told: set[tuple[Key, str]] = set()
    for pod, state in slice_.of(POD):
        for path, name, ended in endings(state):
            root = slice_.root(pod)
            if text(ended, "reason") != "OOMKilled" or (root, name) in told:
                continue
            killed = slice_.changed(pod, "status.containerStatuses", "status.initContainerStatuses", fits=_by_memory)
            recent = bool(killed) and bool(killed[0].rows) and not slice_.lasts(killed[0].at, _LATELY)
            if not recent and ready(state):
                continue
            there = _image_of(root, slice_.state(root), name)
            limit = at(there[1], "resources", "limits", "memory") if there else None
            mine = _image_of(pod, state, name)
            if mine and limit is not None and at(mine[1], "resources", "limits", "memory") != limit:
                continue
            told.add((root, name))
            _, made = of_template(slice_, pod, f"{_part(name)}.resources.limits", f"{_part(name)}.resources")
            made = [one for one in made if any(_less(row.before, row.after) for row in one.rows)]
            if not made:
                _, made = of_template(
                    slice_, pod, *(f"{_part(name)}.{each}" for each in ("image", "command", "args", "env"))
                )
                made = [one for one in made if one.rows]
            kills = [one.vf for one in slice_.past.changes(pod) if any(map(_by_memory, one.change.fields))]
            since = min(kills, default=killed[0].at if killed else None)
            made = made or _came(slice_, root, slice_.at if since is None else since)
            cited = [Cited(pod, f"{path}.reason", "OOMKilled")]
            if there:
                cited.insert(0, Cited(root, f"{there[0]}.resources.limits.memory", limit))
            sentence = f"container {name} was killed for want of memory, its limit is {limit or 'the node'}"
            yield Found(root, sentence, tuple(cited), tuple(made), (pod,), since=since)


def _came(slice_: Slice, root: Key, until: int) -> list[Made]:
    """The newest caller of a workload that came shortly before an instant: what it asks may be more than there is."""
    found = [
        made
        for service in slice_.sources(root, "SELECTS", SERVICE)
        for edge in slice_.into(service, "CALLS")
        for made in slice_.created(edge.src)
        if until - _SOON <= made.at <= until
    ]
    return sorted(found, key=lambda one: one.at)[-1:]


def endings(pod: State) -> Iterator[tuple[str, str, State]]:
    """(path, container, how it ended) of each container of a living pod that has ended, now or before."""
    if not lives(pod):
        return
    for part in ("initContainerStatuses", "containerStatuses"):
        for status in maps(pod, "status", part):
            for which in ("state", "lastState"):
                ended = at(status, which, "terminated")
                if isinstance(ended, dict):
                    name = text(status, "name")
                    yield f"status.{part}[name={name}].{which}.terminated", name, ended


def _by_memory(row: object) -> bool:
    return "OOMKilled" in str(getattr(row, "after", ""))


def _less(before: object, after: object) -> bool:
    if isinstance(before, dict) and isinstance(after, dict):
        return _less(before.get("memory"), after.get("memory"))
    was = quantity(before) if isinstance(before, str | int | float) else None
    now = quantity(after) if isinstance(after, str | int | float) else None
    return now is not None and (was is None or now < was)


@check(
    "crash-loop", reads=(POD,), also=(*WORKLOADS, "core/ConfigMap", "core/Secret"),
    when="a container ends and is started again and again, and not for want of memory",
    why="it cannot do its work; the nearest change of command, arguments, image, environment or configuration is named",
    silent=(
        "it ended once and runs again",
        "it was killed for want of memory, which out-of-memory tells",
        "its liveness probe killed it, which probe-fails tells",
    ),
    fix="read its last log lines; take back the change that is named",
    example="args goes from --port=8080 to --prot=8080; the container exits with 2 and waits: CrashLoopBackOff",
)  # fmt: skip
def crash_loop(slice_: Slice) -> Iterator[Found]:
    told: set[tuple[Key, str]] = set()
    for pod, state in slice_.of(POD):
        ends = {name: ended for _, name, ended in endings(state)}
        for path, name, waiting in waits(state):
            root = slice_.root(pod)
            if text(waiting, "reason") != _CRASH or (root, name) in told:
                continue
            if text(ends.get(name), "reason") == "OOMKilled" or _probed(slice_, pod, "Liveness"):
                continue
            told.add((root, name))
            below = ("command", "args", "image", "env", "envFrom", "volumeMounts", "securityContext", "workingDir")
            _, made = of_template(slice_, pod, *(f"{_part(name)}.{each}" for each in below), "volumes")
            # What a pod was made of long before it began to crash is not why it does.
            began = slice_.changed(pod, "status.containerStatuses", "status.initContainerStatuses", fits=_crashed)
            made = [*made, *_configured(slice_, root, began[0].at if began else slice_.at)]
            made = [one for one in made if one.rows]
            cited = [Cited(pod, f"{path}.reason", _CRASH)]
            if ended := ends.get(name):
                code = ended.get("exitCode")
                cited.append(Cited(pod, f"status.containerStatuses[name={name}].lastState.terminated.exitCode", code))
            newest = tuple(sorted(made, key=lambda one: (one.at, one.recorded.seq))[-1:])
            yield Found(root, f"container {name} crashes again and again", tuple(cited), newest, (pod,))


def _crashed(row: object) -> bool:
    return _CRASH in str(getattr(row, "after", ""))


def _configured(slice_: Slice, root: Key, until: int) -> list[Made]:
    """The newest change of each ConfigMap and Secret that a workload reads, up to an instant."""
    found = []
    for one in slice_.targets(root, "USES_CONFIG"):
        found += [made for made in slice_.changed(one, "data", "binaryData", "stringData") if made.at <= until]
    return found


def _probed(slice_: Slice, pod: Key, kind: str) -> list[Evidence]:
    return [one for one in slice_.heard(pod, "Unhealthy") if (one.message or "").startswith(kind)]


@check(
    "probe-fails", reads=(POD,), also=WORKLOADS,
    when="a pod runs but is not ready, or is killed, because a probe of it fails again and again",
    why="a pod that fails its readiness probe gets no traffic; one that fails its liveness probe is restarted",
    silent=(
        "the pod is ready",
        "nothing was heard of a probe",
        "the probe was not changed and has failed for less than a minute: some take long to start",
        "the probe failed once",
    ),
    fix="let the probe ask what the container answers, or find out why it does not",
    example="readinessProbe.httpGet.port goes from 8081 to 8018; Readiness probe failed: connection refused, 4 times",
)  # fmt: skip
def probe_fails(slice_: Slice) -> Iterator[Found]:
    told: set[tuple[Key, str]] = set()
    for pod, state in slice_.of(POD):
        if not lives(state):
            continue
        for kind, field in (
            ("Readiness", "readinessProbe"),
            ("Liveness", "livenessProbe"),
            ("Startup", "startupProbe"),
        ):
            heard = _probed(slice_, pod, kind)
            root = slice_.root(pod)
            if not heard or sum(one.occurrences for one in heard) < 2 or (root, kind) in told:
                continue
            if ready(state) and not (kind == "Liveness" and slice_.heard(pod, "Killing", "BackOff")):
                continue
            named = re.search(r"\{(.*?)\}", heard[-1].field_path or "")
            part = f"containers[name={named[1]}]" if named else "containers[*]"
            _, made = of_template(slice_, pod, f"{part}.{field}", f"{part}.ports")
            made = [one for one in made if one.rows]
            first = min(one.first_at or one.at for one in heard)
            if not slice_.lasts(first, GRACE if made else _SLOW):
                continue
            told.add((root, kind))
            cited = tuple(
                Cited(root, f"{place(root.type)}spec.{path}.{field}", one.get(field))
                for path, one in containers(spec_of(root, slice_.state(root) or {}))
                if field in one and (not named or text(one, "name") == named[1])
            )
            yield Found(root, heard[-1].message or kind, cited, tuple(made), (pod,), (heard[-1],), since=first)


@check(
    "init-never-ends", reads=(POD,), also=WORKLOADS,
    when="an init container still runs or fails, and the pod is not initialised: for a minute, or for 10 s where no "
    "other pod of the workload is ready",
    why="the containers of the pod are not started before it has ended",
    silent=(
        "another pod of the workload is ready and it has run for less than a minute",
        "it is a sidecar (restartPolicy Always)",
        "the pod is initialised, over or on its way out",
        "it is the pod of a Job, which may take its time",
    ),
    fix="see for what the init container waits; take back the change that brought it",
    example="initContainers gets fetch-theme, which waits for a bundle that never comes; no pod of web is ready",
)  # fmt: skip
def init_never_ends(slice_: Slice) -> Iterator[Found]:
    told: set[tuple[Key, str]] = set()
    for pod, state in slice_.of(POD):
        root = slice_.root(pod)
        if not lives(state) or root.type in (JOB, "batch/CronJob"):
            continue
        sidecars = {text(one, "name") for one in maps(state, "spec", "initContainers") if one.get("restartPolicy")}
        for status in maps(state, "status", "initContainerStatuses"):
            name, running = text(status, "name"), at(status, "state", "running")
            stuck = running is not None or text(status, "state", "waiting", "reason") == _CRASH
            if not stuck or name in sidecars or (root, name) in told:
                continue
            others = [one for one, _ in _siblings(slice_, root) if one != pod]
            alone = not any(ready(slice_.state(one) or {}) for one in others)
            if not _settled(slice_, pod, GRACE if alone else _SLOW):
                continue
            told.add((root, name))
            _, made = of_template(slice_, pod, f"initContainers[name={name}]")
            path = f"status.initContainerStatuses[name={name}].state"
            cited = (Cited(pod, path, status.get("state")),)
            yield Found(root, f"init container {name} does not end", cited, tuple(made), (pod,))


def _siblings(slice_: Slice, root: Key) -> Iterator[tuple[Key, State]]:
    for key in slice_.targets(root, "RUNS", POD):
        state = slice_.state(key)
        if state is not None:
            yield key, state


CHECKS = (
    image_cannot_be_pulled, container_cannot_start, out_of_memory, crash_loop, probe_fails, init_never_ends,
)  # fmt: skip

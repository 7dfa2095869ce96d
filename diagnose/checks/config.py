"""What pods are given: references that lead nowhere, variables that hide each other, credentials that were changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from diagnose.check import Cited, Found, check
from diagnose.slices import GRACE, Made, Slice, beside
from diagnose.templates import (
    CRON_JOB,
    JOB,
    POD,
    REPLICA_SET,
    WORKLOADS,
    containers,
    lives,
    place,
    pods_of,
    ready,
    replicas,
    spec_of,
    tops,
)
from schema.canonical import Json
from schema.errors import BadInstant
from schema.identity import Key
from schema.instants import SECOND, parse
from store.derive.facts import State, at, maps, text

CONFIG_MAP, SECRET, ACCOUNT = "core/ConfigMap", "core/Secret", "core/ServiceAccount"
CLAIM, PRIORITY = "core/PersistentVolumeClaim", "scheduling.k8s.io/PriorityClass"
_FORGOTTEN = 300 * SECOND
"""When nobody restarted any reader of a changed Secret for so long, they were forgotten."""


class Reference(NamedTuple):
    """What a pod spec names and cannot do without; `key` of it where only a part is asked for; `path` says where."""

    target: Key
    key: str | None
    path: str


def references(owner: Key, spec: State) -> Iterator[Reference]:
    """All that a pod spec names and cannot start without."""
    here = owner.namespace

    def named(type_: str, source: Json, path: str, field: str = "name", key: str | None = None) -> Iterator[Reference]:
        name = text(source, field)
        if name and at(source, "optional") is not True:
            yield Reference(beside(owner, type_, name, here), key, path)

    for path, one in containers(spec):
        for entry in maps(one, "env"):
            for field, type_ in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
                source = at(entry, "valueFrom", field)
                yield from named(
                    type_, source, f"{path}.env[name={text(entry, 'name')}]", key=text(source, "key") or None
                )
        for entry in maps(one, "envFrom"):
            yield from named(CONFIG_MAP, entry.get("configMapRef"), f"{path}.envFrom")
            yield from named(SECRET, entry.get("secretRef"), f"{path}.envFrom")
    for volume in maps(spec, "volumes"):
        path = f"volumes[name={text(volume, 'name')}]"
        yield from _mounted(named(CONFIG_MAP, volume.get("configMap"), path), volume.get("configMap"))
        yield from _mounted(named(SECRET, volume.get("secret"), path, "secretName"), volume.get("secret"))
        for source in maps(volume, "projected", "sources"):
            yield from _mounted(named(CONFIG_MAP, source.get("configMap"), path), source.get("configMap"))
            yield from _mounted(named(SECRET, source.get("secret"), path), source.get("secret"))
        yield from named(CLAIM, volume.get("persistentVolumeClaim"), path, "claimName")
    yield from named(ACCOUNT, spec, "serviceAccountName", "serviceAccountName")
    if name := text(spec, "priorityClassName"):
        yield Reference(beside(owner, PRIORITY, name), None, "priorityClassName")


def _mounted(found: Iterator[Reference], source: Json) -> Iterator[Reference]:
    """A volume asks for the keys that its items name; without items for the object alone."""
    for one in found:
        keys = [text(item, "key") for item in maps(source, "items")]
        yield from [one._replace(key=key) for key in keys if key] or [one]


@check(
    "reference-missing", reads=WORKLOADS, also=(POD, CONFIG_MAP, SECRET, ACCOUNT, CLAIM, PRIORITY),
    when="a pod template or pod names a ConfigMap, Secret, a key of one, ServiceAccount, claim or PriorityClass that "
    "is not there, and cannot do without",
    why="pods that run do not notice, but their replacements cannot be created or started",
    silent=(
        "the reference is optional",
        "what is missing went, or the workload came, within 10 s: things are applied one after the other",
        "objects of that kind were not watched",
        "it makes no pods: no replicas, suspended, over",
        "the key is there, in data or binaryData",
    ),
    fix="bring back what is missing, or let the template name what there is",
    example="the key tax-table is removed from the ConfigMap that the container reads it from",
)  # fmt: skip
def reference_missing(slice_: Slice) -> Iterator[Found]:
    told: set[tuple[Key, Key, str | None]] = set()
    for owner, state in tops(slice_):
        if not makes_pods(owner, state):
            continue
        path = place(owner.type)
        for one in references(owner, spec_of(owner, state)):
            if (owner, one.target, one.key) in told or not slice_.watched(one.target.type, one.target.namespace):
                continue
            there = slice_.state(one.target)
            if there is not None and (one.key is None or _has(there, one.key)):
                continue
            told.add((owner, one.target, one.key))
            lost = _lost(slice_, one, there)
            pointed = slice_.changed(owner, f"{path}spec.{one.path}")
            made = tuple(sorted([*lost, *pointed], key=lambda each: (each.at, each.recorded.seq))[-1:])
            if made and not slice_.lasts(made[0].at):
                continue
            what = f"{one.target.kind} {one.target.name}"
            sentence = (
                f"{owner.kind} {owner.name} needs {f'{one.key} of ' if one.key else ''}{what}, which is not there"
            )
            blamed = one.target if made and made[0].key == one.target else owner
            cited = (
                Cited(
                    owner,
                    f"{path}spec.{one.path}",
                    one.target.name if one.key is None else f"{one.target.name} {one.key}",
                ),
            )
            yield Found(blamed, sentence, cited, made, (owner, one.target))


def makes_pods(owner: Key, state: State) -> bool:
    """Whether a workload makes pods, or will; a bare pod, whether it is meant to run."""
    if owner.type == POD:
        return lives(state)
    if owner.type == JOB:
        done = any(text(one, "type") in ("Complete", "Failed") for one in maps(state, "status", "conditions"))
        return not done and at(state, "spec", "suspend") is not True
    if owner.type == CRON_JOB:
        return at(state, "spec", "suspend") is not True
    return owner.type == "apps/DaemonSet" or replicas(state) > 0


def _has(config: State, key: str) -> bool:
    return any(
        isinstance(part := config.get(name), dict) and key in part for name in ("data", "binaryData", "stringData")
    )


def _lost(slice_: Slice, one: Reference, there: State | None) -> list[Made]:
    """The change by which what is referred to went away."""
    if there is None:
        return slice_.deleted(one.target)
    assert one.key is not None
    for recorded in slice_.past.changes(one.target):
        rows = tuple(
            row for row in recorded.change.fields if row.effect == "removed" and row.path.endswith(_tail(one.key))
        )
        # The whole of `data` may have gone at once.
        whole = tuple(
            row for row in recorded.change.fields if row.effect == "removed" and row.path in ("data", "binaryData")
        )
        if rows or whole:
            return [Made(recorded, rows or whole)]
    return []


def _tail(key: str) -> str:
    return f'["{key}"]' if any(char in key for char in './#[]"') else f".{key}"


@check(
    "env-shadowed", reads=WORKLOADS, also=(POD,),
    when="a recorded change made a name occur twice in one container's env with different values; the last one counts",
    why="whoever reads the template sees a value that is not used",
    silent=(
        "both entries say the same",
        "it was so before the recording: it has run like this",
        "the names differ, be it in case only",
    ),
    fix="remove the entry that is not meant",
    example="CACHE_ADDR is cache.data:6379 and, further down, cache.data-eu2:6379",
)  # fmt: skip
def env_shadowed(slice_: Slice) -> Iterator[Found]:
    for owner, state in tops(slice_):
        for path, one in containers(spec_of(owner, state)):
            entries: dict[str, list[State]] = {}
            for entry in maps(one, "env"):
                entries.setdefault(text(entry, "name"), []).append(entry)
            for name, each in entries.items():
                values = [_given(entry) for entry in each]
                if len(values) < 2 or all(value == values[-1] for value in values):
                    continue
                where = f"{place(owner.type)}spec.{path}.env[name={name}]"
                made = [change for change in slice_.changed(owner, where) if change.rows]
                if made:
                    cited = tuple(Cited(owner, where, value) for value in values)
                    sentence = f"{name} of container {text(one, 'name')} occurs {len(values)} times, the last counts"
                    yield Found(owner, sentence, cited, tuple(made))


def _given(entry: State) -> Json:
    return entry.get("value") if "valueFrom" not in entry else entry["valueFrom"]


@check(
    "credential-changed-under-pod", reads=(POD, SECRET), also=WORKLOADS,
    when="a key of a Secret that is read into the environment was changed, pods of one reader still run from before, "
    "while another reader was restarted since; or nobody restarted any for 5 minutes",
    why="the environment of a running pod keeps the old value, which may be refused",
    silent=(
        "all readers were restarted, or are being",
        "the other reader's new pods became ready within 10 s",
        "the key is mounted as a file, which follows",
        "another key was changed",
    ),
    fix="restart the pods that still hold the old value",
    example="the password is rotated, inventory is restarted, checkout is forgotten",
)  # fmt: skip
def credential_changed_under_pod(slice_: Slice) -> Iterator[Found]:
    for secret, _ in slice_.of(SECRET):
        made = [one for one in slice_.changed(secret, "data", "stringData") if one.rows]
        readers = [edge for edge in slice_.into(secret, "USES_CONFIG") if edge.attrs.get("via") in ("env", "envFrom")]
        if not made or not readers:
            continue
        changed = {row.path.partition(".")[2] for row in made[0].rows}
        stale, fresh = set[Key](), set[Key]()
        for edge in readers:
            keys = edge.attrs.get("keys")
            if edge.src.type in (POD, REPLICA_SET, JOB, CRON_JOB) or (isinstance(keys, list) and not changed & {*keys}):
                continue
            pods = [(pod, state) for pod, state in pods_of(slice_, edge.src) if lives(state)]
            old = [pod for pod, state in pods if not _since(slice_, pod, state, made[0].at)]
            new = [pod for pod, state in pods if _since(slice_, pod, state, made[0].at)]
            if old and not new:
                stale.add(edge.src)
            elif new and not old and all(_long_ready(slice_, pod) for pod in new):
                fresh.add(edge.src)
        if stale and (fresh or slice_.lasts(made[0].at, _FORGOTTEN)):
            cited = tuple(Cited(secret, row.path, row.after) for row in made[0].rows)
            for reader in sorted(stale):
                others = f", while {', '.join(sorted(one.name for one in fresh))} was restarted" if fresh else ""
                sentence = (
                    f"{reader.kind} {reader.name} still runs with what {secret.name} was before it changed{others}"
                )
                yield Found(secret, sentence, cited, tuple(made), (reader,))


def _since(slice_: Slice, pod: Key, state: State, instant: int) -> bool:
    """Whether a pod came after an instant."""
    born = slice_.created(pod)
    if born:
        return born[0].at > instant
    try:
        return parse(text(state, "metadata", "creationTimestamp")) > instant
    except BadInstant:
        return False


def _long_ready(slice_: Slice, pod: Key) -> bool:
    state = slice_.state(pod)
    became = slice_.changed(pod, "status.conditions[type=Ready].status", fits=lambda row: row.after == "True")
    return state is not None and ready(state) and (not became or slice_.lasts(became[0].at, GRACE))


CHECKS = (reference_missing, env_shadowed, credential_changed_under_pod)

"""What a pod or a pod template refers to: containers and images, configuration, claims, the account, the priority.

Uses are gathered per target and way of use, so that twenty keys of one ConfigMap are one edge that names the keys.
"""

from __future__ import annotations

from collections.abc import Iterator

from schema.canonical import Json
from schema.identity import Key
from schema.records import ObjectRef
from store.derive.facts import EdgeFact, State, at, controller_of, fact, key_in, made_up, maps, may, owner_key, text

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_ORDINALS = 1000  # claims of a StatefulSet are named up to here; a replica count is the user's to mistype


def pod_spec(ref: ObjectRef, state: State) -> Json:
    """The pod spec of a pod or of the template of a workload, None when there is none."""
    if ref.type == "core/Pod":
        return at(state, "spec")
    if ref.type == "batch/CronJob":
        return at(state, "spec", "jobTemplate", "spec", "template", "spec")
    return at(state, "spec", "template", "spec")


def runs(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """Pod → its containers, their images, its node, and the workload that controls it directly."""
    images = {
        text(status, "name"): text(status, "imageID")
        for part in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for status in maps(state, "status", part)
    }
    for part in _CONTAINERS:
        for container in maps(state, "spec", part):
            name = text(container, "name")
            if not name:
                continue
            key = made_up(ref, "Container", f"{ref.name}/{name}", ref.namespace)
            yield fact("RUNS", ref.key, key, "runs-container@1", attrs={"part": part})
            if image := text(container, "image"):
                yield fact(
                    "USES_IMAGE", key, made_up(ref, "Image", image), "image-declared@1", discriminator="declared"
                )
            if image := images.get(name, "").removeprefix("docker-pullable://"):
                yield fact(
                    "USES_IMAGE", key, made_up(ref, "Image", image), "image-observed@1", discriminator="observed",
                    basis="observed",
                )  # fmt: skip
    if node := text(state, "spec", "nodeName"):
        yield fact("RUNS_ON", ref.key, key_in(ref, "core/Node", node), "runs-on@1", basis="observed")
    owner = controller_of(state)
    over = owner_key(ref, owner) if owner is not None else None
    if over is not None and may("RUNS", over, ref.key):
        uid = text(owner, "uid")
        yield fact("RUNS", over, ref.key, "runs-owned@1", discriminator=uid, attrs={"owner_uid": uid})


class _Uses:
    """Gathers uses by (target, via, optional)."""

    def __init__(self, ref: ObjectRef) -> None:
        self._ref = ref
        self._found: dict[tuple[Key, str, bool], tuple[set[str], set[str]]] = {}

    def add(self, type_: str, source: Json, via: str, where: str, *, name: str = "name", keys: set[str]) -> None:
        target = text(source, name)
        if target:
            use = (key_in(self._ref, type_, target, self._ref.namespace), via, at(source, "optional") is True)
            known = self._found.setdefault(use, (set(), set()))
            known[0].update(keys)
            known[1].add(where)

    def edges(self) -> Iterator[EdgeFact]:
        for (target, via, optional), (keys, places) in self._found.items():
            attrs: State = {"via": via, "optional": optional, "in": [*sorted(places)]}
            if keys:
                attrs["keys"] = [*sorted(keys)]
            mark = f"{via}?" if optional else via
            yield fact("USES_CONFIG", self._ref.key, target, "uses-config@1", discriminator=mark, attrs=attrs)


def uses_config(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """Everything of ConfigMaps and Secrets that the pod spec names, init and ephemeral containers included."""
    spec = pod_spec(ref, state)
    uses = _Uses(ref)
    for part in _CONTAINERS:
        for container in maps(spec, part):
            where = text(container, "name")
            for entry in maps(container, "env"):
                if "valueFrom" not in entry:
                    continue
                for field, type_ in (("configMapKeyRef", "core/ConfigMap"), ("secretKeyRef", "core/Secret")):
                    source = at(entry, "valueFrom", field)
                    uses.add(type_, source, "env", where, keys={text(source, "key")} - {""})
            for entry in maps(container, "envFrom"):
                uses.add("core/ConfigMap", entry.get("configMapRef"), "envFrom", where, keys=set())
                uses.add("core/Secret", entry.get("secretRef"), "envFrom", where, keys=set())
    for volume in maps(spec, "volumes"):
        where = text(volume, "name")
        config, secret = volume.get("configMap"), volume.get("secret")
        uses.add("core/ConfigMap", config, "volume", where, keys=_items(config))
        uses.add("core/Secret", secret, "volume", where, name="secretName", keys=_items(secret))
        uses.add("core/Secret", at(volume, "csi", "nodePublishSecretRef"), "csi", where, keys=set())
        for source in maps(volume, "projected", "sources"):
            config, secret = source.get("configMap"), source.get("secret")
            uses.add("core/ConfigMap", config, "projected", where, keys=_items(config))
            uses.add("core/Secret", secret, "projected", where, keys=_items(secret))
    for source in maps(spec, "imagePullSecrets"):
        uses.add("core/Secret", source, "pull", "", keys=set())
    yield from uses.edges()


def _items(source: Json) -> set[str]:
    return {text(item, "key") for item in maps(source, "items")} - {""}


def mounts(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """Claims by volume; for a StatefulSet also the claims that its templates name, one for each replica."""
    for volume in maps(pod_spec(ref, state), "volumes"):
        claim = volume.get("persistentVolumeClaim")
        name = text(claim, "claimName")
        if ref.type == "core/Pod" and "ephemeral" in volume:
            name = f"{ref.name}-{text(volume, 'name')}"
        if name:
            mode = "ro" if at(claim, "readOnly") is True else "rw"
            target = key_in(ref, "core/PersistentVolumeClaim", name, ref.namespace)
            attrs: State = {"mode": mode, "volume": text(volume, "name")}
            yield fact("MOUNTS", ref.key, target, "mounts@1", discriminator=text(volume, "name"), attrs=attrs)
    if ref.type != "apps/StatefulSet":
        return
    replicas, start = at(state, "spec", "replicas"), at(state, "spec", "ordinals", "start")
    first = start if isinstance(start, int) else 0
    count = min(replicas, _ORDINALS) if isinstance(replicas, int) else 1
    for template in maps(state, "spec", "volumeClaimTemplates"):
        if name := text(template, "metadata", "name"):
            for number in range(first, first + count):
                claim_name = f"{name}-{ref.name}-{number}"
                target = key_in(ref, "core/PersistentVolumeClaim", claim_name, ref.namespace)
                own: State = {"mode": "rw", "volume": name, "ordinal": number}
                yield fact("MOUNTS", ref.key, target, "mounts-template@1", discriminator=name, attrs=own)


def runs_as(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """The service account; `default` when the spec names none."""
    spec = pod_spec(ref, state)
    if isinstance(spec, dict):
        name = text(spec, "serviceAccountName") or text(spec, "serviceAccount") or "default"
        yield fact("RUNS_AS", ref.key, key_in(ref, "core/ServiceAccount", name, ref.namespace), "runs-as@1")


def prioritised(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """The priority class that ranks the pods."""
    if name := text(pod_spec(ref, state), "priorityClassName"):
        source = key_in(ref, "scheduling.k8s.io/PriorityClass", name)
        yield fact("CONSTRAINS", source, ref.key, "priority@1", attrs={"effect": "prioritise"})

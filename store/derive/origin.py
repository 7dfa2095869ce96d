"""Where an object comes from: what delivers it, from which commit and file, and to which system it says it belongs.

Commits and files are keys of source `git` whose scope is the repository without scheme and `.git`; a repository that
nobody names is `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator

from schema.identity import Key, type_of
from schema.kinds import class_of
from schema.records import ObjectRef
from store.derive.facts import EdgeFact, State, at, fact, made_up, maps, strings, text
from store.derive.pods import pod_spec

_FLUX = (
    ("kustomize.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io/Kustomization"),
    ("helm.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io/HelmRelease"),
)
_OCI = "org.opencontainers.image."


def repository(url: str) -> str:
    """`https://host/a/b.git` and `git@host:a/b` → `host/a/b`; an empty one is `unknown`."""
    rest = url.rpartition("://")[2]
    if "@" in rest.partition("/")[0]:
        rest = rest.partition("@")[2]
        if "://" not in url:
            rest = rest.replace(":", "/", 1)
    return rest.removesuffix("/").removesuffix(".git") or "unknown"


def managed_by(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """Argo CD by a tracking id that names this very object, Flux by its labels, Helm by its annotations."""
    annotations, labels = strings(state, "metadata", "annotations"), strings(state, "metadata", "labels")
    app, _, rest = annotations.get("argocd.argoproj.io/tracking-id", "").partition(":")
    type_, _, place = rest.partition(":")
    group, _, kind = type_.rpartition("/")
    # Controllers copy annotations to what they make, so an id of another object says nothing about this one.
    if app and type_of(f"{group}/-" if group else "", kind) == ref.type and place in _places(ref):
        home, _, name = app.rpartition("_")
        delivery = Key(ref.source, ref.scope, "argoproj.io/Application", home or "argocd", name)
        yield fact("MANAGED_BY", ref.key, delivery, "argo-tracking@1")
    for prefix, flux in _FLUX:
        name, namespace = labels.get(f"{prefix}/name", ""), labels.get(f"{prefix}/namespace", "")
        if name and namespace:
            yield fact("MANAGED_BY", ref.key, Key(ref.source, ref.scope, flux, namespace, name), "flux-labels@1")
    name = annotations.get("meta.helm.sh/release-name", "")
    namespace = annotations.get("meta.helm.sh/release-namespace", "")
    if name and namespace:
        yield fact("MANAGED_BY", ref.key, made_up(ref, "HelmRelease", name, namespace), "helm-annotations@1")


def _places(ref: ObjectRef) -> tuple[str, ...]:
    # Argo CD writes the application's target namespace for cluster-scoped objects, or none.
    return (f"{ref.namespace}/{ref.name}",) if ref.namespace else (f"/{ref.name}", ref.name)


def declared_in(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """The file that kustomize says it read the object from."""
    origin = text(state, "metadata", "annotations", "config.kubernetes.io/origin")
    lines = (line.partition(":") for line in origin.splitlines())
    said = {name.strip(): value.strip().strip("'\"") for name, _, value in lines}
    if path := said.get("path"):
        target = Key("git", repository(said.get("repo", "")), "hindgraph.io/GitFile", None, path)
        attrs: State = {"ref": said["ref"]} if said.get("ref") else {}
        yield fact("DECLARED_IN", ref.key, target, "kustomize-origin@1", attrs=attrs, basis="inferred", confidence=0.9)


def part_of(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    if name := text(state, "metadata", "labels", "app.kubernetes.io/part-of"):
        target = Key(ref.source, ref.scope, "backstage.io/System", None, name)
        yield fact("PART_OF", ref.key, target, "part-of-label@1", basis="asserted", confidence=0.8)


def built_from(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """The commit that a workload's annotation claims for its image; with two images it would be anybody's guess."""
    annotations = strings(state, "metadata", "annotations")
    revision = annotations.get(f"{_OCI}revision", "")
    images = {image for container in maps(pod_spec(ref, state), "containers") if (image := text(container, "image"))}
    if revision and len(images) == 1:
        commit = Key("git", repository(annotations.get(f"{_OCI}source", "")), "hindgraph.io/Commit", None, revision)
        source = made_up(ref, "Image", images.pop())
        yield fact(
            "BUILT_FROM", source, commit, "oci-annotation@1", discriminator=str(ref.key), basis="asserted",
            confidence=0.8,
        )  # fmt: skip


def synced_from(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """The commits that an Argo CD application reports as synced."""
    if ref.type != "argoproj.io/Application":
        return
    single = at(state, "spec", "source")
    sources = [single] if isinstance(single, dict) else list(maps(state, "spec", "sources"))
    several = at(state, "status", "sync", "revisions")
    revisions = several if isinstance(several, list) and several else [at(state, "status", "sync", "revision")]
    for number, (origin, revision) in enumerate(zip(sources, revisions, strict=False)):
        if isinstance(revision, str) and revision:
            repo = repository(text(origin, "repoURL"))
            attrs: State = {"repo": repo, "path": text(origin, "path"), "revision": revision}
            commit = Key("git", repo, "hindgraph.io/Commit", None, revision)
            yield fact(
                "SYNCED_FROM", ref.key, commit, "argo-sync@1", discriminator=str(number), attrs=attrs, basis="observed"
            )


def in_kafka(ref: ObjectRef, state: State) -> Iterator[EdgeFact]:
    """A Strimzi topic lies in the cluster that its label names."""
    cluster = text(state, "metadata", "labels", "strimzi.io/cluster")
    if cluster and class_of(ref.type) == "Topic":
        source = Key(ref.source, ref.scope, "kafka.strimzi.io/Kafka", ref.namespace, cluster)
        yield fact("CONTAINS", source, ref.key, "strimzi-label@1")

"""What is watched: resources as discovery finds them, the part of each that is one list and one watch, and the choice
of both. Pure; finding resources is `discovery`'s, how a part is listed and watched `course`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capture.kubernetes.recording import Resource
from capture.kubernetes.skipped import group_resource, is_skipped
from schema.errors import BadSelection

HELM = "helm.sh/release.v1"
"""The type of the Secrets in which Helm keeps its releases: up to 1 MB each, of which only metadata is recorded."""


@dataclass(frozen=True, slots=True)
class Served:
    """One resource as the server serves it, in the version that is watched."""

    resource: Resource
    namespaced: bool

    @property
    def name(self) -> str:
        """Its storage identity: `apps/deployments`, `core/pods`."""
        return group_resource(self.resource.path)

    @property
    def root(self) -> str:
        """Where its group and version are served, without the leading slash."""
        return f"apis/{self.resource.api_version}" if self.resource.group else f"api/{self.resource.api_version}"


@dataclass(frozen=True, slots=True)
class Part:
    """One list and one watch. `label` names it among the parts of its resource, None if it is all of it; `metadata`:
    only metadata is asked for; `type_`: what to call its objects' `type`, which metadata alone does not tell."""

    served: Served
    label: str | None = None
    namespace: str | None = None
    fields: tuple[str, ...] = ()
    selector: str | None = None
    metadata: bool = False
    type_: str | None = None

    @property
    def name(self) -> str:
        return self.served.name if self.label is None else f"{self.served.name} {self.label}"

    @property
    def path(self) -> str:
        within = "" if self.namespace is None else f"/namespaces/{self.namespace}"
        return f"/{self.served.root}{within}/{self.served.resource.resource}"

    @property
    def params(self) -> dict[str, str]:
        """The selectors of every request."""
        out: dict[str, str] = {}
        if self.fields:
            out["fieldSelector"] = ",".join(self.fields)
        if self.selector:
            out["labelSelector"] = self.selector
        return out

    def accept(self, *, watch: bool) -> str:
        """The media types to ask for."""
        if not self.metadata:
            return "application/json"
        kind = "PartialObjectMetadata" if watch else "PartialObjectMetadataList"
        return f"application/json;as={kind};g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a cluster is recorded. `namespaces`: only these, and of what is in no namespace only themselves, unless
    `kinds` names more; `without_namespaces`: all but these; kinds as `Deployment`, `deployments`, `apps/Deployment`
    or `apps/deployments`; `selector`: a label selector, of every object."""

    namespaces: tuple[str, ...] = ()
    without_namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    without_kinds: tuple[str, ...] = ()
    selector: str | None = None

    def __post_init__(self) -> None:
        if self.namespaces and self.without_namespaces:
            raise BadSelection(
                "namespaces are either chosen or left out", hint="give --namespace or --exclude-namespace, not both"
            )
        if both := sorted(set(map(str.lower, self.kinds)) & set(map(str.lower, self.without_kinds))):
            raise BadSelection(f"{both[0]} is chosen and left out", hint="drop it from --kind or --exclude-kind")

    def wants(self, served: Served) -> bool:
        """Whether a resource is recorded at all."""
        if is_skipped(served.resource.path) or any(_is_named(served, kind) for kind in self.without_kinds):
            return False
        if self.kinds:
            return any(_is_named(served, kind) for kind in self.kinds)
        return served.namespaced or not self.namespaces or served.name == "core/namespaces"

    def parts(self, served: Served) -> list[Part]:
        """What to list and watch of a resource that is wanted."""
        is_namespace = served.name == "core/namespaces"
        places = [Part(served)]
        if self.namespaces and served.namespaced:
            places = [Part(served, f"namespace={name}", namespace=name) for name in self.namespaces]
        elif self.namespaces and is_namespace:
            places = [Part(served, f"namespace={name}", fields=(f"metadata.name={name}",)) for name in self.namespaces]
        elif self.without_namespaces and (served.namespaced or is_namespace):
            where = "metadata.namespace" if served.namespaced else "metadata.name"
            fields = tuple(f"{where}!={name}" for name in self.without_namespaces)
            places = [Part(served, f"without={','.join(self.without_namespaces)}", fields=fields)]
        if self.selector is not None:
            # A label is words that tell all of the selection, so that another selection has another name.
            word = f"labels={self.selector.replace(' ', '%20')}"
            places = [replace(one, label=_words(one.label, word), selector=self.selector) for one in places]
        if served.name != "core/secrets":
            return places
        return [half for place in places for half in _halves(place)]

    def unknown(self, served: Sequence[Served]) -> list[str]:
        """The kinds that were named and that the server does not serve, or not for watching."""
        return [kind for kind in (*self.kinds, *self.without_kinds) if not any(_is_named(one, kind) for one in served)]


def _halves(place: Part) -> list[Part]:
    """Secrets of Helm's and all others: the first by metadata only."""
    return [
        replace(place, fields=(*place.fields, f"type!={HELM}")),
        replace(
            place, label=_words(place.label, "helm"), fields=(*place.fields, f"type={HELM}"), metadata=True, type_=HELM
        ),
    ]


def _words(label: str | None, word: str) -> str:
    return word if label is None else f"{label} {word}"


def _is_named(served: Served, kind: str) -> bool:
    group, _, name = kind.lower().rpartition("/")
    if name not in (served.resource.kind.lower(), served.resource.resource.lower()):
        return False
    return not group or group == (served.resource.group.lower() or "core")

"""The rights that recording a selection needs, as a manifest to apply: list and watch of just what is watched. Pure.

Discovery is open to every account (`system:discovery`). Which parts a selection has is `live.parts`'s; what is done
where a right is missing, the recorder's.
"""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from capture.kubernetes.live.parts import Part, Selection, Served

_GROUP = "rbac.authorization.k8s.io"
_NAMED = "metadata.name="
_Rule = dict[str, list[str]]
_Document = dict[str, object]


def manifest(
    selection: Selection, served: Iterable[Served], *, name: str = "hindgraph", namespace: str = "hindgraph"
) -> str:
    """YAML: a ServiceAccount `name` in `namespace`, which must be there, and what it may do. The same for the same
    selection and resources, in whatever order these come."""
    parts = [part for one in served if selection.wants(one) for part in selection.parts(one)]
    labels = {"app.kubernetes.io/name": "hindgraph"}

    def head(version: str, kind: str, where: str | None) -> _Document:
        about: dict[str, object] = {"name": name, **({"namespace": where} if where else {}), "labels": labels}
        return {"apiVersion": version, "kind": kind, "metadata": about}

    def granted(kind: str, where: str | None, rules: list[_Rule]) -> list[_Document]:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        return [
            {**head(f"{_GROUP}/v1", kind, where), "rules": rules},
            {
                **head(f"{_GROUP}/v1", f"{kind}Binding", where),
                "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": name},
                "subjects": [subject],
            },
        ]

    documents = [head("v1", "ServiceAccount", namespace)]
    everywhere = _rules(part for part in parts if part.namespace is None)
    if selection.namespaces:
        # Asked for where a namespace answers with 403: that it is gone is not told otherwise.
        everywhere += [_rule("", ["namespaces"], ["get"], sorted(selection.namespaces))]
    if everywhere:
        documents += granted("ClusterRole", None, everywhere)
    for where in sorted({part.namespace for part in parts if part.namespace is not None}):
        documents += granted("Role", where, _rules(part for part in parts if part.namespace == where))
    said = [_HEAD, *([] if selection.kinds else [_LATER])]
    body: str = yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, default_flow_style=False, explicit_start=True)
    return "".join(said) + body


_HEAD = """\
# What `hindgraph record` needs with the chosen scope, and nothing else: list and watch of what is recorded.
"""
_LATER = """\
# Every kind that is served now is named here. A kind that comes later (a CustomResourceDefinition, an aggregated API)
# is told as forbidden until this is printed and applied again. To have them at once, a rule would need resources: ["*"]
# of the groups they come in, and for groups that nobody knows yet apiGroups: ["*"]: list and watch of everything.
"""


class _Plain(yaml.SafeDumper):  # type: ignore[misc]
    """Says the same thing twice where it stands twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _rules(parts: Iterable[Part]) -> list[_Rule]:
    """List and watch of parts, a rule for each group; where a part is one object by name, of that object only."""
    whole: dict[str, set[str]] = {}
    named: dict[tuple[str, str], set[str]] = {}
    for part in parts:
        resource = part.served.resource
        only = {field.removeprefix(_NAMED) for field in part.fields if field.startswith(_NAMED)}
        if only:
            named.setdefault((resource.group, resource.resource), set()).update(only)
        else:
            whole.setdefault(resource.group, set()).add(resource.resource)
    return [
        *(_rule(group, sorted(names), ["list", "watch"]) for group, names in sorted(whole.items())),
        *(_rule(group, [one], ["list", "watch"], sorted(names)) for (group, one), names in sorted(named.items())),
    ]


def _rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> _Rule:
    only = {} if names is None else {"resourceNames": names}
    return {"apiGroups": [group], "resources": resources, **only, "verbs": verbs}

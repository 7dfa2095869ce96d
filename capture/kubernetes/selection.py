"""What the name of a watch says of the objects that it shows. Pure.

Behind its resource a name has words, none if the watch is of the whole: `namespace=shop` (of Namespaces: the one
called so), `helm` (the Secrets in which Helm keeps its releases), any other for a selection that is not understood
here. Watches of one name show the same; what follows for objects whose watch has ended is left to `lives`.
"""

from __future__ import annotations

from capture.kubernetes.telling import spelled
from capture.normalise import HELM, Prepared

_HELM = "helm"
_NAMESPACE = "core/Namespace"


def shows(name: str, one: Prepared, *, helm: bool = False) -> bool | None:
    """Whether a watch of this name shows an object of its resource while it is there; `helm`: Helm's Secrets among
    others. None: it does not say, they may be in a watch of their own, or an object outside of what was selected."""
    what, namespace = spelled(name)
    words = what.split(" ")[1:]
    if namespace is not None and namespace != (one.key.name if one.key.type == _NAMESPACE else one.key.namespace):
        return False
    if _HELM in words and not is_helm(one):
        return False
    if any(word != _HELM for word in words) or (is_apart(name, one) and not helm):
        return None
    return True


def is_apart(name: str, one: Prepared) -> bool:
    """Whether an object may be in a watch of Helm's Secrets alone, which this is not."""
    return is_helm(one) and _HELM not in name.split(" ")[1:]


def is_helm(one: Prepared) -> bool:
    """Whether this is where Helm keeps a release."""
    return one.state.get("type") == HELM

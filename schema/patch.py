"""RFC 6902 patches as Hindgraph writes them: `add`, `remove` and `replace`, applied copy-on-write.

`apply` leaves its input as it was and shares every subtree that the patch does not touch, so that a version costs what
changed. The vocabulary is narrower than the RFC on purpose: `move`, `copy` and `test` have no place in a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from schema.canonical import Json
from schema.errors import BadPatch


class PatchOp(TypedDict):
    """One operation; `path` is an RFC 6901 pointer, `value` absent for `remove`."""

    op: str
    path: str
    value: NotRequired[Json]


def escape(token: str) -> str:
    """One reference token of an RFC 6901 pointer."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def apply(state: Json, patch: Sequence[PatchOp]) -> Json:
    """The state after `patch`. Raises BadPatch when an operation does not fit; `state` is never altered."""
    fresh: set[int] = set()
    for op in patch:
        state = _apply_one(state, op, fresh)
    return state


def apply_in_place(state: Json, patch: Sequence[PatchOp]) -> Json:
    """The same, for a state and a patch that nobody else needs: both may be altered, also where an operation does not
    fit (a later operation may write into the value of an earlier one)."""
    for op in patch:
        state = _apply_one(state, op, None)
    return state


def _apply_one(root: Json, op: PatchOp, fresh: set[int] | None) -> Json:
    try:
        verb, path = op["op"], op["path"]
        value = None if verb == "remove" else op["value"]
    except (KeyError, TypeError):
        raise BadPatch(f"not a patch operation: {str(op)[:200]}") from None
    if verb not in ("add", "remove", "replace"):
        raise BadPatch(f"patch operation {verb!r} is outside add, remove, replace")
    if path == "":
        return None if verb == "remove" else value
    if not path.startswith("/"):
        raise BadPatch(f"not a pointer: {path[:200]!r}")
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]
    root = _own(root, fresh, path)
    node: Json = root
    for token in tokens[:-1]:
        if isinstance(node, dict):
            if token not in node:
                raise BadPatch(f"patch path {path[:200]!r}: no {token!r}")
            child = node[token] = _own(node[token], fresh, path)
        elif isinstance(node, list):
            index = _index(token, len(node) - 1, path)
            child = node[index] = _own(node[index], fresh, path)
        else:
            raise BadPatch(f"patch path {path[:200]!r} runs through a leaf")
        node = child
    _edit(node, tokens[-1], verb, value, path)
    return root


def _edit(node: Json, last: str, verb: str, value: Json, path: str) -> None:
    if isinstance(node, dict):
        if verb != "add" and last not in node:
            raise BadPatch(f"patch path {path[:200]!r}: nothing there to {verb}")
        if verb == "remove":
            del node[last]
        else:
            node[last] = value
    elif isinstance(node, list):
        if verb == "add":
            node.insert(len(node) if last == "-" else _index(last, len(node), path), value)
        elif verb == "remove":
            del node[_index(last, len(node) - 1, path)]
        else:
            node[_index(last, len(node) - 1, path)] = value
    else:
        raise BadPatch(f"patch path {path[:200]!r} runs through a leaf")


def _own(node: Json, fresh: set[int] | None, path: str) -> Json:
    """A copy of `node` that this run may alter; what it copied before, or all (None), it alters in place."""
    if fresh is None or id(node) in fresh:
        return node
    copy: Json
    if isinstance(node, dict):
        copy = dict(node)
    elif isinstance(node, list):
        copy = list(node)
    else:
        raise BadPatch(f"patch path {path[:200]!r} runs through a leaf")
    fresh.add(id(copy))
    return copy


def _index(token: str, highest: int, path: str) -> int:
    if token.isascii() and token.isdigit() and (len(token) == 1 or token[0] != "0") and int(token) <= highest:
        return int(token)
    raise BadPatch(f"patch path {path[:200]!r}: no index {token!r}")

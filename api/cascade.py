"""Folding: the changes that controllers made because of one change stand under it, not beside it.

An object's root is the top of its chain of controller owners (Pod → ReplicaSet → Deployment). A head is a change to a
root's own configuration that no controller of the cluster made; later changes below the same root, soon after it, are
its members. Pure over what is handed in; who owns whom is asked of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from schema.identity import Key
from schema.instants import SECOND
from store.rewind import Recorded

WINDOW = 300 * SECOND
"""A controller's consequence follows within this; what comes later stands for itself."""

_CONTROLLERS = frozenset(
    {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "cloud-controller-manager"}
)


@dataclass(slots=True)
class Group:
    """A change and its consequences, oldest first."""

    head: Recorded
    members: list[Recorded] = field(default_factory=list)


def fold(changes: Sequence[Recorded], root_of: Callable[[Recorded], Key]) -> list[Group]:
    """The changes (newest first) as groups, newest head first."""
    groups: list[Group] = []
    heads: dict[Key, Group] = {}
    # Among changes of one instant the heads go first: a recording's clock may be too coarse to tell who was first.
    rooted = [(root_of(one), one) for one in changes]
    rooted.sort(key=lambda pair: (pair[1].vf, not leads(pair[1], pair[0]), pair[1].seq))
    for root, one in rooted:
        if leads(one, root):
            heads[root] = Group(one)
            groups.append(heads[root])
            continue
        head = heads.get(root)
        if head is not None and one.vf - head.head.vf <= WINDOW:
            head.members.append(one)
        else:
            groups.append(Group(one))
    groups.sort(key=lambda group: (group.head.vf, group.head.seq), reverse=True)
    return groups


def leads(one: Recorded, root: Key) -> bool:
    """Whether a change is somebody's doing, not the consequence of another."""
    change = one.change
    if change.object.key != root or change.actor.manager in _CONTROLLERS:
        return False
    return change.op != "update" or any(not field.path.startswith("status") for field in change.fields)

"""Folding: the changes that controllers made because of one change stand under it, not beside it.

An object's root is the top of its chain of controller owners (Pod → ReplicaSet → Deployment). A head is a change of
configuration that no controller of the cluster made, to a root or, where it is signed, below it; later changes below
the same root, soon after it, are its members. What a controller keeps about others (endpoints, disruption budgets,
autoscalers) follows the latest head of the workloads that it is about. What has no head is gathered by root and
stretch of time, under the first of them.
Pure over what is handed in; who owns and who concerns whom is asked of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from schema.identity import Key
from schema.instants import SECOND
from store.past import Recorded

WINDOW = 300 * SECOND
"""A controller's consequence follows within this; what comes later stands for itself."""

REACH = 2 * WINDOW
"""How far below a change one must have read to know its group: a stretch of time, and a head before its begin."""

_CONTROLLERS = frozenset(
    {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "cloud-controller-manager"}
)


@dataclass(slots=True)
class Group:
    """A change and its consequences, oldest first."""

    head: Recorded
    members: list[Recorded] = field(default_factory=list)


def fold(changes: Sequence[Recorded], roots_of: Callable[[Recorded], Sequence[Key]]) -> list[Group]:
    """The changes as groups, newest head first. `roots_of` gives a change's root, then the roots that it is about."""
    groups: list[Group] = []
    heads: dict[Key, Group] = {}
    loose: dict[tuple[Key, int], Group] = {}
    # Among changes of one instant the heads go first: a recording's clock may be too coarse to tell who was first.
    rooted = [(roots_of(one), one) for one in changes]
    rooted.sort(key=lambda pair: (pair[1].vf, not leads(pair[1], pair[0][0]), pair[1].seq))
    for (root, *about), one in rooted:
        if leads(one, root):
            heads[root] = Group(one)
            groups.append(heads[root])
            continue
        recent = [heads[key] for key in (root, *about) if key in heads and one.vf - heads[key].head.vf <= WINDOW]
        if recent:
            own = heads.get(root)
            under = own if own in recent and own is not None else max(recent, key=lambda group: group.head.vf)
            under.members.append(one)
            continue
        # Stretches have fixed bounds, so that a group is the same wherever reading began.
        stretch = (root, one.vf // WINDOW)
        if stretch in loose:
            loose[stretch].members.append(one)
        else:
            loose[stretch] = Group(one)
            groups.append(loose[stretch])
    groups.sort(key=lambda group: (group.head.vf, group.head.seq), reverse=True)
    return groups


def leads(one: Recorded, root: Key) -> bool:
    """Whether a change is somebody's doing, not the consequence of another."""
    change = one.change
    # What a relist found is the work of several hands; the last of them says nothing about the others.
    if change.actor.manager in _CONTROLLERS and "from_relist" not in change.flags:
        return False
    # Below a root only what is signed counts: nobody signs a delete, and most of those are a controller's.
    if change.object.key != root and (change.actor.manager is None or "from_relist" in change.flags):
        return False
    return change.op != "update" or any(not field.path.startswith("status") for field in change.fields)

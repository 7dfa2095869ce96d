"""A small cluster made of plain Kubernetes objects, with a past: what checks are tried on.

Objects are put as they would be sent; edges are derived and changes compared by the product itself.
"""

from __future__ import annotations

import copy
from collections import defaultdict

from capture.diff import diff
from diagnose.check import Check, Found
from diagnose.slices import Seen, Slice
from schema.identity import Key, parse_key, type_of
from schema.instants import SECOND
from schema.kinds import class_of
from schema.records import Change, Evidence, FieldChange, ObjectRef, Valid
from store.derive import JOINS, derive
from store.derive.addresses import lent_by
from store.derive.sides import filled, meet, shown_by
from store.past import Edge, Recorded

NOW = 10_000 * SECOND
CLUSTER_WIDE = {
    "Node", "Namespace", "PersistentVolume", "StorageClass", "PriorityClass", "ClusterRole", "ClusterRoleBinding",
    "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "CustomResourceDefinition", "IngressClass",
    "APIService",
}  # fmt: skip


def ref_of(obj: dict) -> ObjectRef:
    meta, type_ = obj["metadata"], type_of(obj["apiVersion"], obj["kind"])
    return ObjectRef(
        source="kubernetes", scope="lab", type=type_, kind=obj["kind"], class_=class_of(type_),
        namespace=meta.get("namespace"), name=meta["name"], uid=meta.get("uid"),
    )  # fmt: skip


def obj(api: str, kind: str, name: str = "cart", *, ns: str = "shop", meta: dict | None = None, **body) -> dict:
    """An object; its uid is `uid-NAME` unless `meta` says otherwise."""
    head = {"name": name, "uid": f"uid-{kind}-{name}", **(meta or {})}
    if kind not in CLUSTER_WIDE:
        head["namespace"] = ns
    return {"apiVersion": api, "kind": kind, "metadata": head, **body}


def owned(by: dict) -> dict:
    ref = {"apiVersion": by["apiVersion"], "kind": by["kind"], "name": by["metadata"]["name"],
           "uid": by["metadata"]["uid"], "controller": True}  # fmt: skip
    return {"ownerReferences": [ref]}


class World:
    """`put` with `ago` is a change so many seconds ago; without, it was so before the recording. `unwatched`: types
    that nobody watched."""

    def __init__(self, *objects: dict, unwatched: tuple[str, ...] = ()) -> None:
        self._told: dict[Key, list[tuple[int | None, dict | None, ObjectRef]]] = defaultdict(list)
        self._heard: list[Evidence] = []
        self._unwatched = unwatched
        for one in objects:
            self.put(one)

    def put(self, one: dict, ago: float | None = None) -> World:
        ref = ref_of(one)
        at = None if ago is None else NOW - int(ago * SECOND)
        self._told[ref.key].append((at, copy.deepcopy(one), ref))
        return self

    def remove(self, one: dict, ago: float) -> World:
        ref = ref_of(one)
        self._told[ref.key].append((NOW - int(ago * SECOND), None, ref))
        return self

    def heard(
        self, one: dict, reason: str, message: str = "", *, ago: float = 5, first: float = 60, times: int = 3,
        severity: str = "Warning",
    ) -> World:  # fmt: skip
        self._heard.append(
            Evidence(
                id=f"{len(self._heard):032x}", kind="event", object=ref_of(one), at=NOW - int(ago * SECOND),
                first_at=NOW - int(first * SECOND), observed_at=NOW, severity=severity, reason=reason,
                message=message, count=times, occurrences=times,
            )
        )  # fmt: skip
        return self

    # -- what a slice asks for

    def changes(self, key: Key) -> list[Recorded]:
        found: list[Recorded] = []
        before: dict | None = None
        for number, (at, after, ref) in enumerate(self._told.get(key, ())):
            if at is not None:
                op = "delete" if after is None else "create" if before is None else "update"
                rows = diff(before, after, key.type).fields if op == "update" else []
                fields = [FieldChange(path=r.path, pointer=r.pointer, effect=r.effect, before=r.before, after=r.after)
                          for r in rows]  # fmt: skip
                found.append(
                    Recorded(
                        number, at,
                        Change(id=f"{at:x}{hash(str(key)) % 2**40:010x}".rjust(32, "0")[-32:], op=op, object=ref,
                               valid=Valid(not_before=at, not_after=at), observed_at=at, fields=fields),
                    )
                )  # fmt: skip
            before = after
        return found[::-1]

    def recent(self, type_: str) -> list[Recorded]:
        found = [one for key in self._told if key.type == type_ for one in self.changes(key)]
        return sorted(found, key=lambda one: one.vf, reverse=True)

    def before(self, key: Key, at: int) -> dict | None:
        past = [state for when, state, _ in self._told.get(key, ()) if when is None or when < at]
        return past[-1] if past else None

    def slice(self) -> Slice:
        living = {
            key: (told[-1][2], told[-1][1]) for key, told in self._told.items() if told[-1][1] is not None
        }  # fmt: skip
        facts = [fact for ref, state in living.values() for fact in derive(ref, state)]
        lent = {key: lent_by(ref, state) for key, (ref, state) in living.items()}
        shown = [filled(shown_by(ref, state), lent.get) for ref, state in living.values()]
        facts += [
            fact
            for side in range(0, 2 * len(JOINS), 2)
            for one in shown
            for other in shown
            if one is not other
            for fact in meet(side, one[side], other[side + 1]).values()
        ]
        edges = [
            Edge(one.predicate, parse_key(one.src), parse_key(one.dst), one.attrs, one.basis, one.confidence, one.rule,
                 None, NOW * 2)
            for one in facts
        ]  # fmt: skip
        objects = {key: Seen(ref.kind, ref.class_, ref.uid, state) for key, (ref, state) in living.items()}
        return Slice(NOW, objects, edges, self._heard, self, lambda type_, _: type_ not in self._unwatched)

    def find(self, check: Check) -> list[Found]:
        return list(check.find(self.slice()))

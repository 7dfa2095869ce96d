"""Random histories of a small estate: in order, late, duplicate, amended, retracted, deleted, recreated."""

from __future__ import annotations

import random
from dataclasses import dataclass

from schema.canonical import digest
from schema.records import Amend, Change, ObjectRef, Record, Retract, State, Valid, dump

SCOPE = "kubernetes/lab"
KINDS = {
    "core/Pod": ("Pod", "Pod"),
    "core/Service": ("Service", "Service"),
    "apps/ReplicaSet": ("ReplicaSet", "Workload"),
    "apps/Deployment": ("Deployment", "Workload"),
    "core/ConfigMap": ("ConfigMap", "Config"),
}


@dataclass(frozen=True)
class Entry:
    position: int
    s: int
    scope: str
    raw: bytes


class MemoryLog:
    """A log of what a history wrote, with the system time rule of the real one."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def append(self, record: Record, at: int) -> int:
        s = max(self.entries[-1].s + 1 if self.entries else 0, at)
        self.entries.append(Entry(len(self.entries) + 1, s, SCOPE, dump(record)))
        return s

    def read(self, after: int = 0, limit: int = 1000) -> list[Entry]:
        return [entry for entry in self.entries if entry.position > after][:limit]


def _state(rng: random.Random, type_: str, name: str) -> dict:
    meta = {"name": name, "namespace": "shop"}
    labels = {"app": rng.choice("ab"), "tier": rng.choice("xy")}
    if type_ == "core/Pod":
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "r0",
            "uid": f"r0-{rng.randrange(2)}",
            "controller": True,
        }
        meta |= {"labels": labels, "ownerReferences": [owner]}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"nodeName": rng.choice(["n1", "n2"]), "containers": []},
        }
    if type_ == "core/Service":
        selector = {"app": rng.choice("ab")} if rng.random() < 0.8 else {}
        spec = {"selector": selector, **({"clusterIP": "None"} if rng.random() < 0.5 else {})}
        return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    if type_ == "core/ConfigMap":
        data = {"HOST": rng.choice(["s0", "s1", "nowhere"]), "PORT": rng.choice(["80", "81"])}
        data |= {"app.conf": rng.choice(["# s0:80", "call s1:80\nand s0.shop.svc:82", "http://p0.s1/"])}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    if type_ == "apps/Deployment":
        template = {"metadata": {"labels": labels}, "spec": _callers(rng)}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"template": template}}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": rng.choice(["d1", "d2"]),
        "uid": "d",
        "controller": True,
    }
    meta |= {"ownerReferences": [owner], "annotations": {"deployment.kubernetes.io/revision": rng.choice("12")}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": []}}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": {"template": template}}


def _callers(rng: random.Random) -> dict:
    """A pod spec whose addresses are its own, or those of one or two ConfigMaps."""
    env = [{"name": "S_ADDR", "value": rng.choice(["s0:80", "s1.shop.svc", "p0.s0", "nowhere:1"])}]
    if rng.random() < 0.5:
        env += [{"name": "HOST", "valueFrom": {"configMapKeyRef": {"name": rng.choice(["c0", "c1"]), "key": "HOST"}}}]
    if rng.random() < 0.7:
        env += [{"name": "S_URL", "value": "http://$(HOST):$(PORT)/"}]
    whole = [{"configMapRef": {"name": rng.choice(["c0", "c1"])}}] if rng.random() < 0.5 else []
    volumes = [{"name": "v", "configMap": {"name": "c1"}}] if rng.random() < 0.4 else []
    return {"containers": [{"name": "m", "env": env, "envFrom": whole}], "volumes": volumes}


def random_history(seed: int, length: int) -> list[tuple[Record, int]]:
    """Records with their append times. Amendments stay below the clock, as nothing is known before it is so."""
    rng = random.Random(seed)
    clock = 100
    chain: dict[tuple[str, str], tuple[ObjectRef, dict | None]] = {}
    ids: list[str] = []
    out: list[tuple[Record, int]] = []
    for number in range(length):
        clock += rng.choice([0, 0, 1, 3, 10])
        fresh = digest([seed, number])
        roll = rng.random()
        type_ = rng.choice(list(KINDS))
        name = f"{type_[5].lower()}{rng.randrange(2)}"
        if type_ == "apps/ReplicaSet":
            name = f"r{rng.randrange(2)}"
        kind, class_ = KINDS[type_]
        ref, state = chain.get((type_, name), (None, None))
        uid = ref.uid if ref is not None and state is not None else f"{name}-{rng.randrange(2)}"
        now = ObjectRef(
            source="kubernetes", scope="lab", type=type_, kind=kind, class_=class_, namespace="shop", name=name, uid=uid
        )
        instant = clock if rng.random() < 0.7 else max(0, clock - rng.randrange(60))
        valid = Valid(not_before=max(0, instant - rng.randrange(15)), not_after=instant)
        if roll < 0.08 and ids:
            when = max(0, clock - rng.randrange(80))
            amended = Valid(not_before=max(0, when - 3), not_after=when)
            out.append(
                (
                    Amend(
                        id=fresh,
                        source="kubernetes",
                        scope="lab",
                        amends=rng.choice(ids),
                        observed_at=clock,
                        valid=amended,
                    ),
                    clock,
                )
            )
        elif roll < 0.13 and ids:
            out.append(
                (
                    Retract(
                        id=fresh,
                        source="kubernetes",
                        scope="lab",
                        retracts=rng.choice(ids),
                        observed_at=clock,
                        reason="test",
                    ),
                    clock,
                )
            )
        elif roll < 0.17 and out:
            out.append((rng.choice(out)[0], clock))
        elif roll < 0.27:
            late = _state(rng, type_, name)
            out.append(
                (
                    State(
                        id=fresh,
                        object=now,
                        valid=valid,
                        observed_at=clock,
                        digest=digest(late),
                        state=late,
                        reason="test",
                    ),
                    clock,
                )
            )
            ids.append(fresh)
        elif state is not None and roll < 0.37:
            out.append(
                (Change(id=fresh, op="delete", object=now, valid=valid, observed_at=clock, base=digest(state)), clock)
            )
            chain[type_, name] = (now, None)
            ids.append(fresh)
        else:
            new = _state(rng, type_, name)
            op = "create" if state is None else "update"
            patch = (
                [{"op": "add", "path": "", "value": new}]
                if state is None
                else [{"op": "replace", "path": f"/{part}", "value": new[part]} for part in new]
            )
            base = None if state is None else digest(state)
            out.append(
                (
                    Change(
                        id=fresh,
                        op=op,
                        object=now,
                        valid=valid,
                        observed_at=clock,
                        base=base,
                        digest=digest(new),
                        patch=patch,
                    ),
                    clock,
                )
            )
            chain[type_, name] = (now, new)
            ids.append(fresh)
    return out

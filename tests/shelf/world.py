"""A small API server that says what a real one could say, for tests of what a recorder makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from capture.kubernetes.recording import BadLine, Line
from schema import instants
from tests.reflector.lines import T0, S

PARTS: dict[str, tuple[str, str | None]] = {
    "core/configmaps namespace=shop": ("v1/configmaps", "namespace=shop"),
    "core/configmaps namespace=till": ("v1/configmaps", "namespace=till"),
    "core/services": ("v1/services", None),
    "core/events": ("v1/events", None),
}
NAMES = [*PARTS]


@dataclass
class Server:
    """Objects by watch and name; `pending`: lines that each watch has not delivered."""

    rv: int = 100
    t: int = T0
    objects: dict[str, dict[str, dict]] = field(default_factory=lambda: {name: {} for name in NAMES})
    pending: dict[str, list[tuple[str, dict]]] = field(default_factory=lambda: {name: [] for name in NAMES})
    sent: dict[str, list[tuple[str, dict]]] = field(default_factory=lambda: {name: [] for name in NAMES})
    uids: Iterator[int] = field(default_factory=lambda: count(1))

    def step(self, watch: str, what: str, n: int) -> list[Line | BadLine]:
        """One thing that happens; the lines that it makes the watch say."""
        self.t += (n % 7) * S + n + 1
        name = f"o{n % 3}"
        if what in ("write", "touch", "delete", "again"):
            self._change(watch, what, name, n)
            return []
        if what == "deliver":
            some, self.pending[watch] = self.pending[watch][: n % 4 + 1], self.pending[watch][n % 4 + 1 :]
            self.sent[watch] += some
            return [self._line(watch, type_, object=body) for type_, body in some]
        if what == "old":  # Something is said again.
            return [self._line(watch, *one[:1], object=one[1]) for one in self.sent[watch][-1 - n % 3 :][:1]]
        if what == "list":
            return self._list(watch, n % 3 + 1)
        if what == "half":
            return self._list(watch, 3)[:-1]
        if what == "bad":
            # What could not be read was an event, or is none.
            del self.pending[watch][:1]
            resource, part = PARTS[watch]
            return [BadLine(n, "not JSON", *((resource, self.t, part) if n % 2 else (None, self.t, None)))]
        if what == "malformed":
            return [self._line(watch, "MODIFIED", object={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})]
        if what == "forbidden":
            return [self._line(watch, "ERROR", object={"kind": "Status", "apiVersion": "v1", "code": 403})]
        if what == "bookmark":
            # All that came before it has been said.
            return [*self.step(watch, "deliver", 99), self._line(watch, "BOOKMARK", object={})]
        assert what in ("GAP", "RESUMED"), what
        return [self._line(watch, what)]

    def _change(self, watch: str, what: str, name: str, n: int) -> None:
        there = self.objects[watch]
        old = there.get(name)
        if what == "delete" or (what == "again" and old is not None):
            if old is None:
                return
            self.rv += 1
            gone = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.rv)}}
            del there[name]
            self.pending[watch].append(("DELETED", gone))
            old = None
            if what == "delete":
                return
        if what == "touch" and old is None:
            return
        self.rv += 1
        there[name] = self._made(watch, name, n if what == "write" or old is None else None, old)
        self.pending[watch].append(("ADDED" if old is None else "MODIFIED", there[name]))

    def _made(self, watch: str, name: str, n: int | None, old: dict | None) -> dict:
        resource, part = PARTS[watch]
        kind = {"v1/configmaps": "ConfigMap", "v1/services": "Service", "v1/events": "Event"}[resource]
        space = part.partition("=")[2] if part else "shop"
        meta = {
            "name": name, "namespace": space, "resourceVersion": str(self.rv),
            "uid": old["metadata"]["uid"] if old else f"u{next(self.uids)}",
            "creationTimestamp": old["metadata"]["creationTimestamp"] if old else instants.show(self.t // S * S),
            "managedFields": [
                {"manager": f"m{(n or 0) % 2}", "operation": "Update", "apiVersion": "v1",
                 "time": instants.show(self.t // S * S), "fieldsV1": {"f:data": {"f:size": {}}}},
            ],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": f'{{"n":{n}}}'},
        }  # fmt: skip
        value = old.get("data") if n is None and old else {"size": str(n), "password": f"hunter{n}", "same": "x" * 20}
        more: dict = {"data": value}
        if kind == "Event":
            more = {
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": space, "name": "p"},
                "count": (old["count"] if old else 0) + 1, "lastTimestamp": instants.show(self.t), "reason": "BackOff",
            }  # fmt: skip
        return {"apiVersion": "v1", "kind": kind, "metadata": meta, **more}

    def _list(self, watch: str, pages: int) -> list[Line | BadLine]:
        items, self.pending[watch] = [*self.objects[watch].values()], []
        out: list[Line | BadLine] = []
        for page in range(pages):
            some, more = tuple(items[page::pages]), page < pages - 1
            out.append(self._line(watch, "LIST", rv=str(self.rv), items=some, more=more))
            self.t += S
        return out

    def _line(self, watch: str, type_: str, **more) -> Line:
        resource, part = PARTS[watch]
        return Line(0, self.t, resource, type_, part=part, **more)

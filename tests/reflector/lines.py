"""Lines of a watch, a reflector to feed them to, and what it told: the words in which tests of watches speak."""

from __future__ import annotations

from capture.kubernetes.recalling import Recall
from capture.kubernetes.recording import Line, Resource
from capture.kubernetes.reflector import Reflector
from capture.kubernetes.watched import InMemory, Memory
from capture.normalise import Prepared
from capture.redact import Redactor
from schema import instants
from schema.records import Change, Coverage, Evidence, Record, Valid

T0 = instants.parse("2026-03-01T03:00:00Z")
S = instants.SECOND
R = "v1/configmaps"
CMS = "core/configmaps"


RESOURCES = (
    Resource("", "v1", "configmaps", "ConfigMap"), Resource("", "v1", "services", "Service"),
    Resource("apps", "v1", "deployments", "Deployment"),
)  # fmt: skip


def reflector(memory: Memory | None = None) -> Reflector:
    return Reflector("lab", Redactor(b"k" * 32), "e", RESOURCES, memory)


def recalling(objects: list[tuple[Prepared, Valid]], until: dict[str, int]) -> Reflector:
    """A later run, told what was alive when the one before ended."""
    memory = InMemory()
    Recall(memory, RESOURCES).living(objects, until)
    return reflector(memory)


def cm(name="a", rv="10", uid="u1", born="2026-02-01T00:00:00Z", data="1", **meta):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": uid,
            "resourceVersion": rv,
            "creationTimestamp": born,
            **meta,
        },
        "data": {"size": data},
    }


def lst(at, *items, rv="100", r=R):
    return Line(0, T0 + at * S, r, "LIST", rv=rv, items=items)


def ev(at, type_, obj, r=R):
    return Line(0, T0 + at * S, r, type_, object=obj)


def gap(at, reason="disconnect"):
    return Line(0, T0 + at * S, R, "GAP", reason=reason)


def run(*lines, core=None):
    core = core or reflector()
    return [record for line in lines for record in core.feed(line)]


def changes(records: list[Record]) -> list[Change]:
    return [record for record in records if isinstance(record, Change)]


def covers(records: list[Record]) -> list[tuple[str, str | None]]:
    return [(record.state, record.reason) for record in records if isinstance(record, Coverage)]


def ops(records):
    return [change.op for change in changes(records)]


def event(count=1, rv="1", **more):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": "shop", "uid": "e1", "resourceVersion": rv},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "p", "uid": "u9"},
        "reason": "BackOff",
        "message": "again",
        "type": "Warning",
        "count": count,
        **more,
    }


def heard(*lines, core=None) -> list[Evidence]:
    return [record for record in run(*lines, core=core) if isinstance(record, Evidence)]

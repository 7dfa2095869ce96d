"""What a recorder needs for each object it knows, in memory and on disk, against a dict of all of them.

    python -m bench.memory [--objects 50000]

Pods of the bundled recordings under new names and uids are listed in pages of 500 and listed again unchanged, through
a reflector that remembers in a dict of Python objects (as for recordings), and through one that remembers on a shelf.
Each in a process of its own; resident memory is the most it ever had, less what an empty reflector has.

Printed for 50,000 pods of 6.6 KB on one core of two: 40 KB an object in a dict (2 GB), 3.8 KB on a shelf (190 MB, of
which 96 MB are what is held ready) and 1.5 KB on disk. A relist that finds nothing new takes 60 s of CPU instead of 21:
each object is read, unpacked and redacted again. What would lift that: prints of fields that outlive the process.
"""

from __future__ import annotations

import argparse
import gzip
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from rich.console import Console
from rich.table import Table

from bench.capture import BUNDLED, REDACTOR, objects
from capture.kubernetes.recalling import Recall
from capture.kubernetes.recording import Line, Resource
from capture.kubernetes.reflector import Reflector
from capture.kubernetes.shelf import Shelf
from capture.kubernetes.watched import InMemory
from schema.instants import SECOND

PAGE = 500
START = 1_800_000_000 * SECOND
PODS = Resource("", "v1", "pods", "Pod")


class Spent(NamedTuple):
    """CPU seconds of a first list and of one without news; bytes in memory and on disk; bytes of JSON sent."""

    listed: float
    again: float
    resident: int
    disk: int
    sent: int


def pods() -> list[bytes]:
    """Pods that run, as the API server sent them."""
    found: dict[str, bytes] = {}
    for path in BUNDLED:
        for raw in gzip.decompress(path.read_bytes()).splitlines()[1:]:
            for one in objects(raw) if b'"r":"v1/pods"' in raw[:80] else ():
                if one.get("status", {}).get("containerStatuses"):
                    found[one["metadata"]["uid"]] = orjson.dumps(one)
    return [*found.values()]


def pages(count: int, t: int, patterns: list[bytes]) -> Iterator[Line]:
    """A whole list, its objects the same at every call."""
    for first in range(0, count, PAGE):
        items = []
        for n in range(first, min(count, first + PAGE)):
            one: dict[str, Any] = orjson.loads(patterns[n % len(patterns)])
            meta = one["metadata"]
            meta["name"], meta["uid"] = f"{meta['name']}-{n:x}", f"{n:08x}{meta['uid'][8:]}"
            meta["resourceVersion"] = str(n + 1)
            items.append(one)
        more = first + PAGE < count
        yield Line(0, t + first, PODS.path, "LIST", rv=str(count + 1), items=tuple(items), more=more)


def run(way: str, count: int, out: multiprocessing.Queue[Spent]) -> None:
    patterns = pods()
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "lab.sqlite"
        shelf = Shelf(path, "lab", REDACTOR.redact_text) if way == "shelf" else None
        memory = shelf or InMemory()
        Recall(memory, [PODS], ["core/pods"])
        reflector = Reflector("lab", REDACTOR, "bench", [PODS], memory)
        for line in pages(0, START, patterns):
            reflector.feed(line)
        before, spent = _resident(), []
        for turn in range(2):
            start = time.process_time()
            for line in pages(count, START + turn * 3600 * SECOND, patterns):
                reflector.feed(line)
                if shelf is not None:
                    shelf.commit(turn + 1)
            spent.append(time.process_time() - start)
        resident = _resident() - before
        if shelf is not None:
            shelf.close()
        disk = sum(one.stat().st_size for one in Path(home).iterdir())
        sent = sum(len(patterns[n % len(patterns)]) for n in range(count))
        out.put(Spent(spent[0], spent[1], resident, disk, sent))


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=50_000)
    count = parser.parse_args(arguments).objects
    context = multiprocessing.get_context("spawn")
    found: dict[str, Spent] = {}
    for way in ("dict", "shelf"):
        queue: multiprocessing.Queue[Spent] = context.Queue()
        process = context.Process(target=run, args=(way, count, queue))
        process.start()
        found[way] = queue.get()
        process.join()
    table = Table(title=f"{count:,} pods of {found['dict'].sent / count / 1e3:.1f} KB")
    for name in ("memory", "list s", "relist s", "MB", "bytes/object", "disk bytes/object", "x dict in memory"):
        table.add_column(name, justify="left" if name == "memory" else "right")
    for way, one in found.items():
        table.add_row(
            way, f"{one.listed:.1f}", f"{one.again:.1f}", f"{one.resident / 1e6:,.0f}", f"{one.resident / count:,.0f}",
            f"{one.disk / count:,.0f}", f"{one.resident / max(1, found['dict'].resident):.2f}",
        )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

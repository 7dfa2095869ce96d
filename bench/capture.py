"""Raw watch lines a second on one core, against a naive parse-and-compare and against jsonpatch on the same objects.

    python -m bench.capture [RECORDING ...] [--rounds 3]

Ours: a line is parsed, its object normalised, redacted and compared, and its records made (their bytes apart, in the
row below). Naive: the line is parsed and its object compared with the last one of its uid, no more. jsonpatch: parsed,
and `make_patch` from the last one to this one. All three read the same lines from memory, file by file in turn, so
that a busy machine slows them alike; CPU time, best of the rounds for each file.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonpatch
import orjson
from rich.console import Console
from rich.table import Table

from capture.kubernetes.recording import BadLine, open_recording, parse_line
from capture.kubernetes.reflector import Reflector
from capture.redact import Redactor
from schema.records import dump

BUNDLED = sorted((Path(__file__).parents[1] / "tests" / "recordings").glob("*.jsonl.gz"))
REDACTOR = Redactor(b"bench" * 7)


def objects(raw: bytes) -> list[dict[str, Any]]:
    body = orjson.loads(raw)
    return body.get("items") or ([body["object"]] if "object" in body else [])


def naive(path: Path, lines: list[bytes]) -> int:
    last: dict[str, dict[str, Any]] = {}
    found = 0
    for raw in lines:
        for one in objects(raw):
            uid = one["metadata"].get("uid")
            found += last.get(uid) != one
            last[uid] = one
    return found


def patched(path: Path, lines: list[bytes]) -> int:
    last: dict[str, dict[str, Any]] = {}
    found = 0
    for raw in lines:
        for one in objects(raw):
            uid = one["metadata"].get("uid")
            if uid in last:
                found += bool(jsonpatch.make_patch(last[uid], one).patch)
            last[uid] = one
    return found


def ours(path: Path, lines: list[bytes], write: Callable[[object], object] = id) -> int:
    header, _ = open_recording(path)
    reflector = Reflector(header.cluster, REDACTOR, header.epoch, header.resources)
    found = 0
    for number, raw in enumerate(lines, 2):
        line = parse_line(number, raw)
        assert not isinstance(line, BadLine)
        for record in reflector.feed(line):
            write(record)
            found += 1
    return found


def written(path: Path, lines: list[bytes]) -> int:
    return ours(path, lines, dump)  # type: ignore[arg-type]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", type=Path, default=BUNDLED)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args(arguments)
    ways = {"parse and compare": naive, "jsonpatch.make_patch": patched, "capture": ours, "capture, as bytes": written}
    spent, found = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0)
    lines, size = 0, 0
    for path in args.recordings:
        raw = gzip.decompress(path.read_bytes()).splitlines()[1:]
        lines, size = lines + len(raw), size + sum(map(len, raw))
        for name, way in ways.items():
            times = []
            for _ in range(1 if way is patched else args.rounds):
                start = time.process_time()
                count = way(path, raw)
                times.append(time.process_time() - start)
            spent[name] += min(times)
            found[name] += count
    table = Table(title=f"{lines:,} lines, {size / 1e6:.0f} MB of {len(args.recordings)} recordings, one core")
    for name in ("way", "lines/s", "MB/s", "us/line", "found", "x jsonpatch"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for name, seconds in spent.items():
        table.add_row(
            name, f"{lines / seconds:,.0f}", f"{size / seconds / 1e6:.0f}", f"{seconds / lines * 1e6:.0f}",
            f"{found[name]:,}", f"{spent['jsonpatch.make_patch'] / seconds:.1f}",
        )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

"""A recording file through the reflector: records with the append time of the line that gave them.

The same file always gives the same records in the same order; which log they go to is left to the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from capture.kubernetes.recalling import Recall
from capture.kubernetes.recording import BadLine, open_recording
from capture.kubernetes.reflector import Reflector
from capture.kubernetes.watched import InMemory
from capture.normalise import Prepared
from capture.redact import Redactor
from schema.records import Coverage, Record, Valid


class Replay:
    """One file being replayed. After iterating, `bad` holds the lines that could not be used; `epoch` names the run."""

    def __init__(self, path: str | Path, redactor: Redactor, scope: str | None = None) -> None:
        self.header, self._lines = open_recording(path)
        self.scope = scope or self.header.cluster
        self.epoch = self.header.epoch
        self.bad: list[BadLine] = []
        self._redactor = redactor
        self._memory = InMemory()

    def recall(self, objects: Iterable[tuple[Prepared, Valid]], ended: Mapping[str, int]) -> None:
        """Tell what the scope was when this recording began; before iterating."""
        Recall(self._memory, self.header.resources).living(objects, ended)

    @cached_property
    def _reflector(self) -> Reflector:
        return Reflector(self.scope, self._redactor, self.epoch, self.header.resources, self._memory)

    def goes_on(self, ended: Mapping[str, int], t: int) -> list[Record]:
        """Takes back that each group-resource ended when an earlier, shorter form of this file did."""
        return [one for name, since in ended.items() for one in self._reflector.goes_on([name], since, t)]

    def __iter__(self) -> Iterator[tuple[Record, int]]:
        last = self.header.started
        for line in self._lines:
            if isinstance(line, BadLine):
                self.bad.append(replace(line, reason=self._redactor.redact_text(line.reason)))
                last = max(last, line.t or last)
                for record in self._reflector.miss(line, last):
                    yield record, last
                continue
            last = max(last, line.t)
            for record in self._reflector.feed(line):
                yield record, line.t
        for record in self._reflector.end(last):
            yield record, last


def is_end(record: Record) -> bool:
    """Whether a record only says that the recording was read to its end: a longer form of the file has none there."""
    return isinstance(record, Coverage) and record.state == "ended"


def capture_file(path: str | Path, scope: str | None = None, *, redactor: Redactor) -> Iterator[tuple[Record, int]]:
    """Every record of a recording and its append time. Raises BadRecording when the file is not one."""
    return iter(Replay(path, redactor, scope))

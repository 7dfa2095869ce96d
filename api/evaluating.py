"""Recordings with a known truth, answered and marked: each is replayed into a home of its own, asked at its end, and
its healthy part at every change.

What the marks mean is `diagnose.scoring`. A recording `x.jsonl.gz` has its truth beside it in `x.truth.json`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from api import home, replaying
from api.questions import settle
from api.settings import Settings
from api.slices import Film
from diagnose.catalogue import READS, run
from diagnose.scoring import Score, named, score, truth_of
from schema.errors import InputError

_TRUTH = ".truth.json"


@dataclass(frozen=True, slots=True)
class Marked:
    """A recording, its marks, the checks that found something at its end, and the seconds that all of it took."""

    file: str
    score: Score
    checks: tuple[str, ...]
    seconds: float


def recordings(folder: Path) -> list[Path]:
    """The recordings of a folder that have a truth. Raises InputError where there is none."""
    found = [path for path in sorted(folder.glob("*.jsonl.gz")) if _truth(path).exists()]
    if not found:
        raise InputError(f"no recording with a truth in {folder}", hint="x.jsonl.gz needs x.truth.json beside it")
    return found


def evaluate(files: Sequence[Path], progress: Callable[[int], None] | None = None) -> list[Marked]:
    """Mark recordings, in parallel; in the order of the files."""
    found: dict[Path, Marked] = {}
    with ProcessPoolExecutor(min(len(files), os.cpu_count() or 1)) as pool:
        waiting = {pool.submit(mark, file): file for file in files}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            if progress is not None:
                progress(1)
    return [found[file] for file in files]


def mark(file: Path) -> Marked:
    """Mark one recording."""
    begun = time.monotonic()
    truth = truth_of(orjson.loads(_truth(file).read_bytes()))
    with TemporaryDirectory(prefix="hindgraph-eval-") as place:
        settings = Settings(home=Path(place))
        replaying.replay(settings, [file])
        with home.past(settings) as rewind:
            moment = settle(rewind)
            film = Film(rewind, moment, READS)
            first = min((one.at for one in truth.causes), default=moment.at + 1)
            sound = sorted({one.vf for one in film.changes if one.vf < first})
            if truth.healthy:
                sound.append(moment.at)
            noisy = sum(bool(run(film.at(instant))[0]) for instant in sound)
            findings, _ = run(film.at(moment.at))
    marks = score(truth, named(findings), noisy, len(sound))
    checks = tuple(dict.fromkeys(one.check.id for one in findings))
    return Marked(file.name.removesuffix(".jsonl.gz"), marks, checks, time.monotonic() - begun)


def _truth(file: Path) -> Path:
    return file.with_name(file.name.removesuffix(".jsonl.gz") + _TRUTH)

"""A shelf is the same memory as one that is not on disk, whatever is held ready, committed, or lost by a crash."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from capture.kubernetes.recalling import Recall
from capture.kubernetes.recording import Line
from capture.kubernetes.shelf import Shelf
from capture.kubernetes.telling import name_of
from capture.kubernetes.watched import InMemory, Known, Memory
from capture.redact import Redactor
from schema.identity import Key
from schema.records import Change, Coverage, Record, State, dump
from tests.reflector.lines import RESOURCES, S, reflector
from tests.shelf.world import NAMES, Server

REDACTOR = Redactor(b"k" * 32)
HAPPENS = ["write", "write", "touch", "delete", "again"]
SAID = ["deliver", "deliver", "list", "half", "bookmark", "GAP", "RESUMED", "bad", "malformed", "forbidden"]
WHAT = [*HAPPENS, *SAID, "commit", "restart"]
SIZES = st.sampled_from([0, 20_000, 10_000_000])


def steps(*more: str) -> st.SearchStrategy[list[tuple[str, str, int]]]:
    one = st.tuples(st.sampled_from(NAMES), st.sampled_from([*WHAT, *more]), st.integers(0, 99))
    return st.lists(one, max_size=60)


class Twins:
    """Two reflectors fed alike: one remembers in memory and lives on, one on a shelf, and is started ever again."""

    def __init__(self, home: str, ready: int) -> None:
        self.path, self.ready = Path(home) / "one.sqlite", ready
        self.server = Server()
        self.log: list[Record] = []
        self.told: list[Record] = []
        self.memory = InMemory()
        Recall(self.memory, RESOURCES, NAMES)
        self.plain = reflector(self.memory)
        self.begin()

    def begin(self) -> None:
        self.shelf = Shelf(self.path, "lab", REDACTOR.redact_text, ready=self.ready)
        recall = Recall(self.shelf, RESOURCES, NAMES)
        for record in self.log[self.shelf.position :]:
            recall.apply(record)
        assert not recall.unplaced
        self.shelf.commit(len(self.log))
        self.kept = reflector(self.shelf)

    def step(self, watch: str, what: str, n: int, *, crash: bool) -> tuple[list[Record], list[Record]]:
        """What both tell of one step."""
        if what == "commit" or (what == "restart" and not crash):
            self.shelf.commit(len(self.log))
        if what == "commit":
            return [], []
        if what == "restart":
            self.shelf.close()
            self.begin()
            t = self.server.t
            return self.add(self.plain.lost(NAMES, t, "away"), self.kept.lost(NAMES, t, "away"))
        a: list[Record] = []
        b: list[Record] = []
        for line in self.server.step(watch, what, n):
            for out, core in ((a, self.plain), (b, self.kept)):
                out += core.feed(line) if isinstance(line, Line) else core.miss(line, line.t or 0)
        return self.add(a, b)

    def add(self, a: list[Record], b: list[Record]) -> tuple[list[Record], list[Record]]:
        self.told += a
        self.log += b
        return a, b

    def finish(self) -> tuple[dict[Key, Known], dict[Key, Known]]:
        """What both know after each watch was listed whole."""
        for watch in NAMES:
            self.step(watch, "list", 0, crash=False)
        return held(self.memory), held(self.shelf)


def held(memory: Memory) -> dict[Key, Known]:
    found = ((key, watch.known.get(key)) for watch in memory.watches() for key in [*watch.known.keys()])
    return {key: known for key, known in found if known is not None}


def plain(known: dict[Key, Known]) -> dict:
    return {
        key: (one.prepared._replace(prints={}, applied_print=None), one.valid, one.whole_at, one.changes)
        for key, one in known.items()
    }


@settings(max_examples=150, deadline=None)
@given(steps("old"), SIZES)
def test_it_tells_what_a_memory_that_lives_on_tells(happens, ready) -> None:
    with TemporaryDirectory() as home:
        twins = Twins(home, ready)
        for step in happens:
            a, b = twins.step(*step, crash=False)
            assert [*map(dump, a)] == [*map(dump, b)]
        known, kept = twins.finish()
        assert plain(known) == plain(kept)
        twins.shelf.close()


@settings(max_examples=150, deadline=None)
@given(steps(), SIZES)
def test_after_a_crash_it_tells_the_same_within_wider_bounds(happens, ready) -> None:
    with TemporaryDirectory() as home:
        twins = Twins(home, ready)
        for step in happens:
            a, b = twins.step(*step, crash=True)
            assert [*map(meant, facts(a))] == [*map(meant, facts(b))]
            for one, other in zip(facts(a), facts(b), strict=True):
                if isinstance(one, Change) and isinstance(other, Change):
                    assert other.valid.not_before <= one.valid.not_before
                    assert other.valid.not_after == one.valid.not_after
        known, kept = twins.finish()
        assert {key: one.prepared.digest for key, one in known.items()} == {
            key: one.prepared.digest for key, one in kept.items()
        }
        ids = [one.id for one in twins.log if isinstance(one, Change)]
        assert len({*ids}) == len(ids)
        assert watched(twins.log, twins.server.t) <= watched(twins.told, twins.server.t)
        twins.shelf.close()


def facts(records: list[Record]) -> list[Record]:
    return [one for one in records if not isinstance(one, Coverage)]


def meant(one: Record) -> object:
    """What a restart does not change: what happened to which object, and what was said."""
    if isinstance(one, Change):
        return one.op, one.object, one.base, one.digest, one.patch, [(f.path, f.effect) for f in one.fields]
    if isinstance(one, State):
        return one.object, one.digest, one.state
    return dump(one)


def watched(records: list[Record], until: int) -> set[tuple[str, int]]:
    """(watch, instant) for seconds that a ledger would say were watched."""
    state: dict[str, list[tuple[int, str]]] = {}
    for one in records:
        if isinstance(one, Coverage):
            name = name_of(one.group_resource, one.namespaces)
            earlier = [each for each in state.get(name, []) if each[0] < one.valid.from_]
            state[name] = [*earlier, (one.valid.from_, one.state)]
    found = set()
    for name, turns in state.items():
        for (since, how), (end, _) in zip(turns, [*turns[1:], (until, "")], strict=True):
            if how == "watching":
                found |= {(name, t) for t in range(-(-since // S) * S, end, S)}
    return found

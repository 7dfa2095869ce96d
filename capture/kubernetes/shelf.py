"""A recorder's memory on disk: the watches, living objects, dead and Events heard of one scope, in one SQLite file.

What was used last is held ready up to a number of bytes, everything else on disk only. Nothing lasts before `commit`,
which comes after the log has the records: the log is never behind, and what a killed recorder told but did not commit
is applied again from there (`recalling`). The file says nothing that the log does not: where it is damaged, it is begun
anew. How a known object is written is `shelved`'s; what the log has, and where the file lies, the caller's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Self

import orjson

from capture.kubernetes.gone import DEATHS, PREDECESSORS, Death, Predecessor
from capture.kubernetes.recent import Recent
from capture.kubernetes.shelf_file import File, Table
from capture.kubernetes.shelved import Codec
from capture.kubernetes.watched import HEARD, Known, Watch
from schema.errors import StoreCorrupt
from schema.identity import Key, parse_key

READY = 96 * 1024 * 1024
"""Bytes of objects that are held ready."""

_SWOLLEN = 7  # Bytes in memory for one of JSON; bench/memory.py shows it.
_COLUMNS = (
    "listed, last, lost, lost_since, hole_at, hole, doubt_since, doubt_until, unread, late_since, late_until, version"
)
_PUT = (
    "INSERT INTO object (watch, key, body) VALUES (?, ?, ?) ON CONFLICT (key, watch) DO UPDATE SET body = excluded.body"
)


class Shelf:
    """The memory of one scope at `path`, for one process at a time.

    `position`: up to which position of the log it is told; 0 where nothing is known. `begun_anew`: why what was there
    could not be used, if so. `redact_text`: what text looks like without credentials. Raises StoreBusy when another
    process has it, StoreVersion when a newer Hindgraph wrote it, StoreError when it cannot be written; each use may
    raise StoreCorrupt, and the next Shelf then begins anew.
    """

    position: int
    heard: Recent[str, tuple[int, int]]
    deaths: Recent[tuple[Key, str], Death]
    predecessors: Recent[Key, Predecessor]

    def __init__(self, path: Path | str, scope: str, redact_text: Callable[[str], str], *, ready: int = READY) -> None:
        self.scope = scope
        self.begun_anew: str | None = None
        self._path = Path(path)
        self._codec = Codec(redact_text)
        self._room = ready
        try:
            self._open()
        except StoreCorrupt as error:
            self.begun_anew = error.message
            self._open()

    def _open(self) -> None:
        self._file = file = File(self._path)
        try:
            ((scope, self.position),) = file.run("SELECT scope, position FROM recorder")
            if scope not in (self.scope, ""):
                file.discard()
                raise StoreCorrupt(f"{self._path} was of {scope}, not of {self.scope}")
            file.write("UPDATE recorder SET scope = ?", self.scope)
            self.heard = Table(file, "heard", HEARD, name=str, key=str, write=orjson.dumps, read=_heard)
            self.deaths = Table(file, "death", DEATHS, name=_dead, key=_dead_again, write=_death, read=_death_again)
            self.predecessors = Table(
                file, "predecessor", PREDECESSORS,
                name=str, key=parse_key, write=self._codec.predecessor, read=self._codec.predecessor_again,
            )  # fmt: skip
            self._ready = _Ready(self._room)
            self._asked: tuple[Key | None, dict[int, bytes]] = (None, {})
            self._watches: dict[str, tuple[int, Watch]] = {}
            self._written: dict[str, Sequence[int | str | None]] = {}
            for id_, name, *row in file.run(f"SELECT id, name, {_COLUMNS} FROM watch ORDER BY id"):
                self._watches[name] = id_, _watch(name, _Objects(self, id_), row)
                self._written[name] = tuple(row)
            file.commit()
        except BaseException:
            file.close()
            raise

    # -- the memory

    def watches(self) -> list[Watch]:
        return [watch for _, watch in self._watches.values()]

    def open(self, name: str) -> Watch:
        ((id_,),) = self._file.write("INSERT INTO watch (name) VALUES (?) RETURNING id", name)
        watch = Watch(name, _Objects(self, id_))
        self._watches[name] = id_, watch
        return watch

    def commit(self, position: int) -> None:
        """What changed lasts from now on, told up to this position of the log."""
        for name, (id_, watch) in self._watches.items():
            row = _row(watch)
            if row != self._written.get(name):
                marks = ", ".join("?" * len(row))
                self._file.write(f"UPDATE watch SET ({_COLUMNS}) = ({marks}) WHERE id = ?", *row, id_)
                self._written[name] = row
        if position != self.position:
            self._file.write("UPDATE recorder SET position = ?", position)
        self._file.commit()
        self.position = position

    def clear(self) -> None:
        """Forget everything: it does not fit the log."""
        self._file.discard()
        self._open()

    def close(self) -> None:
        """Without what was not committed."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- objects, by watch

    def known(self, watch: int, key: Key) -> Known | None:
        found = self._ready.get((watch, key))
        if found is not None:
            return found
        if self._asked[0] != key:
            # Of a key that is new it is asked for each part of the resource in turn.
            self._asked = key, dict(self._file.run("SELECT watch, body FROM object WHERE key = ?", str(key)))
        body = self._asked[1].get(watch)
        if body is None:
            return None
        with self._file.reading():
            size, found = self._codec.known_again(key, body)
        self._ready.put((watch, key), found, size)
        return found

    def put(self, watch: int, key: Key, known: Known) -> None:
        size, body = self._codec.known(known)
        self._file.write(_PUT, watch, str(key), body)
        self._asked = (None, {})
        self._ready.put((watch, key), known, size)

    def drop(self, watch: int, key: Key) -> None:
        self._file.write("DELETE FROM object WHERE key = ? AND watch = ?", str(key), watch)
        self._asked = (None, {})
        self._ready.drop((watch, key))

    def keys(self, watch: int) -> list[Key]:
        return [parse_key(text) for (text,) in self._file.run("SELECT key FROM object WHERE watch = ?", watch)]


class _Objects:
    """The living objects of one watch."""

    __slots__ = ("_shelf", "_watch")

    def __init__(self, shelf: Shelf, watch: int) -> None:
        self._shelf = shelf
        self._watch = watch

    def get(self, key: Key, /) -> Known | None:
        return self._shelf.known(self._watch, key)

    def __setitem__(self, key: Key, known: Known, /) -> None:
        self._shelf.put(self._watch, key, known)

    def pop(self, key: Key, /) -> Known:
        known = self._shelf.known(self._watch, key)
        if known is None:
            raise KeyError(key)
        self._shelf.drop(self._watch, key)
        return known

    def keys(self) -> Collection[Key]:
        return self._shelf.keys(self._watch)


class _Ready:
    """What was used last, up to a number of bytes."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._held: OrderedDict[tuple[int, Key], tuple[Known, int]] = OrderedDict()

    def get(self, name: tuple[int, Key]) -> Known | None:
        found = self._held.get(name)
        if found is None:
            return None
        self._held.move_to_end(name)
        return found[0]

    def put(self, name: tuple[int, Key], known: Known, size: int) -> None:
        """`size`: of its JSON."""
        self.drop(name)
        self._held[name] = known, size * _SWOLLEN
        self._room -= size * _SWOLLEN
        while self._room < 0 and self._held:
            self._room += self._held.popitem(last=False)[1][1]

    def drop(self, name: tuple[int, Key]) -> None:
        found = self._held.pop(name, None)
        if found is not None:
            self._room += found[1]


def _row(watch: Watch) -> tuple[int | str | None, ...]:
    """A watch as the columns `_COLUMNS`. A list that is coming in is not kept: it starts anew."""
    hole, doubt, late = watch.hole or (None, None), watch.doubt or (None, None), watch.late or (None, None)
    return (
        int(watch.listed), watch.last, watch.lost, watch.lost_since, *hole, *doubt, watch.unread, *late,
        watch.version,
    )  # fmt: skip


def _watch(name: str, objects: _Objects, row: Sequence[Any]) -> Watch:
    listed, last, lost, lost_since, hole_at, hole, doubt_since, doubt_until, unread, late_since, late_until, version = (
        row
    )
    return Watch(
        name, objects, bool(listed), last, lost, lost_since,
        hole=None if hole_at is None else (hole_at, hole),
        doubt=None if doubt_since is None else (doubt_since, doubt_until),
        unread=unread,
        late=None if late_since is None else (late_since, late_until),
        version=version,
    )  # fmt: skip


def _heard(_: str, body: bytes) -> tuple[int, int]:
    count, at = orjson.loads(body)
    return count, at


def _dead(name: tuple[Key, str]) -> str:
    # A key has six segments; what follows them is the incarnation.
    return f"{name[0]}/{name[1]}"


def _dead_again(name: str) -> tuple[Key, str]:
    *key, uid = name.split("/", 6)
    return parse_key("/".join(key)), uid


def _death(death: Death) -> bytes:
    return orjson.dumps([*death])


def _death_again(_: tuple[Key, str], body: bytes) -> Death:
    return Death(*orjson.loads(body))

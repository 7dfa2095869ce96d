"""How the rows of the log are bound to one another, and where retention has cut them.

Each row carries the checksum of everything in it and of the row before it. Up to a cut only some rows are left: they
are a chain of their own, and the row behind the cut goes on from the checksum that the last row before it had when the
log was whole. What is in a row, and when one is written, is the business of `store.log`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from sqlite3 import Connection

from schema.errors import StoreCorrupt

GENESIS = bytes(16)
Row = tuple[int, int, str | None, str | None, int, bytes, bytes]
"""position, system time, scope, epoch, coding, body, chain."""

_ROW = (
    "SELECT position, entry.s, scope.name, epoch.name, coding, body, chain FROM entry "
    "LEFT JOIN scope ON scope.id = entry.scope LEFT JOIN epoch ON epoch.id = entry.epoch "
)
# The row at or before the asked position comes along: the chain of the next one starts from its.
READ = _ROW + (
    "WHERE position >= coalesce((SELECT max(position) FROM entry WHERE position <= :after), :after) "
    "ORDER BY position LIMIT :limit"
)


@dataclass(frozen=True, slots=True)
class Cut:
    """Up to `position` only some rows are left, ending in `seal`; the next row continues `anchor`.

    `ended` was the last position of the log when it was cut.
    """

    position: int = 0
    anchor: bytes = GENESIS
    seal: bytes = GENESIS
    ended: int = 0


def cut_of(connection: Connection) -> Cut:
    row = connection.execute("SELECT position, anchor, seal, ended FROM trim").fetchone()
    return Cut() if row is None else Cut(*row)


def link(before: bytes, position: int, s: int, scope: str, epoch: str, coding: int, body: bytes) -> bytes:
    head = f"{position} {s} {coding} {len(scope)} {scope} {len(epoch)} {epoch} ".encode()
    return blake2b(before + head + body, digest_size=16).digest()


def checked(rows: Iterable[Row], after: int, cut: Cut) -> Iterator[tuple[int, int, str, int, bytes]]:
    """(position, system time, scope, coding, body) of the rows behind `after`, each found to be what was written.

    Raises StoreCorrupt naming the first position that is not.
    """
    before, chain = 0, GENESIS
    for position, s, scope, epoch, coding, body, own in rows:
        if position > after:
            if before <= cut.position < position:
                if chain != cut.seal:
                    raise corrupt(before + 1, "is missing")
                before, chain = cut.position, cut.anchor
            if position > cut.position and position != before + 1:
                raise corrupt(before + 1, "is missing")
            if scope is None or epoch is None or own != link(chain, position, s, scope, epoch, coding, body):
                raise corrupt(position, "is not what was written")
            yield position, s, scope, coding, body
        before, chain = position, own


def rewrite(connection: Connection, upto: int, kept: Iterable[tuple[int, tuple[int, bytes] | None]]) -> Cut:
    """Leave of the rows up to `upto` those at the `kept` positions, in order, some with another (coding, body).

    Runs inside the caller's transaction, which writes the cut down when it knows where the log ends.
    """
    run = connection.execute
    old = cut_of(connection)
    upto = max(upto, old.position)
    anchor = old.anchor
    if upto > old.position:
        anchor = run("SELECT chain FROM entry WHERE position = ?", (upto,)).fetchone()[0]
    before, chain = 0, GENESIS
    for position, other in kept:
        run("DELETE FROM entry WHERE position > ? AND position < ?", (before, position))
        _, s, scope, epoch, coding, body, _ = run(_ROW + "WHERE position = ?", (position,)).fetchone()
        coding, body = (coding, body) if other is None else other
        chain = link(chain, position, s, scope, epoch, coding, body)
        values = (coding, body, chain, position)
        run("UPDATE entry SET coding = ?, body = ?, chain = ? WHERE position = ?", values)
        before = position
    run("DELETE FROM entry WHERE position > ? AND position <= ?", (before, upto))
    return Cut(upto, anchor, chain)


def corrupt(position: int, what: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"log position {position} {what}",
        hint="restore the log from a copy, or replay the recordings into a new home",
    )

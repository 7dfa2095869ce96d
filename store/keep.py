"""What a log must keep so that every question at or above the horizon keeps its answer: the plan of a retention.

Of each object two statements decide what comes after the horizon: the end of its chain of patches, and what it is in
by best knowledge (nearly always the same). They stay as `state` records at the position, system time and instants of
what they stand for; all else below the horizon goes. An object is cut earlier, with everything of it behind that cut
kept as it was, while something kept depends on what would go: an amendment, a retraction or a repetition of it, or
something told of an object that was deleted. Coverage stays from where it still held, evidence by its own instant, and
the mark of a broken chain with the state or, where none stays, as the record that broke it.
Nothing is written here; `store.retain` does what the plan says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import orjson

from schema.errors import BadRecord
from schema.identity import oid as oid_of
from schema.instants import MAX
from schema.records import Amend, Change, Coverage, Evidence, Horizon, Record, Retract, State
from store.bodies import unpack
from store.entries import Entry
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.projector import understand

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Statement:
    """One believed change or state of an object: at which position, effective when, giving which content."""

    oid: int
    seq: int
    sf: int
    vf: int
    nb: int
    n: int | None
    id: bytes


@dataclass(frozen=True, slots=True)
class Stand:
    """A statement that stays as a state: `late` outside the chain, `broken` why the chain was broken by then."""

    of: Statement
    late: bool
    broken: str | None = None


@dataclass(slots=True)
class Plan:
    """Up to position `upto` only `kept` stay (None: as they were). `dropped` counts by record type."""

    horizons: dict[str, int]
    upto: int = 0
    kept: list[tuple[int, Stand | Coverage | None]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    records: int = 0
    held: int = 0
    """Objects cut before the horizon, because something that stays depends on what lay below."""

    @property
    def states(self) -> int:
        return sum(isinstance(one, Stand) for _, one in self.kept)


def plan(
    log: SqliteLog, ledger: SqliteLedger, horizons: Mapping[str, int], progress: Callable[[int], None]
) -> Plan:  # fmt: skip
    """What to keep of a log when nothing below the horizon of each scope shall be asked about any more.

    The ledger must be projected to the end of the log. Scopes with nothing below their horizon are left out.
    """
    heard = _listen(log, ledger, horizons, progress)
    made = Plan({scope: at for scope, at in horizons.items() if scope in heard.below}, records=heard.records)
    stands: dict[int, Stand | Coverage] = {}
    cuts: dict[int, int] = {}
    marks: set[int] = set()
    for scope, at in made.horizons.items():
        for oid in _told_of(ledger, scope):
            cut, standing = _cut(ledger, heard, oid, at)
            gap = _gap(ledger, oid, cut)
            if gap is not None and standing:
                standing[0] = replace(standing[0], broken=gap[1])
            elif gap is not None:
                marks.add(gap[0])
            stands.update((one.of.seq, one) for one in standing)
            if cut < at:
                cuts[oid] = cut
    starts = {scope: _covered(ledger, scope, at) for scope, at in made.horizons.items()}
    made.held = len(cuts)
    waiting: list[tuple[int, Stand | Coverage | None]] = []
    below, upto = set(made.horizons), log.cut().position
    for entry, record in _entries(log, progress):
        here = made.horizons.get(entry.scope)
        if here is not None and entry.s > here:
            below.discard(entry.scope)
        if not below and entry.position > upto:
            break
        one: Stand | Coverage | None = stands.get(entry.position)
        if isinstance(record, Coverage) and here is not None and entry.position in starts[entry.scope]:
            start = starts[entry.scope][entry.position]
            one = record.model_copy(update={"valid": record.valid.model_copy(update={"from_": start})})
        stays = here is None or entry.s > here or entry.position in marks
        if one is None and (stays or _stays(ledger, record, entry.s, here or 0, cuts)):
            waiting.append((entry.position, None))
            continue
        made.upto = entry.position
        made.kept.extend(waiting)
        waiting.clear()
        if one is not None:
            made.kept.append((entry.position, one))
        else:
            made.dropped["unreadable" if record is None else record.type] += 1
    made.kept.extend(one for one in waiting if one[0] <= upto)
    made.upto = max(made.upto, upto)
    return made


def record_of(ledger: SqliteLedger, stand: Stand) -> State:
    """The state record that stays for a statement."""
    of = stand.of
    row = ledger.connection.execute("SELECT uid, body FROM change WHERE seq = ? AND sf = ?", (of.seq, of.sf)).fetchone()
    ref, told, n = ledger.ref(of.oid), orjson.loads(unpack(row[1])), of.n or 0
    return State.model_validate(
        {
            **{name: told[name] for name in ("source_version", "flags", "redaction_key") if name in told},
            "id": of.id.hex(),
            "object": ref and ref.model_copy(update={"uid": row[0]}),
            "valid": {**told["valid"], "not_before": of.nb, "not_after": of.vf},
            "observed_at": told["observed_at"],
            "digest": ledger.anchor(of.oid, n)[1],
            "state": ledger.content(of.oid, n),
            "reason": "horizon",
            "horizon": True,
            "late": stand.late,
            "broken": stand.broken,
        }
    )


@dataclass(frozen=True, slots=True)
class _Naming:
    """A record at system time `s` speaks of an earlier statement; a `repeat` says just the same again."""

    s: int
    target: int
    id: bytes
    repeat: bool


@dataclass(slots=True)
class _Heard:
    """What records say about one another; `spoken`: system time of the last change or state of an object."""

    records: int = 0
    below: set[str] = field(default_factory=set)
    spoken: dict[int, int] = field(default_factory=dict)
    namings: dict[int, list[_Naming]] = field(default_factory=lambda: defaultdict(list))


def _listen(
    log: SqliteLog, ledger: SqliteLedger, horizons: Mapping[str, int], progress: Callable[[int], None]
) -> _Heard:  # fmt: skip
    heard = _Heard()
    run = ledger.connection.execute
    for entry, record in _entries(log, progress):
        heard.records += 1
        at = horizons.get(entry.scope)
        if at is None:
            continue
        if entry.s <= at and not isinstance(record, Horizon):
            heard.below.add(entry.scope)
        if isinstance(record, Change | State):
            heard.spoken[oid_of(record.object.key)] = entry.s
        named = record.amends if isinstance(record, Amend) else record.retracts if isinstance(record, Retract) else None
        repeat = record.id if isinstance(record, Change | State) else None
        target = named or repeat
        if target is None or run("SELECT 1 FROM dead_letter WHERE position = ?", (entry.position,)).fetchone():
            continue
        found = _target(ledger, target)
        if found is not None and found[1] != entry.position:
            heard.namings[found[0]].append(_Naming(entry.s, found[2], bytes.fromhex(target), repeat is not None))
    return heard


def _cut(ledger: SqliteLedger, heard: _Heard, oid: int, at: int) -> tuple[int, list[Stand]]:
    """The system time up to which an object is cut, and what stays for what goes."""
    cut = at
    while True:
        head = _believed(ledger, oid, cut, "AND late = 0 ORDER BY seq DESC")
        last = _believed(ledger, oid, cut, "ORDER BY vf DESC, seq DESC")
        standing = [one for one in (head, last) if one is not None and one.n is not None]
        ids = {one.id for one in standing}
        depend = [
            one.target
            for one in heard.namings.get(oid, ())
            if one.target <= cut < one.s and not (one.repeat and one.id in ids)
        ]
        if head is not None and head.n is None and heard.spoken.get(oid, -MAX) > cut:
            # What is told later follows the delete, which in turn needs what it deleted.
            depend.append(_first_told(ledger, head))
        if depend:
            cut = min(depend) - 1
            continue
        stands = [] if head is None or head.n is None else [Stand(head, late=False)]
        if last is not None and last.n is not None and last != head:
            stands.append(Stand(last, late=True))
        return cut, stands


def _gap(ledger: SqliteLedger, oid: int, known_at: int) -> tuple[int, str] | None:
    """The position of the record that broke the chain of an object, and why, where it was broken at that time."""
    sql = "SELECT seq, reason FROM gap WHERE oid = ? AND sf <= ? AND ? < until"
    row: tuple[int, str] | None = ledger.connection.execute(sql, (oid, known_at, known_at)).fetchone()
    return row


def _target(ledger: SqliteLedger, change_id: str) -> tuple[int, int, int] | None:
    """Object, position and system time of the record that made a statement."""
    sql = "SELECT oid, seq, min(sf) FROM change WHERE id = ? GROUP BY oid, seq"
    row: tuple[int, int, int] | None = ledger.connection.execute(sql, (bytes.fromhex(change_id),)).fetchone()
    return row


def _told_of(ledger: SqliteLedger, scope: str) -> list[int]:
    """The objects of a scope of which anything was told, be it something that could not be applied."""
    source, _, name = scope.partition("/")
    rows = ledger.connection.execute(
        "SELECT oid FROM object o WHERE source = ? AND scope = ? "
        "AND (EXISTS (SELECT 1 FROM change c WHERE c.oid = o.oid) OR EXISTS (SELECT 1 FROM gap g WHERE g.oid = o.oid))",
        (source, name),
    )
    return [row[0] for row in rows]


def _believed(ledger: SqliteLedger, oid: int, known_at: int, which: str) -> Statement | None:
    row = ledger.connection.execute(
        f"SELECT oid, seq, sf, vf, nb, n, id FROM change WHERE oid = ? AND sf <= ? AND ? < st {which} LIMIT 1",
        (oid, known_at, known_at),
    ).fetchone()
    return None if row is None else Statement(*row)


def _first_told(ledger: SqliteLedger, one: Statement) -> int:
    """System time of the record that made a statement, whatever was amended in it since."""
    return int(ledger.connection.execute("SELECT min(sf) FROM change WHERE seq = ?", (one.seq,)).fetchone()[0])


def _covered(ledger: SqliteLedger, scope: str, at: int) -> dict[int, int]:
    """From when each coverage record that says something about the horizon or later still held, by position."""
    rows = ledger.connection.execute(
        "SELECT seq, min(vf) FROM coverage "
        "WHERE scope = :scope AND sf <= :at AND :at < st AND (vt >= :at OR :at < vts) GROUP BY seq",
        {"scope": scope, "at": at},
    )
    return dict(rows.fetchall())


def _stays(ledger: SqliteLedger, record: Record | None, s: int, at: int, cuts: Mapping[int, int]) -> bool:
    """Whether a record from below the horizon stays as it was."""
    if isinstance(record, Evidence):
        return record.at > at
    if isinstance(record, Change | State):
        return s > cuts.get(oid_of(record.object.key), at)
    if isinstance(record, Amend | Retract):
        target = record.amends if isinstance(record, Amend) else record.retracts
        found = _target(ledger, target)
        return found is not None and s > cuts.get(found[0], at)
    return isinstance(record, Horizon)


def _entries(log: SqliteLog, progress: Callable[[int], None]) -> Iterator[tuple[Entry, Record | None]]:
    """Every entry of a log with its record; None where it is none."""
    after = 0
    while batch := log.read(after=after, limit=_BATCH):
        for entry in batch:
            record = understand(entry).record
            yield entry, None if isinstance(record, BadRecord) else record
        after = batch[-1].position
        progress(len(batch))

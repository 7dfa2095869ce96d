"""Reading the past: every question about (at, known_at) that the ledger answers, without a word on how it is shown.

`at` is valid time, `known_at` system time, both microseconds. The seek that decides an object's state walks one index
downwards from min(at, known_at) and stops at the first row that was believed, so that depth of history costs nothing.
Below the horizon that retention has set nothing is answered: BeyondHorizon, whatever rows may still be there.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from schema.canonical import Json
from schema.errors import AmbiguousObject, BadKey, BeyondHorizon, UnknownObject, UnknownScope
from schema.identity import Key, parse_key
from schema.identity import oid as oid_of
from schema.instants import MAX, show
from schema.records import Change, Evidence, SourceVersion
from store.bodies import unpack
from store.edges import PLAIN
from store.ledger import SqliteLedger


@dataclass(frozen=True, slots=True)
class Version:
    """One object's state over [vf, vt), as believed at the asked known_at (vt MAX: still so).

    It began somewhere in (not_before, vf] and ended somewhere in (ends_not_before, vt]. `change_id` None: a state, or a
    change up to the horizon.
    """

    key: Key
    kind: str
    class_: str
    uid: str | None
    vf: int
    vt: int
    not_before: int
    ends_not_before: int
    sf: int
    n: int
    change_id: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class Edge:
    """One relation over [vf, vt), as believed at the asked known_at. `vf` None: since some time up to the horizon."""

    predicate: str
    src: Key
    dst: Key
    attrs: dict[str, Json]
    basis: str
    confidence: float
    rule: str
    vf: int | None
    vt: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """A change as it is believed now, at its place in the log and in time. Patch and digests stay with the content."""

    seq: int
    vf: int
    change: Change


@dataclass(frozen=True, slots=True)
class Covered:
    """How one group-resource was watched over [vf, vt)."""

    group_resource: str
    namespaces: list[str] | None
    state: str
    vf: int
    vt: int
    reason: str | None
    epoch: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The record at a log position did not fit: over [since, until) the object may be otherwise than is answered."""

    key: Key
    position: int
    since: int
    until: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    position: int
    scope: str
    reason: str
    detail: str


_VERSION = (
    "o.kind, o.class, v.vf, v.vt, v.vts, v.lo, v.vlo, v.sf, v.n, v.uid, v.seq, "
    "(SELECT c.id FROM change c WHERE c.seq = v.seq AND c.op != 'state' LIMIT 1)"
)
_SEEN = "sf <= :s AND :s < st AND vf <= :t AND (:t < vt OR :s < vts)"


class Rewind:
    """Questions over one ledger. Reads only."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self._ledger = ledger
        self._run = ledger.connection.execute
        self._horizons: dict[str, int] = dict(self._run("SELECT scope, at FROM horizon").fetchall())

    def horizon(self, scope: str) -> int:
        """The instant below which a scope cannot be asked about; -MAX where nothing was dropped."""
        return self._horizons.get(scope, -MAX)

    def above(self, scope: str, *asked: int) -> int:
        """The horizon of a scope. Raises BeyondHorizon when one of the asked instants lies below it."""
        horizon = self.horizon(scope)
        if (lowest := min(asked)) < horizon:
            raise BeyondHorizon(
                f"{show(lowest)} lies below the horizon {show(horizon)} of {scope}",
                hint="what was before it was dropped by `hindgraph retain`; ask about it or later",
            )
        return horizon

    @property
    def ever(self) -> str:
        """How far back "ever" goes, for what was not found."""
        return f"recorded since {show(min(self._horizons.values()))}" if self._horizons else "ever recorded"

    def scopes(self) -> list[str]:
        """`source/scope` of everything recorded."""
        return [row[0] for row in self._run("SELECT scope FROM position ORDER BY scope")]

    def watermark(self, scope: str) -> int:
        """System time of the last projected record of a scope. Raises UnknownScope."""
        row = self._run("SELECT s FROM position WHERE scope = ?", (scope,)).fetchone()
        if row is None:
            raise UnknownScope(f"nothing was recorded of scope {scope!r}", hint=f"there is: {', '.join(self.scopes())}")
        return int(row[0])

    def position(self, scope: str) -> int:
        """The last log position projected for a scope."""
        return self._ledger.position(scope)[0]

    def names(self, scope: str, column: str) -> list[str]:
        """All namespaces or kinds (`column`) of the objects of a scope."""
        if column not in ("namespace", "kind"):
            raise ValueError(f"no column to list: {column}")
        source, _, name = scope.partition("/")
        rows = self._run(
            f"SELECT DISTINCT {column} FROM object WHERE source = ? AND scope = ? AND {column} IS NOT NULL ORDER BY 1",
            (source, name),
        )
        return [row[0] for row in rows]

    def counts(self) -> dict[str, int]:
        """Rows by table, dead letters and gaps among them."""
        tables = ("object", "version", "content", "change", "edge", "evidence", "coverage", "dead_letter", "gap")
        return {table: int(self._run(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in tables}

    # -- objects

    def find(self, text: str, namespace: str | None = None, scope: str | None = None) -> Key:
        """The key that people mean by `Kind/namespace/name`, `Kind/name`, or the full six segments.

        Raises UnknownObject with near names, AmbiguousObject where several fit.
        """
        if text.count("/") == 5:
            key = parse_key(text)
            if self._run("SELECT 1 FROM object WHERE key = ?", (str(key),)).fetchone():
                return key
            raise self._unknown(text, key.kind, key.name)
        parts = text.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            raise BadKey(f"not an object: {text[:200]!r}", hint="write KIND/NAMESPACE/NAME or KIND/NAME")
        kind, name = parts[0], parts[-1]
        space = parts[1] if len(parts) == 3 else namespace
        rows = self._run("SELECT key FROM object WHERE name = ? AND kind = ? COLLATE NOCASE", (name, kind)).fetchall()
        keys = [parse_key(row[0]) for row in rows]
        if space is not None:
            keys = [key for key in keys if key.namespace == space]
        if scope is not None:
            keys = [key for key in keys if f"{key.source}/{key.scope}" == scope]
        if not keys:
            raise self._unknown(text, kind, name)
        if len(keys) > 1:
            raise AmbiguousObject(f"{text} fits {len(keys)} objects", hint="one of: " + ", ".join(map(str, keys[:5])))
        return keys[0]

    def _unknown(self, text: str, kind: str, name: str) -> UnknownObject:
        return UnknownObject(f"no object {text} was {self.ever}", hint=self._near(kind, name))

    def _near(self, kind: str, name: str) -> str:
        rows = self._run("SELECT DISTINCT kind, namespace, name FROM object WHERE oid IN (SELECT oid FROM version)")
        known = {"/".join(filter(None, row)): row for row in rows}
        same_kind = [text for text, row in known.items() if row[0].lower() == kind.lower()]
        by_name = {known[text][2]: text for text in same_kind or known}
        near = difflib.get_close_matches(name, by_name, n=3, cutoff=0.4)
        return (
            "near: " + ", ".join(by_name[one] for one in near)
            if near
            else "names are as in the source: KIND/NAMESPACE/NAME"
        )

    def as_of(self, key: Key, at: int, known_at: int) -> Version | None:
        """The version of an object at (at, known_at), or None where it was not believed to exist."""
        if self._horizons:
            self.above(_scope(key), at, known_at)
        row = self._run(
            f"SELECT {_VERSION} FROM version v JOIN object o ON o.oid = v.oid WHERE v.oid = ? AND v.vf <= ? "
            "AND v.sf <= ? AND ? < v.st ORDER BY v.vf DESC, v.seq DESC, v.sf DESC LIMIT 1",
            (oid_of(key), min(at, known_at), known_at, known_at),
        ).fetchone()
        version = None if row is None else _version(key, row, known_at, self.horizon(_scope(key)))
        return version if version is not None and at < version.vt else None

    def state(self, version: Version) -> dict[str, Json]:
        """The stored state of a version."""
        return self._ledger.content(oid_of(version.key), version.n)

    def source_version(self, version: Version, known_at: int) -> SourceVersion:
        """What the source calls a version, and what its stored state leaves out."""
        row = self._run(
            "SELECT body FROM change WHERE seq = ? AND sf <= ? AND ? < st", (version.seq, known_at, known_at)
        ).fetchone()
        told = {} if row is None else orjson.loads(unpack(row[0]))
        return SourceVersion.model_validate(told.get("source_version", {}))

    def versions(self, key: Key, known_at: int) -> list[Version]:
        """The history of a key from the horizon on, all incarnations, oldest first, as believed at `known_at`."""
        horizon = self.above(_scope(key), known_at)
        rows = self._run(
            f"SELECT {_VERSION} FROM version v JOIN object o ON o.oid = v.oid "
            "WHERE v.oid = ? AND v.sf <= ? AND ? < v.st AND (v.vt > ? OR ? < v.vts) ORDER BY v.vf, v.seq",
            (oid_of(key), known_at, known_at, horizon, known_at),
        )
        return [_version(key, row, known_at, horizon) for row in rows]

    def objects(self, scope: str, at: int, known_at: int) -> list[Version]:
        """Everything that existed at (at, known_at), in key order."""
        source, _, name = scope.partition("/")
        found = []
        ids = self._run("SELECT key FROM object WHERE source = ? AND scope = ? ORDER BY key", (source, name)).fetchall()
        for (text,) in ids:
            version = self.as_of(parse_key(text), at, known_at)
            if version is not None:
                found.append(version)
        return found

    # -- edges

    def edges(self, scope: str, at: int, known_at: int, key: Key | None = None) -> list[Edge]:
        """The edges at (at, known_at), of one object or of the whole scope, ordered."""
        horizon = self.above(scope, at, known_at)
        source, _, name = scope.partition("/")
        where = "" if key is None else "AND (src = :oid OR dst = :oid)"
        rows = self._run(
            "SELECT predicate, s.key, d.key, body, vf, vt, vts FROM edge "
            "JOIN object s ON s.oid = src JOIN object d ON d.oid = dst "
            f"WHERE {_SEEN} {where} AND s.source = :source AND s.scope = :scope ORDER BY predicate, s.key, d.key, eid",
            {"s": known_at, "t": at, "oid": None if key is None else oid_of(key), "source": source, "scope": name},
        )
        found = []
        for predicate, src, dst, body, vf, vt, vts in rows:
            told = {**PLAIN, **orjson.loads(body)}
            found.append(
                Edge(
                    predicate, parse_key(src), parse_key(dst), told["attrs"], told["basis"], told["confidence"],
                    told["rule"], vf if vf > horizon else None, MAX if known_at < vts else vt,
                )
            )  # fmt: skip
        return found

    def neighbours(self, key: Key, since: int, until: int, known_at: int) -> list[Key]:
        """The other ends of the edges of an object that held at some time in [since, until]; CONTAINS left out."""
        self.above(_scope(key), since, known_at)
        rows = self._run(
            "SELECT DISTINCT o.key FROM (SELECT dst AS other, * FROM edge WHERE src = :oid "
            "UNION ALL SELECT src AS other, * FROM edge WHERE dst = :oid) e JOIN object o ON o.oid = e.other "
            "WHERE e.predicate != 'CONTAINS' AND e.sf <= :s AND :s < e.st AND e.vf <= :until "
            "AND (:since < e.vt OR :s < e.vts) ORDER BY o.key",
            {"oid": oid_of(key), "s": known_at, "since": since, "until": until},
        )
        return [parse_key(row[0]) for row in rows]

    def constraints(self, key: Key, since: int, until: int, known_at: int) -> list[Key]:
        """What constrained an object, such as a namespace, at some time in [since, until]."""
        self.above(_scope(key), since, known_at)
        rows = self._run(
            "SELECT DISTINCT o.key FROM edge e JOIN object o ON o.oid = e.src WHERE e.dst = :oid "
            "AND e.predicate = 'CONSTRAINS' AND e.sf <= :s AND :s < e.st AND e.vf <= :until "
            "AND (:since < e.vt OR :s < e.vts) ORDER BY o.key",
            {"oid": oid_of(key), "s": known_at, "since": since, "until": until},
        )
        return [parse_key(row[0]) for row in rows]

    def controller(self, key: Key, at: int, known_at: int) -> Key | None:
        """Who owns an object as its controller at (at, known_at)."""
        self.above(_scope(key), at, known_at)
        rows = self._run(
            "SELECT o.key, e.body FROM edge e JOIN object o ON o.oid = e.src "
            f"WHERE e.dst = :oid AND e.predicate = 'OWNS' AND {_SEEN} ORDER BY e.eid",
            {"oid": oid_of(key), "s": known_at, "t": at},
        )
        said = ((owner, orjson.loads(body).get("attrs", {})) for owner, body in rows)
        return next((parse_key(owner) for owner, attrs in said if attrs.get("controller")), None)

    def concerns(self, key: Key, at: int, known_at: int) -> list[Key]:
        """The workloads that an object selects or scales at (at, known_at)."""
        self.above(_scope(key), at, known_at)
        rows = self._run(
            "SELECT DISTINCT o.key FROM edge e JOIN object o ON o.oid = e.dst WHERE e.src = :oid "
            f"AND e.predicate IN ('SELECTS', 'SCALES') AND o.class = 'Workload' AND {_SEEN} ORDER BY o.key",
            {"oid": oid_of(key), "s": known_at, "t": at},
        )
        return [parse_key(row[0]) for row in rows]

    # -- changes

    def changes(
        self,
        scope: str | None = None,
        *,
        key: Key | None = None,
        namespace: str | None = None,
        kind: str | None = None,
        since: int = -MAX,
        until: int,
        known_at: int,
        noise: bool = False,
        limit: int = 1000,
        before_cursor: tuple[int, int] | None = None,
    ) -> list[Recorded]:
        """Changes effective in (since, until], newest first by (vf, seq), as believed at `known_at`.

        First observations and checkpoints are no changes. `before_cursor` (vf, seq): go on below it. A `limit` of -1
        is none, a `since` of -MAX the horizon.
        """
        place = _scope(key) if key is not None else scope or max(self._horizons, key=self.horizon, default="")
        since = self.horizon(place) if since == -MAX else since
        self.above(place, since, known_at)
        where = ["c.vf > ?", "c.vf <= ?", "c.sf <= ?", "? < c.st", "c.op NOT IN ('observe', 'state')"]
        values: list[int | str] = [since, until, known_at, known_at]
        if not noise:
            where.append("c.noise = 0")
        if key is not None:
            where.append("c.oid = ?")
            values.append(oid_of(key))
        if namespace is not None:
            where.append("o.namespace = ?")
            values.append(namespace)
        if kind is not None:
            where.append("o.kind = ? COLLATE NOCASE")
            values.append(kind)
        if scope is not None:
            source, _, name = scope.partition("/")
            where.append("o.source = ? AND o.scope = ?")
            values.extend((source, name))
        if before_cursor is not None:
            where.append("(c.vf, c.seq) < (?, ?)")
            values.extend(before_cursor)
        rows = self._run(
            f"SELECT {_RECORDED} FROM change c JOIN object o ON o.oid = c.oid WHERE {' AND '.join(where)} "
            "ORDER BY c.vf DESC, c.seq DESC LIMIT ?",
            (*values, limit),
        )
        return list(_recorded(rows))

    def change(self, change_id: str, known_at: int) -> Recorded | None:
        """One change by its id, as believed at `known_at`."""
        rows = self._run(
            f"SELECT {_RECORDED} FROM change c JOIN object o ON o.oid = c.oid "
            "WHERE c.id = ? AND c.sf <= ? AND ? < c.st",
            (bytes.fromhex(change_id), known_at, known_at),
        )
        found = next(_recorded(rows), None)
        if found is None or found.vf <= self.above(_scope(found.change.object.key), known_at):
            return None
        return found

    # -- coverage, evidence, dead letters

    def coverage(self, scope: str, known_at: int) -> list[Covered]:
        """How every group-resource of a scope was watched, over time, from the horizon on."""
        horizon = self.above(scope, known_at)
        rows = self._run(
            "SELECT vf, vt, vts, body FROM coverage WHERE scope = ? AND sf <= ? AND ? < st AND (vt >= ? OR ? < vts) "
            "ORDER BY cid, vf, seq",
            (scope, known_at, known_at, horizon, known_at),
        )
        found = []
        for vf, vt, vts, body in rows:
            told = orjson.loads(body)
            end = MAX if known_at < vts else vt
            found.append(
                Covered(
                    told["group_resource"], told["namespaces"], told["state"], vf, end, told["reason"], told["epoch"]
                )
            )
        return sorted(found, key=lambda one: (one.group_resource, one.vf))

    def evidence(self, scope: str, since: int, until: int) -> list[Evidence]:
        """Evidence that took place in (since, until], oldest first."""
        self.above(scope, since)
        rows = self._run(
            "SELECT body FROM evidence WHERE scope = ? AND at > ? AND at <= ? ORDER BY at, seq", (scope, since, until)
        )
        return [Evidence.model_validate(orjson.loads(unpack(row[0]))) for row in rows]

    def broken(self, scope: str, known_at: int) -> list[Broken]:
        """The objects about which something could not be applied, and from when to when that left them in doubt."""
        rows = self._run(
            "SELECT o.key, g.seq, g.sf, g.until, g.reason FROM gap g JOIN object o ON o.oid = g.oid "
            "WHERE o.source = ? AND o.scope = ? AND g.sf <= ? ORDER BY g.seq",
            (*scope.split("/", 1), known_at),
        )
        return [
            Broken(parse_key(key), position, since, MAX if until > known_at else until, reason)
            for key, position, since, until, reason in rows
        ]

    def dead_letters(self) -> list[DeadLetter]:
        """The records that could not be applied, of all scopes, from their horizons on."""
        rows = self._run("SELECT position, scope, reason, detail, s FROM dead_letter ORDER BY position")
        return [DeadLetter(*row) for *row, s in rows if s > self.horizon(row[1])]


_VersionColumns = tuple[str, str, int, int, int, int, int, int, int, str | None, int, bytes | None]


def _version(key: Key, row: _VersionColumns, known_at: int, horizon: int) -> Version:
    kind, class_, vf, vt, vts, lo, vlo, sf, n, uid, seq, told = row
    if known_at < vts:
        vt, vlo = MAX, MAX
    change_id = told.hex() if told and vf > horizon else None
    return Version(key, kind, class_, uid, vf, vt, lo, vlo, sf, n, change_id, seq)


def _scope(key: Key) -> str:
    return f"{key.source}/{key.scope}"


_RECORDED = "c.seq, c.vf, c.id, c.op, c.uid, o.source, o.scope, o.type, o.kind, o.class, o.namespace, o.name, c.body"


def _recorded(
    rows: Iterator[tuple[int, int, bytes, str, str | None, str, str, str, str, str, str | None, str, bytes]],
) -> Iterator[Recorded]:
    for seq, vf, id_, op, uid, source, scope, type_, kind, class_, namespace, name, body in rows:
        ref = {
            "source": source, "scope": scope, "type": type_, "kind": kind, "class": class_, "namespace": namespace,
            "name": name, "uid": uid,
        }  # fmt: skip
        told = orjson.loads(unpack(body))
        yield Recorded(seq, vf, Change.model_validate({**told, "id": id_.hex(), "op": op, "object": ref}))

"""Reading the past: objects and edges at (at, known_at), and their history, without a word on how it is shown.

`at` is valid time, `known_at` system time, both microseconds. The seek that decides an object's state walks one index
downwards from min(at, known_at) and stops at the first row that was believed, so that depth of history costs nothing.
What was recorded over time, and the horizon below which nothing is answered, is `store.chronicle`.
"""

from __future__ import annotations

import difflib

import orjson

from schema.canonical import Json
from schema.errors import AmbiguousObject, BadKey, UnknownObject
from schema.identity import Key, parse_key
from schema.identity import oid as oid_of
from schema.instants import MAX
from schema.records import SourceVersion
from store.bodies import unpack
from store.chronicle import Chronicle
from store.edges import PLAIN
from store.past import Edge, Version

_VERSION = (
    "o.kind, o.class, v.vf, v.vt, v.vts, v.lo, v.vlo, v.sf, v.n, v.uid, v.seq, "
    "(SELECT c.id FROM change c WHERE c.seq = v.seq AND c.op != 'state' LIMIT 1)"
)
_EDGE = "predicate, s.key, d.key, body, vf, vt, vts FROM edge JOIN object s ON s.oid = src JOIN object d ON d.oid = dst"
_SEEN = "sf <= :s AND :s < st AND vf <= :t AND (:t < vt OR :s < vts)"


class Rewind(Chronicle):
    """Questions over one ledger, those of the chronicle included. Reads only."""

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
            meant = self.named(scope)
            keys = [key for key in keys if key.source_scope == meant]
        if not keys:
            raise self._unknown(text, kind, name)
        if len(keys) > 1:
            raise AmbiguousObject(f"{text} fits {len(keys)} objects", hint="one of: " + ", ".join(map(str, keys[:5])))
        return keys[0]

    def _unknown(self, text: str, kind: str, name: str) -> UnknownObject:
        return UnknownObject(f"no object {text[:300]} was {self.ever}", hint=self._near(kind, name))

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
            self.above(key.source_scope, at, known_at)
        row = self._run(
            f"SELECT {_VERSION} FROM version v JOIN object o ON o.oid = v.oid WHERE v.oid = ? AND v.vf <= ? "
            "AND v.sf <= ? AND ? < v.st ORDER BY v.vf DESC, v.seq DESC, v.sf DESC LIMIT 1",
            (oid_of(key), min(at, known_at), known_at, known_at),
        ).fetchone()
        version = None if row is None else _version(key, row, known_at, self.horizon(key.source_scope))
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
        horizon = self.above(key.source_scope, known_at)
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

    def lives(self, scope: str, known_at: int) -> list[Version]:
        """Every version of every object from the horizon on, as believed at `known_at`, in order of time."""
        horizon = self.above(scope, known_at)
        source, _, name = scope.partition("/")
        rows = self._run(
            f"SELECT o.key, {_VERSION} FROM version v JOIN object o ON o.oid = v.oid WHERE o.source = ? "
            "AND o.scope = ? AND v.sf <= ? AND ? < v.st AND (v.vt > ? OR ? < v.vts) ORDER BY v.vf, v.seq, v.sf",
            (source, name, known_at, known_at, horizon, known_at),
        )
        return [_version(parse_key(key), tuple(row), known_at, horizon) for key, *row in rows]

    # -- edges

    def edges(self, scope: str, at: int, known_at: int, key: Key | None = None) -> list[Edge]:
        """The edges at (at, known_at), of one object or of the whole scope, ordered."""
        horizon = self.above(scope, at, known_at)
        source, _, name = scope.partition("/")
        where = "" if key is None else "AND (src = :oid OR dst = :oid)"
        rows = self._run(
            f"SELECT {_EDGE} WHERE {_SEEN} {where} AND s.source = :source AND s.scope = :scope "
            "ORDER BY predicate, s.key, d.key, eid",
            {"s": known_at, "t": at, "oid": None if key is None else oid_of(key), "source": source, "scope": name},
        )
        return [_edge(row, known_at, horizon) for row in rows]

    def edges_ever(self, scope: str, known_at: int) -> list[Edge]:
        """Every edge of a scope from the horizon on, as believed at `known_at`; ordered as `edges` are."""
        horizon = self.above(scope, known_at)
        source, _, name = scope.partition("/")
        rows = self._run(
            f"SELECT {_EDGE} WHERE sf <= :s AND :s < st AND (vt > :h OR :s < vts) AND s.source = :source "
            "AND s.scope = :scope ORDER BY predicate, s.key, d.key, eid, vf",
            {"s": known_at, "h": horizon, "source": source, "scope": name},
        )
        return [_edge(row, known_at, horizon) for row in rows]

    def neighbours(self, key: Key, since: int, until: int, known_at: int) -> list[Key]:
        """The other ends of the edges of an object that held at some time in [since, until]; CONTAINS left out."""
        self.above(key.source_scope, since, known_at)
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
        self.above(key.source_scope, since, known_at)
        rows = self._run(
            "SELECT DISTINCT o.key FROM edge e JOIN object o ON o.oid = e.src WHERE e.dst = :oid "
            "AND e.predicate = 'CONSTRAINS' AND e.sf <= :s AND :s < e.st AND e.vf <= :until "
            "AND (:since < e.vt OR :s < e.vts) ORDER BY o.key",
            {"oid": oid_of(key), "s": known_at, "since": since, "until": until},
        )
        return [parse_key(row[0]) for row in rows]

    def controller(self, key: Key, at: int, known_at: int) -> Key | None:
        """Who owns an object as its controller at (at, known_at)."""
        self.above(key.source_scope, at, known_at)
        rows = self._run(
            "SELECT o.key, e.body FROM edge e JOIN object o ON o.oid = e.src "
            f"WHERE e.dst = :oid AND e.predicate = 'OWNS' AND {_SEEN} ORDER BY e.eid",
            {"oid": oid_of(key), "s": known_at, "t": at},
        )
        said = ((owner, orjson.loads(body).get("attrs", {})) for owner, body in rows)
        return next((parse_key(owner) for owner, attrs in said if attrs.get("controller")), None)

    def concerns(self, key: Key, at: int, known_at: int) -> list[Key]:
        """The workloads that an object selects or scales at (at, known_at)."""
        self.above(key.source_scope, at, known_at)
        rows = self._run(
            "SELECT DISTINCT o.key FROM edge e JOIN object o ON o.oid = e.dst WHERE e.src = :oid "
            f"AND e.predicate IN ('SELECTS', 'SCALES') AND o.class = 'Workload' AND {_SEEN} ORDER BY o.key",
            {"oid": oid_of(key), "s": known_at, "t": at},
        )
        return [parse_key(row[0]) for row in rows]


def _edge(row: tuple[str, str, str, str, int, int, int], known_at: int, horizon: int) -> Edge:
    predicate, src, dst, body, vf, vt, vts = row
    told = {**PLAIN, **orjson.loads(body)}
    return Edge(
        predicate, parse_key(src), parse_key(dst), told["attrs"], told["basis"], told["confidence"], told["rule"],
        vf if vf > horizon else None, MAX if known_at < vts else vt,
    )  # fmt: skip


_VersionColumns = tuple[str, str, int, int, int, int, int, int, int, str | None, int, bytes | None]


def _version(key: Key, row: _VersionColumns, known_at: int, horizon: int) -> Version:
    kind, class_, vf, vt, vts, lo, vlo, sf, n, uid, seq, told = row
    if known_at < vts:
        vt, vlo = MAX, MAX
    change_id = told.hex() if told and vf > horizon else None
    return Version(key, kind, class_, uid, vf, vt, lo, vlo, sf, n, change_id, seq)

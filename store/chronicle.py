"""What was recorded over time: changes newest first, coverage, evidence, and what could not be applied.

Also how far back one can ask: below the horizon that retention has set nothing is answered but BeyondHorizon, whatever
rows may still be there. Objects and edges at an instant are `store.rewind`, which goes on from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import orjson

from schema.canonical import Json
from schema.errors import BeyondHorizon, UnknownScope
from schema.identity import Key, parse_key
from schema.identity import oid as oid_of
from schema.instants import MAX, show
from schema.records import Change, Evidence
from store.bodies import unpack
from store.ledger import SqliteLedger
from store.past import Broken, Covered, DeadLetter, Recorded

Told = dict[str, Json]
"""What the ledger keeps of a change beside its content: fields, actor, flags and so on, not yet validated."""


class Chronicle:
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

    def named(self, scope: str) -> str:
        """The scope that people mean: a bare name stands for the one `source/scope` that ends in it."""
        meant = [one for one in self.scopes() if one.partition("/")[2] == scope]
        return meant[0] if len(meant) == 1 else scope

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

    # -- changes

    def changes(
        self, scope: str | None = None, *, key: Key | None = None, namespace: str | None = None,
        kind: str | None = None, since: int = -MAX, until: int, known_at: int, noise: bool = False, limit: int = 1000,
    ) -> list[Recorded]:  # fmt: skip
        """Changes effective in (since, until], newest first by (vf, seq), as believed at `known_at`.

        First observations and checkpoints are no changes. A `limit` of -1 is none, a `since` of -MAX the horizon.
        """
        found = self.newest(
            scope, key=key, namespace=namespace, kind=kind, since=since, until=until, known_at=known_at, noise=noise,
            bounded=limit < 0,
        )  # fmt: skip
        return list(islice(found, limit) if limit >= 0 else found)

    def newest(
        self, scope: str | None = None, *, key: Key | None = None, namespace: str | None = None,
        kind: str | None = None, since: int = -MAX, until: int, known_at: int, noise: bool = False,
        bounded: bool = False, fits: Callable[[int, Told], bool] | None = None,
    ) -> Iterator[Recorded]:  # fmt: skip
        """The same as they are asked for, so that time goes with what is taken. `bounded`: all of them will be.

        `fits` is asked of each object id and what is kept of its change, before that is made a record: to be refused
        costs a tenth of being given.
        """
        place = key.source_scope if key is not None else scope or max(self._horizons, key=self.horizon, default="")
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
            # By the objects of the namespace only if all is wanted: it gives them in no order of time.
            where.append("o.namespace = ?" if bounded else "+o.namespace = ?")
            values.append(namespace)
        if kind is not None:
            where.append("o.kind = ? COLLATE NOCASE")
            values.append(kind)
        if scope is not None:
            source, _, name = scope.partition("/")
            where.append("o.source = ? AND o.scope = ?")
            values.extend((source, name))
        rows = self._run(
            f"SELECT {_RECORDED} FROM change c JOIN object o ON o.oid = c.oid WHERE {' AND '.join(where)} "
            "ORDER BY c.vf DESC, c.seq DESC",
            values,
        )
        return _recorded(rows, fits)

    def change(self, change_id: str, known_at: int) -> Recorded | None:
        """One change by its id, as believed at `known_at`."""
        rows = self._run(
            f"SELECT {_RECORDED} FROM change c JOIN object o ON o.oid = c.oid "
            "WHERE c.id = ? AND c.sf <= ? AND ? < c.st",
            (bytes.fromhex(change_id), known_at, known_at),
        )
        found = next(_recorded(rows), None)
        if found is None or found.vf <= self.above(found.change.object.key.source_scope, known_at):
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


_RECORDED = (
    "c.oid, c.seq, c.vf, c.id, c.op, c.uid, o.source, o.scope, o.type, o.kind, o.class, o.namespace, o.name, c.body"
)
_Columns = tuple[int, int, int, bytes, str, str | None, str, str, str, str, str, str | None, str, bytes]


def _recorded(rows: Iterator[_Columns], fits: Callable[[int, Told], bool] | None = None) -> Iterator[Recorded]:
    for oid, seq, vf, id_, op, uid, source, scope, type_, kind, class_, namespace, name, body in rows:
        told: Told = orjson.loads(unpack(body))
        if fits is not None and not fits(oid, told):
            continue
        ref = {
            "source": source, "scope": scope, "type": type_, "kind": kind, "class": class_, "namespace": namespace,
            "name": name, "uid": uid,
        }  # fmt: skip
        yield Recorded(seq, vf, Change.model_validate({**told, "id": id_.hex(), "op": op, "object": ref}))

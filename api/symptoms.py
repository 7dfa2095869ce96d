"""The question of what is visibly wrong: reads the slice that `diagnose.symptoms` needs, and tells what it found.

What counts as wrong is decided there; here only how the past is read and how a symptom is spelled.
"""

from __future__ import annotations

from functools import cache

from api.answer import Answer, object_item
from api.answer import moment as spelled
from api.questions import Moment, known, tell
from diagnose.symptoms import READS, RECENT, Seen, Slice, Symptom, find
from schema.canonical import Json
from schema.identity import Key
from store.past import Recorded
from store.rewind import Rewind

_HISTORY = 200


def symptoms(rewind: Rewind, moment: Moment, namespace: str | None = None) -> Answer:
    """What is wrong at the moment, and the change that made it so where one was recorded."""
    known(rewind, moment.scope, namespace)
    slice_ = read(rewind, moment, namespace)

    @cache
    def history(key: Key) -> list[Recorded]:
        return rewind.changes(moment.scope, key=key, until=moment.at, known_at=moment.known_at, limit=_HISTORY)

    items = [_item(slice_.objects[one.key], one) for one in find(slice_, history)]
    return tell(rewind, moment, moment.at, items)


def read(rewind: Rewind, moment: Moment, namespace: str | None = None) -> Slice:
    """The objects that symptoms are read from, what selects what, and the warnings that are still fresh."""
    objects = {
        one.key: Seen(one.kind, one.class_, one.uid, rewind.state(one))
        for one in rewind.objects(moment.scope, moment.at, moment.known_at)
        if one.key.type in READS and namespace in (None, one.key.namespace)
    }
    edges = [one for one in rewind.edges(moment.scope, moment.at, moment.known_at) if one.predicate == "SELECTS"]
    heard = rewind.evidence(moment.scope, moment.at - RECENT, moment.at)
    return Slice(moment.at, objects, edges, [one for one in heard if one.observed_at <= moment.known_at])


def _item(seen: Seen, symptom: Symptom) -> dict[str, Json]:
    return {
        "id": symptom.id,
        "object": object_item(symptom.key, seen.kind, seen.class_, seen.uid),
        "sentence": symptom.sentence,
        "fields": [{"path": path, "value": value} for path, value in symptom.fields],
        "since": None if symptom.since is None else spelled(symptom.since),
        "change": symptom.change,
    }

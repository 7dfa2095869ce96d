"""What a shelf does about files that are damaged, foreign or held, about secrets, bounds and what cannot be written."""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest

from capture.kubernetes.gone import Death
from capture.kubernetes.shelf import Shelf
from capture.kubernetes.shelf_file import Table
from capture.kubernetes.watched import Known, Watch
from capture.normalise import prepare
from capture.redact import Redactor
from schema.errors import StoreBusy, StoreCorrupt
from schema.identity import Key
from schema.records import Valid
from store.files import connect
from store.log import SqliteLog
from tests.reflector.lines import CMS, cm, ev, event, lst, reflector, run

REDACTOR = Redactor(b"k" * 32)
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


def shelf(path: Path, **more) -> Shelf:
    return Shelf(path / "one.sqlite", "lab", REDACTOR.redact_text, **more)


def filled(path: Path, *objects: dict) -> None:
    with shelf(path) as memory:
        run(lst(0, *objects), core=reflector(memory))
        memory.commit(7)


def alter(path: Path, sql: str) -> None:
    with closing(connect(path, readonly=False)) as connection:
        connection.execute(sql)


def test_what_was_not_committed_is_not_there(tmp_path) -> None:
    with shelf(tmp_path) as memory:
        core = reflector(memory)
        run(lst(0, cm()), core=core)
        memory.commit(7)
        run(ev(5, "DELETED", cm(rv="20")), core=core)
    with shelf(tmp_path) as memory:
        (watch,) = memory.watches()
        assert (memory.position, memory.begun_anew) == (7, None)
        assert [*map(str, watch.known.keys())] == ["kubernetes/lab/core/ConfigMap/shop/a"]
        assert memory.deaths.names() == []


def test_another_process_cannot_have_it_meanwhile(tmp_path) -> None:
    with shelf(tmp_path), pytest.raises(StoreBusy, match="another process uses"):
        shelf(tmp_path)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.write_bytes(b"no database" * 500), "not a database"),
        (lambda path: path.write_bytes(path.read_bytes()[:8192]), "malformed"),
        (lambda path: alter(path, "UPDATE recorder SET scope = 'other'"), "was of other"),
        (lambda path: path.unlink() or SqliteLog(path).close(), "is a log, not a recorder"),
    ],
    ids=["no database", "cut short", "another scope", "another room"],
)
def test_a_file_that_is_of_no_use_is_begun_anew(tmp_path, spoil, why) -> None:
    filled(tmp_path, *(cm(f"o{n}", uid=f"u{n}") for n in range(200)))
    spoil(tmp_path / "one.sqlite")
    with shelf(tmp_path) as memory:
        assert memory.position == 0
        assert memory.watches() == []
        assert why in str(memory.begun_anew)


def test_an_object_that_is_not_what_was_written_is_an_error_and_the_next_begins_anew(tmp_path) -> None:
    filled(tmp_path, cm())
    alter(tmp_path / "one.sqlite", "UPDATE object SET body = CAST(substr(body, 1, length(body) - 1) || 'x' AS BLOB)")
    with shelf(tmp_path, ready=0) as memory, pytest.raises(StoreCorrupt, match="was damaged"):
        run(ev(5, "MODIFIED", cm(rv="11")), core=reflector(memory))
    with shelf(tmp_path) as memory:
        assert memory.position == 0


def test_it_forgets_everything_where_it_does_not_fit_the_log(tmp_path) -> None:
    filled(tmp_path, cm())
    with shelf(tmp_path) as memory:
        memory.clear()
        assert (memory.position, memory.watches()) == (0, [])


def test_no_secret_and_no_print_is_in_the_file(tmp_path) -> None:
    one = cm(managedFields=[{"manager": "m", "fieldsV1": {"f:spec": {"f:set": {f'v:"{TOKEN}"': {}}}}}])
    one["data"]["password"] = "hunter2hunter2"
    prepared = prepare(one, scope="lab", redactor=REDACTOR)
    with shelf(tmp_path, ready=0) as memory:
        memory.open(CMS).known[prepared.key] = Known(prepared, Valid(not_before=0, not_after=1), 1)
        again = memory.watches()[0].known.get(prepared.key)
    assert again is not None
    assert again.prepared == prepared._replace(managed=[], prints={})
    assert prepared.hidden == {"data"}


def test_what_owns_fields_deeper_than_can_be_written_is_left_out(tmp_path) -> None:
    deep: dict = {}
    for _ in range(300):
        deep = {"f:x": deep}
    prepared = prepare(cm(managedFields=[{"fieldsV1": deep}]), scope="lab", redactor=REDACTOR)
    with shelf(tmp_path, ready=0) as memory:
        memory.open(CMS).known[prepared.key] = Known(prepared, Valid(not_before=0, not_after=1), 1)
        again = memory.watches()[0].known.get(prepared.key)
    assert again is not None
    assert again.prepared.managed == []


def test_the_dead_are_forgotten_in_the_order_of_their_ends(tmp_path) -> None:
    with shelf(tmp_path) as memory:
        few: Table[tuple[Key, str], Death] = memory.deaths  # type: ignore[assignment]
        few._bound = 2
        names = [(Key("kubernetes", "lab", "core/Pod", "a/b", f"x {n}"), f"u/{n}") for n in range(3)]
        for name in (names[0], names[1], names[0], names[2]):
            few[name] = Death("core/pods", "1", None, True, 0)
        assert few.names() == [names[0], names[2]]
        assert few.get(names[1]) is None
        assert few.forget(names[0]) == Death("core/pods", "1", None, True, 0)
        few[names[1]] = Death("core/pods", "1", None, True, 0)
        assert few.names() == [names[2], names[1]]


def test_an_event_that_is_repeated_writes_nothing(tmp_path) -> None:
    said = event(count=3, lastTimestamp="2026-03-01T02:59:00Z")
    with shelf(tmp_path) as memory:
        core = reflector(memory)
        run(lst(0, said, r="v1/events"), core=core)
        memory.commit(1)
        run(ev(5, "ADDED", said, r="v1/events"), core=core)
        assert not memory._file._connection.in_transaction


def test_everything_that_is_said_of_a_watch_is_kept(tmp_path) -> None:
    said = Watch(
        CMS, listed=True, last=1, lost="gap", lost_since=2, hole=(3, "h"), doubt=(4, 5), unread="u", late=(6, 7),
        version="8",
    )  # fmt: skip
    names = {one.name for one in fields(Watch)} - {"name", "known", "pages", "resource", "part"}
    assert all(getattr(said, name) != getattr(Watch(CMS), name) for name in names), "a field that this test lacks"
    with shelf(tmp_path) as memory:
        watch = memory.open(CMS)
        for name in names:
            setattr(watch, name, getattr(said, name))
        memory.commit(1)
    with shelf(tmp_path) as memory:
        (watch,) = memory.watches()
        assert {name: getattr(watch, name) for name in names} == {name: getattr(said, name) for name in names}

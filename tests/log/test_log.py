"""The log keeps what it was given, in order, with system times that are a function of the log alone."""

from __future__ import annotations

import sqlite3
from hashlib import blake2b
from importlib.resources import files

import pytest

from schema.errors import BadRecord, Oversize, StoreBusy, StoreCorrupt, StoreError, StoreMissing, StoreVersion
from schema.instants import MAX
from schema.records import dump
from store.log import BLOB_OVER, SqliteLog
from tests.log.records import SCOPE, change, coverage


def test_reads_back_what_was_written(tmp_path):
    records = [change(n, 1000 + n) for n in range(7)] + [coverage(2000)]
    with SqliteLog(tmp_path / "log.db") as log:
        assert log.append([(record, 0) for record in records[:3]], epoch="e") == [1, 2, 3]
        assert log.append([(record, 0) for record in records[3:]], epoch="e") == [4, 5, 6, 7, 8]
    with SqliteLog(tmp_path / "log.db", readonly=True) as log:
        entries = log.read()
        assert [entry.raw for entry in entries] == [dump(record) for record in records]
        assert [entry.position for entry in entries] == list(range(1, 9))
        assert {entry.scope for entry in entries} == {SCOPE}
        assert log.read(after=2, limit=3) == entries[2:5]
        assert log.read(after=8) == log.read(after=99) == log.read(limit=0) == []
        assert (log.end(), log.count(SCOPE), log.count("kubernetes/other"), log.scopes()) == (8, 8, 0, [SCOPE])


def test_system_time_is_the_latest_of_four_and_only_grows_within_its_scope(tmp_path):
    with SqliteLog(tmp_path / "log.db") as log:
        log.append([(change(1, 100), 50), (change(2, 100), 50), (change(3, 90, not_after=300), 0)])
        log.append([(change(4, 10), 7), (change(5, 10), 999), (change(6, 20, scope="other"), 0), (coverage(5), 0)])
        assert [entry.s for entry in log.read()] == [100, 101, 300, 301, 999, 20, 1000]


def test_the_same_input_gives_the_same_file_content(tmp_path):
    for name in ("a", "b"):
        with SqliteLog(tmp_path / name) as log:
            log.append([(change(n, n), n) for n in range(5)], epoch="e")
    rows = [sqlite3.connect(tmp_path / name).execute("SELECT * FROM entry").fetchall() for name in ("a", "b")]
    assert rows[0] == rows[1]


def test_resume_counts_the_records_of_an_epoch(tmp_path):
    with SqliteLog(tmp_path / "log.db") as log:
        log.append([(change(1, 1), 0), (change(2, 1), 0)], epoch="one")
        log.append([(change(3, 1), 0)], epoch="two")
        log.append([(change(4, 1), 0)], epoch="one")
        assert [log.resume(epoch) for epoch in ("one", "two", "three")] == [3, 1, 0]


def test_a_batch_is_written_whole_or_not_at_all(tmp_path):
    with SqliteLog(tmp_path / "log.db") as log:
        log.append([(change(1, 1), 0)], epoch="e")
        with pytest.raises(BadRecord, match="end of time"):
            log.append([(change(2, 5, scope="new"), 0), (change(3, 1, not_after=MAX), 0)], epoch="f")
        assert (log.end(), log.resume("f"), log.scopes()) == (1, 0, [SCOPE])
        assert log.append([], epoch="f") == []
        assert log.append([(change(4, 2), 0), (change(5, 2, scope="new"), 0)], epoch="f") == [2, 3]
        assert [entry.s for entry in log.read()] == [1, 2, 2]


@pytest.mark.parametrize("extra", [0, BLOB_OVER - 500, BLOB_OVER])
def test_large_bodies_read_back_like_small_ones(tmp_path, extra):
    record = change(1, 1, text="x" * extra)
    with SqliteLog(tmp_path / "log.db") as log:
        log.append([(record, 0), (record, 0)])
        assert [entry.raw for entry in log.read()] == [dump(record)] * 2
    blobs = sqlite3.connect(tmp_path / "log.db").execute("SELECT count(*) FROM blob").fetchone()[0]
    assert blobs == (len(dump(record)) > BLOB_OVER)


def test_a_record_beyond_all_bounds_is_refused_with_its_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("store.log.LARGEST", 10_000)
    with SqliteLog(tmp_path / "log.db") as log:
        log.append([(change(1, 1), 0)])
        with pytest.raises(Oversize, match="10,000 is the most"):
            log.append([(change(2, 2), 0), (change(3, 3, text="x" * 10_000), 0)])
        assert log.append([(change(2, 2), 0)]) == [2]
        assert len(log.read()) == 2


def test_one_writer_any_readers(tmp_path):
    with SqliteLog(tmp_path / "log.db") as log:
        with pytest.raises(StoreBusy):
            SqliteLog(tmp_path / "log.db")
        with SqliteLog(tmp_path / "log.db", readonly=True) as reader:
            log.append([(change(1, 1), 0)])
            assert reader.end() == len(reader.read()) == 1
            with pytest.raises(StoreError, match="reading only"):
                reader.append([(change(1, 1), 0)])
    SqliteLog(tmp_path / "log.db").close()


def test_nothing_there_and_written_by_a_newer_one(tmp_path):
    with pytest.raises(StoreMissing):
        SqliteLog(tmp_path / "log.db", readonly=True)
    assert list(tmp_path.iterdir()) == []
    SqliteLog(tmp_path / "log.db").close()
    with sqlite3.connect(tmp_path / "log.db") as connection:
        connection.execute("INSERT INTO migration VALUES ('log', 99, 'later', x'00')")
    for readonly in (True, False):
        with pytest.raises(StoreVersion):
            SqliteLog(tmp_path / "log.db", readonly=readonly)


DAMAGE = {
    "a bit of a body": ("UPDATE entry SET body = CAST(x'00' || substr(body, 2) AS BLOB) WHERE position = 5", 5),
    "a system time": ("UPDATE entry SET s = s + 1 WHERE position = 5", 5),
    "another scope": ("UPDATE entry SET scope = 2 WHERE position = 5", 5),
    "a scope that is not there": ("UPDATE entry SET scope = 9 WHERE position = 5", 5),
    "another coding": ("UPDATE entry SET coding = 0 WHERE position = 5", 5),
    "a chain": ("UPDATE entry SET chain = zeroblob(16) WHERE position = 5", 5),
    "a lost row": ("DELETE FROM entry WHERE position = 5", 5),
    "a lost first row": ("DELETE FROM entry WHERE position = 1", 1),
    "a renamed scope": ("UPDATE scope SET name = 'kubernetes/fake' WHERE id = 1", 1),
    "a lost blob": ("DELETE FROM blob", 8),
    "another blob": ("UPDATE blob SET body = substr(body, 1, 20)", 8),
    "two rows swapped": (
        "UPDATE entry SET body = (SELECT body FROM entry WHERE position = 4) WHERE position = 5", 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sql", "position"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_named_by_position(tmp_path, sql, position):
    with SqliteLog(tmp_path / "log.db") as log:
        log.append([(change(n, n), 0) for n in range(6)] + [(change(7, 7, scope="other"), 0)])
        log.append([(change(8, 8, text="x" * BLOB_OVER), 0)])
        with sqlite3.connect(tmp_path / "log.db") as connection:
            assert connection.execute(sql).rowcount > 0
        connection.close()
        with pytest.raises(StoreCorrupt, match=rf"position {position}\b"):
            log.read()
        # What stands before the damage can still be had.
        assert len(log.read(limit=position - 1)) == position - 1


def test_lost_rows_at_the_end_are_found_on_opening(tmp_path):
    with SqliteLog(tmp_path / "log.db") as log:
        log.append([(change(n, n), 0) for n in range(6)])
    with sqlite3.connect(tmp_path / "log.db") as connection:
        connection.execute("DELETE FROM entry WHERE position > 4")
    with pytest.raises(StoreCorrupt, match="ends at position 4, but 6"):
        SqliteLog(tmp_path / "log.db")


def test_a_file_that_is_no_log(tmp_path):
    (tmp_path / "log.db").write_bytes(b"not a database" * 1000)
    for readonly in (True, False):
        with pytest.raises(StoreCorrupt):
            SqliteLog(tmp_path / "log.db", readonly=readonly)


def test_overwritten_pages_are_damage_too(tmp_path):
    path = tmp_path / "log.db"
    with SqliteLog(path) as log:
        log.append([(change(n, n, text=str(n) * 3000), 0) for n in range(400)])
    whole = bytearray(path.read_bytes())
    for start in range(20 * 4096, len(whole), 4096):
        whole[start : start + 4096] = b"\xff" * 4096
    path.write_bytes(whole)
    with pytest.raises(StoreCorrupt), SqliteLog(path, readonly=True) as log:
        log.read(limit=1000)


def test_the_shipped_dictionary_never_changes():
    """Logs in the field hold rows packed with it: a better one gets the next number."""
    shipped = (files("schema") / "dictionaries" / "1.zdict").read_bytes()
    assert blake2b(shipped, digest_size=16).hexdigest() == "a82dea5de2fe130a7edd34ada3a4923d"

"""A trimmed log: old positions, counts that stay, reading from anywhere, and damage that is still named."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from schema.errors import StoreCorrupt
from schema.records import dump
from store.log import BLOB_OVER, SqliteLog
from tests.log.records import SCOPE, change

NEW = change(100, 50, text="what stays for four")
KEPT = [2, 4, 7]


def written(path: Path) -> SqliteLog:
    log = SqliteLog(path)
    log.append([(change(n, n), 0) for n in range(1, 9)], epoch="file")
    log.append([(change(9, 9, text="x" * BLOB_OVER), 0)], epoch="file")
    log.append([(change(n, n), 0) for n in range(10, 13)], epoch="file")
    return log


def trim(log: SqliteLog, upto: int = 9) -> None:
    with log.trimming(upto, [(2, None), (4, NEW), (7, None)], [(change(13, 13), 0)]):
        pass


def test_what_is_kept_stands_at_its_old_place_from_wherever_one_reads(tmp_path):
    with written(tmp_path / "log.db") as log:
        s = {entry.position: entry.s for entry in log.read()}
        trim(log)
        for reader in (log, SqliteLog(tmp_path / "log.db", readonly=True)):
            with reader:
                whole = reader.read()
                assert [entry.position for entry in whole] == [*KEPT, 10, 11, 12, 13]
                assert [entry.s for entry in whole[:-1]] == [s[entry.position] for entry in whole[:-1]]
                assert whole[1].raw == dump(NEW)
                for after in range(15):
                    behind = [entry for entry in whole if entry.position > after]
                    assert [reader.read(after, limit) for limit in range(5)] == [behind[:limit] for limit in range(5)]
                assert (reader.resume("file"), reader.count(SCOPE), reader.end()) == (12, 13, 13)


def test_it_goes_on_and_is_trimmed_again(tmp_path):
    path = tmp_path / "log.db"
    with written(path) as log:
        trim(log)
        log.append([(change(14, 14), 0)])
        with log.trimming(9, [(4, None)], [(change(15, 15), 0)]):
            pass
        with log.trimming(12, [(4, None), (11, None)], [(change(16, 16), 0)]):
            assert [entry.position for entry in log.read()] == [4, 11, 13, 14, 15, 16]
        log.compact()
    with SqliteLog(path) as log:
        assert [entry.position for entry in log.read()] == [4, 11, 13, 14, 15, 16]
        assert log.cut().ended == 16
        with sqlite3.connect(path) as connection:
            assert connection.execute("SELECT count(*) FROM blob").fetchone() == (0,)
        connection.close()


def test_an_exception_in_the_block_leaves_it_as_it_was(tmp_path):
    with written(tmp_path / "log.db") as log:
        before = log.read()
        with pytest.raises(KeyError), log.trimming(9, [(2, None)], [(change(13, 13), 0)]):
            raise KeyError
        assert log.read() == before
        assert log.append([(change(13, 13), 0)]) == [13]


DAMAGE = {
    "a lost kept row": ("DELETE FROM entry WHERE position = 4", 7),
    "a lost last kept row": ("DELETE FROM entry WHERE position = 7", 5),
    "a lost first row behind the cut": ("DELETE FROM entry WHERE position = 10", 10),
    "a changed kept row": ("UPDATE entry SET s = s + 1 WHERE position = 4", 4),
    "another anchor": ("UPDATE trim SET anchor = zeroblob(16)", 10),
    "a lost cut": ("DELETE FROM trim", 1),
}  # fmt: skip


@pytest.mark.parametrize(("sql", "position"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_named_by_position(tmp_path, sql, position):
    with written(tmp_path / "log.db") as log:
        trim(log)
        with sqlite3.connect(tmp_path / "log.db") as connection:
            assert connection.execute(sql).rowcount > 0
        connection.close()
        with pytest.raises(StoreCorrupt, match=rf"position {position}\b"):
            log.read()


def test_the_space_goes_back(tmp_path):
    path = tmp_path / "log.db"
    with written(path) as log:
        log.append([(change(n, n, text=str(n) * 400), 0) for n in range(13, 2013)])
        log.compact()
        before = path.stat().st_size
        with log.trimming(2000, [(2, None)], [(change(3000, 3000), 0)]):
            pass
        log.compact()
        assert path.stat().st_size < before / 5

"""An audit log is followed line by line, however it is rotated, and gone on with where an earlier run was."""

from __future__ import annotations

import gzip
import os
import random
from contextlib import ExitStack, closing

import pytest

from capture.kubernetes.audit import WINDOW
from capture.kubernetes.audit_file import AuditFile


@pytest.fixture
def log(tmp_path):
    return tmp_path / "audit.log"


@pytest.fixture
def follow(log):
    """Follows the log; all that do are closed in the end."""
    with ExitStack() as stack:
        yield lambda place=None, **more: stack.enter_context(closing(AuditFile(log, place, **more)))


def write(path, *lines, end="\n"):
    with path.open("a") as file:
        file.write("\n".join(lines) + end)


def rotated(log, stamp):
    """As the API server does it; later than what was written before."""
    to = log.with_name(f"audit-{stamp}.log")
    log.rename(to)
    os.utime(to, ns=(1, int(stamp) * 1_000_000_000))
    return to


def read(follower, now=0):
    return [line.decode() for line in follower.poll(now)]


def all_of(follower):
    out = []
    while lines := read(follower):
        out += lines
    return out


def test_lines_come_as_they_are_written_and_only_whole(log, follow):
    follower = follow()
    assert read(follower) == []
    write(log, "one", "two")
    assert read(follower) == ["one", "two"]
    write(log, "thr", end="")
    assert read(follower) == []
    write(log, "ee", "", "four")
    assert read(follower) == ["three", "four"]
    assert not +follower.counts


def test_what_was_renamed_is_read_to_its_end_first(log, follow):
    follower = follow()
    write(log, "one")
    assert read(follower) == ["one"]
    write(log, "two")
    rotated(log, "10")
    write(log, "three")
    rotated(log, "20")
    write(log, "four")
    assert all_of(follower) == ["two", "three", "four"]
    assert not +follower.counts


def test_between_two_files_there_may_be_none(log, follow):
    follower = follow()
    write(log, "one")
    assert read(follower) == ["one"]
    rotated(log, "10")
    assert read(follower) == []
    write(log, "two")
    assert read(follower) == ["two"]


def test_a_line_that_ends_with_its_file_is_counted(log, follow):
    follower = follow()
    write(log, "one", "tw", end="")
    assert read(follower) == ["one"]
    rotated(log, "10")
    write(log, "three")
    assert read(follower) == ["three"]
    assert follower.counts["cut"] == 1


def test_a_file_that_was_truncated_is_read_anew(log, follow):
    follower = follow()
    write(log, "one", "two", "thr", end="")
    assert read(follower) == ["one", "two"]
    log.write_text("new\n")
    assert read(follower) == ["new"]
    assert follower.counts["truncated"] == 1


def test_a_line_beyond_bounds_is_counted_and_the_next_is_read(log, follow):
    follower = follow(cap=10)
    write(log, "one", "x" * 20, end="")
    assert read(follower) == ["one"]
    write(log, "x" * 20, end="")
    assert read(follower) == []
    write(log, "", "two")
    assert read(follower) == ["two"]
    assert follower.counts["too long"] == 1


def test_a_later_run_goes_on_where_the_earlier_was(log, follow):
    write(log, "one", "two")
    follower = follow()
    read(follower)
    place = follower.place
    write(log, "three")
    assert read(follow(place)) == ["three"]
    rotated(log, "10")
    write(log, "four")
    rotated(log, "20")
    write(log, "five")
    assert all_of(follow(place)) == ["three", "four", "five"]


def test_a_place_that_is_gone_is_counted_and_what_is_there_is_read(log, follow):
    write(log, "one")
    follower = follow()
    read(follower)
    place = follower.place
    old = rotated(log, "10")
    old.with_suffix(".log.gz").write_bytes(gzip.compress(old.read_bytes()))
    old.unlink()
    write(log, "two")
    later = follow(place)
    assert all_of(later) == ["two"]
    assert later.counts["place lost"] == 1


def test_another_file_under_the_same_inode_is_no_place(log, follow):
    write(log, "one", "two")
    follower = follow()
    read(follower)
    place = follower.place
    log.write_text("uno\ndos\ntres\n")
    later = follow(place)
    assert read(later) == ["uno", "dos", "tres"]
    assert later.counts["place lost"] == 1


def test_the_place_to_keep_lies_as_far_back_as_requests_are_remembered(log, follow):
    follower = follow()
    for n in range(4):
        write(log, str(n))
        read(follower, now=n * WINDOW // 2)
    assert read(follow(follower.settled)) == ["2", "3"]
    follower.close()
    again = follow(follower.settled)
    assert again.settled == follower.settled


def test_however_it_is_written_rotated_and_read_each_line_comes_once(log, follow):
    rng = random.Random(7)
    for _ in range(20):
        for one in log.parent.iterdir():
            one.unlink()
        follower, written, stamp = follow(), 1, 10
        write(log, "0")
        found = read(follower)
        for _ in range(200):
            step = rng.random()
            if step < 0.6:
                write(log, *(str(written + n) for n in range(3)))
                written += 3
            elif step < 0.7 and log.exists():
                rotated(log, str(stamp))
                stamp += 10
            elif step < 0.9:
                found += read(follower)
            elif follower.place is not None:
                place = follower.place
                follower.close()
                follower = follow(place)
        write(log, str(written))  # What was renamed is gone on from when there is another.
        found += all_of(follower)
        assert [int(one) for one in found] == [*range(written + 1)]
        assert not +follower.counts

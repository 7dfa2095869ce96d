"""The state machine of one watch, row by row of the table of pitfalls; what its lines give is asked of a reflector."""

from __future__ import annotations

import random

import orjson
import pytest

from capture.kubernetes.live.course import Ask, Confirm, Course, Wait
from capture.kubernetes.live.parts import Part, Selection
from capture.kubernetes.recording import BadLine, Line
from capture.kubernetes.reflector import Reflector
from capture.redact import Redactor
from schema import instants
from schema.records import Change, Coverage
from tests.live.served import CMS, IN_SHOP, SECRETS, WHOLE, bookmark, cm, event, page, status

T0 = instants.parse("2026-03-01T03:00:00Z")


class Session:
    """A course with its clock, its lines and what a reflector makes of them."""

    def __init__(self, part: Part = WHOLE, *, floor: str | None = None, streams: bool = False) -> None:
        self.course = Course(part, random.Random(1), floor=floor)
        self.now = 100.0
        self.lines: list[Line | BadLine] = []
        self.records: list[object] = []
        self._reflector = Reflector("lab", Redactor(b"k" * 32), "e")
        self.waited = 0.0
        if not streams:
            assert self.ask().kind == "stream"
            self.refused(400)

    @property
    def t(self) -> int:
        return T0 + round(self.now * 1_000_000)

    def ask(self) -> Ask:
        """The next request, after whatever has to be waited for."""
        step = self.course.ask(self.now)
        self.waited = 0.0
        while isinstance(step, Wait):
            self.now += step.seconds
            self.waited += step.seconds
            step = self.course.ask(self.now)
        assert isinstance(step, Ask), step
        return step

    def told(self, lines: list[Line | BadLine]) -> list[str]:
        self.lines += lines
        for line in lines:
            if isinstance(line, BadLine):
                self.records += self._reflector.miss(line, self.t)
            else:
                self.records += self._reflector.feed(line)
        return [f"bad: {one.reason}" if isinstance(one, BadLine) else one.type for one in lines]

    def page(self, *items: dict, rv: str = "100", token: str = "") -> list[str]:
        return self.told(self.course.page(page(*items, rv=rv, token=token), self.now, self.t))

    def heard(self, raw: bytes | None) -> list[str]:
        return self.told(self.course.heard(raw, self.now, self.t))

    def refused(self, code: int, reason: str = "", message: str = "", **more: object) -> list[str]:
        body = orjson.dumps(status(code, reason, message))
        return self.told(self.course.refused(code, body, self.now, self.t, **more))

    def lost(self, reason: str = "reset") -> list[str]:
        return self.told(self.course.lost(self.now, self.t, reason))

    def closed(self, *, within: bool = False) -> list[str]:
        return self.told(self.course.closed(self.now, self.t, within=within))

    def listed(self, *items: dict, rv: str = "100") -> None:
        """Listed, and the watch open for a while."""
        assert self.ask().kind == "list"
        self.page(*items, rv=rv)
        assert self.ask().kind == "watch"
        self.now += 30

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [(one.op, one.object.name) for one in self.records if isinstance(one, Change)]

    @property
    def coverage(self) -> list[str]:
        return [one.state for one in self.records if isinstance(one, Coverage)]


def test_a_list_then_a_watch_from_its_version():
    one = Session()
    asked = one.ask()
    assert (asked.path, asked.params) == ("/api/v1/configmaps", {"limit": "500"})
    assert one.page(cm()) == ["LIST"]
    watch = one.ask()
    assert watch.kind == "watch"
    assert watch.params["resourceVersion"] == "100"
    assert watch.params["allowWatchBookmarks"] == "true"
    assert one.heard(event("MODIFIED", cm(rv="101", size="2"))) == ["MODIFIED"]
    assert one.changes == [("observe", "a"), ("update", "a")]


def test_18_19_the_server_is_told_to_end_each_watch_within_minutes():
    one = Session()
    one.listed()
    timeouts = set()
    for _ in range(20):
        one.now += 400
        one.closed()
        timeouts.add(int(one.ask().params["timeoutSeconds"]))
    assert all(300 <= timeout <= 600 for timeout in timeouts)
    assert len(timeouts) > 10


@pytest.mark.parametrize("within", [True, False])
def test_1_2_an_expired_version_is_listed_anew_and_never_used_again(within):
    one = Session()
    one.listed(cm())
    told = one.heard(event("ERROR", status(410, "Expired"))) if within else one.refused(410, "Gone")
    assert told == ["GAP"]
    assert one.course.is_over()
    asked = one.ask()
    assert one.waited > 0
    assert asked.kind == "list"
    assert "resourceVersion" not in asked.params


def test_3_a_status_in_the_stream_is_no_object():
    one = Session()
    one.listed(cm())
    assert one.heard(event("ERROR", status(500, "InternalError", "etcd is away"))) == ["GAP"]
    assert one.changes == [("observe", "a")]


def test_4_what_went_while_it_was_lost_is_found_by_the_next_list():
    one = Session()
    one.listed(cm("a"), cm("b"))
    one.heard(event("ERROR", status(410)))
    one.ask()
    one.page(cm("b"), rv="200")
    assert one.changes[-1] == ("delete", "a")


def test_8_a_list_without_a_version_is_watched_without_and_its_first_events_count_for_no_version():
    one = Session()
    one.listed(cm(rv="50"), rv="")
    assert one.heard(event("ADDED", cm(rv="50"))) == ["ADDED"]
    one.now += 300
    one.closed()
    assert "resourceVersion" not in one.ask().params
    one.heard(event("MODIFIED", cm(rv="60", size="2")))
    one.now += 300
    one.closed()
    assert one.ask().params["resourceVersion"] == "60"


def test_9_a_list_asks_for_the_newest_and_never_for_what_is_old_already():
    one = Session(floor="500")
    assert "resourceVersion" not in one.ask().params
    assert "resourceVersionMatch" not in one.course.ask(one.now).params


def test_10_a_version_that_the_server_does_not_know_yet_is_listed_anew():
    one = Session()
    one.listed(cm())
    too_large = status(504, "Timeout", "Too large resource version: 100, current: 7")
    assert one.told(one.course.refused(504, orjson.dumps(too_large), one.now, one.t)) == ["GAP"]
    assert one.ask().kind == "list"
    one.page(cm(rv="5"), rv="7")
    assert any("epoch_break" in change.flags for change in one.records if isinstance(change, Change))


def test_10_the_cause_of_a_timeout_is_read_where_the_server_names_it():
    one = Session()
    one.listed(cm())
    body = status(504, "Timeout", "try again", causes=[{"reason": "ResourceVersionTooLarge"}])
    one.told(one.course.refused(504, orjson.dumps(body), one.now, one.t))
    assert one.ask().kind == "list"


def test_12_a_token_that_ran_out_starts_the_list_from_page_one():
    one = Session()
    assert one.ask().kind == "list"
    assert one.page(cm("a"), token="t1") == ["LIST"]
    assert one.ask().params["continue"] == "t1"
    body = orjson.dumps({**status(410, "Expired"), "metadata": {"continue": "inconsistent"}})
    assert one.told(one.course.refused(410, body, one.now, one.t)) == ["GAP"]
    asked = one.ask()
    assert "continue" not in asked.params
    one.page(cm("b"), rv="200")
    assert one.changes == [("observe", "a"), ("delete", "a"), ("observe", "b")]
    assert one.coverage[-1] == "watching"


def test_12_a_list_that_never_ends_in_time_is_asked_for_in_one_piece():
    one = Session()
    for _ in range(3):
        one.ask()
        one.page(cm("a"), token="t1")
        one.ask()
        one.refused(410, "Expired")
    assert "limit" not in one.ask().params


def test_12_a_page_that_is_lost_is_asked_for_again():
    one = Session()
    one.ask()
    one.page(cm("a"), token="t1")
    one.ask()
    assert one.lost() == []
    assert one.ask().params["continue"] == "t1"
    one.page(cm("b"))
    assert one.changes == [("observe", "a"), ("observe", "b")]


def test_13_39_not_all_are_listed_at_once():
    starts = set()
    for seed in range(30):
        first = Course(WHOLE, random.Random(seed)).ask(0.0)
        starts.add(round(first.seconds, 3) if isinstance(first, Wait) else 0.0)
    assert len(starts) > 25
    assert max(starts) <= 2


def test_14_a_streamed_list_is_held_until_its_end_and_watched_on_in_one_stream():
    one = Session(streams=True)
    asked = one.ask()
    assert asked.kind == "stream"
    assert asked.params["sendInitialEvents"] == "true"
    assert asked.params["resourceVersionMatch"] == "NotOlderThan"
    assert one.heard(event("ADDED", cm("a", rv="5"))) == []
    assert one.heard(event("ADDED", cm("b", rv="3"))) == []
    assert one.heard(bookmark("90", end=True)) == ["LIST"]
    assert one.heard(event("MODIFIED", cm("a", rv="91", size="2"))) == ["MODIFIED"]
    assert one.changes == [("observe", "a"), ("observe", "b"), ("update", "a")]
    one.now += 300
    one.closed()
    again = one.ask()
    assert "sendInitialEvents" not in again.params
    assert again.params["resourceVersion"] == "91"


def test_14_a_long_streamed_list_is_told_in_pages():
    one = Session(streams=True)
    one.ask()
    told = [line for n in range(1200) for line in one.heard(event("ADDED", cm(f"c{n}", rv=str(n))))]
    assert told == ["LIST", "LIST"]
    assert one.heard(bookmark("5000", end=True)) == ["LIST"]
    assert one.changes == [("observe", f"c{n}") for n in range(1200)]
    assert one.coverage == ["watching"]


def test_14_what_comes_and_goes_while_a_list_is_streamed_deletes_nothing_else():
    one = Session(streams=True)
    one.ask()
    for n in range(600):
        one.heard(event("ADDED", cm(f"c{n}", rv=str(n))))
    one.heard(event("DELETED", cm("c0", rv="700")))
    one.heard(event("ADDED", {**cm("c0", rv="701"), "metadata": {**cm("c0", rv="701")["metadata"], "uid": "second"}}))
    one.heard(bookmark("702", end=True))
    assert [change for change in one.changes if change[0] == "delete"] == [("delete", "c0")]
    assert [op for op, name in one.changes if name == "c0"] == ["observe", "delete", "observe"]


def test_14_a_server_that_refuses_to_stream_is_asked_for_pages():
    one = Session(streams=True)
    one.ask()
    assert one.refused(422, "Invalid", "sendInitialEvents is forbidden") == []
    asked = one.ask()
    assert (asked.kind, one.waited) == ("list", 0)


def test_14_a_server_that_knows_no_streamed_lists_is_asked_for_pages():
    one = Session(streams=True)
    one.ask()
    one.heard(event("ADDED", cm("a", rv="5")))
    assert one.heard(bookmark("6")) == []
    assert one.course.is_over()
    assert one.ask().kind == "list"


def test_14_a_stream_that_ends_early_told_nothing_of_what_is_missing():
    one = Session(streams=True)
    one.ask()
    for n in range(500):
        one.heard(event("ADDED", cm(f"c{n}", rv=str(n))))
    assert one.lost() == ["GAP"]
    assert one.ask().kind == "stream"
    one.lost()
    assert one.ask().kind == "list"  # Twice: perhaps something in between does not bear it.
    one.page(cm("c0"), rv="900")
    assert len([1 for op, _ in one.changes if op == "delete"]) == 499


def test_10_14_a_streamed_list_of_a_server_that_went_back_is_asked_for_in_pages():
    one = Session(floor="500", streams=True)
    one.ask()
    one.heard(event("ADDED", cm("a", rv="5")))
    assert one.heard(bookmark("90", end=True)) == []
    assert one.ask().kind == "list"


def test_18_20_21_silence_is_a_reconnect_and_keeps_the_version():
    one = Session()
    one.listed(cm())
    assert one.lost("silent for 70 s") == ["GAP"]
    again = one.ask()
    assert again.params["resourceVersion"] == "100"
    one.now += 5
    assert one.told(one.course.settled(one.t)) == ["RESUMED"]
    one.heard(event("MODIFIED", cm(rv="101", size="2")))
    assert one.coverage == ["watching", "gap", "watching"]
    assert one.changes == [("observe", "a"), ("update", "a")]


@pytest.mark.parametrize("code", [429, 500, 503])
def test_23_too_many_requests_and_faults_of_the_server_keep_the_version(code):
    one = Session()
    one.listed(cm())
    one.now += 100
    one.closed()
    one.ask()
    assert one.refused(code, retry_after=9.0) == ["GAP"]
    again = one.ask()
    assert again.params["resourceVersion"] == "100"
    assert one.waited >= 9


def test_23_a_list_that_is_refused_for_a_while_is_asked_for_again():
    one = Session()
    one.ask()
    assert one.refused(429, retry_after=3.0) == []
    assert one.ask().kind == "list"
    assert 3 <= one.waited < 8


def test_24_very_short_watches_are_not_opened_in_a_storm():
    one = Session()
    one.ask()
    one.page()
    waits = []
    for _ in range(8):
        one.ask()
        waits.append(one.waited)
        one.now += 0.01
        one.closed()
    assert waits[0] == 0
    assert sum(waits) > 20
    one.ask()
    one.now += 300
    one.closed()
    one.ask()
    assert one.waited == 0


def test_25_a_line_beyond_the_cap_is_a_hole_and_the_watch_goes_on():
    one = Session()
    one.listed(cm())
    assert one.heard(None) == ["bad: a line that is longer than the cap"]
    one.heard(event("MODIFIED", cm(rv="102", size="2")))
    assert one.coverage == ["watching", "gap", "watching"]


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"type":"ADDED"}', b'{"type":"NEWS","object":{}}', b"\xff\xfe{}"])
def test_a_line_that_is_no_event_is_told_and_the_next_one_read(raw):
    one = Session(IN_SHOP)
    one.listed(cm())
    (told,) = one.heard(raw)
    assert told.startswith("bad: ")
    assert one.lines[-1].part == "namespace=shop"
    assert one.heard(event("MODIFIED", cm(rv="102", size="2"))) == ["MODIFIED"]


def test_a_connection_that_ends_within_a_line_is_lost():
    one = Session()
    one.listed(cm())
    assert one.closed(within=True) == ["GAP"]


def test_31_what_is_not_found_is_confirmed_before_it_is_gone():
    one = Session()
    one.listed(cm())
    assert one.refused(404, "NotFound") == []
    assert isinstance(one.course.ask(one.now), Confirm)
    assert one.told(one.course.still_there(one.now, one.t)) == ["GAP"]
    one.ask()
    one.refused(404, "NotFound")
    assert isinstance(one.course.ask(one.now), Confirm)
    assert one.told(one.course.removed(one.t)) == ["ERROR"]
    assert one.coverage[-1] == "removed"
    assert one.changes[-1] == ("delete", "a")


def test_35_what_is_forbidden_is_told_once_and_asked_for_slowly():
    one = Session()
    one.listed(cm())
    one.closed()
    one.ask()
    assert one.refused(403, "Forbidden", "configmaps is forbidden") == ["ERROR"]
    assert one.ask().kind == "list"
    assert one.waited >= 45
    assert one.refused(403, "Forbidden", "configmaps is forbidden") == []
    assert one.coverage == ["watching", "forbidden"]
    one.ask()
    one.page(cm(), rv="300")
    assert one.coverage == ["watching", "forbidden", "watching"]
    assert one.changes == [("observe", "a")]


@pytest.mark.parametrize("code", [403, 404])
def test_36_a_namespace_that_is_gone_took_its_objects_along(code):
    one = Session(IN_SHOP)
    one.listed(cm())
    one.closed()
    one.ask()
    assert one.refused(code, "Forbidden", namespace_gone=True) == ["ERROR"]
    assert one.changes[-1] == ("delete", "a")
    assert one.coverage[-1] == "removed"
    one.course.nudge()
    assert one.ask().kind == "list"
    one.page(cm(rv="400"), rv="400")
    assert one.changes[-1] == ("create", "a")


def test_38_what_comes_as_metadata_is_told_as_what_it_is():
    _, helm = Selection().parts(SECRETS)
    one = Session(helm)
    one.listed({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": cm()["metadata"]})
    (seen,) = [record for record in one.records if isinstance(record, Change)]
    assert seen.object.type == "core/Secret"
    assert one.lines[-1].items[0]["type"] == "helm.sh/release.v1"


def test_52_what_lists_leave_out_is_filled_in():
    one = Session()
    one.ask()
    one.page(cm())
    assert one.lines[-1].items[0]["kind"] == "ConfigMap"
    assert one.lines[-1].items[0]["apiVersion"] == "v1"


def test_an_answer_that_is_no_list_is_asked_for_again():
    one = Session()
    one.ask()
    assert one.told(one.course.page(b"<html>", one.now, one.t)) == []
    assert one.ask().kind == "list"
    assert one.waited > 0


def test_no_gap_is_told_before_anything_was_watched():
    one = Session()
    one.ask()
    assert one.lost() == []
    one.ask()
    assert one.refused(503) == []
    assert one.coverage == []
    assert one.course.part.served is CMS

"""Lists in pages, resources in parts, watches that go on, refusals, and a recorder that was away."""

from __future__ import annotations

import pytest

from capture.kubernetes.recording import BadLine, Line, parse_line
from capture.kubernetes.telling import LAG, name_of, spelled
from schema.records import Change, Coverage
from tests.reflector.lines import CMS, T0, R, S, changes, cm, covers, ev, gap, lst, ops, reflector, run

A, B = "namespace=shop", "helm"


def page(at, *items, rv="100", part=None):
    return lst(at, *items, rv=rv)._replace(more=True, part=part)


def of(part, line):
    return line._replace(part=part)


def status(at, code, message="no"):
    return ev(at, "ERROR", {"kind": "Status", "apiVersion": "v1", "code": code, "message": message})


def bounds(change: Change) -> tuple[float, float]:
    return (change.valid.not_before - T0) / S, (change.valid.not_after - T0) / S


def told(records) -> list[tuple]:
    return [
        (one.group_resource, one.namespaces, one.state, (one.valid.from_ - T0) // S)
        for one in records
        if isinstance(one, Coverage)
    ]


def test_what_a_list_lacks_is_told_with_its_last_page() -> None:
    core = reflector()
    run(lst(0, cm("a"), cm("b"), cm("c")), gap(5), core=core)
    first = run(page(20, cm("a")), core=core)
    assert (ops(first), covers(first)) == ([], [])
    last = run(lst(30, cm("c")), core=core)
    assert [(one.op, one.object.name) for one in changes(last)] == [("delete", "b")]
    assert bounds(changes(last)[0]) == (-10, 30)
    assert covers(last) == [("watching", "relist")]


@pytest.mark.parametrize("between", [[gap(21)], []], ids=["gap", "other version"])
def test_a_list_that_was_begun_anew_forgets_its_first_pages_but_not_what_they_showed(between) -> None:
    core = reflector()
    run(lst(0), gap(5), core=core)
    assert ops(run(page(20, cm("a"), cm("b", uid="u2")), *between, core=core)) == ["create", "create"]
    out = run(page(30, cm("a"), rv="120"), lst(40, rv="120"), core=core)
    assert [(one.op, one.object.name) for one in changes(out)] == [("delete", "b")]


def test_objects_of_a_first_list_that_came_to_nothing_are_compared_with_the_next() -> None:
    out = changes(run(page(20, cm("a"), cm("b", uid="u2")), gap(21), lst(50, cm("a", rv="11", data="2"))))
    assert [(one.op, one.object.name) for one in out] == [
        ("observe", "a"), ("observe", "b"), ("delete", "b"), ("update", "a"),
    ]  # fmt: skip
    assert all(bounds(one) == (10, 50) for one in out if one.op == "delete")
    assert bounds(out[-1])[0] <= 20


def test_what_comes_after_a_list_in_pages_may_be_as_old_as_its_first_page() -> None:
    core = reflector()
    run(page(0, cm("a")), lst(60), core=core)
    early = changes(run(ev(61, "MODIFIED", cm(rv="101", data="2")), ev(62, "BOOKMARK", {}), core=core))
    late = changes(run(ev(63, "MODIFIED", cm(rv="102", data="3")), core=core))
    assert bounds(late[0])[0] == 53
    assert early[0].valid.not_before <= T0


def test_a_part_is_judged_by_its_own_lists_and_told_apart() -> None:
    core = reflector()
    out = run(of(A, lst(0, cm("a"))), of(B, lst(0, cm("b", uid="u2"))), of(A, gap(5)), of(A, lst(9)), core=core)
    assert [(one.op, one.object.name) for one in changes(out)][2:] == [("delete", "a")]
    assert told(out) == [
        (CMS, ["shop"], "watching", 0), (f"{CMS} helm", None, "watching", 0),
        (CMS, ["shop"], "gap", 0), (CMS, ["shop"], "watching", 9),
    ]  # fmt: skip


@pytest.mark.parametrize("name", [CMS, f"{CMS} namespace=shop", f"{CMS} helm", f"{CMS} namespace=shop helm"])
def test_the_name_of_a_watch_is_told_by_its_coverage(name) -> None:
    resource, namespace = spelled(name)
    assert name_of(resource, None if namespace is None else [namespace]) == name


def test_an_object_that_moves_between_parts_lives_on_whatever_comes_first() -> None:
    moved = cm(rv="11", labels={"tier": "b"})
    both = [of("x", lst(0, cm())), of("y", lst(0))]
    left, came = of("x", ev(5, "DELETED", moved)), of("y", ev(6, "ADDED", moved))
    assert ops(run(*both, left, came)) == ["observe", "update", "delete", "create"]
    core = reflector()
    assert ops(run(*both, came, left, core=core)) == ["observe", "update"]
    assert core.counts["stale"] == 1
    assert ops(run(of("y", ev(9, "DELETED", cm(rv="15", labels={"tier": "b"}))), core=core)) == ["delete"]
    # An old list of the one part does not take it back, and a relist that lacks it says nothing of the other.
    core = reflector()
    run(*both, came, core=core)
    assert ops(run(of("x", gap(7)), of("x", lst(8, cm(rv="10"))), core=core)) == []
    assert ops(run(of("x", gap(9)), of("x", lst(10)), core=core)) == []


def test_an_object_that_a_list_lacks_is_taken_up_by_another_part_though_its_version_is_older_than_the_list() -> None:
    out = run(
        of("x", lst(0, cm())), of("y", lst(0)), of("x", gap(3)), of("x", lst(8, rv="200")),
        of("y", ev(9, "ADDED", cm(rv="150"))),
    )  # fmt: skip
    assert ops(out) == ["observe", "delete", "create"]


def test_late_news_of_the_dead_from_another_part_does_not_bring_them_back() -> None:
    core = reflector()
    run(of("x", lst(0, cm(rv="20"))), of("y", lst(0)), of("x", ev(3, "DELETED", cm(rv="30"))), core=core)
    late = [of("y", ev(4, "ADDED", cm(rv="18"))), of("y", ev(5, "DELETED", cm(rv="20")))]
    assert ops(run(*late, core=core)) == []


def test_a_watch_that_went_on_gives_the_gap_back_and_what_comes_then_may_be_as_old() -> None:
    core = reflector()
    out = run(lst(0, cm()), ev(20, "BOOKMARK", {}), gap(40), core=core)
    out += run(Line(0, T0 + 90 * S, R, "RESUMED"), ev(92, "MODIFIED", cm(rv="11", data="2")), core=core)
    assert told(out) == [
        (CMS, None, "watching", 0), (CMS, None, "gap", 20), (CMS, None, "watching", 20),
    ]  # fmt: skip
    assert bounds(changes(out)[-1]) == (10, 92)
    # Lost again before all of it was heard: the next list reaches back behind both.
    more = run(gap(93), lst(120), core=core)
    assert bounds(changes(more)[-1]) == (10, 120)
    records = [one for one in (*out, *more) if isinstance(one, Coverage)]
    assert len({one.id for one in records}) == len(records)


@pytest.mark.parametrize(("heard", "since"), [(ev(93, "BOOKMARK", {}), 85), (None, 10)])
def test_a_bookmark_ends_what_is_late(heard, since) -> None:
    core = reflector()
    run(lst(0, cm()), ev(20, "BOOKMARK", {}), gap(40), Line(0, T0 + 90 * S, R, "RESUMED"), core=core)
    run(*([heard] if heard else []), core=core)
    (made,) = changes(run(ev(95, "MODIFIED", cm(rv="11", data="2")), core=core))
    assert bounds(made)[0] == since
    assert bounds(changes(run(ev(101 + LAG // S, "MODIFIED", cm(rv="12", data="3")), core=core))[0])[0] == 101


def test_a_hole_stays_one_when_the_watch_goes_on() -> None:
    core = reflector()
    out = run(lst(0, cm()), core=core) + core.miss(BadLine(7, "not JSON", R), T0 + 5 * S)
    out += run(gap(9), Line(0, T0 + 12 * S, R, "RESUMED"), ev(15, "MODIFIED", cm(rv="11", data="2")), core=core)
    assert [one[2:] for one in told(out)] == [
        ("watching", 0), ("gap", 5), ("gap", 0), ("watching", 0), ("gap", 5), ("watching", 15),
    ]  # fmt: skip


def test_35_a_forbidden_resource_is_told_once_and_its_objects_stay_known() -> None:
    core = reflector()
    out = run(lst(0, cm()), status(5, 403, "no rights"), status(65, 403), lst(99, cm()), core=core)
    assert covers(out) == [("watching", "list"), ("forbidden", "no rights"), ("watching", "relist")]
    assert ops(out) == ["observe"]
    assert [one[2:] for one in told(run(gap(105), status(110, 403), core=core))] == [("gap", 99), ("forbidden", 110)]


def test_31_36_a_kind_or_namespace_that_was_removed_takes_its_objects_along() -> None:
    core = reflector()
    out = run(of(A, lst(0, cm())), of(A, status(30, 404, "namespace gone")), of(A, status(40, 404)), core=core)
    assert covers(out) == [("watching", "list"), ("removed", "namespace gone")]
    (gone,) = changes(out)[1:]
    assert (gone.op, gone.flags, bounds(gone)) == ("delete", ["final_state_unknown"], (-10, 30))
    (made,) = changes(run(of(A, lst(60, cm("n", rv="300", uid="u9", born=None))), core=core))
    assert (made.op, bounds(made)) == ("create", (30, 60))


def test_a_recorder_that_was_away_lost_its_watches_since_they_were_heard_of() -> None:
    core = reflector()
    run(lst(0, cm()), ev(20, "BOOKMARK", {}), core=core)
    (lost,) = core.lost([CMS, "core/never"], T0 + 90 * S, "the recorder was not running")
    assert isinstance(lost, Coverage)
    assert (lost.state, lost.valid.from_) == ("gap", T0 + 20 * S)
    (gone,) = changes(run(lst(95), core=core))
    assert bounds(gone) == (10, 95)


def test_what_is_watched_no_longer_ends_and_keeps_its_objects() -> None:
    core = reflector()
    run(lst(0, cm()), core=core)
    out = core.ended([CMS], T0 + 9 * S, "not chosen any more")
    assert [one[2:] for one in told(out)] == [("ended", 0)]
    assert core.ended([CMS], T0 + 9 * S, "again") == []
    assert ops(run(lst(50, cm(rv="11", data="2")), core=core)) == ["update"]


def test_a_bad_line_is_of_its_part_or_of_all_parts() -> None:
    core = reflector()
    run(of(A, lst(0)), of(B, lst(0)), core=core)
    (one,) = core.miss(BadLine(7, "?", R, None, B), T0 + S)
    assert told([one]) == [(f"{CMS} helm", None, "gap", 1)]
    run(of(B, ev(2, "BOOKMARK", {})), core=core)
    assert len(core.miss(BadLine(8, "?", R), T0 + 3 * S)) == 2


def test_the_part_of_a_line_that_does_not_parse_is_read_from_its_beginning() -> None:
    raw = b'{"t":"2026-03-01T03:00:01Z","r":"v1/configmaps","type":"ADDED","part":"namespace=shop","object":{"ha'
    line = parse_line(2, raw)
    assert isinstance(line, BadLine)
    assert (line.resource, line.part) == ("v1/configmaps", "namespace=shop")


@pytest.mark.parametrize("of_all", [False, True], ids=["its resource", "any"])
def test_a_page_that_cannot_be_read_may_have_shown_what_the_others_lack(of_all) -> None:
    unread = BadLine(7, "not JSON", None if of_all else R)
    for before, after in [([page(20, cm("a"))], []), ([], []), ([], [page(22, cm("a"))])]:
        core = reflector()
        run(lst(0, cm("a"), cm("b", uid="u2")), gap(5), *before, core=core)
        core.miss(unread, T0 + 21 * S)
        out = run(*after, lst(23), core=core)
        reason = "a list may lack a page that cannot be read: line 7: not JSON"
        assert (ops(out), covers(out)[-1]) == ([], ("gap", reason))
        assert core.counts["malformed"] == 0
        # The next list that is whole tells what is gone, since before the loss.
        more = changes(run(gap(30), lst(40, cm("a")), core=core))
        assert [(one.op, one.object.name) for one in more] == [("delete", "b")]
        assert bounds(more[0])[0] <= 0


@pytest.mark.parametrize("between", [gap(22), ev(22, "BOOKMARK", {})], ids=["gap", "bookmark"])
def test_a_list_is_whole_where_something_else_came_after_the_line_that_cannot_be_read(between) -> None:
    core = reflector()
    run(lst(0, cm("a")), core=core)
    core.miss(BadLine(7, "not JSON", R), T0 + 21 * S)
    assert ops(run(between, lst(23), core=core)) == ["delete"]

"""A resource that was watched whole, then in parts, or the other way: what the watches that ended held is judged by
those that would show it, and by no other."""

from __future__ import annotations

import pytest

from capture.kubernetes.recording import Line, Resource
from capture.kubernetes.reflector import Reflector
from capture.kubernetes.selection import shows
from capture.normalise import HELM, prepare, recalled
from capture.redact import Redactor
from schema.records import Change, Record
from tests.reflector.lines import CMS, T0, R, S, changes, cm, covers, ev, gap, lst, ops, recalling, reflector, run
from tests.reflector.test_parts import bounds, of, page, status

A, B, SOME = "namespace=a", "namespace=b", "labels=tier=web"


def own(name: str, space: str, **said) -> dict:
    return cm(name, **{"uid": f"u-{name}", "namespace": space, **said})


def told(records: list[Record]) -> list[tuple[str, str]]:
    return [(one.op, one.object.name) for one in changes(records)]


def ended(*names: str, at: int = 20) -> Reflector:
    """A core whose watches, of one object in each namespace, ended."""
    core = reflector()
    for name in names:
        space = name.partition("=")[2]
        bodies = [own(one, one) for one in ("a", "b", "c") if not space or space == one]
        run(of(name or None, lst(0, *bodies)), of(name or None, ev(at, "BOOKMARK", {})), core=core)
    core.ended([f"{CMS} {name}".strip() for name in names], T0 + (at + 5) * S, "not chosen any more")
    return core


def test_what_a_part_lacks_of_the_whole_is_gone_and_what_no_part_shows_stays() -> None:
    core = ended("")
    out = run(of(A, lst(50)), of(B, lst(60, own("b", "b"))), core=core)
    assert told(out) == [("delete", "a")]
    assert changes(out)[0].flags == ["final_state_unknown", "from_relist"]
    assert bounds(changes(out)[0]) == (10, 50)
    assert told(run(of(A, gap(70)), of(A, lst(80)), of(B, lst(90)), core=core)) == [("delete", "b")]


def test_what_the_whole_lacks_of_its_parts_is_gone_each_since_its_part_was_heard_of() -> None:
    core = reflector()
    for part, at in ((A, 20), (B, 40)):
        run(of(part, lst(0, own(part[-1], part[-1]))), of(part, ev(at, "BOOKMARK", {})), core=core)
    core.ended([f"{CMS} {A}", f"{CMS} {B}"], T0 + 45 * S, "not chosen any more")
    out = changes(run(lst(60), core=core))
    assert [(one.object.name, bounds(one)) for one in out] == [("a", (10, 60)), ("b", (30, 60))]


def test_what_changed_or_came_to_be_while_nobody_watched_may_be_as_old_as_the_watch_that_ended() -> None:
    core = ended("")
    out = changes(run(of(A, lst(50, own("a", "a", rv="11", data="2"), own("n", "a", born=None))), core=core))
    assert [(one.op, one.object.name, bounds(one)) for one in out] == [
        ("update", "a", (10, 50)), ("create", "n", (10, 50)),
    ]  # fmt: skip
    assert all("from_relist" in one.flags for one in out)
    # It is the part's now: an event of it is as new as any.
    assert bounds(changes(run(of(A, ev(55, "MODIFIED", own("a", "a", rv="120", data="3"))), core=core))[0]) == (45, 55)


def test_what_a_part_would_not_have_shown_is_only_observed_by_the_whole() -> None:
    out = run(lst(60, own("a", "a"), own("n", "b")), core=ended(A))
    assert told(out) == [("observe", "n")]


def test_a_part_again_is_compared_with_who_saw_its_objects_last() -> None:
    core = ended(A)
    run(lst(50, own("a", "a")), ev(80, "BOOKMARK", {}), core=core)
    core.ended([CMS], T0 + 90 * S, "not chosen any more")
    out = changes(run(of(A, lst(120, own("n", "a", born=None))), core=core))
    assert [(one.op, one.object.name, bounds(one)) for one in out] == [
        ("delete", "a", (70, 120)), ("create", "n", (70, 120)),
    ]  # fmt: skip


def test_what_a_selection_does_not_show_is_not_gone() -> None:
    core = ended("")
    assert told(run(of(SOME, lst(50, own("a", "a", rv="11", data="2"))), core=core)) == [("update", "a")]
    # What it showed itself is.
    assert told(run(of(SOME, gap(55)), of(SOME, lst(60)), core=core)) == [("delete", "a")]
    # What it hears the end of is, though only the watch that ended knew it.
    assert told(run(of(SOME, ev(61, "DELETED", own("b", "b", rv="130"))), core=core)) == [
        ("update", "b"),
        ("delete", "b"),
    ]
    assert told(run(of(SOME, ev(62, "DELETED", own("c", "c", rv="9"))), core=core)) == []
    assert core.counts["stale"] == 1
    assert told(run(lst(70), core=core)) == [("delete", "c")]


def test_a_part_not_wholly_understood_or_lost_judges_nothing_until_the_next() -> None:
    core = ended("")
    assert told(run(of(A, page(50)), of(A, gap(51)), of(A, lst(60, "?")), core=core)) == []
    out = run(of(A, gap(65)), of(A, lst(70)), core=core)
    assert told(out) == [("delete", "a")]
    assert bounds(changes(out)[0]) == (10, 70)


def test_a_part_that_may_not_be_read_judges_nothing_and_one_that_is_not_there_ends_all_it_would_show() -> None:
    assert told(run(of(A, status(50, 403)), core=ended(""))) == []
    out = run(of(A, status(50, 404)), core=ended(""))
    assert told(out) == [("delete", "a")]
    assert bounds(changes(out)[0]) == (10, 50)


def test_what_was_lost_before_a_watch_ended_is_as_old_as_that() -> None:
    core = reflector()
    run(
        lst(0, own("a", "a")),
        ev(20, "BOOKMARK", {}),
        ev(30, "MODIFIED", {"kind": "x"}),
        ev(40, "BOOKMARK", {}),
        core=core,
    )
    core.ended([CMS], T0 + 45 * S, "not chosen any more")
    out = changes(run(of(A, lst(60, own("n", "a", born=None))), core=core))
    assert [(one.op, bounds(one)) for one in out] == [("delete", (10, 60)), ("create", (10, 60))]


def test_an_earlier_run_is_handed_over_too() -> None:
    first = changes(run(lst(0, own("a", "a"), own("b", "b"))))
    living = [(recalled(one.object, one.patch[0]["value"], one.source_version), one.valid) for one in first]
    core = recalling(living, {CMS: T0 + 20 * S, f"{CMS} {B}": T0 + 10 * S, f"{CMS} {SOME}": T0 + 30 * S})
    out = changes(run(of(B, lst(60)), of(SOME, lst(60)), core=core))
    assert [(one.op, one.object.name, bounds(one)) for one in out] == [("delete", "b", (10, 60))]


def test_a_restored_backup_is_known_by_the_watch_that_ended() -> None:
    core = ended("")
    out = changes(run(of(A, lst(50, own("a", "a", rv="5", data="0"), rv="6")), core=core))
    assert [(one.op, "epoch_break" in one.flags) for one in out] == [("update", True)]
    assert told(
        run(
            of(
                B,
                lst(60),
            ),
            core=core,
        )
    ) == [("delete", "b")]
    (back,) = changes(run(of(A, gap(65)), of(A, lst(70, own("a", "a", rv="7", data="3"), rv="8")), core=core))
    assert "epoch_break" not in back.flags


@pytest.mark.parametrize("live", [True, False], ids=["event", "list"])
def test_10_what_is_made_anew_after_a_restored_backup_is_not_late(live: bool) -> None:
    core = reflector()
    run(lst(0, cm()), ev(3, "DELETED", cm(rv="90")), gap(5), lst(9, rv="30"), core=core)
    new = cm(uid="u2", rv="40", born="2026-03-01T03:00:10Z")
    assert ops(run(ev(12, "ADDED", new) if live else lst(12, new, rv="45"), core=core)) == ["create"]


def secret(name: str, type_: str = "Opaque", rv: str = "10") -> dict:
    body = {**cm(name, uid=f"u-{name}", rv=rv), "kind": "Secret", "type": type_}
    del body["data"]
    return body


def secrets(*lines: Line, core: Reflector) -> list[tuple[str, str]]:
    return told(run(*(line._replace(resource="v1/secrets") for line in lines), core=core))


RELEASE, PLAIN = secret("release", HELM), secret("plain")


def halves(*, whole: bool) -> Reflector:
    core = Reflector("lab", Redactor(b"k" * 32), "e", (Resource("", "v1", "secrets", "Secret"),))
    if whole:
        secrets(lst(0, RELEASE, PLAIN), core=core)
    else:
        secrets(lst(0, PLAIN), of("helm", lst(0, RELEASE)), core=core)
    core.ended(["core/secrets", "core/secrets helm"], T0 + 5 * S, "the recorder ended")
    return core


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "halves"])
@pytest.mark.parametrize("first", ["", "helm"])
def test_38_a_half_of_the_secrets_says_nothing_of_the_other(whole: bool, first: str) -> None:
    core = halves(whole=whole)
    both = {"": of(None, lst(50, PLAIN)), "helm": of("helm", lst(50, RELEASE))}
    assert secrets(both.pop(first), both.popitem()[1], core=core) == []
    assert secrets(of("helm", lst(60)), core=core) == [("delete", "release")]
    assert secrets(lst(60), core=core) == [("delete", "plain")]


def test_38_a_list_that_shows_secrets_of_helm_judges_them() -> None:
    other = secret("other", HELM)
    assert secrets(lst(50, PLAIN, other), core=halves(whole=False)) == [("delete", "release"), ("create", "other")]
    within = of("namespace=shop", lst(50, PLAIN))
    assert secrets(within, of("namespace=shop helm", lst(60)), core=halves(whole=True)) == [("delete", "release")]


@pytest.mark.parametrize(
    ("name", "kind", "space", "type_", "shown"),
    [
        ("core/secrets", "Secret", "shop", None, True),
        ("core/secrets", "Secret", "shop", HELM, None),
        ("core/secrets helm", "Secret", "shop", HELM, True),
        ("core/secrets helm", "Secret", "shop", None, False),
        ("core/secrets namespace=shop helm", "Secret", "shop", HELM, True),
        ("core/secrets namespace=till helm", "Secret", "shop", HELM, False),
        ("core/pods namespace=shop", "Pod", "shop", None, True),
        ("core/pods namespace=till", "Pod", "shop", None, False),
        ("core/pods namespace=shop labels=a=b", "Pod", "shop", None, None),
        ("core/pods namespace=till labels=a=b", "Pod", "shop", None, False),
        ("core/nodes", "Node", None, None, True),
        ("core/nodes namespace=shop", "Node", None, None, False),
        ("core/namespaces namespace=one", "Namespace", None, None, True),
        ("core/namespaces namespace=two", "Namespace", None, None, False),
    ],
)
def test_what_the_name_of_a_watch_says_of_an_object(name, kind, space, type_, shown) -> None:
    body = {**cm("one", namespace=space), "kind": kind, **({} if type_ is None else {"type": type_})}
    assert shows(name, prepare(body, scope="lab", redactor=Redactor(b"k" * 32))) is shown


def test_what_ended_is_told_to_have_ended_and_what_began_to_be_watched() -> None:
    core = ended("")
    assert covers(run(of(A, lst(50)), core=core)) == [("watching", "list")]
    assert [one.op for one in run(Line(0, T0 + 60 * S, R, "LIST", "100"), core=core) if isinstance(one, Change)] == [
        "delete", "delete",
    ]  # fmt: skip

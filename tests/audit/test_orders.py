"""Whatever happened, and in whatever order and however late it comes to be known: the same is said in the end."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from capture.kubernetes.audit import PATIENCE
from schema.instants import MAX
from schema.records import Change, dump
from tests.audit.words import Event, at, audit, change, event, thing

USERS = ("alice", "bob", "carol")


@st.composite
def stories(draw) -> list[Change | Event]:
    """Writes to two objects, close to each other; of some no answer is told, some fail, some are not audited."""
    out: list[Change | Event] = []
    lives = Counter[str]()  # Each incarnation is made once and ends once.
    for n, gap in enumerate(draw(st.lists(st.sampled_from((0.0, 0.05, 0.4, 3.0)), min_size=1, max_size=8))):
        name, user = draw(st.sampled_from("ab")), draw(st.sampled_from(USERS))
        start = sum((0.07 * n, gap))
        op = draw(st.sampled_from(("update", "update", "create", "delete")))
        verb = {"update": "patch"}.get(op, op)
        lives[name] += op == "create"
        uid = f"{name}{lives[name]}"
        lives[name] += op == "delete"
        answer = None
        if draw(st.booleans()):
            answer = {"kind": "Status", "details": {"uid": uid}} if op == "delete" else thing(uid, str(n), name)
        code = 201 if op == "create" else 200
        if draw(st.sampled_from((True, True, True, False))):
            out.append(event(verb, name, user=user, start=start, code=code, answer=answer, id=f"e{n}"))
        if draw(st.sampled_from((True, True, True, False))):
            seen = start + draw(st.sampled_from((0.02, 0.5)))
            tool = draw(st.sampled_from((None, f"tool-of-{user}", "tool-of-alice")))
            wide = draw(st.sampled_from((False, False, True)))
            out.append(
                change(
                    op, name, seen=seen, since=start - (30 if wide else 0.5), rv=str(n), uid=uid, manager=tool,
                    sure=draw(st.sampled_from((0.5, 0.9))), flags=["from_relist"] if wide else [], id=f"{n:032x}",
                )
            )  # fmt: skip
    return out


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_same_amendments_in_any_order_with_any_delay_and_told_again(data) -> None:
    """As long as all is there before time decides; what is certain comes before what changes nothing does."""
    story = data.draw(stories())
    shuffled = data.draw(st.permutations(story))
    whole = audit()
    for one in story:
        _give(whole, one)
    expected = sorted(dump(one) for one in whole.settle(MAX))
    pieces = audit()
    found = []
    for n, one in enumerate(shuffled):
        _give(pieces, one)
        if data.draw(st.booleans()):
            _give(pieces, data.draw(st.sampled_from(shuffled[: n + 1])))
        if data.draw(st.booleans()):
            found += pieces.settle(PATIENCE + at(0) - 1)
    found += pieces.settle(MAX)
    assert sorted(map(dump, found)) == expected
    assert pieces.waiting == (0, 0)


@settings(max_examples=200, deadline=None)
@given(stories())
def test_each_request_makes_one_change_and_each_change_is_made_once(story) -> None:
    core = audit()
    for one in story:
        _give(core, one)
    told = [*core.settle(MAX)]
    assert len({one.amends for one in told}) == len(told)
    assert core.counts["requests"] == len(told) + core.counts["requests without a change"]
    assert core.counts["changes"] == len(told) + core.counts["changes without a request"]


@settings(max_examples=200, deadline=None)
@given(stories())
def test_what_is_said_for_certain_is_true(story) -> None:
    core = audit()
    for one in story:
        _give(core, one)
    asked = {one["auditID"]: one["user"]["username"] for one in story if isinstance(one, dict)}
    for one in core.settle(MAX):
        assert one.actor is not None
        if one.actor.confidence == 1.0:
            assert one.actor.user == asked[f"e{int(one.amends, 16)}"]


def _give(core, one) -> None:
    if isinstance(one, dict):
        core.heard(one)
    else:
        core.told([one])

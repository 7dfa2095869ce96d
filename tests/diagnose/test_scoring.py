"""What a truth asks for, and what an answer gets for it."""

from __future__ import annotations

import pytest

from diagnose.scoring import Named, score, truth_of
from schema.errors import InputError

CART, CONF, JOB = ("Deployment", "shop", "cart"), ("ConfigMap", "shop", "conf"), ("Job", "shop", "flood")
PATH = 'spec.template.spec.containers[k:{"name":"cart"}]'


def cause(path: str | None = "spec.template.spec.containers[name=cart].image", after: object = "b", op: str = "update"):
    return {"kind": "Deployment", "namespace": "shop", "name": "cart", "op": op, "path": path, "after": after,
            "at": "2026-12-01T05:00:00Z"}  # fmt: skip


def marks(causes: list, answer: list[Named], accept: list = (), **more):
    told = {"id": "x", "healthy": False, "causes": causes, "accept": list(accept)} | more
    return score(truth_of(told), answer, more.get("noisy", 0), 10)


@pytest.mark.parametrize(
    ("told", "named", "hit"),
    [
        (cause(), Named(CART, "update", ((PATH + ".image", "b"),)), True),
        (cause(), Named(CART, "update", ((PATH + ".image", "c"),)), False),
        (cause(), Named(CART, "update", ((PATH + ".command", "b"),)), False),
        (cause(), Named(CONF, "update", ((PATH + ".image", "b"),)), False),
        (cause(path="spec.x", after={"a": 1}), Named(CART, "update", (("spec.x", {"a": 1, "default": 2}),)), True),
        (cause(path="data.password", after="(redacted)"), Named(CART, "update", (("data.password", {"r": 1}),)), True),
        (cause(path="rules", after=None), Named(CART, "update", (("rules[h:12345678]", None),)), True),
        (cause(path=None, after=None, op="delete"), Named(CART, "delete", ()), True),
        (cause(path=None, after=None, op="delete"), Named(CART, "create", ()), False),
    ],
)
def test_a_cause_is_the_object_and_its_field(told, named, hit) -> None:
    got = marks([told], [named])
    assert (got.causes, got.of, got.rank) == (int(hit), 1, 1 if hit else None)
    assert got.at_1 == (named.component == CART)
    assert got.right == hit


def test_the_place_counts_and_what_is_accepted_names_the_component() -> None:
    right = Named(CART, "update", ((PATH + ".image", "b"),))
    got = marks([cause()], [Named(CONF, "update", ()), Named(JOB, "create", ()), right])
    assert (got.at_1, got.at_3, got.rank, got.beside, got.right) == (False, True, 3, 2, False)
    accept = [{"kind": "ConfigMap", "namespace": "shop", "name": "conf"}]
    got = marks([cause()], [Named(CONF, "update", ()), right], accept)
    assert (got.at_1, got.rank, got.beside, got.right) == (True, 2, 0, True)


def test_all_causes_are_asked_for() -> None:
    got = marks([cause(), cause(path="spec.replicas", after=0)], [Named(CART, "update", (("spec.replicas", 0),))])
    assert (got.causes, got.of, got.right) == (1, 2, False)


def test_silence_is_right_where_all_is_well_or_nothing_is_to_be_seen() -> None:
    for more in ({"healthy": True}, {"visible": False}):
        assert marks([], [], **more).right
        assert not marks([], [Named(CART, "update", ())], **more).right
        assert not marks([], [], noisy=1, **more).right


def test_what_is_no_truth_is_refused() -> None:
    with pytest.raises(InputError):
        truth_of({"id": "x"})

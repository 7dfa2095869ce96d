"""Field paths: what is written can be read again, and patterns meet what people mean."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.canonical import canonical
from schema.errors import BadPath
from schema.paths import Item, Name, matches, parse, shorten, show

ENV = 'spec.template.spec.containers[k:{"name":"cart"}].env[k:{"name":"CACHE_ADDR"}].value'
PORT = 'spec.ports[k:{"port":8443,"protocol":"TCP"}].targetPort'
LABEL = 'metadata.labels["app.kubernetes.io/name"]'
TWICE = 'spec.containers[k:{"name":"c"}].env[k:{"name":"A"}]#2'

NAMES = st.text(min_size=1, max_size=8).filter(lambda text: text not in ("*", "**"))
SCALARS = st.booleans() | st.integers(-99, 99) | st.text(max_size=6)
ITEMS = st.builds(
    Item,
    st.just("k"),
    st.dictionaries(NAMES, SCALARS, min_size=1, max_size=3).map(lambda keys: canonical(keys).decode()),
    st.integers(1, 9),
) | st.builds(Item, st.just("v"), SCALARS.map(lambda value: canonical(value).decode()))


@given(st.lists(st.builds(Name, NAMES) | ITEMS, max_size=5).map(lambda rest: (Name("spec"), *rest)))
def test_what_is_shown_is_read_again(steps: tuple) -> None:
    assert parse(show(steps)) == steps
    assert matches(show(steps), show(steps))


@given(st.text(max_size=30))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    with contextlib.suppress(BadPath):
        assert show(parse(text))


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        (ENV, ENV),
        (ENV, "spec"),
        (ENV, "spec.template.spec.containers[cart]"),
        (ENV, "spec.template.spec.containers[name=cart].env[name=CACHE_ADDR].value"),
        (ENV, "spec.template.spec.containers[*].env[CACHE_ADDR]"),
        (ENV, "**.env[CACHE_ADDR].value"),
        (ENV, "spec.**.value"),
        (ENV, "*.template"),
        (PORT, "spec.ports[port=8443].targetPort"),
        (PORT, "spec.ports[8443]"),
        (PORT, "spec.ports[protocol=TCP,port=8443]"),
        (LABEL, LABEL),
        (LABEL, "metadata.labels"),
        (TWICE, "spec.containers[c].env[A]"),
        (TWICE, "spec.containers[c].env[A]#2"),
        ('metadata.finalizers[v:"x/y"]', 'metadata.finalizers[v:"x/y"]'),
        ("spec.containers[c].args[i:2]", "spec.containers[c].args[2]"),
        ("rules[h:1a2b3c4d]", "rules[1a2b3c4d]"),
    ],
)
def test_a_pattern_meets_what_it_names_and_all_below(path: str, pattern: str) -> None:
    assert matches(path, pattern)


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        (ENV, "spec.template.spec.containers[web]"),
        (ENV, "spec.template.spec.containers[name=web].env"),
        (ENV, "spec.containers"),
        (ENV, "template"),
        (ENV, "**.image"),
        (PORT, "spec.ports[port=80]"),
        (PORT, "spec.ports[port=8443].nodePort"),
        (PORT, "spec.ports[*].port"),
        ("spec.replicas", "spec[*]"),
        ("spec", "spec.replicas"),
        (TWICE, "spec.containers[c].env[A]#3"),
    ],
)
def test_a_pattern_does_not_meet_what_is_beside_it(path: str, pattern: str) -> None:
    assert not matches(path, pattern)


@pytest.mark.parametrize(
    "text", ["", ".", "a..b", "a[", "a[]", "a[k:{]", "a[k:7]", 'a["x]', "a.", "a]b", "[=x]", "a[x]b", "#2"]
)
def test_what_is_no_path_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadPath) as caught:
        parse(text)
    assert caught.value.hint


def test_a_hostile_pattern_costs_no_more_than_its_length() -> None:
    path = "a" + ".b" * 200
    start = time.process_time()
    assert not matches(path, "**." * 1000 + "zz")
    assert matches(path, "**." * 1000 + "b")
    assert time.process_time() - start < 5
    for text in ("**." * 9999 + "x", 'x[k:{"a":' * 300 + "1" + "}" * 300 + "]", "x[v:" + "[" * 1000 + "]" * 1000 + "]"):
        with pytest.raises(BadPath):
            parse(text)


@pytest.mark.parametrize(
    ("path", "short"),
    [
        (ENV, "spec.template.spec.containers[cart].env[CACHE_ADDR].value"),
        (PORT, "spec.ports[port=8443,protocol=TCP].targetPort"),
        (LABEL, LABEL),
        (TWICE, "spec.containers[c].env[A]#2"),
        ('a[k:{"name":"x.y"}]', 'a[k:{"name":"x.y"}]'),
    ],
)
def test_tables_show_the_short_spelling_which_finds_the_field_again(path: str, short: str) -> None:
    assert shorten(path) == short
    assert matches(path, short)

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from capture.kubernetes.live.splitter import Splitter


@given(
    st.lists(st.text().filter(lambda text: "\n" not in text), max_size=5), st.lists(st.integers(0, 200), max_size=20)
)
def test_26_lines_come_out_as_they_were_however_they_are_cut(lines, cuts):
    whole = "".join(line + "\n" for line in lines).encode()
    at = sorted({min(cut, len(whole)) for cut in cuts})
    chunks = [whole[a:b] for a, b in zip([0, *at], [*at, len(whole)], strict=True)]
    splitter = Splitter()
    found = [line.decode() for chunk in chunks for line in splitter.feed(chunk) if line is not None]
    assert found == lines
    assert splitter.held == 0


def test_25_a_line_of_5_mb_is_one_line():
    splitter = Splitter()
    chunk = b"x" * 65_536
    assert [line for _ in range(80) for line in splitter.feed(chunk)] == []
    assert [len(line or b"") for line in splitter.feed(b"y\nz")] == [80 * 65_536 + 1]
    assert splitter.held == 1


def test_25_a_line_beyond_the_cap_is_told_and_the_next_one_read():
    splitter = Splitter(cap=10)
    out = [line for chunk in (b"x" * 8, b"x" * 8, b"x" * 8 + b"\nnext", b"\n") for line in splitter.feed(chunk)]
    assert out == [None, b"next"]


def test_an_unfinished_line_is_held():
    splitter = Splitter()
    assert list(splitter.feed(b'{"a":')) == []
    assert splitter.held == 5

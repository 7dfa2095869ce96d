"""Reading recording files: what is wrong with the file, what is wrong with one line."""

from __future__ import annotations

import gzip

import orjson
import pytest

from capture.kubernetes.recording import BadLine, Line, open_recording
from schema.errors import BadRecording

HEAD = orjson.dumps({"recording": 1, "cluster": "lab", "started": "2026-03-01T03:00:00Z", "resources": []}) + b"\n"
GOOD = b'{"t":"2026-03-01T03:00:00Z","r":"v1/pods","type":"GAP","reason":"410"}\n'


def lines(tmp_path, raw, cap=1 << 20):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(raw)
    return list(open_recording(path, cap)[1])


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"not json\n", b"[]\n", b'{"a":1}\n', b'{"recording":2,"cluster":"lab"}\n', b"\xff\xfe\n",
        b'{"recording":1,"cluster":"lab","started":"yesterday","resources":[]}\n', b"\x1f\x8bnot gzip",
    ],
)  # fmt: skip
def test_not_a_recording(tmp_path, raw):
    with pytest.raises(BadRecording):
        lines(tmp_path, raw)


def test_no_such_file(tmp_path):
    with pytest.raises(BadRecording):
        open_recording(tmp_path / "none")


@pytest.mark.parametrize(
    "bad",
    [
        b"{half\n", b"\xff\n", b"1\n", b'{"t":"2026-03-01T03:00:00Z","r":"v1/pods","type":"NEWS"}\n',
        b'{"t":"03:00","r":"v1/pods","type":"GAP"}\n', b'{"t":"2026-03-01T03:00:00Z","type":"GAP"}\n',
        b'{"t":"2026-03-01T03:00:00Z","r":"v1/pods","type":"ADDED"}\n',
        b'{"t":"2026-03-01T03:00:00Z","r":"v1/pods","type":"LIST","items":{}}\n',
    ],
)  # fmt: skip
def test_a_bad_line_is_told_and_the_next_is_read(tmp_path, bad):
    first, second = lines(tmp_path, HEAD + bad + GOOD)
    assert isinstance(first, BadLine)
    assert first.number == 2
    assert isinstance(second, Line)
    assert (second.number, second.reason) == (3, "410")


def test_a_line_over_the_cap_is_passed_over(tmp_path):
    first, second = lines(tmp_path, HEAD + b'"' + b"x" * 5000 + b'"\n' + GOOD, cap=1000)
    assert isinstance(first, BadLine)
    assert isinstance(second, Line)


def test_a_truncated_stream_ends_with_the_reason(tmp_path):
    whole = gzip.compress(HEAD + GOOD * 5 + b"".join(orjson.dumps({"x": i * 7919}) + b"\n" for i in range(5000)))
    found = lines(tmp_path, whole[: len(whole) // 2])
    assert isinstance(found[0], Line)
    assert isinstance(found[-1], BadLine)
    assert "broken" in found[-1].reason


def test_a_half_line_at_the_end(tmp_path):
    first, second = lines(tmp_path, HEAD + GOOD + GOOD[:20])
    assert isinstance(first, Line)
    assert isinstance(second, BadLine)


@pytest.mark.parametrize(
    ("raw", "more", "part"),
    [
        (b'"type":"LIST","rv":"7","more":true,"items":[]', True, None),
        (b'"type":"LIST","rv":"7","part":"shop","more":true,"items":[]', True, "shop"),
        (b'"type":"LIST","rv":"7","more":"true","part":7,"items":[]', False, None),
        (b'"type":"LIST","rv":"7","part":"","items":[]', False, None),
        (b'"type":"ADDED","part":"shop","object":{}', False, "shop"),
        (b'"type":"GAP","reason":"410","part":"shop"', False, "shop"),
        (b'"type":"RESUMED","part":"shop"', False, "shop"),
        (b'"type":"RESUMED"', False, None),
    ],
)
def test_pages_of_a_list_and_parts_of_a_resource(tmp_path, raw, more, part):
    (line,) = lines(tmp_path, HEAD + b'{"t":"2026-03-01T03:00:00Z","r":"v1/pods",' + raw + b"}\n")
    assert isinstance(line, Line)
    assert (line.more, line.part) == (more, part)


def test_a_resumed_watch_of_what_is_skipped_is_not_parsed(tmp_path):
    raw = b'{"t":"2026-03-01T03:00:00Z","r":"coordination.k8s.io/v1/leases","type":"RESUMED","half}\n'
    (line,) = lines(tmp_path, HEAD + raw)
    assert (line.type, line.resource) == ("RESUMED", "coordination.k8s.io/v1/leases")

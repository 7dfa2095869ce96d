from __future__ import annotations

import gzip

import pytest

from capture.kubernetes.live.rawfile import RawFile
from capture.kubernetes.recording import BadLine, Line, open_recording
from capture.kubernetes.replay import capture_file
from capture.redact import Redactor
from schema.errors import BadRecording
from schema.records import Change, Coverage, dump
from tests.live.served import CMS, SECRETS
from tests.reflector.lines import T0, S, cm, ev, gap, lst, reflector

SECRET = "aG9yc2ViYXR0ZXJ5"
REDACTOR = Redactor(b"k" * 32)
APPLIED = {"kubectl.kubernetes.io/last-applied-configuration": '{"data":{"password":"hunter2-planted"}}'}


def secret(rv: str, value: str) -> dict:
    body = cm("s", rv=rv, uid="u9", annotations=APPLIED)
    return {**body, "kind": "Secret", "type": "Opaque", "data": {"password": value}}


LINES = [
    lst(0, cm("a", rv="5"), cm("b", rv="6"), rv="10"),
    lst(0, secret("7", SECRET), rv="10", r="v1/secrets")._replace(part="helm"),
    ev(1, "MODIFIED", cm("a", rv="11", data="2")),
    BadLine(3, "not JSON", "v1/configmaps", T0 + 2 * S),
    ev(3, "ERROR", {"kind": "Status", "code": 410, "message": "too old"}),
    lst(4, cm("a", rv="12", data="3"), rv="20"),
    gap(5, "reset"),
    Line(0, T0 + 6 * S, "v1/configmaps", "RESUMED"),
    ev(7, "MODIFIED", secret("21", SECRET[::-1]), r="v1/secrets"),
]


def written(path, redactor=REDACTOR, lines=LINES):
    file = RawFile(path, "lab", T0, [CMS, SECRETS], redactor)
    file.write(lines)
    return file


def told(records):
    return [
        (one.op, str(one.object.key), one.valid, one.flags, [(f.path, f.effect) for f in one.fields])
        if isinstance(one, Change)
        else (one.state, one.group_resource, one.valid)
        for one in records
        if isinstance(one, Change | Coverage) and getattr(one, "state", "") != "ended"
    ]


@pytest.mark.parametrize("name", ["raw.jsonl", "raw.jsonl.gz"])
@pytest.mark.parametrize("redactor", [REDACTOR, None])
def test_what_was_written_is_replayed_alike(tmp_path, name, redactor):
    written(tmp_path / name, redactor).close()
    replayed = [record for record, _ in capture_file(tmp_path / name, redactor=REDACTOR)]
    core = reflector()
    fed = [core.miss(one, one.t) if isinstance(one, BadLine) else core.feed(one) for one in LINES]
    assert told(replayed) == told([record for records in fed for record in records])
    assert any(isinstance(one, Coverage) and one.reason and "UNREADABLE" in one.reason for one in replayed)


def test_no_secret_is_in_it_unless_it_is_asked_for(tmp_path):
    written(tmp_path / "a.jsonl").close()
    kept = (tmp_path / "a.jsonl").read_text()
    assert SECRET not in kept
    assert SECRET[::-1] not in kept
    assert "hunter2-planted" not in kept
    written(tmp_path / "b.jsonl", None).close()
    assert SECRET in (tmp_path / "b.jsonl").read_text()
    for record, _ in capture_file(tmp_path / "a.jsonl", redactor=REDACTOR):
        assert SECRET.encode() not in dump(record)


def test_the_file_is_its_owners_only(tmp_path):
    written(tmp_path / "a.jsonl").close()
    assert (tmp_path / "a.jsonl").stat().st_mode & 0o077 == 0


def test_what_a_killed_recorder_wrote_can_be_read(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    file = written(path)  # and not closed yet
    header, lines = open_recording(path)
    assert header.cluster == "lab"
    assert len([one for one in lines if isinstance(one, Line)]) == len(LINES) - 1
    with pytest.raises(EOFError):
        gzip.decompress(path.read_bytes())
    file.close()


def test_a_file_that_is_there_is_never_overwritten(tmp_path):
    first = written(tmp_path / "a.jsonl.gz")
    second = written(tmp_path / "a.jsonl.gz")
    first.close()
    second.close()
    assert (first.path.name, second.path.name) == ("a.jsonl.gz", "a.1.jsonl.gz")


def test_a_file_that_cannot_be_made_is_told(tmp_path):
    with pytest.raises(BadRecording, match="cannot write"):
        RawFile(tmp_path / "no" / "a.jsonl", "lab", T0, [], None)

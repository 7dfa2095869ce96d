"""Planted secrets are nowhere in what leaves the recorder, and what checks need stays readable."""

from __future__ import annotations

import base64

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.kubernetes.replay import Replay
from capture.normalise import prepare
from capture.redact import Redactor
from schema.errors import BadRecording
from schema.records import dump
from tests.reflector.test_recordings import RECORDINGS

PLANTED = "pl4nted-Secret-Value"
REDACTOR = Redactor(b"k" * 32)
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"


def obj(kind: str, **parts: object) -> dict:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "namespace": "shop"}, **parts}


def pod(container: dict) -> dict:
    return obj("Pod", spec={"containers": [{"name": "c", **container}]})


@pytest.mark.parametrize(
    "planted",
    [
        obj("Secret", data={"password": base64.b64encode(PLANTED.encode()).decode()}),
        obj("Secret", stringData={"password": PLANTED}),
        obj("Secret", data=PLANTED),
        obj("Secret", data={"nested": {"odd": PLANTED}}),
        pod({"env": [{"name": "DB_PASSWORD", "value": PLANTED}]}),
        pod({"env": [{"name": "DATABASE_URL", "value": f"postgres://app:{PLANTED}@db.data:5432/orders"}]}),
        pod({"args": [f"--password={PLANTED}"]}),
        pod({"args": ["--api-token", PLANTED]}),
        pod({"command": ["sh", "-c", f"export TOKEN={PLANTED}; run"]}),
        obj("ConfigMap", data={"app.ini": f"user=a\npassword={PLANTED}\n"}),
        obj("ConfigMap", data={"api-key": PLANTED}),
        obj("ValidatingWebhookConfiguration", webhooks=[{"name": "w", "clientConfig": {"caBundle": PLANTED}}]),
    ],
)
def test_a_planted_secret_is_gone_in_every_place(planted: dict) -> None:
    body = orjson.dumps(prepare(planted, scope="lab", redactor=REDACTOR).state).decode()
    assert PLANTED not in body
    assert base64.b64encode(PLANTED.encode()).decode() not in body
    assert "hmac:" in body


@pytest.mark.parametrize("shape", [JWT, PEM, "AKIAABCDEFGHIJKLMNOP", "ghp_" + "a1B2" * 9])
def test_a_credential_is_known_by_its_shape_wherever_it_stands(shape: str) -> None:
    for planted in (
        obj("ConfigMap", data={"notes": f"see {shape} here"}),
        pod({"env": [{"name": "X", "value": shape}]}),
    ):
        assert shape not in orjson.dumps(prepare(planted, scope="lab", redactor=REDACTOR).state).decode()
    assert shape not in REDACTOR.redact_text(f"failed with {shape}")


def test_a_copy_of_the_applied_object_is_only_a_fingerprint() -> None:
    copy = orjson.dumps({"apiVersion": "v1", "kind": "Secret", "data": {"p": PLANTED}}).decode()
    planted = obj("Secret")
    planted["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": copy, "other/copy": copy}
    prepared = prepare(planted, scope="lab", redactor=REDACTOR)
    assert PLANTED not in orjson.dumps(prepared.state).decode()
    assert prepared.source_version.last_applied is not None
    assert PLANTED not in prepared.source_version.last_applied


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CACHE_ADDR", "cache.data.svc.cluster.local:6379"),
        ("TOKEN_TTL", "300s"),
        ("PASSWORD_MIN_LENGTH", "12"),
        ("SECRET_BACKEND", "vault.platform:8200"),
    ],
)
def test_what_checks_need_stays_readable(name: str, value: str) -> None:
    state = prepare(pod({"env": [{"name": name, "value": value}]}), scope="lab", redactor=REDACTOR).state
    assert value in orjson.dumps(state).decode()


def test_of_a_url_only_the_password_is_hidden() -> None:
    text = REDACTOR.redact_text(f"postgres://app:{PLANTED}@orders-db.data:5432/orders")
    assert text.startswith("postgres://app:hmac:")
    assert text.endswith("@orders-db.data:5432/orders")


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=60), max_size=4))
def test_redaction_is_idempotent(data: dict) -> None:
    for kind in ("core/Secret", "core/ConfigMap"):
        once = REDACTOR.redact({"data": data}, kind)
        assert REDACTOR.redact(once, kind) == once


@given(st.text(max_size=120))
def test_redacted_text_stays_as_it_is(text: str) -> None:
    once = REDACTOR.redact_text(f"password={text} and https://u:{text}@h token: {text}")
    assert REDACTOR.redact_text(once) == once


@pytest.mark.parametrize(
    "odd", [{}, {"kind": "Pod"}, obj("Pod") | {"metadata": []}, obj("Pod") | {"metadata": {"name": 7}}]
)
def test_an_object_without_identity_is_a_named_error(odd: dict) -> None:
    with pytest.raises(BadRecording):
        prepare(odd, scope="lab", redactor=REDACTOR)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_no_secret_of_a_recording_is_in_any_record(path) -> None:
    from capture.kubernetes.recording import BadLine, open_recording

    planted = set()
    for line in open_recording(path)[1]:
        if not isinstance(line, BadLine) and line.resource == "v1/secrets":
            for item in [*line.items, *([line.object] if line.object else [])]:
                planted |= {value for value in (item.get("data") or {}).values() if len(value) >= 16}
    assert planted
    everything = b"".join(dump(record) for record, _ in Replay(path, REDACTOR))
    for value in planted:
        assert value.encode() not in everything
        assert base64.b64decode(value) not in everything

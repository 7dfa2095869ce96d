"""Planted secrets are nowhere in what leaves the recorder, and what checks need stays readable."""

from __future__ import annotations

import base64
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.kubernetes.replay import Replay
from capture.normalise import prepare
from capture.redact import Redactor
from schema.errors import BadRecording, InputError
from schema.records import dump
from tests.reflector.test_recordings import RECORDINGS

PLANTED = "pl4nted-Secret-Value"
REDACTOR = Redactor(b"k" * 32)
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"


def encoded(body: bytes) -> str:
    return base64.b64encode(body).decode()


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
        pod({"env": [{"name": "DB_PASSWORD", "value": f"first line\n{PLANTED}"}]}),
        pod({"env": [{"name": "DB_PASSWORD", "value": f"{PLANTED}\n"}]}),
        pod({"env": [{"name": "DB_PASSWORD", "value": f"hmac:0123456789abcdef {PLANTED}"}]}),
        pod({"env": [{"name": "DB_PASSWORD", "value": f"{PLANTED}hmac:0123456789abcdef"}]}),
        pod({"env": [{"name": "DB_PASSWORD", "value": f"token=a {PLANTED}"}]}),
        pod({"env": [{"name": "JDBC", "value": f"postgres://app:{PLANTED}@x@db:5432/orders"}]}),
        pod({"env": [{"name": "GO_DB", "value": f"app:{PLANTED}@tcp(db.data:3306)/orders"}]}),
        pod({"env": [{"name": "JAVA_OPTS", "value": f"-Xmx1g -Dstore.password={PLANTED} -Dx=y"}]}),
        pod({"args": ["-p", PLANTED]}),
        pod({"args": [f"-p{PLANTED}"]}),
        pod({"command": ["/usr/bin/mysql", "-uroot"], "args": [f"-p{PLANTED}"]}),
        pod({"command": ["redis-cli", "-a", PLANTED]}),
        pod({"command": ["sh", "-c", f"mysql -u root -p{PLANTED} -e 'select 1'"]}),
        pod({"command": ["sh", "-c", f"cli --password {PLANTED} list"]}),
        pod({"command": ["sh", "-c", f"cli --password '{PLANTED}' list"]}),
        pod({"args": [f"--header=Authorization: Bearer {PLANTED}"]}),
        obj("ConfigMap", binaryData={"app.bin": encoded(f"password={PLANTED}".encode())}),
        obj("ConfigMap", binaryData={"app.bin": encoded(b"\xff\x00password=" + PLANTED.encode())}),
        obj("ConfigMap", binaryData={"app.bin": encoded(f"password={PLANTED}".encode("utf-16-le"))}),
        obj("ConfigMap", binaryData={"token": encoded(PLANTED.encode())}),
        obj("ConfigMap", binaryData={"app.bin": f"not base64, password={PLANTED}"}),
        obj("ConfigMap", binaryData={"odd": {"password": PLANTED}}),
        obj("ConfigMap", data={"password": f"a\nb {PLANTED}\nc"}),
        obj("ConfigMap", data={"app.yaml": f"password: |\n  {PLANTED}\n"}),
        obj("ConfigMap", data={"app.yaml": f"- name: DB_PASSWORD\n  value: {PLANTED}\n"}),
        obj("ConfigMap", data={"app.json": f'{{"password": "a b,{PLANTED}"}}'}),
        obj("ConfigMap", data={"app.json": json.dumps({"nested": json.dumps({"password": PLANTED})})}),
        obj("ConfigMap", data={"app.ini": f"password=ab,{PLANTED}"}),
        obj("Database", spec={"auth": {"adminPassword": PLANTED}}),
        obj("Release", spec={"values": [{"apiKey": PLANTED}]}),
    ],
)
def test_a_planted_secret_is_gone_in_every_place(planted: dict) -> None:
    state = prepare(planted, scope="lab", redactor=REDACTOR).state
    body = orjson.dumps(state).decode()
    assert PLANTED not in body
    assert encoded(PLANTED.encode()) not in body
    assert "hmac:" in body
    # A redacted object replays to the same.
    again = prepare(json.loads(body), scope="lab", redactor=REDACTOR)
    assert (again.state, again.redacted) == (state, True)


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


def test_a_copy_of_the_object_in_an_annotation_is_a_fingerprint_however_it_is_written() -> None:
    copy = {"apiVersion": "v1", "kind": "Secret", "stringData": {"p": PLANTED}}
    one = json.dumps(copy)
    for spelling in (one, "\n \t" + json.dumps(copy, indent=2), f"[{one}]", f" [ {one} ]"):
        planted = obj("Pod")
        planted["metadata"]["annotations"] = {"backup.example/was": spelling}
        state = prepare(planted, scope="lab", redactor=REDACTOR).state
        assert state["metadata"]["annotations"] == {"backup.example/was": REDACTOR.fingerprint(spelling)}
        assert PLANTED not in str(state)


def test_half_a_character_is_a_named_error_without_its_neighbours() -> None:
    for planted in (
        obj("Secret", stringData={"password": f"{PLANTED}\ud800"}),
        obj("ConfigMap", data={"size": f"{PLANTED}\ud800"}),
    ):
        with pytest.raises(InputError) as raised:
            prepare(planted, scope="lab", redactor=REDACTOR)
        assert PLANTED not in str(raised.value)


def test_of_a_helm_release_only_the_metadata_is_kept() -> None:
    blob = encoded(encoded(b"\x1f\x8b" + PLANTED.encode() * 50).encode())
    labels = {"owner": "helm", "status": "deployed", "version": "3"}
    planted = obj("Secret", type="helm.sh/release.v1", data={"release": blob})
    planted["metadata"] |= {"labels": labels, "name": "sh.helm.release.v1.shop.v3"}
    prepared = prepare(planted, scope="lab", redactor=REDACTOR)
    assert prepared.state == {
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": "sh.helm.release.v1.shop.v3", "namespace": "shop", "labels": labels},
    }  # fmt: skip
    assert prepared.redacted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CACHE_ADDR", "cache.data.svc.cluster.local:6379"),
        ("TOKEN_TTL", "300s"),
        ("PASSWORD_MIN_LENGTH", "12"),
        ("SECRET_BACKEND", "vault.platform:8200"),
        ("DB_SECRET_NAME", "orders-db"),
        ("PASSWORD_FILE", "/run/secrets/db"),
        ("TOKEN_URL", "https://login.example/oauth/token"),
        ("API_TOKEN", "$(FROM_ELSEWHERE)"),
    ],
)
def test_what_checks_need_stays_readable(name: str, value: str) -> None:
    state = prepare(pod({"env": [{"name": name, "value": value}]}), scope="lab", redactor=REDACTOR).state
    assert value in orjson.dumps(state).decode()


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "8080"], ["-p", "8080:80"], ["-port=8080"], ["-path.rootfs=/host"], ["mkdir", "-p", "/data/cache"],
        ["-pprof"], ["ls", "-a", "folder"], ["--password-file", "/run/secrets/db"], ["--token-ttl", "300s"],
        ["sh", "-c", "mkdir -p /data && exec server"], ["-printer"], ["-p"], ["--password", "-v"],
    ],
)  # fmt: skip
def test_arguments_that_are_no_credentials_stay(words: list[str]) -> None:
    state = prepare(pod({"args": words}), scope="lab", redactor=REDACTOR).state
    assert state["spec"]["containers"][0]["args"] == words


def test_under_a_secret_name_an_address_keeps_its_host() -> None:
    for value in (f"postgres://app:{PLANTED}@orders-db:5432/orders", f"host=orders-db user=app password={PLANTED}"):
        planted = pod({"env": [{"name": "ORDERS_DSN", "value": value}]})
        body = str(prepare(planted, scope="lab", redactor=REDACTOR).state)
        assert "orders-db" in body
        assert PLANTED not in body


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

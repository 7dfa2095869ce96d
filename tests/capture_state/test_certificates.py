"""A certificate is told by what is public of it; what is none is hidden like anything else."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.certificates import described, is_description
from capture.diff import diff
from capture.normalise import prepare
from capture.redact import Redactor

REDACTOR = Redactor(b"k" * 32)

# Made with `openssl req -x509`; what is expected of them is what `openssl x509 -fingerprint -sha256 -dates` says.
LEAF = """\
-----BEGIN CERTIFICATE-----
MIIB5DCCAYqgAwIBAgIUBp6C21Jd3OXvcb9eNslvNSzrmZMwCgYIKoZIzj0EAwIw
JjENMAsGA1UECgwEc2hvcDEVMBMGA1UEAwwMc2hvcC5leGFtcGxlMB4XDTI2MTIw
MTEwNTQyM1oXDTM2MTEyODEwNTQyM1owJjENMAsGA1UECgwEc2hvcDEVMBMGA1UE
AwwMc2hvcC5leGFtcGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEkFCwagZ8
17CGA+MBZQP1q/TGtV3LD84/Mo070jL+mOC7vWXxv61QNxVqiLEY94k3cx4Ec2b9
3Ak0T8M5wL+P9qOBlTCBkjAdBgNVHQ4EFgQUY6DFxboW4QF5FXW7rszPwtl08v8w
HwYDVR0jBBgwFoAUY6DFxboW4QF5FXW7rszPwtl08v8wDwYDVR0TAQH/BAUwAwEB
/zA/BgNVHREEODA2ggxzaG9wLmV4YW1wbGWCDiouc2hvcC5leGFtcGxlhwQKAAAB
hxD9AAAAAAAAAAAAAAAAAAABMAoGCCqGSM49BAMCA0gAMEUCIQChx7ZHvlCj/9bb
8vmFk8/f+eVfqr/GWIrwQhNgUyFq6gIgQEu19tPtVGIIL0a7Vai+Ya8qC+4xPeBX
8hzdf6/3PkE=
-----END CERTIFICATE-----
"""
AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBeDCCAR+gAwIBAgIUGjyQaFwXkZSXS2SzGwWkSJCIquQwCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGbGFiLWNhMCAXDTI2MTIwMTEwNTQyM1oYDzIwNTkxMDA5MTA1
NDIzWjARMQ8wDQYDVQQDDAZsYWItY2EwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AARpOneJCbbvmcDL4n5IEpYtfBbTX2BaTeW5TV8UMkZFdBYL9dP+5iAfsqUUYfP6
PAUgFaoxsTJo06Ub3WMAprffo1MwUTAdBgNVHQ4EFgQUH2epQ9O46Q6nQDU646co
LpMd3aQwHwYDVR0jBBgwFoAUH2epQ9O46Q6nQDU646coLpMd3aQwDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiB5N8wHlYzMuNHNGRw8FfML6iDvuQAS
blj5ikHQhTTQSgIgGI6LthHfONkrZDLo8c6cNLAsnFVDu6VYbRGfBUbjOXM=
-----END CERTIFICATE-----
"""
LEAF_TOLD = {
    "fingerprint": "sha256:64a473e3d9764ff5338edbab5f71b3c1101935aad45dfcddc99e430564410ac7",
    "not_before": "2026-12-01T10:54:23Z",
    "not_after": "2036-11-28T10:54:23Z",
    "names": ["shop.example", "*.shop.example", "10.0.0.1", "fd00::1"],
}
AUTHORITY_TOLD = {
    "fingerprint": "sha256:1c06dbf667b378e7b8b43e61c85e637508d033e274d89e5a404b5570f95c4a71",
    "not_before": "2026-12-01T10:54:23Z",
    "not_after": "2059-10-09T10:54:23Z",
    "names": ["lab-ca"],
}
KEY = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(**data: str) -> dict:
    meta = {"name": "shop-tls", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/tls", "data": data}


def test_a_certificate_is_told_by_fingerprint_validity_and_names() -> None:
    assert described(LEAF.encode()) == LEAF_TOLD
    assert described(encoded(LEAF).encode()) == LEAF_TOLD
    assert described((LEAF + AUTHORITY).encode()) == [LEAF_TOLD, AUTHORITY_TOLD]
    assert is_description(LEAF_TOLD)
    assert is_description([LEAF_TOLD, AUTHORITY_TOLD])


def test_of_a_tls_secret_the_certificate_is_told_and_the_key_hidden() -> None:
    body = secret(**{"tls.crt": encoded(LEAF), "tls.key": encoded(KEY), "both": encoded(LEAF + KEY)})
    data = prepare(body, scope="lab", redactor=REDACTOR).state["data"]
    assert data["tls.crt"] == LEAF_TOLD
    assert data["tls.key"].keys() == data["both"].keys() == {"redacted", "length"}
    assert prepare(body | {"data": data}, scope="lab", redactor=REDACTOR).state["data"] == data


def test_a_ca_bundle_is_told_as_its_certificates() -> None:
    hook = {"name": "w", "clientConfig": {"caBundle": encoded(AUTHORITY)}}
    state = REDACTOR.redact({"webhooks": [hook]}, "admissionregistration.k8s.io/ValidatingWebhookConfiguration")
    assert state == {"webhooks": [{"name": "w", "clientConfig": {"caBundle": AUTHORITY_TOLD}}]}
    hook["clientConfig"]["caBundle"] = encoded("none")
    (other,) = REDACTOR.redact({"webhooks": [hook]}, "x/Y")["webhooks"]
    assert other["clientConfig"]["caBundle"].keys() == {"redacted", "length"}


def test_a_renewal_shows_as_new_dates() -> None:
    old, new = ({"data": {"tls.crt": one}} for one in (LEAF_TOLD, {**LEAF_TOLD, "not_after": "2040-01-01T00:00:00Z"}))
    (field,) = diff(old, new, "core/Secret").fields
    assert (field.path, field.before, field.after) == (
        'data["tls.crt"].not_after', LEAF_TOLD["not_after"], "2040-01-01T00:00:00Z",
    )  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [
        {"fingerprint": "sha256:x", "not_before": "a", "not_after": "b", "names": []},
        {**LEAF_TOLD, "not_before": "pl4nted-Value"},
        {**LEAF_TOLD, "names": [{"password": "pl4nted-Value"}]},
        {**LEAF_TOLD, "more": "pl4nted-Value"},
        [],
    ],
)
def test_what_only_looks_like_a_description_is_hidden(odd: object) -> None:
    assert not is_description(odd)
    assert "pl4nted" not in str(prepare(secret(x=odd), scope="lab", redactor=REDACTOR).state)


DER = base64.b64decode("".join(LEAF.splitlines()[1:-1]))


def pem(der: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(der) + b"\n-----END CERTIFICATE-----\n"


@given(st.binary(max_size=200), st.integers(0, len(DER) - 1), st.integers(0, 255))
def test_no_bytes_are_more_than_no_certificate(noise: bytes, at: int, byte: int) -> None:
    for body in (noise, pem(noise), pem(DER[:at]), pem(DER[:at] + bytes([byte]) + DER[at + 1 :]), LEAF.encode()[:at]):
        told = described(body)
        assert told is None or is_description(told)


def test_of_too_many_certificates_only_a_fingerprint_is_kept() -> None:
    assert described(LEAF.encode() * 65) is None
    assert len(described(LEAF.encode() * 64)) == 64

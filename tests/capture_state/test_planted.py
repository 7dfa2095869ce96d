"""What is planted in texts of real life is gone in every place that holds text; what is harmless stays in every one."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from urllib.parse import quote

import orjson
import pytest

from capture.redact import Redactor
from tests.capture_state import planted
from tests.capture_state.planted import OTHER, SECRET

REDACTOR = Redactor(b"k" * 32)
PIECES = (
    SECRET,
    OTHER,
    quote(SECRET),
    "Zq7x",
    "pLk9",
    "456789abcdefghijk",
    "BCDEFGHIJKLMNOP",
    "456789abcdef0123456789abcdef",
)


def redacted(type_: str, **parts: object) -> str:
    once = REDACTOR.redact({"metadata": {"name": "x"}, **parts}, type_)
    assert REDACTOR.redact(once, type_) == once
    return orjson.dumps(once).decode()


def container(**parts: object) -> str:
    return redacted("core/Pod", spec={"containers": [{"name": "c", **parts}]})


def in_all_places(text: str) -> Iterator[str]:
    yield redacted("core/ConfigMap", data={"app.conf": text})
    yield redacted("core/Pod", metadata={"name": "x", "annotations": {"shop.example/note": text}})
    yield redacted("apps/Deployment", spec={"template": {"metadata": {"annotations": {"shop.example/note": text}}}})
    yield redacted("core/Pod", status={"containerStatuses": [{"state": {"terminated": {"message": text}}}]})
    yield redacted("shop.example/Settings", spec={"config": [{"text": text}]})
    yield container(env=[{"name": "SETTINGS", "value": text}])
    yield container(command=["sh", "-c", text])
    yield orjson.dumps(REDACTOR.redact_text(text)).decode()


def leaks(body: str) -> bool:
    return any(piece in body for piece in PIECES)


def filled(text: str) -> str:
    return text.replace("{s}", SECRET).replace("{o}", OTHER)


@pytest.mark.parametrize("text", (planted.FILES | planted.ADDRESSES).values(), ids=planted.FILES | planted.ADDRESSES)
def test_a_credential_in_a_text_is_gone_in_every_place(text: str) -> None:
    for body in in_all_places(filled(text)):
        assert not leaks(body)
        assert "hmac:" in body
    packed = base64.b64encode(filled(text).encode()).decode()
    for body in (*in_all_places(f"see {packed}"), redacted("core/ConfigMap", binaryData={"app.conf": packed})):
        assert packed not in body


@pytest.mark.parametrize("text", planted.ADDRESSES.values(), ids=planted.ADDRESSES)
def test_of_an_address_only_the_credential_is_gone(text: str) -> None:
    for body in in_all_places(filled(text)):
        assert ".data" in body
    for name in ("DATABASE_URL", "ORDERS_DSN"):
        body = container(env=[{"name": name, "value": filled(text)}])
        assert not leaks(body)


@pytest.mark.parametrize("text", planted.COMMAND_LINES.values(), ids=planted.COMMAND_LINES)
def test_a_credential_in_a_command_line_is_gone(text: str) -> None:
    line = filled(text)
    for body in (
        container(command=["sh", "-c", line]),
        container(command=["/bin/bash", "-ec"], args=[line]),
        container(args=["-c", f"set -e\n{line}\n"]),
        container(lifecycle={"postStart": {"exec": {"command": ["sh", "-c", line]}}}),
        redacted("core/ConfigMap", data={"run.sh": line}),
        redacted("core/ConfigMap", data={"run.sh": f"#!/bin/sh\nset -eu\n{line}\nexit 0\n"}),
        redacted("tekton.dev/Task", spec={"steps": [{"script": f"#!/bin/sh\n{line}\n"}]}),
    ):
        assert not leaks(body)
        assert "hmac:" in body


@pytest.mark.parametrize("words", planted.WORDS.values(), ids=planted.WORDS)
def test_a_credential_in_a_list_of_arguments_is_gone(words: list[str]) -> None:
    said = [filled(word) for word in words]
    for cut in range(min(3, len(said))):
        body = container(command=said[:cut], args=said[cut:])
        assert not leaks(body)
    assert not leaks(redacted("shop.example/Server", spec={"command": said[:1], "extraArgs": said[1:]}))


@pytest.mark.parametrize("name", planted.VARIABLES)
def test_a_credential_under_its_name_is_gone(name: str) -> None:
    for body in (
        container(env=[{"name": name, "value": SECRET}]),
        container(args=[f"--{name}={SECRET}"]),
        container(args=[f"--{name}", SECRET]),
        redacted("core/ConfigMap", data={name: SECRET}),
        redacted("shop.example/Settings", spec={"parameters": [{"key": name, "value": SECRET}]}),
        *in_all_places(f"first=1\n{name}={SECRET}\nlast=2\n"),
        *in_all_places(f"first: 1\n{name}: {SECRET}\nlast: 2\n"),
        *in_all_places(f'{{"first": 1, "{name}": "{SECRET}", "last": 2}}'),
    ):
        assert not leaks(body)


@pytest.mark.parametrize(("name", "value"), planted.HARMLESS_VARIABLES.items())
def test_a_harmless_variable_stays(name: str, value: str) -> None:
    for body in (
        container(env=[{"name": name, "value": value}]),
        container(args=[f"--{name}={value}"]),
        redacted("core/ConfigMap", data={name: value}),
        *in_all_places(f"FIRST=1\n{name}={value}\nLAST=2\n"),
        *in_all_places(f"first: 1\n{name}: {value}\nlast: 2\n"),
        *in_all_places(f'{{"first": 1, "{name}": "{value}", "last": 2}}'),
    ):
        assert "hmac:" not in body


@pytest.mark.parametrize("fields", planted.HARMLESS_FIELDS, ids=lambda fields: next(iter(fields)))
def test_a_harmless_field_stays(fields: dict) -> None:
    assert "hmac:" not in redacted("shop.example/Settings", spec=fields, status={"observed": [fields]})


@pytest.mark.parametrize("text", planted.HARMLESS_TEXTS.values(), ids=planted.HARMLESS_TEXTS)
def test_a_harmless_text_stays_in_every_place(text: str) -> None:
    several = [] if text in planted.PROSE else in_all_places(f"first\n{text}\nlast\n")
    for body in (*in_all_places(text), *several):
        assert "hmac:" not in body
    packed = base64.b64encode(text.encode()).decode()
    assert packed in redacted("core/ConfigMap", binaryData={"app.conf": packed})

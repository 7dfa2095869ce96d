"""The redaction table: each entry hides its example, leaves its counter-example, and takes no more than linear time."""

from __future__ import annotations

import time
import tomllib
from importlib.resources import files

import pytest

from capture import patterns
from capture.redact import Redactor

TABLE = tomllib.loads(files("schema").joinpath("tables/redaction.toml").read_text(encoding="utf-8"))
REDACTOR = Redactor(b"k" * 32)


def entries(section: str) -> list:
    return [pytest.param(entry, id=entry["id"]) for entry in TABLE[section]]


@pytest.mark.parametrize(
    ("section", "judge"),
    [
        ("name", patterns.is_secret_name),
        ("field", patterns.SECRET_FIELDS.__getitem__),
        ("harmless", patterns.is_harmless),
        ("address", patterns.is_address),
        ("exact", patterns.is_exact),
        ("reference", patterns.is_reference),
    ],
)
def test_names_fields_and_values(section, judge) -> None:
    for entry in TABLE[section]:
        assert judge(entry["applies"]), entry["id"]
        assert not judge(entry["not"]), entry["id"]


def test_under_the_name_of_a_place_an_address_without_a_credential_stays() -> None:
    for name, expected in (("ORDERS_DSN", True), ("ORDERS_DSN_PASSWORD", False), ("ORDERS_TOKEN", False)):
        assert patterns.stays(name, "postgres://db.data:5432/orders") == expected
        assert not patterns.stays(name, "pl4nted-Value")


def test_no_number_is_harmless_under_the_name_of_a_password() -> None:
    for name, expected in (("PASSWORD", False), ("dbPass", False), ("PASSWORD_MIN_LENGTH", True), ("TOKEN_TTL", True)):
        assert patterns.stays(name, "86400") == expected
    assert patterns.stays("PASSWORD", "$(FROM_ELSEWHERE)")


@pytest.mark.parametrize("entry", entries("pointer"))
def test_pointers(entry: dict) -> None:
    assert patterns.is_pointer(*entry["applies"])
    assert not patterns.is_pointer(*entry["not"])


@pytest.mark.parametrize("entry", entries("shape"))
def test_shapes(entry: dict) -> None:
    assert "hmac:" in REDACTOR.redact_text(entry["applies"])
    assert "hmac:" in REDACTOR.redact_text(f"it failed:\n{entry['applies']}\nand so on")
    for text in (entry["not"], f"it failed:\n{entry['not']}\nand so on"):
        assert REDACTOR.redact_text(text) == text


@pytest.mark.parametrize("entry", entries("argument"))
def test_arguments(entry: dict) -> None:
    def hidden(words: list[str]) -> list[str]:
        state = REDACTOR.redact({"spec": {"containers": [{"command": words}]}}, "core/Pod")
        return state["spec"]["containers"][0]["command"]

    assert "hmac:" in str(hidden(entry["applies"]))
    assert "hmac:" in str(hidden(["sh", "-c", " ".join(entry["applies"])]))
    assert hidden(entry["not"]) == entry["not"]


HOSTILE = [
    "x", "token", "eyJ", "a:", "://", "://a:", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", '"name":"password",',
    "password=", 'password="', "a:b@tcp(", "\\", 'pwd\\"', "secret_", "xoxb-", "authorization:basic ", "token      ",
    "-p ", "--token ", "token=a,,,,,", "token: |  \n", "a=b ;", "1s", '$(a`\'"', "curl -u a:", "mysql -p '", '\'"',
    "\'", "a_token:\n - ", "- token:\n", "token: \n", "token=\\\n", "token='", "name: token\nvalue: ", "('token', '",
    "token:", "value: a\nname: b\n", "ENV token a1\n", "user a on >", "kind: Secret\ndata: a\n---\n", "<a>",
    "<password ", "YWJj" * 30 + " ", "eyJ" * 8 + ".", "a:5432:b:c:", "?code=Aa1", "password=${",
    'variable "token" { ', "rabbitmqctl -x ",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_takes_more_than_its_length(text: str) -> None:
    def spent(length: int) -> float:
        body, redactor = (text * length)[:length] + " !", Redactor(b"k" * 32)
        start = time.process_time()
        redactor.redact({"spec": {"args": [body], "env": [{"name": "DB_PASSWORD", "value": body}]}}, "core/Pod")
        return time.process_time() - start

    # Ten times the text in ten times the time would do; in its square it would be a hundred.
    assert spent(120_000) < 40 * max(spent(12_000), 0.01)

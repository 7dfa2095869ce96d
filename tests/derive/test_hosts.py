"""Names of Services in text: each form names its hosts and ports, and what only looks like an address names none."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from store.derive.hosts import Target, candidates, in_file, in_value, is_of_names_only, listens, wants_host

TABLE = tomllib.loads(files("schema").joinpath("tables/addresses.toml").read_text())


def spots(text: str, field: str = "X") -> list[tuple[str, int | None]]:
    return [(spot.host, spot.port) for spot in in_value(text, field)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("redis.cache.svc.cluster.local:6379", [("redis.cache.svc.cluster.local", 6379)]),
        ("see redis.cache.svc, please", [("redis.cache.svc", None)]),
        ("cart:8080", [("cart", 8080)]),
        ("a:9092,b:9092", [("a", 9092), ("b", 9092)]),
        ("0@kafka-0.kafka:9093,1@kafka-1.kafka:9093", [("kafka-0.kafka", 9093), ("kafka-1.kafka", 9093)]),
        ("PLAINTEXT://a:9092,SSL://b:9093", [("a", 9092), ("b", 9093)]),
        ("http://media", [("media", None)]),
        ("http://user.cart:80/?next=x", [("user.cart", 80)]),
        ("dns:///cart:50051", [("cart", 50051)]),
        ("postgres://app:hmac:0123456789abcdef@orders-db.data:5432/orders", [("orders-db.data", 5432)]),
        ("mongodb://u:p@m-0.m.data,m-1.m.data:27018/x", [("m-0.m.data", None), ("m-1.m.data", 27018)]),
        ("jdbc:postgresql://db:5432/x", [("db", 5432)]),
        ("app:hmac:0123456789abcdef@tcp(db.data:3306)/orders", [("db.data", 3306)]),
        ("host=orders-db.data port=5432 user=app", [("orders-db.data", 5432)]),
        ("Server=tcp:sql.data,1433;Database=x", [("sql.data", 1433)]),
        ("_grpc._tcp.cart.shop.svc.cluster.local", [("_grpc._tcp.cart.shop.svc.cluster.local", None)]),
        ("until nc -z db 5432; do sleep 1; done", [("db", 5432)]),
        ("nc -z -w 30 kafka 9092", [("kafka", 9092)]),
        ("redis-cli -h redis ping", [("redis", None)]),
    ],
)
def test_what_a_text_names(text, wanted):
    assert spots(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "cart", "cart.shop", "cart:", "cart:0", "cart:99999", "cart:8080x", "Cart:8080", "12:30", "10.0.0.1:80",
        "localhost:80", "0.0.0.0:8080", ":8080", "http://[::1]:80", "http://10.0.0.1/cart", "s3://cart/x",
        "unix:///run/cart.sock", "hmac:0123456789012345", "configmap/cart", "orders.paid,mail.outbox",
        "registry.example/shop/cart:1.4", "key:value", "a_b:80", "x" * 5000 + " http://cart:80",
    ],
)  # fmt: skip
def test_what_names_nothing(text):
    assert spots(text) == []


@pytest.mark.parametrize("entry", TABLE["asks"], ids=lambda entry: entry["id"])
def test_a_bare_word_counts_where_the_field_asks_for_a_host(entry):
    assert spots("cart", entry["applies"]) == [("cart", None)]
    assert spots("cart, catalog", entry["applies"]) == [("cart", None), ("catalog", None)]
    assert spots("cart", entry["not"]) == []
    assert all(wants_host(f"X_{word.upper()}") for word in entry["words"])
    assert all(wants_host(f"X_{word.upper()}", in_file=True) == entry.get("in_files", True) for word in entry["words"])


@pytest.mark.parametrize("entry", TABLE["own"], ids=lambda entry: entry["id"])
def test_a_program_is_told_its_own_name(entry):
    assert not any(wants_host(name) for name in entry["names"])
    assert wants_host(entry["not"])


@pytest.mark.parametrize("entry", TABLE["never"], ids=lambda entry: entry["id"])
def test_a_field_that_listens_names_nobody(entry):
    assert spots("http://cart:80", entry["applies"]) == []
    assert spots("http://cart:80", entry["not"]) == [("cart", 80)]
    assert all(listens(f"X_{word.upper()}") for word in entry["words"])


@pytest.mark.parametrize("entry", TABLE["scheme"], ids=lambda entry: entry["id"])
def test_a_scheme_without_hosts(entry):
    assert spots(entry["applies"], "X_URL") == []
    assert spots(entry["not"], "X_URL") != []
    assert all(spots(f"{word}://cart:80", "X_URL") == [] for word in entry["words"])


@pytest.mark.parametrize("entry", TABLE["names_only"], ids=lambda entry: entry["id"])
def test_a_key_of_names_only(entry):
    assert is_of_names_only(entry["applies"])
    assert not is_of_names_only(entry["not"])


def test_a_file_line_by_line():
    text = """
    # http://nobody:1
    upstream: catalog:8080
    - {host: redis, port: 6379}
    "addr": "cart",
    bootstrap.servers=kafka.data.svc:9092
    Host logs
    service: payment
    listen: web:80
    proxy_pass http://media/;
    """
    found = {(spot.host, spot.port) for spot in in_file(text)}
    wanted = {("catalog", 8080), ("redis", None), ("cart", None), ("kafka.data.svc", 9092), ("logs", None)}
    assert found == wanted | {("media", None)}


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        ("cart", [Target("shop", "cart")]),
        ("cache.data", [Target("shop", "data", pod=True), Target("data", "cache")]),
        ("kafka-0.kafka.data", [Target("data", "kafka", pod=True)]),
        ("cache.data.svc", [Target("data", "cache", explicit=True)]),
        ("kafka-0.kafka.data.svc.cluster.local", [Target("data", "kafka", pod=True, explicit=True)]),
        ("_pg._tcp.db.data.svc.cluster.local.", [Target("data", "db", explicit=True)]),
        ("cache.data.svc.corp.example", [Target("data", "cache")]),
        ("cart.", []),
        ("www.a.b.example", []),
    ],
)
def test_what_a_host_can_be_in_the_order_of_dns(host, wanted):
    assert list(candidates(host, "shop")) == wanted

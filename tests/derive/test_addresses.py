"""Addresses of templates: which fields are read, under which path, and what of them is known; calls that follow."""

from __future__ import annotations

import pytest

from schema.paths import matches
from store.derive.addresses import addresses, lent_by, meant, resolve
from store.derive.hosts import FORMS
from store.derive.sides import filled, meet, shown_by
from tests.derive.test_derive import C, deployment, obj, owner, pod

CONFIG = obj("v1", "ConfigMap", "conf", data={
    "redis-host": "redis.cache", "port": "6380", "app.yaml": "upstream: catalog:8080\n", "Corefile": "x cart:80\n",
})  # fmt: skip
POD = "spec.template.spec"
MAIN = f'{POD}.containers[k:{{"name":"main"}}]'


def lender_of(*configs):
    lent = {ref.key: lent_by(ref, state) for ref, state in configs}
    return lent.get


def said(given, *configs):
    return addresses(*given, lender_of(*configs))


def main(**fields):
    return deployment("web", containers=[{**C, **fields}])


def env(*pairs):
    return main(env=[{"name": name, "value": value} for name, value in pairs])


def test_an_address_names_host_port_and_field():
    (one,) = said(env(("CART_ADDR", "cart:8080"))).addresses
    assert one == ("cart", 8080, "host and port", f'{MAIN}.env[k:{{"name":"CART_ADDR"}}].value',
                   "kubernetes/lab/apps/Deployment/shop/web", "", ())  # fmt: skip
    assert matches(one.path, "spec.template.**.env[CART_ADDR]")


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        ([("A_HOST", "cart"), ("A_PORT", "81")], [("cart", 81)]),
        ([("H", "cart"), ("P", "81"), ("U", "http://$(H):$(P)/")], [("cart", 81)]),
        ([("U", "http://$(CART_SERVICE_HOST):$(CART_SERVICE_PORT)")], [("cart", None)]),
        ([("U", "http://$(H):81"), ("H", "cart")], []),
        ([("U", "http://$$(H):81")], []),
        ([("A_ADDR", "cart:1"), ("A_ADDR", "cart:2")], [("cart", 2)]),
        ([("MY_SERVICE", "web"), ("OTEL_SERVICE_NAME", "cart"), ("MY_HOST", "main")], []),
        ([("A_HOST", "hmac:0123456789abcdef")], []),
    ],
)
def test_variables_as_a_kubelet_expands_them(pairs, wanted):
    assert [(one.host, one.port) for one in said(env(*pairs)).addresses] == wanted


def test_a_field_that_was_put_in_is_named():
    (one,) = said(env(("H", "cart"), ("U", "http://$(H):81"))).addresses
    assert one.path == f'{MAIN}.env[k:{{"name":"U"}}].value'
    assert one.parts == (f'kubernetes/lab/apps/Deployment/shop/web {MAIN}.env[k:{{"name":"H"}}].value',)


def test_arguments_by_flag_and_by_form():
    args = ["--cart-addr", "cart", "--db=orders-db.data:5432", "-v", "cart", "--listen=catalog:80", "-h", "redis"]
    found = {one.path: (one.host, one.port) for one in said(main(args=args)).addresses}
    assert found == {f"{MAIN}.args[i:1]": ("cart", None), f"{MAIN}.args[i:2]": ("orders-db.data", 5432),
                     f"{MAIN}.args[i:7]": ("redis", None)}  # fmt: skip


def test_what_a_config_map_holds_by_every_way_of_reading_it():
    one_key = {"name": "REDIS_HOST", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "redis-host"}}}
    volumes = [{"name": "v", "projected": {"sources": [{"configMap": {"name": "conf"}}]}}]
    for given, via, host, path in (
        (main(env=[one_key]), f'{MAIN}.env[k:{{"name":"REDIS_HOST"}}]', "redis.cache", "data.redis-host"),
        (main(envFrom=[{"configMapRef": {"name": "conf"}}]), f"{MAIN}.envFrom", "redis.cache", "data.redis-host"),
        (deployment("web", containers=[C], volumes=volumes), f'{POD}.volumes[k:{{"name":"v"}}]', "catalog",
         'data["app.yaml"]'),
    ):  # fmt: skip
        one = next(one for one in said(given, CONFIG).addresses if one.host == host)
        assert (one.path, one.of, one.via) == (path, "kubernetes/lab/core/ConfigMap/shop/conf", via)
        assert said(given).addresses == ()
    chosen = [{"name": "v", "configMap": {"name": "conf", "items": [{"key": "port", "path": "p"}]}}]
    assert said(deployment("web", containers=[C], volumes=chosen), CONFIG).addresses == ()
    whole = [{"name": "v", "configMap": {"name": "conf"}}]
    assert "cart" not in {one.host for one in said(deployment("web", volumes=whole), CONFIG).addresses}


def test_an_own_variable_hides_the_one_of_a_config_map():
    given = main(
        envFrom=[{"configMapRef": {"name": "conf"}, "prefix": "P_"}],
        env=[{"name": "P_redis-host", "value": "cart"}, {"name": "U", "value": "redis://$(P_redis-host):$(P_port)"}],
    )
    config = obj("v1", "ConfigMap", "conf", data={"redis-host": "redis.cache", "port": "6380"})
    assert [(one.host, one.port) for one in said(given, config).addresses] == [("cart", None), ("cart", 6380)]


def test_what_a_secret_holds_is_unknown():
    source = {"secretKeyRef": {"name": "db", "key": "url"}}
    given = main(env=[{"name": "DB_URL", "valueFrom": source}, {"name": "DB_USER", "valueFrom": source},
                      {"name": "X_HOST", "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "k"}}}])  # fmt: skip
    assert [(one.path.rpartition(".")[2], one.why) for one in said(given).unknown] == [
        ('env[k:{"name":"DB_URL"}]', "from Secret db"),
        ('env[k:{"name":"X_HOST"}]', "k of ConfigMap gone is not there"),
    ]


def test_only_who_answers_for_a_template_says_it():
    body = {"template": {"spec": {"containers": [{**C, "args": ["cart:80"]}]}}}
    assert said(obj("apps/v1", "ReplicaSet", "r", spec=body)).addresses != ()
    made = obj("apps/v1", "ReplicaSet", "r", meta=owner("apps/v1", "Deployment", "web"), spec=body)
    assert said(made).addresses == ()
    assert (
        said(obj("batch/v1", "CronJob", "c", spec={"jobTemplate": {"spec": body}}))
        .addresses[0]
        .path.startswith("spec.jobTemplate.spec.template.spec.containers")
    )
    assert said(pod(containers=[{**C, "args": ["cart:80"]}])).addresses[0].path.startswith("spec.containers")
    owned = owner("apps/v1", "StatefulSet", "web")
    assert said(pod(meta=owned, containers=[{**C, "args": ["cart:80"]}])).addresses == ()


def test_a_host_is_the_service_that_dns_would_find():
    there = {("shop", "cart"): False, ("data", "cache"): False, ("shop", "kafka"): True}
    assert resolve("cart", "shop", there) == ("shop", "cart")
    assert resolve("cart", "data", there) is None
    assert resolve("cache.data", "shop", there) == ("data", "cache")
    assert resolve("kafka-0.kafka", "shop", there) == ("shop", "kafka")
    assert resolve("x.cart", "shop", there) is None  # a Service that is not headless has no names for its pods
    assert resolve("www.example.com", "shop", there) is None
    assert meant("cart", "shop") == ("shop", "cart")
    assert meant("gone.data.svc", "shop") == ("data", "gone")
    assert meant("gone.data", "shop") is None
    assert meant("gone.data", "shop", {"data", "shop"}) == ("data", "gone")
    assert meant("www.example.com", "shop", {"data"}) is None


def calls(given, service, *configs):
    lender = lender_of(*configs)
    left, right = filled(shown_by(*given), lender), filled(shown_by(*service), lender)
    named = [meet(side, left[side], right[side ^ 1]) for side in range(0, len(left), 2)]
    return [edge for facts in named for edge in facts.values() if edge.predicate == "CALLS"]


def test_a_call_is_declared_or_inferred_with_a_confidence():
    cart = obj("v1", "Service", "cart", spec={"clusterIP": "10.0.0.1"})
    explicit, ported, bare = (
        calls(env(("A_HOST", value)), cart)[0] for value in ("cart.shop.svc:80", "cart:80", "cart")
    )
    assert (explicit.basis, explicit.confidence) == ("declared", 1.0)
    assert (ported.basis, ported.confidence) == ("inferred", FORMS["host and port"])
    assert bare.confidence == FORMS["host"] < ported.confidence
    assert ported.attrs["port"] == 80
    assert ported.attrs["path"].endswith('env[k:{"name":"A_HOST"}].value')
    assert calls(env(("A_HOST", "catalog")), cart) == []
    assert calls(env(("A_HOST", "cart.other")), cart) == []
    assert calls(env(("A_NAME", "cart")), cart) == []
    assert calls(env(("A_HOST", "web-0.cart")), cart) == []
    headless = obj("v1", "Service", "cart", spec={"clusterIP": "None"})
    assert len(calls(env(("A_HOST", "web-0.cart")), headless)) == 1


def test_a_call_by_a_config_map_is_there_while_it_says_so():
    volumes = [{"name": "v", "configMap": {"name": "conf"}}]
    given, service = deployment("web", containers=[C], volumes=volumes), obj("v1", "Service", "catalog")
    (edge,) = calls(given, service, CONFIG)
    assert edge.attrs["of"] == "kubernetes/lab/core/ConfigMap/shop/conf"
    assert edge.confidence < FORMS["host and port"]
    assert calls(given, service) == []
    assert calls(given, service, obj("v1", "ConfigMap", "conf", data={"app.yaml": "upstream: web:1\n"})) == []

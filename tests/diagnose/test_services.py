"""Services: what each check finds, and what must keep it silent."""

from __future__ import annotations

import pytest

from diagnose.checks.services import service_port_unserved, service_selects_nothing, service_selects_strangers
from tests.diagnose.kit import container, deployment, running, service, statement
from tests.diagnose.world import World, obj

LANE = {"app": "cart", "lane": "steady"}


def made(found):
    return [(one.made[0].key.kind, one.made[0].key.name) if one.made else None for one in found]


# -- service-selects-nothing


def test_a_selector_that_was_narrowed_beyond_all_pods() -> None:
    world = World(service(), *running(deployment())).put(service(selector=LANE), ago=60)
    (told,) = world.find(service_selects_nothing)
    assert (told.key.name, told.sentence) == ("cart", "nothing carries app=cart, lane=steady; all but lane match")
    assert [(row.path, row.after) for row in told.made[0].rows] == [("spec.selector.lane", "steady")]


@pytest.mark.parametrize("api", [("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet")])
def test_pods_that_were_given_other_labels(api) -> None:
    def workload(label: str) -> dict:
        return obj(*api, "cart", spec={"template": {"metadata": {"labels": {"app": label}}, "spec": {}}})

    found = World(service(), workload("cart")).put(workload("kart"), ago=60).find(service_selects_nothing)
    assert made(found) == [(api[1], "cart")]


def test_a_workload_that_was_deleted() -> None:
    world = World(service(), deployment()).remove(deployment(), ago=60)
    assert made(world.find(service_selects_nothing)) == [("Deployment", "cart")]


def test_one_that_never_selected_anything() -> None:
    assert made(World(service()).find(service_selects_nothing)) == [None]


@pytest.mark.parametrize(
    "world",
    [
        World(service(), *running(deployment())),
        World(service(), deployment(replicas=0)),  # scaled to zero: another matter
        World(service(selector=None)),
        World(service(type="ExternalName", externalName="db.example")),
        World(service(selector={})),
        World(service(selector=LANE), *running(deployment())),  # of old: whoever leads gets the label
        World(service(), *running(deployment())).put(service(selector=LANE), ago=3),
        World().put(service(), ago=3),  # its workload is applied next
        World(service(), obj("v1", "Namespace", "shop", meta={"deletionTimestamp": "t"})),
    ],
)
def test_nothing_is_said_of_services_that_select_as_meant(world) -> None:
    assert world.find(service_selects_nothing) == []


# -- service-port-unserved


@pytest.mark.parametrize(
    ("target", "before", "wrong"),
    [
        ("tls", None, True),  # a name that no pod declares, whoever wrote it
        ("tls", "http", True),
        ("http", None, False),
        (8444, "http", True),
        (8444, 8080, True),
        (8444, None, False),  # so before the recording: a container may listen without saying so
        (8444, 9999, False),  # its pods did not declare what was served before, either
        (8080, "http", False),
    ],
)
def test_a_port_that_no_pod_serves(target, before, wrong) -> None:
    world = World(*running(deployment()))
    world.put(service(target=before or target))
    if before:
        world.put(service(target=target), ago=60)
    found = world.find(service_port_unserved)
    assert statement(found) == [("Service", "cart")] * wrong
    if wrong:
        assert f"leads to {target}, which none of its pods declares (http=8080)" in found[0].sentence
        assert made(found) == [("Service", "cart")] if before else [None]
        headless = service(target=target, clusterIP="None")
        assert world.put(headless, ago=20).find(service_port_unserved) == []


def test_pods_that_ceased_to_declare_the_port() -> None:
    other = deployment(spec={"containers": [container(ports=[{"name": "web", "containerPort": 9090}])]})
    for target in ("http", 8080):
        world = World(service(target=target), deployment()).put(other, ago=60)
        for one in running(other)[1:]:
            world.put(one)
        assert made(world.find(service_port_unserved)) == [("Deployment", "cart")]


def test_one_pod_that_serves_is_enough_and_a_sidecar_is_a_pod_too() -> None:
    none = container(ports=[])
    mixed = World(
        service(),
        *running(deployment()),
        *running(deployment("old", labels={"app": "cart"}, spec={"containers": [none]})),
    )
    assert mixed.find(service_port_unserved) == []
    sidecar = {"containers": [none], "initContainers": [container("proxy", restartPolicy="Always")]}
    assert World(service(), *running(deployment(spec=sidecar))).find(service_port_unserved) == []
    assert World(service()).find(service_port_unserved) == []


# -- service-selects-strangers

WORKER = deployment("indexer", labels={"app": "cart", "role": "index"}, spec={"containers": [container(ports=[])]})


def test_a_new_workload_under_the_same_label_that_does_not_serve() -> None:
    world = World(service(target=8080), *running(deployment())).put(WORKER, ago=60)
    for one in running(WORKER)[1:]:
        world.put(one, ago=59)
    found = world.find(service_selects_strangers)
    assert made(found) == [("Deployment", "indexer")]
    assert found[0].sentence == "it also selects pods of Deployment indexer, which do not serve 8080"


def test_a_selector_that_was_widened() -> None:
    worker = deployment(
        "indexer", labels={"app": "indexer", "tier": "shop"}, spec={"containers": [container(ports=[])]}
    )
    cart = deployment(labels={"app": "cart", "tier": "shop"})
    world = World(service(), *running(cart), *running(worker)).put(service(selector={"tier": "shop"}), ago=60)
    assert made(world.find(service_selects_strangers)) == [("Service", "cart")]


CANARY = deployment("cart-canary", labels={"app": "cart", "track": "canary"})
JOB = obj("batch/v1", "Job", "migrate", spec=WORKER["spec"])


@pytest.mark.parametrize(
    ("others", "ago"),
    [
        (running(CANARY), 60),
        (running(JOB), 60),
        (running(WORKER), 3),  # just applied
        (running(WORKER)[:1], 60),  # no pods
        (running(WORKER), None),  # a number, and so of old: declaring is optional
    ],
)
def test_nothing_is_said_of_twins_jobs_and_what_was_always_so(others, ago) -> None:
    world = World(service(target=8080), *running(deployment()))
    for one in others:
        world.put(one, ago=ago)
    assert world.find(service_selects_strangers) == []

"""Questions over real recordings: by field, near an object, at uncertain instants; and the API as its OpenAPI says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from api import changes as changed
from api import home, questions
from api.openapi import EXAMPLES, ITEMS
from api.replaying import replay
from api.rest import build
from api.settings import Settings
from schema import instants
from schema.errors import BadPath, InTheFuture
from store.rewind import Rewind

RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.fixture(scope="module")
def home_of_two(tmp_path_factory) -> Settings:
    made = Settings(home=tmp_path_factory.mktemp("recorded"))
    for name in ("watch_gap", "long_story"):
        replay(made, [RECORDINGS / f"{name}.jsonl.gz"], scope=name)
    return made


@pytest.fixture
def rewind(home_of_two):
    with home.past(home_of_two) as past:
        yield past


def ask(settings: Settings, *paths: str, headers: dict | None = None) -> list[httpx.Response]:
    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(build(settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return [await client.get(path, headers=headers) for path in paths]

    return asyncio.run(run())


def names(answer: questions.Answer) -> set[str]:
    return {f"{item['object']['kind']}/{item['object']['name']}" for item in answer.items}


def test_changes_by_field(rewind: Rewind) -> None:
    moment = questions.settle(rewind, "kubernetes/long_story")
    by_port = changed.changes(rewind, moment, where=changed.Filter(path="spec.ports[port=8443].targetPort"))
    assert names(by_port) == {"Service/payment"}
    by_image = changed.changes(rewind, moment, where=changed.Filter(path="spec.template.**.image"))
    assert names(by_image) == {"Deployment/cart"}
    with pytest.raises(BadPath):
        changed.changes(rewind, moment, where=changed.Filter(path="spec["))


def test_changes_near_an_object(rewind: Rewind) -> None:
    moment = questions.settle(rewind, "kubernetes/long_story")
    payment = rewind.find("Service/shop/payment", scope="kubernetes/long_story")
    near = changed.changes(rewind, moment, where=changed.Filter(near=payment, hops=1), limit=1000)
    everything = changed.changes(rewind, moment, limit=1000)
    assert "Service/payment" in names(near)
    assert 0 < len(near.items) < len(everything.items)
    itself = changed.changes(rewind, moment, where=changed.Filter(near=payment, hops=0), limit=1000)
    same = changed.changes(rewind, moment, where=changed.Filter(object=payment), limit=1000)
    assert itself.items == same.items


def test_pages_of_one_join_to_the_page_of_all(rewind: Rewind) -> None:
    moment = questions.settle(rewind, "kubernetes/long_story")
    whole = changed.changes(rewind, moment, limit=1000)
    pages, cursor = [], None
    while True:
        page = changed.changes(rewind, moment, limit=7, cursor=cursor)
        pages.extend(page.items)
        cursor = page.next
        if cursor is None:
            break
    assert pages == whole.items


def test_the_history_of_one_field(rewind: Rewind) -> None:
    key = rewind.find("kubernetes/long_story/core/Service/shop/payment")
    moment = questions.settle(rewind, "kubernetes/long_story")
    (row,) = questions.fields(rewind, moment, key, "spec.ports[*].targetPort").items
    assert (row["before"], row["after"], row["effect"], row["actor"]["manager"]) == (
        "https",
        8444,
        "changed",
        "kubectl-edit",
    )
    assert rewind.change(row["change"], moment.known_at) is not None
    assert not questions.fields(rewind, moment, key, "spec.selector").items


def test_inside_an_unwatched_interval_the_answer_is_uncertain(rewind: Rewind) -> None:
    key = rewind.find("kubernetes/watch_gap/apps/Deployment/shop/cart")
    moment = questions.settle(rewind, "kubernetes/watch_gap")
    told = changed.changes(rewind, moment, where=changed.Filter(object=key, path="**.env[CACHE_ADDR].value"))
    (change,) = told.items
    assert "from_relist" in change["flags"]
    middle = (instants.parse(change["valid"]["not_before"]) + instants.parse(change["valid"]["not_after"])) // 2
    (item,) = questions.show(rewind, questions.Moment(moment.scope, middle, moment.known_at), key).items
    assert item["uncertain"] == change["valid"]
    env = item["state"]["spec"]["template"]["spec"]["containers"][0]["env"]
    (row,) = [row for row in change["fields"] if row["path"].endswith('"CACHE_ADDR"}].value')]
    assert row["before"] in [row.get("value") for row in env]
    (after,) = questions.show(rewind, moment, key).items
    assert after["uncertain"] is None


def test_before_the_first_look_it_existed_but_its_state_is_not_known(rewind: Rewind) -> None:
    key = rewind.find("kubernetes/watch_gap/apps/Deployment/shop/cart")
    moment = questions.settle(rewind, "kubernetes/watch_gap")
    begin = rewind.versions(key, moment.known_at)[0]
    (item,) = questions.show(rewind, questions.Moment(moment.scope, begin.vf - 1, moment.known_at), key).items
    assert (item["existed"], item["state"]) == (True, None)
    assert not questions.show(rewind, questions.Moment(moment.scope, begin.not_before - 1, moment.known_at), key).items


def test_the_state_is_shown_as_the_server_sent_it(rewind: Rewind) -> None:
    moment = questions.settle(rewind, "kubernetes/long_story")
    key = rewind.find("kubernetes/long_story/apps/Deployment/shop/recommend")
    (item,) = questions.show(rewind, moment, key).items
    meta = item["state"]["metadata"]
    assert meta["resourceVersion"].isdigit()
    assert meta["generation"] >= 3


def test_the_future_is_refused(rewind: Rewind) -> None:
    with pytest.raises(InTheFuture):
        questions.settle(rewind, "kubernetes/long_story", at="2099-01-01T00:00:00Z")


def test_a_fixed_past_has_an_etag_and_is_sent_once(home_of_two) -> None:
    with home.past(home_of_two) as past:
        top = past.watermark("kubernetes/long_story")
    known = instants.show(top - 5_000_000)
    path = f"/v1/changes?scope=kubernetes/long_story&known_at={known}"
    (first,) = ask(home_of_two, path)
    assert first.status_code == 200
    (again,) = ask(home_of_two, path, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    later, open_ended = ask(
        home_of_two,
        "/v1/changes?scope=kubernetes/long_story&known_at=2099-01-01T00:00:00Z",
        "/v1/changes?scope=kubernetes/long_story",
    )
    assert "ETag" not in later.headers
    assert "ETag" not in open_ended.headers
    assert later.json()["known_at"] == instants.show(top)


def test_fields_and_metrics_over_rest(home_of_two) -> None:
    told, missing, numbers = ask(
        home_of_two,
        "/v1/objects/kubernetes/long_story/core/Service/shop/payment/fields?path=spec.ports[8443].targetPort",
        "/v1/nothing",
        "/metrics",
    )
    assert [(item["before"], item["after"]) for item in told.json()["items"]] == [("https", 8444)]
    assert missing.headers["content-type"] == "application/problem+json"
    assert 'hindgraph_rows{table="version"}' in numbers.text
    assert 'hindgraph_position{scope="kubernetes/watch_gap"}' in numbers.text


def test_answers_are_what_openapi_says_whatever_is_asked(home_of_two) -> None:
    page = schemathesis.openapi.from_asgi("/openapi.json", build(home_of_two))
    checks = [not_a_server_error, response_schema_conformance, content_type_conformance]
    for operation in page.get_all_operations():

        @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.ok().as_strategy())
        def probe(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=checks)

        probe()


@pytest.mark.parametrize("question", ITEMS)
def test_each_example_has_the_shape_that_the_page_promises(question: str) -> None:
    assert set(ITEMS[question]["required"]) == set(EXAMPLES[question])

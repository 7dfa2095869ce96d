"""What an audit event says, what is of no use, and what is never read."""

from __future__ import annotations

import orjson
import pytest

from capture.kubernetes.audit_event import Request, event_of, events_of, requests_of
from capture.redact import Redactor
from schema.errors import BadAudit, Oversize
from tests.audit.words import at, audit, event, thing

REDACT = Redactor(b"k" * 32).redact_text
SECRET = "hunter2-correct-horse"


def read(one) -> Request:
    found = requests_of(one, REDACT)
    assert isinstance(found, list)
    (request,) = found
    return request


def test_who_asked_with_what_and_from_where() -> None:
    one = event(
        "patch", user="alice", agent="kubectl/v1.36 (linux)", uri="?fieldManager=kubectl-edit&force=true",
        answer=thing(), sourceIPs=["203.0.113.9", "10.0.0.1"],
    )  # fmt: skip
    request = read(one)
    assert (request.start, request.end, request.uid, request.version) == (at(0), at(0.01), "u1", "10")
    actor = request.actor
    assert (actor.user, actor.manager, actor.user_agent, actor.verb, actor.address, actor.method) == (
        "alice", "kubectl-edit", "kubectl/v1.36 (linux)", "patch", "203.0.113.9, 10.0.0.1", "audit",
    )  # fmt: skip


def test_a_manager_that_is_not_chosen_is_what_the_program_calls_itself() -> None:
    assert read(event(agent="kubelet/v1.36 (linux)")).actor.manager == "kubelet"
    assert read(event(uri="?fieldManager=my%20tool", agent="curl/8")).actor.manager == "curl"


def test_whoever_acts_as_another_is_told_beside() -> None:
    actor = read(event(user="admin", impersonatedUser={"username": "bob"})).actor
    assert (actor.user, actor.impersonator) == ("bob", "admin")
    assert read(event(user="admin")).actor.impersonator is None


STATUS = {"kind": "Status"}
ENDING = {"kind": "Namespace", "metadata": {"name": "shop", "uid": "u1", "resourceVersion": "10"}}
DONE = {
    "made": (event("create", code=201, answer=thing()), {"create"}, "10"),
    "made by an apply": (event("patch", code=201, answer=thing()), {"create"}, "10"),
    "made, called by the server": (event("create", None, code=201, answer=thing(name="x-1")), {"create"}, "10"),
    "changed": (event("update", answer=thing()), {"update"}, "10"),
    "scaled": (event("patch", sub="scale", answer={"kind": "Scale", **thing()}), {"update"}, "10"),
    "bound": (
        event("create", sub="binding", code=201, asked={"metadata": {"uid": "u1"}}, answer=STATUS), {"update"}, None,
    ),
    "evicted": (event("create", sub="eviction", code=201, answer=STATUS), {"update", "delete"}, None),
    "deleted": (event("delete", answer={"kind": "Status", "details": {"uid": "u1"}}), {"delete"}, None),
    "deleted, and told as it was": (event("delete", answer=thing()), {"delete"}, None),
    "marked": (event("delete", answer=thing(finalizers=["x/y"], deletionTimestamp="z")), {"update"}, "10"),
    "marked, to end in good order": (event("delete", answer=thing(deletionGracePeriodSeconds=30)), {"update"}, "10"),
    "let go": (event("patch", answer=thing(deletionTimestamp="2026-03-01T03:00:00Z")), {"delete"}, None),
    "without an answer": (event("patch"), {"update", "delete"}, None),
    "made, without an answer": (event("create", code=201), {"create"}, None),
    "a namespace that has still something in it": (
        event("delete", "shop", resource="namespaces", answer={**ENDING, "spec": {"finalizers": ["kubernetes"]}}),
        {"update"}, "10",
    ),
    "all of a namespace, untold": (event("deletecollection", None), {"update", "delete"}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", DONE)
def test_what_a_request_can_have_done(name) -> None:
    one, ops, version = DONE[name]
    request = read(one)
    assert (request.ops, request.version) == (ops, version)


def test_all_that_were_deleted_together() -> None:
    items = [thing("u1", name="a"), thing("u2", name="b", finalizers=["x/y"]), {"metadata": {}}]
    found = requests_of(event("deletecollection", None, answer={"kind": "ConfigMapList", "items": items}), REDACT)
    assert isinstance(found, list)
    assert [(one.name, one.uid, one.ops, one.version) for one in found] == [
        ("a", "u1", {"delete"}, None),
        ("b", "u2", {"update"}, None),
    ]
    assert len({one.id for one in found}) == 2


def test_a_request_about_a_namespace_is_in_none() -> None:
    request = read(event("patch", "shop", resource="namespaces"))
    assert (request.group_resource, request.namespace, request.name) == ("core/namespaces", None, "shop")
    assert read(event(resource="deployments", group="apps")).group_resource == "apps/deployments"


OF_NO_USE = {
    "not finished": event(stage="RequestReceived"),
    "reads only": event("list"),
    "failed": event(code=409),
    "dry run": event(uri="?fieldManager=x&dryRun=All"),
    "changes no object": event("create", sub="token", code=201),
    "not recorded": event("update", resource="leases", group="coordination.k8s.io"),
    "names none": event("create", None, code=201),
}


@pytest.mark.parametrize("why", OF_NO_USE)
def test_what_is_of_no_use_is_counted_by_why(why) -> None:
    assert requests_of(OF_NO_USE[why], REDACT) == why
    core = audit()
    core.heard(OF_NO_USE[why])
    core.heard(event())
    assert core.counts == {why: 1, "requests": 1}


def test_a_dry_run_may_be_asked_for_in_the_body() -> None:
    assert requests_of(event("delete", asked={"dryRun": ["All"]}), REDACT) == "dry run"
    assert requests_of(event("create", resource="events", code=201), REDACT) == "not recorded"
    assert requests_of(event("create", None, resource=None, code=201), REDACT) == "changes no object"


BAD = {
    "not an audit event": [1, {"kind": "Pod"}],
    "another version": [event(apiVersion="audit.k8s.io/v1beta1")],
    "without verb or stage": [event(""), event(stage=None), event(verb=None)],
    "without the code of the answer": [event(responseStatus=None), event(responseStatus={"code": "200"})],
    "without a name or times that can be": [
        event(stageTimestamp="soon"), event(requestReceivedTimestamp=None), event(start=2, end=1), event(auditID=7),
    ],
}  # fmt: skip


@pytest.mark.parametrize("why", BAD)
def test_a_bad_event_is_counted_and_the_rest_goes_on(why) -> None:
    core = audit()
    for one in BAD[why]:
        with pytest.raises(BadAudit, match=why):
            requests_of(one, REDACT)
        core.heard(one)
    core.heard(event())
    assert core.counts == {why: len(BAD[why]), "requests": 1}


@pytest.mark.parametrize("field", ["objectRef", "user", "requestObject", "responseObject", "userAgent", "sourceIPs"])
@pytest.mark.parametrize("value", [None, 1, "x", [], ["x", None], {"metadata": 1}, {"metadata": {"uid": []}}])
def test_nothing_in_an_event_breaks_reading_it(field, value) -> None:
    one = event("delete", answer=thing(), asked={"metadata": {}})
    one[field] = value
    requests_of(one, REDACT)


def test_what_names_the_event_may_be_chosen_by_whoever_asks() -> None:
    assert read(event("patch", id="mine")).id != read(event("patch", "b", id="mine")).id
    assert read(event("patch", id="mine")).id == read(event("patch", id="mine", answer=thing())).id


def test_secrets_are_in_no_request() -> None:
    body = {
        "kind": "Secret",
        "metadata": {"name": "a", "uid": "u1", "resourceVersion": "10", "annotations": {"x": SECRET}},
    }
    one = event(
        "create", code=201, answer={**body, "data": {"p": SECRET}}, asked={**body, "stringData": {"p": SECRET}},
        uri=f"?fieldManager=password={SECRET}&pretty={SECRET}", agent=f"tool/v1 --password={SECRET} " + "x" * 400,
        user=f"https://alice:{SECRET}@issuer", annotations={"reason": SECRET}, sourceIPs=["10.0.0.7", SECRET],
        impersonatedUser={"username": f"token={SECRET}", "extra": {"x": [SECRET]}, "groups": [SECRET]},
    )  # fmt: skip
    assert SECRET not in repr(requests_of(one, REDACT))


def test_a_batch_of_a_webhook() -> None:
    items = [event(), event(name="b")]
    body = orjson.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": items})
    assert events_of(body) == items
    with pytest.raises(Oversize):
        events_of(body, most=10)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "not JSON"),
        (b"[]", "not an EventList"),
        (b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1beta1","items":[]}', "another version"),
        (b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1"}', "without items"),
    ],
)
def test_what_is_no_batch_is_a_named_error(body, why) -> None:
    with pytest.raises(BadAudit, match=why):
        events_of(body)


def test_a_line_that_is_not_json() -> None:
    assert event_of(orjson.dumps(event())) == event()
    with pytest.raises(BadAudit, match="not JSON"):
        event_of(b'{"kind":"Ev')

"""What an audit event says was written, and what follows from it that no event says."""

from __future__ import annotations

from typing import Any

from tests.cluster.truth import Span, Write, truth_of, writes_of

CRD = {"apiGroup": "apiextensions.k8s.io", "resource": "customresourcedefinitions"}


def event(verb: str, ref: dict[str, Any], answer: dict[str, Any] | None, at: int = 0, **more: Any) -> dict[str, Any]:
    """An audited request of second `at`, answered half a second later."""
    return {
        "verb": verb, "objectRef": ref, "responseObject": answer, "responseStatus": {"code": 200}, "requestURI": "/",
        "requestReceivedTimestamp": f"2026-03-01T03:00:{at:02}.000000Z",
        "stageTimestamp": f"2026-03-01T03:00:{at:02}.500000Z", **more,
    }  # fmt: skip


def thing(version: str = "7", kind: str = "ConfigMap", **meta: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": version, **meta},
    }


REF = {"resource": "configmaps", "namespace": "shop", "name": "a"}
GONE = {"kind": "Status", "details": {"name": "a", "uid": "u"}}


def told(*events: dict[str, Any]) -> list[tuple[str, str | None, bool]]:
    return [(one.uid, one.version, one.vanished) for each in events for one in writes_of(each)]


def span(at: int) -> Span:
    second = 1_772_334_000_000_000 + at * 1_000_000
    return Span(second, second + 500_000)


def test_a_write_is_told_with_the_version_it_made():
    (one,) = writes_of(event("create", {"resource": "configmaps", "namespace": "shop"}, thing(), 3))
    assert one == Write("core/configmaps", "create", "shop", "a", "u", "7", span(3))
    (one,) = writes_of(
        event("patch", {**REF, "apiGroup": "apps", "resource": "deployments", "subresource": "scale"}, thing())
    )
    assert (one.group_resource, one.version) == ("apps/deployments", "7")


def test_what_wrote_nothing_is_not_told():
    assert not told(event("create", REF, thing(), responseStatus={"code": 409}))
    assert not told(event("create", REF, thing(), requestURI="/api/v1/configmaps?dryRun=All"))
    assert not told(event("create", {**REF, "subresource": "token"}, thing(kind="TokenRequest")))
    assert not told(event("get", REF, thing()))
    assert not told(event("create", REF, None))


def test_a_deletion_ends_a_life_unless_something_holds_it():
    assert told(event("delete", REF, GONE)) == [("u", None, True)]
    assert told(event("delete", REF, thing())) == [("u", None, True)]
    assert told(event("delete", REF, thing(deletionTimestamp="x", finalizers=["hold"]))) == [("u", "7", False)]
    assert told(event("delete", REF, thing(deletionTimestamp="x", deletionGracePeriodSeconds=30))) == [
        ("u", "7", False)
    ]
    assert told(event("patch", REF, thing(deletionTimestamp="x"))) == [("u", None, True)]
    assert told(event("patch", REF, thing())) == [("u", "7", False)]
    namespace = {**thing(kind="Namespace", deletionTimestamp="x"), "spec": {"finalizers": ["kubernetes"]}}
    assert told(event("update", REF, namespace)) == [("u", "7", False)]
    assert told(event("update", REF, {**namespace, "spec": {}})) == [("u", None, True)]


def test_many_are_deleted_by_one_request():
    answer = {"kind": "ConfigMapList", "items": [thing(), thing(uid="v", finalizers=["hold"])]}
    assert told(event("deletecollection", {"resource": "configmaps"}, answer)) == [
        ("u", None, True),
        ("v", None, False),
    ]


def test_a_version_that_is_not_told_is_one_of_its_requests():
    bound = event("create", {"resource": "pods", "subresource": "binding"}, GONE, 2, requestObject=thing())
    assert truth_of(writes_of(bound)).untold == {"u": [span(2)]}


def test_the_first_that_was_answered_with_a_version_made_it():
    later, first = (one for at in (9, 4) for one in writes_of(event("patch", REF, thing(), at)))
    assert truth_of([later, first]).versions == {("u", "7"): span(4)}


def test_objects_go_with_their_kind_and_endpoints_with_their_service():
    definition = {"name": "gadgets.example.com", "uid": "crd"}
    going = thing("8", deletionTimestamp="x", finalizers=["clean"], **definition)
    service = {"resource": "services", "namespace": "shop", "name": "a"}
    events = [
        event("create", CRD, thing("1", **definition), 1),
        event("create", {"apiGroup": "example.com", "resource": "gadgets"}, thing("2"), 2),
        event("delete", {**CRD, "name": definition["name"]}, going, 5),
        event("update", {**CRD, "name": definition["name"]}, thing("9", deletionTimestamp="x", **definition), 8),
        event("create", CRD, thing("11", **(definition | {"uid": "crd2"})), 9),
        event("create", {"apiGroup": "example.com", "resource": "gadgets"}, thing("12", uid="u2"), 10),
        event("create", service, thing("13", uid="svc"), 11),
        event("create", {"resource": "endpoints", "namespace": "shop", "name": "a"}, thing("14", uid="ep"), 12),
        event("delete", service, {"kind": "Status", "details": {"name": "a", "uid": "svc"}}, 13),
    ]
    lives = truth_of(one for each in events for one in writes_of(each)).lives
    assert lives["u"].gone == Span(span(5).start, span(8).end)
    assert lives["u2"].gone is None
    assert lives["ep"].gone == span(13)

"""What discovery documents say, in the old form and the new (numbers: the table of pitfalls)."""

from __future__ import annotations

import pytest

from capture.kubernetes.live.parts import Selection
from capture.kubernetes.live.resources import Group, chosen, groups, offers, storages

ALL = ["get", "list", "watch", "create"]


def resource(name: str, kind: str = "Thing", *, verbs=ALL, namespaced=True, **more) -> dict:
    return {"name": name, "kind": kind, "verbs": verbs, "namespaced": namespaced, **more}


def listed(*resources: dict) -> dict:
    return {"kind": "APIResourceList", "resources": list(resources)}


def described(name: str, kind: str = "Thing", *, verbs=ALL, scope="Namespaced", **more) -> dict:
    return {"resource": name, "responseKind": {"group": "x", "version": "v1", "kind": kind}, "verbs": verbs,
            "scope": scope, **more}  # fmt: skip


def aggregated(group: str, **versions: list[dict]) -> dict:
    told = [{"version": version, "freshness": "Current", "resources": found} for version, found in versions.items()]
    return {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": group}, "versions": told}]}


def paths(served) -> list[str]:
    return [one.resource.path for one in served]


def of(group: str, **versions: dict):
    """Offers of a group in the old form, versions best first."""
    found = Group(group, tuple(versions), {})
    return [offer for version, body in versions.items() for offer in offers(found, version, body) or ()]


@pytest.mark.parametrize(
    ("preferred", "versions", "order"),
    [
        ("v1", ["v1beta1", "v1"], ("v1", "v1beta1")),
        ("v1beta1", ["v1", "v1beta1"], ("v1beta1", "v1")),
        (None, ["v1alpha1", "v1", "v2beta2", "v10", "v2beta10", "foo", "v2", "v11alpha2"],
         ("v10", "v2", "v1", "v2beta10", "v2beta2", "v11alpha2", "v1alpha1", "foo")),
    ],
)  # fmt: skip
def test_versions_are_ordered_as_kubernetes_does_after_what_the_server_prefers(preferred, versions, order):
    body = {"kind": "APIGroup", "name": "a.example", "preferredVersion": {"version": preferred}}
    (group,) = groups(body | {"versions": [{"version": version} for version in versions]})
    assert group.versions == order


def test_33_a_kind_of_a_version_that_is_not_preferred_is_found_and_each_has_its_best():
    found = of(
        "apps", v1=listed(resource("a"), resource("c", verbs=["list"])),
        v1beta2=listed(resource("a"), resource("b"), resource("c")),
        v1beta1=listed(resource("b")),
    )  # fmt: skip
    assert paths(chosen(found)) == ["apps/v1/a", "apps/v1beta2/b", "apps/v1beta2/c"]
    new = aggregated("apps", v1=[described("a")], v1beta2=[described("a"), described("b")])
    (group,) = groups(new)
    told = [offer for version in group.versions for offer in group.told[version]]
    assert paths(chosen(told)) == ["apps/v1/a", "apps/v1beta2/b"]


def test_30_only_what_can_be_listed_and_watched():
    found = of(
        "", v1=listed(
            resource("pods"), resource("pods/status"), resource("bindings", verbs=["create"]),
            resource("componentstatuses", verbs=["list", "get"]), resource("nodes", namespaced=False),
        ),
    )  # fmt: skip
    assert [(one.name, one.namespaced) for one in chosen(found)] == [("core/pods", True), ("core/nodes", False)]
    (group,) = groups(
        aggregated("", v1=[described("nodes", scope="Cluster", subresources=[{"subresource": "status"}])])
    )
    (offer,) = group.told["v1"]
    assert (offer.resource.path, offer.namespaced) == ("v1/nodes", False)


def test_32_what_is_stored_as_one_is_watched_once():
    old = of("extensions", v1beta1=listed(resource("ingresses", storageVersionHash="I")))
    new = of("networking.k8s.io", v1=listed(resource("ingresses", storageVersionHash="I"), resource("other")))
    second = of("events.k8s.io", v1=listed(resource("events", storageVersionHash="E")))
    core = of("", v1=listed(resource("events", storageVersionHash="E"), resource("pods", storageVersionHash="P")))
    served = chosen([*old, *new, *second, *core])
    assert paths(served) == ["networking.k8s.io/v1/ingresses", "networking.k8s.io/v1/other", "v1/events", "v1/pods"]
    # Looked at again alone, a group does not get what is another's; what it has all the same stays its own.
    assert chosen(old, storages([*old, *new], served)) == ()
    assert chosen(old, {"X": "a/b"}) == chosen(old) != ()


def test_32_without_hashes_the_second_spelling_of_events_is_skipped_by_the_table():
    served = chosen([*of("events.k8s.io", v1=listed(resource("events"))), *of("", v1=listed(resource("events")))])
    assert [one.name for one in served if Selection().wants(one)] == ["core/events"]


def test_30_of_a_stale_version_nothing_is_taken():
    body = aggregated("a.example", v2=[described("a")], v1=[described("b")])
    body["items"][0]["versions"][0]["freshness"] = "Stale"
    (group,) = groups(body)
    assert group.versions == ("v2", "v1")
    assert list(group.told) == ["v1"]


@pytest.mark.parametrize(
    "body",
    [
        None, [], "x", {}, {"kind": "Status"}, {"kind": 1}, {"items": []},
    ],
)  # fmt: skip
def test_what_is_no_discovery(body):
    assert groups(body) is None
    assert offers(Group("a", ("v1",), {}), "v1", body) is None


@pytest.mark.parametrize("name", ["../secrets", "a/b", "", "a b", ".", "..", None, 1, {}, "-a", "a\n"])
def test_names_that_lead_elsewhere_and_entries_that_are_malformed_are_passed_over(name):
    good = resource("good")
    bad = [resource(name), {**good, "name": "b", "kind": None}, {**good, "name": "c", "verbs": None}, 1, None, []]
    assert paths(chosen(of("a.example", v1=listed(*bad, good)))) == ["a.example/v1/good"]
    assert paths(chosen(of("a.example", v1=listed({**good, "verbs": [1, None, "list", "watch"]})))) != []
    named = {
        "kind": "APIGroupList",
        "groups": [{"name": name, "versions": []}, 1, {"name": "a", "versions": [1, None]}],
    }
    assert groups(named) == [Group("a", (), {})]
    in_version = {"kind": "APIGroup", "name": "a", "versions": [{"version": name}, {"version": "v1"}]}
    assert groups(in_version) == [Group("a", ("v1",), {})]
    new = aggregated(
        "a", v1=[described(name), described("good"), {"resource": "x", "responseKind": None, "verbs": ALL}]
    )
    assert [offer.resource.resource for offer in groups(new)[0].told["v1"]] == ["good"]
    if name != "":
        assert groups(aggregated(name, v1=[])) == []

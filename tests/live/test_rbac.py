"""The rights of a selection: just what its parts list and watch, said the same way every time."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from capture.kubernetes.live.parts import Selection
from capture.kubernetes.rbac import manifest
from tests.live.served import ALL

VERBS = ["list", "watch"]


def rules(selection: Selection) -> dict[str, list[dict]]:
    """The rules of each role, by its namespace; `*`: of the cluster."""
    found = {}
    for one in yaml.safe_load_all(manifest(selection, ALL)):
        if "rules" in one:
            found[one["metadata"].get("namespace", "*")] = one["rules"]
    return found


def test_all_of_a_cluster():
    assert rules(Selection()) == {
        "*": [
            {"apiGroups": [""], "resources": ["configmaps", "namespaces", "nodes", "secrets"], "verbs": VERBS},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": VERBS},
        ]
    }
    assert rules(Selection(without_namespaces=("kube-system",))) == rules(Selection())


def test_some_kinds():
    assert rules(Selection(kinds=("Deployment",))) == {
        "*": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": VERBS}]
    }
    assert "secrets" not in manifest(Selection(without_kinds=("Secret",)), ALL)


def test_some_namespaces():
    one = [
        {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": VERBS},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": VERBS},
    ]
    named = {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["pay", "shop"]}
    assert rules(Selection(namespaces=("shop", "pay"))) == {
        "*": [{**named, "verbs": VERBS}, {**named, "verbs": ["get"]}],
        "pay": one,
        "shop": one,
    }
    only = rules(Selection(namespaces=("shop",), kinds=("ConfigMap",)))
    assert only == {
        "*": [{"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["shop"], "verbs": ["get"]}],
        "shop": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": VERBS}],
    }


def test_nothing_is_wild_and_what_that_costs_is_said_where_it_does():
    everything, some = manifest(Selection(), ALL), manifest(Selection(kinds=("ConfigMap",)), ALL)
    assert "*" not in some
    assert not any("*" in line for line in everything.splitlines() if not line.startswith("#"))
    assert "comes later" in everything
    assert "comes later" not in some


def test_each_role_is_bound_to_the_account_where_it_is():
    told = [*yaml.safe_load_all(manifest(Selection(namespaces=("shop",)), ALL, name="eye", namespace="ops"))]
    assert [(one["kind"], one["metadata"].get("namespace")) for one in told] == [
        ("ServiceAccount", "ops"), ("ClusterRole", None), ("ClusterRoleBinding", None), ("Role", "shop"),
        ("RoleBinding", "shop"),
    ]  # fmt: skip
    assert {one["metadata"]["name"] for one in told} == {"eye"}
    for one in told:
        if "roleRef" in one:
            assert one["subjects"] == [{"kind": "ServiceAccount", "name": "eye", "namespace": "ops"}]
            assert one["roleRef"]["kind"] == one["kind"].removesuffix("Binding")


@given(
    st.permutations(ALL), st.sampled_from([Selection(), Selection(namespaces=("b", "a")), Selection(kinds=("Node",))])
)
def test_the_order_of_discovery_says_nothing(served, selection):
    assert manifest(selection, served) == manifest(selection, ALL)


@pytest.mark.parametrize("name", ["a: b", "- x", "a\nkind: Secret", "*", "&a", "null", "1"])
def test_a_name_is_only_a_name(name):
    assert [one for one in rules(Selection(namespaces=(name,), kinds=("ConfigMap",))) if one != "*" or name == "*"] == [
        name
    ]

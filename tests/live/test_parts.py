from __future__ import annotations

import pytest

from capture.kubernetes.live.parts import HELM, Selection
from schema.errors import BadSelection
from tests.live.served import ALL, CMS, DEPLOYMENTS, LEASES, NAMESPACES, NODES, SECRETS


def wanted(selection: Selection) -> list[str]:
    return [one.name for one in ALL if selection.wants(one)]


def parts(selection: Selection) -> list[tuple[str, str, dict[str, str]]]:
    return [
        (one.name, one.path, one.params) for served in ALL if selection.wants(served) for one in selection.parts(served)
    ]


def test_all_is_watched_whole_but_secrets_and_what_is_skipped():
    assert wanted(Selection()) == [
        "core/configmaps", "core/secrets", "core/namespaces", "core/nodes", "apps/deployments",
    ]  # fmt: skip
    assert parts(Selection(kinds=("ConfigMap", "apps/Deployment"))) == [
        ("core/configmaps", "/api/v1/configmaps", {}),
        ("apps/deployments", "/apis/apps/v1/deployments", {}),
    ]


@pytest.mark.parametrize("spelled", ["Deployment", "deployment", "deployments", "apps/Deployment", "apps/deployments"])
def test_a_kind_may_be_spelled_as_people_do(spelled):
    assert wanted(Selection(kinds=(spelled,))) == ["apps/deployments"]
    assert "apps/deployments" not in wanted(Selection(without_kinds=(spelled,)))
    assert Selection(kinds=(spelled,)).unknown(ALL) == []


def test_a_kind_of_another_group_is_not_meant():
    assert wanted(Selection(kinds=("extensions/Deployment",))) == []
    assert Selection(kinds=("extensions/Deployment",)).unknown(ALL) == ["extensions/Deployment"]
    assert wanted(Selection(kinds=("core/ConfigMap",))) == ["core/configmaps"]


def test_namespaces_that_are_chosen_are_parts_of_each_resource():
    chosen = Selection(namespaces=("shop", "pay"), kinds=())
    assert not chosen.wants(NODES)
    assert Selection(namespaces=("shop",), kinds=("Node",)).wants(NODES)
    assert [(one.label, one.path) for one in chosen.parts(DEPLOYMENTS)] == [
        ("namespace=shop", "/apis/apps/v1/namespaces/shop/deployments"),
        ("namespace=pay", "/apis/apps/v1/namespaces/pay/deployments"),
    ]
    assert [(one.path, one.params) for one in chosen.parts(NAMESPACES)] == [
        ("/api/v1/namespaces", {"fieldSelector": "metadata.name=shop"}),
        ("/api/v1/namespaces", {"fieldSelector": "metadata.name=pay"}),
    ]


def test_namespaces_that_are_left_out_are_asked_of_the_server():
    chosen = Selection(without_namespaces=("noisy", "mine"), selector="team=a")
    assert [one.params for one in chosen.parts(CMS)] == [
        {"fieldSelector": "metadata.namespace!=noisy,metadata.namespace!=mine", "labelSelector": "team=a"}
    ]
    assert chosen.parts(CMS)[0].label == "without=noisy,mine labels=team=a"
    assert chosen.parts(NAMESPACES)[0].params["fieldSelector"] == "metadata.name!=noisy,metadata.name!=mine"
    assert chosen.parts(NODES)[0].params == {"labelSelector": "team=a"}


def test_38_of_what_helm_keeps_only_metadata_is_asked_for():
    others, helm = Selection().parts(SECRETS)
    assert (others.label, others.params, others.metadata) == (None, {"fieldSelector": f"type!={HELM}"}, False)
    assert (helm.label, helm.params) == ("helm", {"fieldSelector": f"type={HELM}"})
    assert helm.accept(watch=False) == "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert helm.accept(watch=True) == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert [one.name for one in Selection(namespaces=("shop",)).parts(SECRETS)] == [
        "core/secrets namespace=shop", "core/secrets namespace=shop helm",
    ]  # fmt: skip


def test_another_selection_has_another_name_of_one_word():
    chosen = Selection(selector="env in (prod, dev),!old")
    (part,) = chosen.parts(NODES)
    assert part.label == "labels=env%20in%20(prod,%20dev),!old"
    assert [one.label for one in chosen.parts(SECRETS)] == [part.label, f"{part.label} helm"]


def test_what_contradicts_itself_is_refused():
    with pytest.raises(BadSelection, match="either chosen or left out"):
        Selection(namespaces=("a",), without_namespaces=("b",))
    with pytest.raises(BadSelection, match="pod is chosen and left out"):
        Selection(kinds=("Pod",), without_kinds=("pod",))


def test_leases_are_not_wanted_even_if_named():
    assert not Selection(kinds=("Lease",)).wants(LEASES)

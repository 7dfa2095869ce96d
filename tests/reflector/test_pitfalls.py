"""What goes wrong with Kubernetes watches, row by row (numbers: the pitfall table of the design)."""

from __future__ import annotations

import gc

import pytest

from capture.kubernetes.telling import LAG
from capture.normalise import recalled
from schema import instants
from schema.records import Coverage
from tests.reflector.lines import CMS, T0, S, changes, cm, covers, ev, gap, lst, ops, recalling, reflector, run


def test_first_list_is_observed_and_made_by_nobody():
    (seen,) = changes(run(lst(0, cm(managedFields=[{"manager": "kubectl", "time": "2026-02-03T00:00:00Z"}]))))
    assert seen.op == "observe"
    assert seen.valid.not_before == instants.parse("2026-02-01T00:00:00Z")
    assert seen.valid.not_after == T0
    assert seen.model_extra == {"last_written": instants.parse("2026-02-03T00:00:00Z")}
    assert seen.patch[0]["op"] == "add"
    assert seen.patch[0]["path"] == ""


@pytest.mark.parametrize("code", [410, 500])
def test_1_2_3_an_error_in_the_stream_opens_a_gap_and_is_never_an_object(code):
    status = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": "Expired"}
    for type_ in ("ERROR", "MODIFIED"):
        records = run(lst(0, cm()), ev(5, type_, status))
        assert ops(records) == ["observe"]
        assert covers(records) == [("watching", "list"), ("gap", str(code))]


def test_3_a_custom_resource_may_be_called_status():
    body = {**cm(rv="10"), "apiVersion": "a.example/v1", "kind": "Status"}
    assert ops(run(lst(0, r="a.example/v1/statuses"), ev(1, "ADDED", body, r="a.example/v1/statuses"))) == ["create"]


def test_23_too_many_requests_keeps_the_version():
    assert covers(run(lst(0, cm()), ev(5, "ERROR", {"kind": "Status", "code": 429}))) == [("watching", "list")]


def test_a_gap_is_opened_once_and_closed_by_the_relist():
    records = run(lst(0), gap(5), gap(6, "410"), lst(9))
    assert covers(records) == [("watching", "list"), ("gap", "disconnect"), ("watching", "relist")]


def test_4_a_deletion_in_a_gap_is_found_and_lies_within_it():
    records = run(lst(0, cm()), ev(3, "BOOKMARK", {"kind": "ConfigMap"}), gap(20), lst(60))
    gone = changes(records)[-1]
    assert gone.op == "delete"
    assert gone.flags == ["final_state_unknown", "from_relist"]
    assert (gone.valid.not_before, gone.valid.not_after) == (T0 + 3 * S - LAG, T0 + 60 * S)
    assert gone.digest is None


def test_5_created_and_deleted_around_a_relist_leaves_nothing():
    core = reflector()
    run(lst(0), ev(1, "ADDED", cm()), gap(2), lst(3), core=core)
    assert ops(run(gap(4), lst(5), core=core)) == []


def test_5_deleted_before_ever_seen_is_both_created_and_deleted():
    assert ops(run(lst(0), ev(1, "DELETED", cm()))) == ["create", "delete"]


def test_6_an_incarnation_replaced_in_a_gap():
    new = cm(uid="u2", rv="50", born="2026-03-01T03:00:30Z", data="2")
    records = run(lst(0, cm()), gap(20), lst(60, new))
    _, gone, made = changes(records)
    assert (gone.op, gone.object.uid) == ("delete", "u1")
    assert "final_state_unknown" in gone.flags
    assert gone.valid.not_after <= T0 + 31 * S
    assert (made.op, made.object.uid) == ("create", "u2")
    assert "replaced" in made.flags
    assert (made.valid.not_before, made.valid.not_after) == (T0 + 30 * S, T0 + 60 * S)
    assert [(f.before, f.after) for f in made.fields if f.path == "data.size"] == [("1", "2")]


def test_6_an_incarnation_replaced_live():
    new = cm(uid="u2", rv="50", born="2026-03-01T03:00:07Z", data="2")
    records = run(lst(0, cm()), ev(5, "DELETED", cm(rv="40")), ev(8, "ADDED", new))
    assert ops(records) == ["observe", "delete", "create"]
    made = changes(records)[-1]
    assert "replaced" in made.flags
    assert [(f.before, f.after) for f in made.fields if f.path == "data.size"] == [("1", "2")]


def test_6_the_end_of_an_incarnation_does_not_end_its_successor():
    new = cm(uid="u2", rv="50", born="2026-03-01T03:00:07Z")
    assert ops(run(lst(0, cm()), ev(8, "ADDED", new), ev(9, "DELETED", cm(rv="60")))) == ["observe", "delete", "create"]


def test_6_late_news_of_the_dead_does_not_bring_it_back():
    core = reflector()
    run(lst(0, cm()), ev(5, "DELETED", cm(rv="40")), core=core)
    late = [ev(6, "MODIFIED", cm(rv="39", data="2")), ev(7, "ADDED", cm(rv="40")), ev(8, "DELETED", cm(rv="40"))]
    assert run(*late, core=core) == []
    assert core.counts["stale"] == 3


@pytest.mark.parametrize("rv", ["39", "b", None])
def test_6_late_news_of_a_predecessor_does_not_end_its_successor(rv):
    core = reflector()
    new = cm(uid="u2", rv="50", born="2026-03-01T03:00:06Z")
    run(lst(0, cm()), ev(5, "DELETED", cm(rv="40")), ev(6, "ADDED", new), core=core)
    assert run(ev(7, "MODIFIED", cm(rv=rv, data="2")), ev(8, "ADDED", cm(rv=rv)), core=core) == []
    assert core.counts["stale"] == 2
    assert ops(run(ev(9, "MODIFIED", cm(uid="u2", rv="51", data="3")), core=core)) == ["update"]


@pytest.mark.parametrize(("rv", "born"), [("40", "2026-03-01T03:00:06Z"), (None, "2026-01-01T00:00:00Z")])
def test_6_news_of_an_incarnation_never_seen_is_late_by_its_version_or_else_by_its_birth(rv, born):
    core = reflector()
    run(lst(0, cm(uid="u2", rv="50")), core=core)
    assert run(ev(7, "MODIFIED", cm(uid="u1", rv=rv, born=born)), core=core) == []
    run(ev(8, "DELETED", cm(uid="u2", rv="60")), core=core)
    assert run(ev(9, "MODIFIED", cm(uid="u1", rv=rv, born=born)), core=core) == []
    assert core.counts["stale"] == 2


def test_6_a_successor_is_known_by_its_version_though_the_clock_of_its_server_is_behind():
    records = run(lst(0, cm(rv="10")), ev(5, "ADDED", cm(uid="u2", rv="50", born="2026-01-31T23:59:59Z")))
    assert ops(records) == ["observe", "delete", "create"]


def test_6_what_a_list_did_not_have_and_later_news_have_is_there():
    records = run(lst(0, cm(rv="40")), gap(3), lst(5, rv="90"), ev(6, "MODIFIED", cm(rv="95")))
    assert ops(records) == ["observe", "delete", "create"]


def test_7_an_update_hidden_in_a_delete():
    records = run(lst(0, cm()), ev(5, "DELETED", cm(rv="40", data="9")))
    _, update, gone = changes(records)
    assert [(f.path, f.after) for f in update.fields] == [("data.size", "9")]
    assert gone.op == "delete"
    assert gone.base == update.digest


def test_8_added_before_any_list_is_observed():
    assert ops(run(ev(1, "ADDED", cm(rv="9")), ev(1, "ADDED", cm(name="b", uid="u2", rv="3")))) == ["observe"] * 2


def test_9_a_list_older_than_what_was_recorded_before_a_restart_is_an_epoch_break():
    (first,) = changes(run(lst(0, cm(rv="90", data="new"), rv="95")))
    living = [(recalled(first.object, first.patch[0]["value"], first.source_version), first.valid)]
    core = recalling(living, {CMS: T0})
    (back,) = changes(run(lst(9, cm(rv="20", data="old"), rv="30"), core=core))
    assert (back.op, "epoch_break" in back.flags) == ("update", True)


def test_10_a_list_older_than_the_last_is_an_epoch_break():
    records = run(lst(0, cm(rv="90"), rv="100"), gap(5), lst(9, cm(rv="20", data="0"), rv="30"))
    assert changes(records)[-1].op == "update"
    assert "epoch_break" in changes(records)[-1].flags


def test_11_versions_compare_as_integers_within_a_resource():
    core = reflector()
    records = run(lst(0, cm(rv="9")), ev(1, "MODIFIED", cm(rv="10", data="2")), core=core)
    assert ops(records) == ["observe", "update"]
    assert ops(run(ev(2, "MODIFIED", cm(rv="8", data="3")), core=core)) == []
    assert core.counts["stale"] == 1


def test_11_versions_that_are_no_integers_compare_by_equality_only():
    records = run(lst(0, cm(rv="b")), ev(1, "MODIFIED", cm(rv="a", data="2")), ev(2, "MODIFIED", cm(rv="a", data="2")))
    assert ops(records) == ["observe", "update"]


def test_15_16_a_relist_or_a_repetition_of_the_same_is_no_change():
    assert ops(run(lst(0, cm()), lst(5, cm()), ev(6, "MODIFIED", cm()), ev(7, "ADDED", cm()))) == ["observe"]


def test_17_a_bare_version_bump_is_noise_with_nothing_to_apply():
    bump = changes(run(lst(0, cm()), ev(5, "MODIFIED", cm(rv="11"))))[-1]
    assert (bump.op, bump.patch, bump.fields, bump.flags) == ("update", [], [], ["noise"])
    assert bump.base == bump.digest


def test_29_each_state_is_told_though_they_came_in_one_instant():
    records = run(lst(0, cm()), *(ev(5, "MODIFIED", cm(rv=str(rv), data=str(rv))) for rv in (11, 12, 13)))
    assert [f.after for one in changes(records)[1:] for f in one.fields] == ["11", "12", "13"]


def test_32_the_second_spelling_of_events_and_leases_are_counted_not_recorded():
    core = reflector()
    lines = [lst(0, cm(), r="coordination.k8s.io/v1/leases"), ev(1, "ADDED", cm(), r="events.k8s.io/v1/events")]
    assert run(*lines, core=core) == []
    assert core.counts["skipped"] == 2


def test_34_another_served_version_of_one_resource_is_no_new_object():
    def deploy(version, rv):
        return {**cm(rv=rv), "apiVersion": f"apps/{version}", "kind": "Deployment"}

    first = lst(0, deploy("v1", "10"), r="apps/v1/deployments")
    records = run(first, lst(5, deploy("v2", "11"), r="apps/v2/deployments"))
    assert ops(records) == ["observe", "update"]
    assert "noise" in changes(records)[-1].flags


def test_40_what_is_kept_does_not_grow_with_what_was_seen():
    core = reflector()
    run(lst(0, cm(rv="1")), core=core)
    held = []
    for start in (2, 1002):
        for rv in range(start, start + 1000):
            core.feed(
                ev(rv, "MODIFIED", cm(rv=str(rv), data=f"{rv} {'x' * 1000}", managedFields=managed("now", str(rv))))
            )
        gc.collect()
        held.append(len(gc.get_objects()))
    assert abs(held[1] - held[0]) < 500


def managed(at, manager="kubectl"):
    return [{"manager": manager, "operation": "Update", "apiVersion": "v1", "time": at, "fieldsV1": {"f:data": {}}}]


def test_45_49_a_moved_entry_bounds_the_change_and_names_the_tool():
    before = cm(managedFields=managed("2026-02-01T00:00:00Z"))
    change = changes(
        run(lst(0, before), ev(5, "MODIFIED", cm(rv="11", data="2", managedFields=managed("2026-03-01T03:00:04Z"))))
    )[-1]
    assert (change.valid.not_before, change.valid.not_after, change.valid.clock) == (
        T0 + 4 * S,
        T0 + 5 * S,
        "managedFields",
    )
    assert (change.actor.manager, change.actor.method, change.actor.confidence) == ("kubectl", "managedFields", 0.9)


def test_45_a_clock_that_runs_ahead_is_kept_beside_and_believed_by_none():
    before = cm(managedFields=managed("2026-02-01T00:00:00Z"))
    change = changes(
        run(lst(0, before), ev(30, "MODIFIED", cm(rv="11", data="2", managedFields=managed("2026-03-01T04:00:00Z"))))
    )[-1]
    assert (change.valid.not_before, change.valid.not_after) == (T0 + 20 * S, T0 + 30 * S)
    assert change.valid.model_extra == {"claimed": instants.parse("2026-03-01T04:00:00Z")}


def test_49_an_entry_that_did_not_move_says_nothing():
    same = managed("2026-02-01T00:00:00Z")
    change = changes(run(lst(0, cm(managedFields=same)), ev(5, "MODIFIED", cm(rv="11", data="2", managedFields=same))))[
        -1
    ]
    assert (change.actor.manager, change.actor.method) == (None, "none")


def test_47_marked_for_deletion_is_an_update_and_gone_is_the_delete():
    marked = {"deletionTimestamp": "2026-03-01T03:00:34Z", "deletionGracePeriodSeconds": 30}
    body = cm(rv="11", **marked)
    records = run(lst(0, cm()), ev(5, "MODIFIED", body), ev(9, "DELETED", body))
    assert ops(records) == ["observe", "update", "delete"]
    assert changes(records)[-1].valid.not_before == T0 + 4 * S


def test_47_what_blocks_a_deletion_is_told_and_its_last_finalizer_deletes():
    marked = {"deletionTimestamp": "2026-03-01T03:00:05Z", "deletionGracePeriodSeconds": 0}
    blocked = cm(rv="11", finalizers=["a/b", "c/d"], **marked)
    one_less = cm(rv="12", finalizers=["c/d"], **marked)
    records = run(
        lst(0, cm(finalizers=["a/b", "c/d"])), ev(5, "MODIFIED", blocked), ev(20, "MODIFIED", one_less),
        ev(40, "DELETED", cm(rv="13", **marked)),
    )  # fmt: skip
    assert ops(records) == ["observe", "update", "update", "delete"]
    _, mark, freed, gone = changes(records)
    assert "metadata.deletionTimestamp" in [f.path for f in mark.fields]
    assert [(f.path, f.effect) for f in freed.fields] == [('metadata.finalizers[v:"a/b"]', "removed")]
    assert (gone.valid.not_before, gone.valid.not_after) == (T0 + 30 * S, T0 + 40 * S)


@pytest.mark.parametrize("grace", [-(10**14), 10**14, True, "30"])
def test_47_a_grace_that_no_calendar_holds_bounds_nothing(grace):
    body = cm(rv="11", deletionTimestamp="2026-03-01T03:00:34Z", deletionGracePeriodSeconds=grace)
    gone = changes(run(lst(0, cm()), ev(5, "MODIFIED", body), ev(50, "DELETED", body)))[-1]
    assert (gone.op, gone.valid.not_after) == ("delete", T0 + 50 * S)
    assert gone.valid.not_before >= 0


def test_45_a_claim_that_leaves_the_calendar_is_none():
    (seen,) = changes(run(lst(0, cm(born="0001-01-01T00:00:00+23:59"))))
    assert (seen.valid.not_before, seen.valid.clock) == (T0, "recorder")


def test_48_a_deleted_payload_says_nothing_of_marks_and_finalizers():
    marked = cm(rv="11", deletionTimestamp="2026-03-01T03:00:04Z", deletionGracePeriodSeconds=0)
    records = run(lst(0, cm()), ev(5, "MODIFIED", marked), ev(9, "DELETED", cm(rv="12", finalizers=["a/b"])))
    assert ops(records) == ["observe", "update", "delete"]


def test_50_managed_fields_are_in_no_record_of_state():
    (seen,) = changes(run(lst(0, cm(managedFields=managed("2026-02-01T00:00:00Z")))))
    assert "managedFields" not in str(seen.patch)


def test_52_list_items_take_kind_and_version_from_the_list():
    bare = {name: value for name, value in cm().items() if name not in ("kind", "apiVersion")}
    (seen,) = changes(run(lst(0, bare)))
    assert (seen.object.type, seen.object.name) == ("core/ConfigMap", "a")


def test_53_without_uid_the_creation_tells_incarnations_apart():
    def bare(rv, born):
        body = cm(rv=rv, born=born)
        del body["metadata"]["uid"]
        return body

    old, new = bare("10", "2026-02-01T00:00:00Z"), bare("12", "2026-03-01T03:00:04Z")
    assert ops(run(lst(0, old), ev(5, "MODIFIED", new))) == ["observe", "delete", "create"]


def test_54_another_spelling_is_no_news():
    def quota(rv, amount):
        return {**cm(rv=rv), "kind": "ResourceQuota", "spec": {"hard": {"cpu": amount}}}

    path = "v1/resourcequotas"
    same, other = changes(
        run(lst(0, quota("1", "1"), r=path), ev(5, "MODIFIED", quota("2", "1000m"), r=path),
            ev(6, "MODIFIED", quota("3", "1500m"), r=path))
    )[1:]  # fmt: skip
    assert ([f.path for f in same.fields], "noise" in same.flags, len(same.patch)) == ([], True, 1)
    assert [(f.path, f.before, f.after) for f in other.fields] == [("spec.hard.cpu", "1000m", "1500m")]


def test_55_the_status_of_a_custom_resource_is_news():
    def widget(rv, phase):
        return {**cm(rv=rv), "apiVersion": "a.example/v1", "kind": "Widget", "status": {"phase": phase}}

    path = "a.example/v1/widgets"
    records = run(lst(0, widget("1", "a"), r=path), ev(5, "MODIFIED", widget("2", "b"), r=path))
    assert ([f.path for f in changes(records)[-1].fields], changes(records)[-1].flags) == (["status.phase"], [])


def test_58_a_list_not_wholly_understood_deletes_nothing():
    core = reflector()
    records = run(lst(0, cm(), cm(name="b", uid="u2")), gap(5), lst(9, cm(), {"metadata": "broken"}), core=core)
    assert ops(records) == ["observe", "observe"]
    assert core.counts["malformed"] == 1


def test_the_same_lines_have_the_same_ids_and_no_two_changes_share_one():
    lines = [lst(0, cm()), ev(5, "DELETED", cm(rv="40", data="9")), ev(8, "ADDED", cm(uid="u2", rv="50"))]
    first, second = (changes(run(*lines)) for _ in range(2))
    assert [one.id for one in first] == [one.id for one in second]
    assert len({one.id for one in first}) == len(first)


def test_the_end_is_told_for_every_resource():
    core = reflector()
    run(lst(0, cm()), core=core)
    (ended,) = core.end(T0 + 9 * S)
    assert isinstance(ended, Coverage)
    assert (ended.state, ended.group_resource, ended.valid.from_) == ("ended", "core/configmaps", T0 + 9 * S)

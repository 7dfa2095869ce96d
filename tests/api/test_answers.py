"""The same answer on all faces, its names, its pages, its folding and its errors."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import stat

import httpx
import pytest
from rich.console import Console
from typer.testing import CliRunner

from api import text
from api.answer import Answer
from api.cli import app, main
from api.home import past
from api.rest import build
from api.settings import Settings
from schema.canonical import digest
from schema.errors import StoreCorrupt, StoreError, StoreMissing, UnknownObject
from schema.instants import SECOND
from schema.records import Actor, Change, Coverage, FieldChange, ObjectRef, Span, Valid
from store.ledger import SqliteLedger
from store.log import SqliteLog
from store.projector import project

T0 = 1_772_334_000 * SECOND  # 2026-03-01T03:00:00Z


def ref(kind: str, name: str, group: str = "apps") -> ObjectRef:
    class_ = {"Deployment": "Workload", "ReplicaSet": "ReplicaSet", "Pod": "Pod"}[kind]
    return ObjectRef(
        source="kubernetes", scope="lab", type=f"{group}/{kind}", kind=kind, class_=class_, namespace="shop",
        name=name, uid=f"uid-{name}",
    )  # fmt: skip


def body(kind: str, name: str, owner: tuple[str, str] | None = None, image: str = "cart:1") -> dict:
    metadata: dict = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": f"uid-{owner[1]}", "controller": True}
        ]
    version = "v1" if kind == "Pod" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"image": image}}


def created(number: int, of: ObjectRef, state: dict, at: int, manager: str) -> Change:
    return Change(
        id=f"{number:032x}", op="create", object=of, valid=Valid(not_before=at - 5, not_after=at), observed_at=at,
        digest=digest(state), patch=[{"op": "add", "path": "", "value": state}],
        actor=Actor(manager=manager, method="managedFields", confidence=0.9),
    )  # fmt: skip


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Settings:
    """A deployment is made, rolls to a new image by kubectl, and controllers follow."""
    settings = Settings(home=tmp_path_factory.mktemp("home"))
    deployment, replicas, pod = ref("Deployment", "cart"), ref("ReplicaSet", "cart-1"), ref("Pod", "cart-1-a", "core")
    old, new = body("Deployment", "cart"), body("Deployment", "cart", image="cart:2")
    rolled = Change(
        id=f"{9:032x}", op="update", object=deployment, observed_at=T0 + 60 * SECOND,
        valid=Valid(not_before=T0 + 59 * SECOND, not_after=T0 + 60 * SECOND), base=digest(old), digest=digest(new),
        patch=[{"op": "replace", "path": "/spec/image", "value": "cart:2"}],
        fields=[
            FieldChange(path="spec.image", pointer="/spec/image", effect="changed", before="cart:1", after="cart:2")
        ],
        actor=Actor(manager="kubectl", method="managedFields", confidence=0.9),
    )  # fmt: skip
    watching = Coverage(
        id="c" * 32, source="kubernetes", scope="lab", group_resource="apps/deployments", state="watching",
        valid=Span(from_=T0 - SECOND, to=2**63 - 1), epoch="e", observed_at=T0 - SECOND,
    )  # fmt: skip
    ended = watching.model_copy(
        update={
            "id": "d" * 32, "state": "ended", "observed_at": T0 + 120 * SECOND,
            "valid": Span(from_=T0 + 120 * SECOND, to=2**63 - 1),
        }
    )  # fmt: skip
    controller = "kube-controller-manager"
    records = [
        watching,
        created(1, deployment, old, T0, "helm"),
        rolled,
        created(2, replicas, body("ReplicaSet", "cart-1", ("Deployment", "cart")), T0 + 61 * SECOND, controller),
        created(3, pod, body("Pod", "cart-1-a", ("ReplicaSet", "cart-1")), T0 + 62 * SECOND, controller),
        ended,
    ]
    with SqliteLog(settings.log) as log:
        log.append([(record, record.observed_at) for record in records])
        ledger = SqliteLedger(settings.ledger)
        assert project(log, ledger).dead == 0
        ledger.close()
    return settings


class Client:
    """The application, asked without a socket."""

    def __init__(self, settings: Settings) -> None:
        self._app = build(settings)

    def get(self, path: str, params: dict | None = None) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.get(path, params=params)

        return asyncio.run(ask())


@pytest.fixture(scope="module")
def client(settings) -> Client:
    return Client(settings)


def asked(settings: Settings, *arguments: str) -> dict:
    result = CliRunner().invoke(app, ["--home", str(settings.home), *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_consequences_stand_under_the_change_that_led_to_them(settings) -> None:
    answer = asked(settings, "changes")
    assert [item["actor"]["manager"] for item in answer["items"]] == ["kubectl", "helm"]
    assert [one["object"]["kind"] for one in answer["items"][0]["members"]] == ["ReplicaSet", "Pod"]
    assert answer["at"] == "2026-03-01T03:02:00Z"


def test_names_that_scripts_rely_on(settings) -> None:
    answer = asked(settings, "changes")
    assert list(answer) == ["at", "known_at", "scope", "horizon", "coverage", "unknown", "items", "next"]
    item = answer["items"][0]
    assert list(item) == [
        "id", "op", "object", "valid", "observed_at", "fields", "actor", "provenance", "flags", "members",
    ]  # fmt: skip
    assert list(item["object"]) == ["source", "scope", "type", "kind", "class", "namespace", "name", "uid"]
    assert item["valid"] == {"not_before": "2026-03-01T03:00:59Z", "not_after": "2026-03-01T03:01:00Z"}
    assert item["fields"] == [{"path": "spec.image", "effect": "changed", "before": "cart:1", "after": "cart:2"}]


def test_faces_agree(settings, client) -> None:
    for command, path in (
        (["changes", "--since", "-90s"], "/v1/changes?since=-90s"),
        (["show", "Deployment/shop/cart", "--at", "-90s"], "/v1/objects/Deployment/shop/cart?at=-90s"),
        (["history", "Deployment/cart"], "/v1/objects/Deployment/cart/history"),
        (["coverage"], "/v1/coverage"),
        (["symptoms", "-n", "shop"], "/v1/symptoms?namespace=shop"),
    ):
        assert asked(settings, *command) == client.get(path).json()


def test_an_object_then_and_now(settings) -> None:
    def image(*at: str) -> str:
        return asked(settings, "show", "Deployment/shop/cart", *at)["items"][0]["state"]["spec"]["image"]

    assert (image("--at", "2026-03-01T03:00:30Z"), image()) == ("cart:1", "cart:2")
    assert asked(settings, "show", "Deployment/shop/cart", "--at", "2026-03-01T02:00:00Z")["items"] == []
    past = [item["change"]["op"] for item in asked(settings, "history", "Deployment/shop/cart")["items"]]
    assert past == ["create", "update"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["--kind", "pod"], ["kubectl"]),
        (["--namespace", "shop"], ["kubectl", "helm"]),
        (["--actor", "kubectl"], ["kubectl"]),
        (["--object", "Pod/shop/cart-1-a"], ["kubectl"]),
        (["--since", "2026-03-01T03:00:30Z"], ["kubectl"]),
        (["--at", "2026-03-01T03:00:30Z"], ["helm"]),
    ],
)
def test_filters(settings, filters, found) -> None:
    assert [item["actor"]["manager"] for item in asked(settings, "changes", *filters)["items"]] == found


@pytest.mark.parametrize(("option", "hint"), [("--namespace", "there is: shop"), ("--kind", "there is: ")])
def test_a_filter_that_can_meet_nothing_is_said_so(settings, option, hint) -> None:
    result = CliRunner().invoke(app, ["--home", str(settings.home), "changes", option, "sho"])
    assert isinstance(result.exception, UnknownObject)
    assert hint in str(result.exception)


def test_a_misspelt_parameter_is_refused(client) -> None:
    answer = client.get("/v1/changes?namespase=shop")
    assert answer.status_code == 400
    assert "namespace" in answer.json()["hint"]


@pytest.mark.parametrize("damage", ["garbage", "a file for a home"])
def test_a_home_that_cannot_be_used_is_a_named_error(tmp_path, damage) -> None:
    home = tmp_path / "home"
    if damage == "a file for a home":
        home.write_text("x")
    else:
        home.mkdir()
        (home / "ledger.sqlite").write_bytes(b"garbage" * 999)
        (home / "log.sqlite").write_bytes(b"garbage" * 999)
    for command in ("changes", "verify"):
        result = CliRunner().invoke(app, ["--home", str(home), command])
        assert isinstance(result.exception, StoreError), result.exception


def test_pages_join_to_the_whole(settings, client) -> None:
    whole = asked(settings, "changes")
    first = asked(settings, "changes", "--limit", "1")
    second = asked(settings, "changes", "--limit", "1", "--cursor", first["next"])
    assert first["items"] + second["items"] == whole["items"]
    assert second["next"] is None
    other = client.get("/v1/changes", params={"cursor": first["next"], "kind": "Pod"})
    assert (other.status_code, other.json()["title"]) == (400, "BadCursor")


@pytest.mark.parametrize(
    ("path", "status", "title"),
    [
        ("/v1/objects/Deployment/shop/carts", 404, "UnknownObject"),
        ("/v1/changes?at=2026-03-01T03:00:00", 400, "BadInstant"),
        ("/v1/changes?at=2030-03-01T03:00:00Z", 400, "InTheFuture"),
        ("/v1/changes?cursor=nonsense", 400, "BadCursor"),
        ("/v1/changes?limit=0", 400, "InputError"),
        ("/v1/coverage?scope=kubernetes/other", 404, "UnknownScope"),
    ],
)
def test_problems(client, path, status, title) -> None:
    response = client.get(path)
    assert (response.status_code, response.json()["title"]) == (status, title)
    assert response.headers["content-type"] == "application/problem+json"


def test_errors_are_one_line_and_an_exit_code(settings, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["hindgraph", "--home", str(settings.home), "show", "Deployment/shop/carts"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 3
    assert "near: Deployment/shop/cart" in capsys.readouterr().err


def test_nothing_recorded_yet_is_said_and_nothing_made(tmp_path) -> None:
    with pytest.raises(StoreMissing), past(Settings(home=tmp_path / "none")):
        pass
    assert not (tmp_path / "none").exists()


def test_the_ledger_is_what_the_log_says(settings) -> None:
    assert asked(settings, "verify")["ok"] is True


@pytest.mark.parametrize(
    "command", [["changes"], ["history", "Deployment/cart"], ["show", "Pod/cart-1-a"], ["coverage"], ["symptoms"]]
)
def test_text_is_plain_where_there_is_no_terminal(settings, command) -> None:
    result = CliRunner().invoke(app, ["--home", str(settings.home), *command], catch_exceptions=False)
    assert result.exit_code == 0
    assert "\x1b[" not in result.stdout
    assert re.search(r"at 2026-03-01T03:02:00Z, known at", result.stdout)


def test_consequences_are_counted_or_told(settings) -> None:
    def told(*more: str) -> str:
        run = CliRunner().invoke(app, ["--home", str(settings.home), "changes", *more], env={"COLUMNS": "200"})
        return run.stdout

    assert "then 2 changes: 1 of 1 ReplicaSet, 1 of 1 Pod" in told()
    assert "ReplicaSet/shop/cart-1" in told("--members")


def test_the_redaction_key_is_made_once_and_is_private(tmp_path) -> None:
    settings = Settings(home=tmp_path / "new")
    key = settings.redaction_key()
    assert settings.redaction_key() == key
    assert [path.name for path in settings.home.iterdir()] == ["redaction.key"]
    assert stat.S_IMODE((settings.home / "redaction.key").stat().st_mode) == 0o600


def test_home_from_the_environment(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HINDGRAPH_HOME", str(tmp_path))
    assert Settings().home == tmp_path


def test_healthz(client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


def test_what_a_recording_says_does_not_steer_the_terminal() -> None:
    console = Console(file=io.StringIO(), width=80)
    item = {"position": 1, "reason": "\x1b[31mred", "detail": "a\x07\x1b]0;title\x07b\rc"}
    text.print_dead_letters(console, Answer(0, 0, "kubernetes/lab", [], [], [item]))
    shown = console.file.getvalue()
    assert not set(shown) & {"\x1b", "\x07", "\r"}
    assert "red" in shown


def test_an_object_may_be_called_history(tmp_path) -> None:
    settings = Settings(home=tmp_path)
    for number, name in enumerate(("history", "fields"), 1):
        of = ref("Deployment", name)
        with SqliteLog(settings.log) as log:
            log.append([(created(number, of, body("Deployment", name), T0 + number, "kubectl"), T0 + number)])
    ledger = SqliteLedger(settings.ledger)
    with SqliteLog(settings.log, readonly=True) as log:
        project(log, ledger)
    ledger.close()
    client = Client(settings)
    for name in ("history", "fields"):
        (item,) = client.get(f"/v1/objects/Deployment/shop/{name}").json()["items"]
        assert item["object"]["name"] == name
    (item,) = client.get("/v1/objects/Deployment/shop/history/history").json()["items"]
    assert item["change"]["op"] == "create"


def test_a_forged_cursor_is_refused(client) -> None:
    page = client.get("/v1/changes?limit=1").json()
    told = json.loads(base64.urlsafe_b64decode(page["next"] + "==="))
    for place, value in ((2, 2**63 - 1), (3, 2**63 - 1), (3, told[3] + 1), (0, True), (2, told[3] + 1)):
        forged = [*told]
        forged[place] = value
        cursor = base64.urlsafe_b64encode(json.dumps(forged).encode()).decode().rstrip("=")
        answer = client.get(f"/v1/changes?limit=1&cursor={cursor}")
        assert (answer.status_code, answer.json()["title"]) == (400, "BadCursor"), (place, value)


def test_a_lost_redaction_key_is_not_made_anew(tmp_path) -> None:
    settings = Settings(home=tmp_path)
    settings.redaction_key()
    settings.log.write_bytes(b"")
    (tmp_path / "redaction.key").unlink()
    with pytest.raises(StoreCorrupt):
        settings.redaction_key()

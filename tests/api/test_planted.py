"""Planted secrets are nowhere: not in the log, the ledger, an answer of either face, the text of an error, or what a
command prints; in base64 and URLs neither."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import sqlite3
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from typer.testing import CliRunner

from api.cli import app
from api.rest import build
from api.settings import Settings
from store.bodies import unpack
from store.log import SqliteLog
from tests.capture_state import planted
from tests.capture_state.test_random_secrets import PLACES, WHOLE
from tests.reflector.lines import event

SECRET = "pl4nted-9Zk_Value"
FORMS = {SECRET, quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode()}
RESOURCES = {
    "Pod": ("", "v1", "pods"), "Secret": ("", "v1", "secrets"), "ConfigMap": ("", "v1", "configmaps"),
    "Job": ("batch", "v1", "jobs"), "Event": ("", "v1", "events"), "Settings": ("a", "v1", "settings"),
    "Database": ("a", "v1", "databases"), "Work": ("a", "v1", "works"),
    "ValidatingWebhookConfiguration": ("", "v1", "hooks"),
}  # fmt: skip


def bodies() -> list[dict]:
    """Every place that hides whole, and every text of the corpus in one of the other places."""
    made = [place(SECRET) for place in WHOLE.values()]
    texts = [*planted.COMMAND_LINES.values(), *planted.FILES.values(), *planted.ADDRESSES.values()]
    for number, text in enumerate(text for text in texts if "{s}" in text):
        place = list(PLACES.values())[number % len(PLACES)]
        made.append(place(text.replace("{s}", SECRET).replace("{o}", SECRET)))
    for number, body in enumerate(made):
        body["metadata"] |= {"name": f"x{number}", "uid": f"u{number}"}
    return made


def recording() -> list[str]:
    header = [
        {"group": group, "version": version, "resource": resource, "kind": kind, "namespaced": True}
        for kind, (group, version, resource) in RESOURCES.items()
    ]
    lines: list[object] = [
        {"recording": 1, "cluster": "lab", "server": "v1.35", "started": "2026-12-01T05:00:00Z", "resources": header}
    ]
    paths = {kind: "/".join(part for part in one if part) for kind, one in RESOURCES.items()}
    for kind, path in paths.items():
        mine = [body for body in bodies() if body["kind"] == kind]
        lines.append({"t": "2026-12-01T05:00:01.000000Z", "r": path, "type": "LIST", "rv": "1", "items": mine[::2]})
        for type_, some in (("ADDED", mine[1::2]), ("MODIFIED", mine), ("DELETED", mine[:3])):
            for body in some:
                meta = {**body["metadata"], "resourceVersion": "2"}
                moved = {**body, "metadata": meta, **({"moved": type_} if kind != "Event" else {"count": 2})}
                lines.append({"t": "2026-12-01T05:00:02.000000Z", "r": path, "type": type_, "object": moved})
    odd = {"t": "2026-12-01T05:00:03.000000Z", "r": "v1/pods"}
    text = f"failed with password={SECRET}"
    deep = '{"password":' * 1500 + f'"{SECRET}"' + "}" * 1500
    return [json.dumps(line) for line in lines] + [
        f"password={SECRET}",
        json.dumps({**odd, "type": text}),
        json.dumps({**odd, "type": "ADDED", "object": text}),
        json.dumps(
            {**odd, "type": "ADDED", "object": {"apiVersion": "v1", "kind": "Pod", "spec": {"password": SECRET}}}
        ),
        json.dumps({**odd, "type": "ADDED", "object": {**event(message=text), "kind": ["Pod"]}}),
        json.dumps({**odd, "r": "v1/events", "type": "ADDED", "object": {"kind": "Event", "message": text}}),
        json.dumps({**odd, "type": "ERROR", "object": {"kind": "Status", "code": 500, "message": text}}),
        json.dumps({**odd, "type": "GAP", "reason": text}),
        json.dumps({**odd, "r": "v1/secrets", "type": "ADDED", "object": "deep"}).replace('"deep"', deep),
        json.dumps(
            {**odd, "r": "v1/secrets", "type": "ADDED", "object": {"metadata": {"name": ""}, "data": {"p": SECRET}}}
        ),
        f'{{"t": "2026-12-01T05:00:04.000000Z", "r": "v1/pods", "type": "ADDED", "object": {{"password": "{SECRET}"',
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("planted")
    file = made / "planted.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(recording()).encode()))
    for words in (["replay", str(file)], ["verify"]):
        result = CliRunner().invoke(app, ["--home", str(made / "home"), *words])
        assert result.exit_code == 0, result.output
        assert not found(result.output)
    return made / "home"


def found(text: str | bytes) -> list[str]:
    body = text if isinstance(text, str) else text.decode("utf-8", "replace")
    return [form for form in FORMS if form in body]


def test_no_byte_of_the_log_or_the_ledger_has_one(home) -> None:
    with SqliteLog(Settings(home=home).log, readonly=True) as log:
        entries = log.read(limit=100_000)
    assert len(entries) > 300
    assert not [entry.position for entry in entries if found(entry.raw)]
    for path in (Settings(home=home).log, Settings(home=home).ledger):
        assert not found(path.read_bytes())
        base = sqlite3.connect(path)
        cells = 0
        for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in base.execute(f"SELECT * FROM {table}"):
                for cell in row:
                    cells += 1
                    assert not found(str(cell))
                    if isinstance(cell, bytes) and path.name.startswith("ledger"):
                        try:
                            assert not found(unpack(cell))
                        except (ValueError, IndexError, KeyError):
                            assert not found(cell)
        base.close()
        assert cells > 1000


COMMANDS = (
    ["changes", "--limit", "1000"], ["changes", "--limit", "1000", "--members"], ["evidence", "--limit", "1000"],
    ["dead-letters"], ["coverage"], ["symptoms"], ["diff", "2026-12-01T05:00:01.5Z", "2026-12-01T05:00:02.5Z"],
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_prints_one(home, words: list[str]) -> None:
    for more in ([], ["--json"]):
        result = CliRunner().invoke(app, ["--home", str(home), *words, *more])
        assert result.exit_code == 0, result.output
        assert not found(result.output)


def test_no_object_shows_one_on_either_face(home) -> None:
    application = build(Settings(home=home))
    hidden = 0

    async def ask(path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://test") as client:
            return await client.get(path)

    for body in bodies():
        if body["kind"] == "Event":
            continue
        key = f"{body['kind']}/shop/{body['metadata']['name']}"
        for path in (f"/v1/objects/{key}", f"/v1/objects/{key}/history"):
            answer = asyncio.run(ask(f"{path}?at=2026-12-01T05:00:01.9Z" if path.endswith(key) else path))
            assert answer.status_code == 200, answer.text
            assert not found(answer.text)
            hidden += "hmac:" in answer.text
    assert hidden > 60
    for path in ("changes?limit=1000", "evidence?limit=1000", "coverage", "dead-letters", "symptoms"):
        answer = asyncio.run(ask(f"/v1/{path}"))
        assert answer.status_code == 200
        assert not found(answer.text)
    for key in bodies()[:3]:
        result = CliRunner().invoke(app, ["--home", str(home), "show", f"{key['kind']}/shop/{key['metadata']['name']}"])
        assert not found(result.output)

"""A random secret, in every place of a random object, is in no record, nor is its base64 or its form in a URL; a random
object that holds none comes through as it is."""

from __future__ import annotations

import base64
import tomllib
from collections.abc import Callable
from importlib.resources import files
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st

from capture import patterns
from capture.redact import Redactor
from schema.records import dump
from tests.capture_state import planted
from tests.reflector.lines import ev, event, lst, run

SHAPES = tomllib.loads(files("schema").joinpath("tables/redaction.toml").read_text(encoding="utf-8"))["shape"]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
SECRETS = st.text(LETTERS + "-_", min_size=12, max_size=40).map(lambda text: f"q{text}7Zk")
PASSWORDS = st.text(LETTERS + "-_!@#%^*+=~/:. ", min_size=12, max_size=40).map(lambda text: f"q{text}7Zk")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def obj(kind: str, *, version: str = "v1", meta: dict | None = None, **parts: object) -> dict:
    named = {"name": "x", "namespace": "shop", "uid": "u", "resourceVersion": "7", **(meta or {})}
    return {"apiVersion": version, "kind": kind, "metadata": named, **parts}


def pod(**container: object) -> dict:
    return obj("Pod", spec={"containers": [{"name": "c", **container}]})


# Where values are hidden whole, whatever they are.
WHOLE: dict[str, Callable[[str], dict]] = {
    "Secret data": lambda s: obj("Secret", data={"p": encoded(s)}),
    "Secret stringData": lambda s: obj("Secret", stringData={"p": s}, immutable=True),
    "Secret of a type": lambda s: obj("Secret", type="kubernetes.io/basic-auth", data={"password": encoded(s),
        "u": ""}),
    "Secret of another form": lambda s: obj("Secret", data=[s], odd={"p": s}, more=s),
    "Helm release": lambda s: obj("Secret", type="helm.sh/release.v1", data={"release": encoded(encoded(s))}),
    "applied copy": lambda s: obj(
        "Pod",
            meta={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": f'{{"kind":"Secret","x":"{s}"}}'}}
    ),
    "other copy": lambda s: obj("Pod",
        meta={"annotations": {"a/b": f'[{{"apiVersion":"v1","kind":"Secret","x":"{s}"}}]'}}),
    "copy in a template": lambda s: obj(
        "Job", spec={"template": {"metadata": {"annotations": {"a/b": f'{{"apiVersion":"v1","kind":"X","x":"{s}"}}'}}}}
    ),
    "variable": lambda s: pod(env=[{"name": "DB_PASSWORD", "value": s}]),
    "argument": lambda s: pod(args=[f"--password={s}"]),
    "next argument": lambda s: pod(command=["server", "--api-token"], args=[s]),
    "client": lambda s: pod(command=["/usr/bin/mysql", "-uroot"], args=[f"-p{s}"]),
    "ConfigMap": lambda s: obj("ConfigMap", data={"db-password": s}),
    "ConfigMap, binary": lambda s: obj("ConfigMap", binaryData={"db-password": encoded(s)}),
    "caBundle": lambda s: obj("ValidatingWebhookConfiguration", webhooks=[{"name": "w",
        "clientConfig": {"caBundle": s}}]),
    "field": lambda s: obj("Database", version="a/v1", spec={"auth": {"adminPassword": s}}),
    "field of a list": lambda s: obj("Database", version="a/v1", spec={"users": [{"apiKeys": [s, s]}]}),
    "field of a map": lambda s: obj("Database", version="a/v1", spec={"rootPassword": {"value": s}}),
    "field beside its name": lambda s: obj("Database", version="a/v1", spec={"set": [{"key": "DB_PASSWORD",
        "value": s}]}),
    "Secret in an object": lambda s: obj("Work", version="a/v1", spec={"objects": [{"kind": "Secret",
        "data": {"p": s}}]}),
    "JSON": lambda s: obj("ConfigMap", data={"a.json": f'{{"a": 1, "password": "{s}"}}'}),
    "quoted": lambda s: obj("ConfigMap", data={"a.yaml": f"host: a\npassword: '{s}'\n"}),
    "to the end of a line": lambda s: obj("ConfigMap", data={"a.ini": f"[db]\npassword = {s}\nport = 1\n"}),
    "a block": lambda s: obj("ConfigMap", data={"a.yaml": f"password: |\n  {s}\n  {s}\nport: 1\n"}),
    "shell": lambda s: pod(command=["sh", "-c", f"export PASSWORD='{s}'; mysql -p'{s}' -e 'select 1'"]),
    "shell, twice": lambda s: pod(command=["sh", "-c", f'sh -c "PGPASSWORD=\'{s}\' psql"']),
    "manifest": lambda s: obj("ConfigMap",
        data={"a.yaml": f"a: b\n---\nkind: Secret\nstringData:\n  p: '{s}'\n---\nc: d\n"}),
}  # fmt: skip
# In texts the credential is one word.
IN_TEXTS = [one["applies"] for one in SHAPES if "pl4nted-Value" in one["applies"]]
IN_TEXTS += [text.replace("{s}", "pl4nted-Value").replace("{o}", "x") for text in planted.COMMAND_LINES.values()]
IN_TEXTS += [
    text.replace("{s}", "pl4nted-Value").replace("{o}", "x") for text in planted.FILES.values() if "{s}" in text
]
IN_TEXTS += [text.replace("{s}", "pl4nted-Value") for text in planted.ADDRESSES.values() if "{s}" in text]
PLACES: dict[str, Callable[[str], dict]] = {
    "annotation": lambda text: obj("Pod", meta={"annotations": {"a/b": text}}),
    "label": lambda text: obj("Pod", meta={"labels": {"a/b": text}}),
    "variable": lambda text: pod(env=[{"name": "X", "value": text}]),
    "command": lambda text: pod(command=["sh", "-c", text]),
    "ConfigMap": lambda text: obj("ConfigMap", data={"a.conf": text}),
    "ConfigMap, binary": lambda text: obj("ConfigMap", binaryData={"a.conf": encoded(text)}),
    "condition": lambda text: obj("Job", version="batch/v1", status={"conditions": [{"type": "Failed",
        "message": text}]}),
    "field": lambda text: obj("Settings", version="a/v1", spec={"a": [{"b": text}, text]}),
    "Event": lambda text: event(message=text),
}  # fmt: skip
WORDS = st.sampled_from(["spec", "items", "nested", "config", "values", "server", "options", "name", "labels", "env"])


@st.composite
def wrapped(draw: st.DrawFn, body: dict) -> dict:
    """The object with what it says in places of its own and, below random names, again."""
    name = draw(st.sampled_from(sorted(set(body) - {"apiVersion", "kind", "metadata"}) or ["metadata"]))
    if body["kind"] in ("Secret", "Event", "ConfigMap") or name == "metadata":
        return body
    inner: object = body[name]
    for word in draw(st.lists(WORDS, max_size=3)):
        inner = draw(st.sampled_from([{word: inner}, {"beside": "plain", word: [inner]}, {word: {"a": 1, "b": inner}}]))
    return {**body, "wrapped": inner}


def records_of(body: dict) -> bytes:
    """What is told of an object that appears, changes and goes."""
    body = {**body, "metadata": {**body["metadata"], "name": "x", "namespace": "shop"}}
    resource = "v1/events" if body["kind"] == "Event" else "v1/things"
    meta = body["metadata"]
    moved = {**body, "metadata": {**meta, "resourceVersion": "8"}, "more": "moved"}
    gone = {**body, "metadata": {**meta, "resourceVersion": "9"}}
    told = run(lst(0, body, r=resource), ev(1, "MODIFIED", moved, r=resource), ev(2, "DELETED", gone, r=resource))
    assert told
    return b"".join(map(dump, told))


def forms(secret: str) -> list[bytes]:
    return [
        secret.encode(),
        encoded(secret).encode(),
        quote(secret, safe="").encode(),
        encoded(encoded(secret)).encode(),
    ]


@given(PASSWORDS, st.sampled_from(sorted(WHOLE)), st.data())
@settings(max_examples=600, deadline=None)
def test_a_secret_is_gone_whatever_it_is_made_of(secret: str, place: str, data: st.DataObject) -> None:
    body = data.draw(wrapped(WHOLE[place](secret)))
    told = records_of(body)
    assert not [form for form in forms(secret) if form in told]


@given(SECRETS, st.sampled_from(IN_TEXTS), st.sampled_from(sorted(PLACES)), st.booleans(), st.data())
@settings(max_examples=1500, deadline=None)
def test_a_secret_in_a_text_is_gone(secret: str, text: str, place: str, packed: bool, data: st.DataObject) -> None:
    said = text.replace("pl4nted-Value", secret)
    body = data.draw(wrapped(PLACES[place](f"see {encoded(said)}" if packed else said)))
    told = records_of(body)
    assert not [form for form in [*forms(secret), encoded(said).encode()] if form in told]


@given(
    st.sampled_from([one for one in SHAPES if "pl4nted-Value" not in one["applies"]]), st.sampled_from(sorted(PLACES))
)
@settings(max_examples=300, deadline=None)
def test_a_credential_of_a_known_shape_is_gone(entry: dict, place: str) -> None:
    found = next(one.pattern for one in patterns.SHAPES if one.pattern.pattern == entry["pattern"]).search(
        entry["applies"]
    )
    assert found is not None
    credential = found.groupdict().get("secret") or found[0]
    told = records_of(PLACES[place](f"it failed: {entry['applies']}"))
    assert not [form for form in forms(credential) if form in told]


NAMES = st.sampled_from(
    [
        "name", "image", "imageID", "secretName", "secretRef", "keyRef", "tokenReviewer", "passwordPolicy",
        "checksum", "uid",
        "resourceVersion", "message", "key", "path", "host", "annotations", "labels", "args", "command", "env",
        "publicKey", "maxTokens", "kind", "status", "data", "partitionKey", "secretKeyRef", "configMapRef", "hash",
        "bypass",
    ]
)  # fmt: skip


def like(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(pattern, fullmatch=True)


HARMLESS = (
    like(r"[a-z]{2,8}(-[a-z0-9]{1,6}){0,3}")
    | like(r"[a-z]{2,8}(\.[a-z]{2,6}){1,3}(:[0-9]{2,5})?")
    | like(r"(sha256:)?[0-9a-f]{64}|[0-9a-f]{40}")
    | like(r"[a-z]{2,6}\.[a-z]{2,6}/[a-z]{2,8}/[a-z]{2,8}:v?[0-9]{1,2}\.[0-9]{1,2}(@sha256:[0-9a-f]{64})?")
    | st.uuids().map(str)
    | st.datetimes().map(lambda at: at.strftime("%Y-%m-%dT%H:%M:%SZ"))
    | like(r"https?://[a-z]{2,8}\.[a-z]{2,6}(:[0-9]{2,5})?(/[a-z0-9-]{1,8}){0,3}(\?[a-z]{1,6}=[a-z0-9-]{1,8})?")
    | like(r"--[a-z]{2,8}(-[a-z]{2,6}){0,2}=[a-z0-9./-]{1,12}").filter(lambda text: not patterns.makes_secret(text))
    | st.sampled_from(sorted(set(planted.HARMLESS_TEXTS.values()) - planted.PROSE))
    | st.integers(-9, 10**9)
    | st.booleans()
    | st.none()
)  # fmt: skip
HARMLESS_TREES = st.recursive(
    HARMLESS | st.sampled_from(planted.HARMLESS_FIELDS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
SEEN = Redactor(b"k" * 32)


@given(st.dictionaries(st.sampled_from(["spec", "status", "webhooks", "roleRef", "rules"]), HARMLESS_TREES, max_size=3))
@settings(max_examples=1500, deadline=None)
def test_a_harmless_object_comes_through_as_it_is(parts: dict) -> None:
    for redactor in (SEEN, Redactor(b"k" * 32)):
        assert redactor.redact(parts, "shop.example/Settings") is parts

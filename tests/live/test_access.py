"""Where an API server is and how to authenticate, from every place that says so, and what is told where none does."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kubernetes.config import incluster_config

from capture.kubernetes.live import access as module
from capture.kubernetes.live.access import open_access
from capture.kubernetes.live.plugin import Issued
from capture.kubernetes.live.proxies import proxy_for
from schema.errors import BadKubeconfig
from tests.live.server import Authority, in_loop, kubeconfig

HOST = "https://10.0.0.1:6443"
SECRET = "s3cr3t-hunter2"


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """Nothing of this machine's."""
    for name in ("KUBECONFIG", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def opened(path=None, context=None):
    return asyncio.run(open_access(path, context))


def authorization(path: Path) -> str | None:
    async def ask() -> str | None:
        return (await (await open_access(path)).headers()).get("Authorization")

    return asyncio.run(ask())


def refused(path=None, context=None) -> BadKubeconfig:
    with pytest.raises(BadKubeconfig) as caught:
        opened(path, context)
    assert caught.value.hint
    assert SECRET not in str(caught.value)
    return caught.value


# -- which server


def write(path: Path, **sections) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    named = {
        section: [{"name": name, section[:-1]: body} for name, body in sections.pop(section, {}).items()]
        for section in ("contexts", "clusters", "users")
    }
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **sections, **named}))
    return path


@pytest.fixture
def several(tmp_path, monkeypatch) -> list[Path]:
    """Two files, of which the first says what is current; a token lies beside each."""
    files = [
        write(
            tmp_path / "one/config", **{"current-context": "prod"},
            contexts={"prod": {"cluster": "p", "user": "u"}}, clusters={"p": {"server": HOST}},
        ),
        write(
            tmp_path / "two/config", **{"current-context": "test"},
            contexts={"test": {"cluster": "t", "user": "u"}, "prod": {"cluster": "t", "user": "nobody"}},
            clusters={"t": {"server": "http://localhost:8001/"}}, users={"u": {"tokenFile": "token"}},
        ),
    ]  # fmt: skip
    (tmp_path / "two/token").write_text("beside")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([*map(str, files), str(tmp_path / "none")]))
    return files


def test_several_files_are_merged_as_kubectl_does(several):
    access = opened()
    assert (access.context, access.cluster, access.host) == ("prod", "p", HOST)
    assert asyncio.run(access.headers()) == {"Authorization": "Bearer beside"}
    assert access.tls is not None
    other = opened(None, "test")
    assert (other.context, other.host, other.tls) == ("test", "http://localhost:8001", None)


def test_a_file_that_is_given_is_the_only_one(several, tmp_path):
    assert opened(kubeconfig(tmp_path, "http://other:1")).host == "http://other:1"


def test_the_one_at_home(tmp_path):
    home = tmp_path / "home/.kube"
    home.mkdir(parents=True)
    kubeconfig(home, HOST, name="config").rename(home / "config")
    assert opened().host == HOST


def test_no_such_context_is_told_with_near_names(several):
    assert "there is no context 'prodd'" in refused(context="prodd").message
    assert refused(context="prodd").hint == "there is: prod"
    assert refused(context="xyz").hint == "there is: prod, test"


def test_nothing_anywhere(monkeypatch, tmp_path):
    assert refused().message.startswith("no kubeconfig: ~/.kube/config is not there")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert str(tmp_path / "none") in refused().message
    assert "none cannot be read: No such file" in refused(tmp_path / "none").message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"users: [{{name: a, user: {{token: {SECRET}}}", "is not YAML (line 1)"),
        ("", "is no kubeconfig"),
        (f"- {SECRET}", "is no kubeconfig"),
        (f"users: [{SECRET}]", "no context is the current one"),
        (f"users: [{{user: {{token: {SECRET}}}}}]", "no context is the current one"),
        (f"users: {SECRET}", "is no kubeconfig"),
        ("contexts: []", "no context is the current one"),
        ("current-context: a", "there is no context 'a'"),
        ("{current-context: a, contexts: [{name: a}]}", "there is no cluster ''"),
        ("{current-context: a, contexts: [{name: a, context: {cluster: b}}]}", "there is no cluster 'b'"),
    ],
)
def test_files_that_are_no_kubeconfig(tmp_path, text, says):
    path = tmp_path / "config"
    path.write_text(text)
    assert says in refused(path).message


@pytest.mark.parametrize(
    "server", ["", "10.0.0.1:6443", "ftp://a", "https://", "https://a:port", f"https://me:{SECRET}@a"]
)
def test_a_server_that_is_no_url(tmp_path, server):
    assert "server of cluster lab is no URL" in refused(kubeconfig(tmp_path, server)).message


# -- who


def test_tokens_names_and_nobody(tmp_path):
    assert authorization(kubeconfig(tmp_path, HOST, user={"token": f" {SECRET}\n"})) == f"Bearer {SECRET}"
    (tmp_path / "token").write_text("newer\n")
    assert authorization(kubeconfig(tmp_path, HOST, user={"token": "a", "tokenFile": "token"})) == "Bearer newer"
    basic = authorization(kubeconfig(tmp_path, HOST, user={"username": "me", "password": "ü:x"}))
    assert basic == "Basic " + base64.b64encode("me:ü:x".encode()).decode()
    assert authorization(kubeconfig(tmp_path, HOST)) is None


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ({"tokenFile": "none"}, "tokenFile of user lab: "),
        ({"token": f"{SECRET}\r\nHost: x"}, "token of user lab holds no token"),
        ({"client-certificate": "none", "client-key": "none"}, "client-certificate of user lab: "),
        ({"client-certificate-data": SECRET, "client-key-data": SECRET}, "client-certificate-data of user lab is not"),
        ({"client-certificate-data": "QUJD", "client-key-data": "QUJD"}, "the client certificate of user lab cannot"),
        ({"client-certificate-data": "QUJD"}, "not both"),
        ({"token": SECRET, "as": "somebody"}, "acts as somebody else"),
        ({"auth-provider": {"name": "gcp", "config": {"access-token": SECRET}}}, "auth-provider"),
    ],
)
def test_users_that_cannot_be_used(tmp_path, user, says):
    assert says in refused(kubeconfig(tmp_path, HOST, user=user)).message


def test_authorities_that_cannot_be_used(tmp_path):
    for data in ("QUJD", "/////w=="):
        bad = refused(kubeconfig(tmp_path, HOST, **{"certificate-authority-data": data}))
        assert "certificate-authority-data of cluster lab holds no certificate" in bad.message
    assert "none cannot be read" in refused(kubeconfig(tmp_path, HOST, **{"certificate-authority": "none"})).message


def test_a_key_of_another_certificate_or_an_encrypted_one(tmp_path):
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.signed("one")
    _, other = authority.signed("two")
    user = {"client-certificate": str(certificate), "client-key": str(other)}
    assert "key values mismatch" in refused(kubeconfig(tmp_path, HOST, user=user)).message
    authority._openssl("ec", "-in", key.name, "-aes256", "-passout", "pass:hush", "-out", "locked.key")
    user = {"client-certificate": str(certificate), "client-key": "locked.key"}
    assert "the client certificate of user lab cannot be used" in refused(kubeconfig(tmp_path, HOST, user=user)).message


def test_nothing_secret_is_shown_of_what_is_in_use(tmp_path):
    user = {"username": "me", "password": SECRET, "token": SECRET}
    access = opened(kubeconfig(tmp_path, HOST, user=user, **{"proxy-url": f"http://me:{SECRET}@proxy:1"}))
    assert SECRET in (access.proxy or "")
    assert not any(SECRET in repr(one) for one in (access, access._login, access._held))


# -- as time goes by


@in_loop
async def test_27_a_token_file_is_read_again_and_one_that_is_away_for_a_moment_costs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "REREAD", 1.0)
    monkeypatch.setattr(module, "AGAIN", 0.1)
    token = tmp_path / "token"
    token.write_text("one")
    access = await open_access(kubeconfig(tmp_path, HOST, user={"tokenFile": "token"}))
    token.write_text("two")
    assert await access.headers() == {"Authorization": "Bearer one"}
    await asyncio.sleep(1.02)
    assert await access.headers() == {"Authorization": "Bearer two"}
    token.unlink()
    await asyncio.sleep(1.02)
    assert await access.headers() == {"Authorization": "Bearer two"}
    token.write_text("three")
    await asyncio.sleep(0.12)
    assert await access.headers() == {"Authorization": "Bearer three"}


@in_loop
async def test_a_kubeconfig_written_anew_counts_after_401_and_leads_nobody_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "AGAIN", 0.0)
    contexts = {"a": {"cluster": "a", "user": "a"}, "b": {"cluster": "b", "user": "a"}}
    clusters = {"a": {"server": HOST}, "b": {"server": "https://b:1"}}
    path = tmp_path / "config"

    def save(token: str, current: str) -> None:
        write(path, **{"current-context": current}, contexts=contexts, clusters=clusters, users={"a": {"token": token}})

    save("one", "a")
    access = await open_access(path)
    save("two", "b")
    await access.renew()
    assert access.host == HOST
    assert await access.headers() == {"Authorization": "Bearer two"}
    clusters["a"] = {"server": "https://elsewhere:1"}
    save("three", "a")
    with pytest.raises(BadKubeconfig, match="leads to another server"):
        await access.renew()
    assert await access.headers() == {"Authorization": "Bearer two"}


# -- exec plugins


def plugin(tmp_path, body: str, **more) -> Path:
    """A kubeconfig whose user runs this; `runs` counts how often."""
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, os, sys, time\n"
        "from pathlib import Path\n"
        "runs = Path('runs'); count = len(runs.read_text()) + 1 if runs.exists() else 1; runs.write_text('x' * count)\n"
        "def give(**status): print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',"
        " 'kind': 'ExecCredential', 'status': status}))\n" + body
    )
    entry = {
        "apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)],
        "env": [{"name": "PLUGIN_SECRET", "value": SECRET}], **more,
    }  # fmt: skip
    return kubeconfig(tmp_path, HOST, user={"exec": entry})


def runs(tmp_path) -> int:
    return len((tmp_path / "runs").read_text())


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@in_loop
async def test_27_a_plugin_is_run_when_401_says_so_once_for_all_who_ask(tmp_path):
    access = await open_access(plugin(tmp_path, "give(token=f'token-{count}')"))
    assert [(await access.headers())["Authorization"] for _ in range(3)] == ["Bearer token-1"] * 3
    await asyncio.gather(*(access.renew() for _ in range(100)))
    await access.renew()
    assert await access.headers() == {"Authorization": "Bearer token-2"}
    assert runs(tmp_path) == 2


@in_loop
async def test_27_a_plugin_is_run_before_what_it_gave_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "AGAIN", 0.05)
    until = soon(1)
    access = await open_access(
        plugin(tmp_path, f"give(token=str(count), expirationTimestamp='{until}' if count == 1 else None)")
    )
    while await access.headers() != {"Authorization": "Bearer 2"}:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)
    assert await access.headers() == {"Authorization": "Bearer 2"}
    assert runs(tmp_path) == 2


@pytest.mark.parametrize(("life", "left"), [(3600, 3540), (100, 80), (0, 0)])
def test_27_a_minute_before_the_end_or_a_fifth_of_its_life(life, left):
    now = time.time()
    assert module._left(Issued(now, "a", None, None, now + life)) == pytest.approx(left, abs=1)


@in_loop
async def test_27_a_plugin_that_fails_matters_only_when_what_it_gave_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "AGAIN", 0.05)
    until = soon(1.5)
    body = f"give(token='a', expirationTimestamp='{until}') if count == 1 else sys.exit('log in again')"
    access = await open_access(plugin(tmp_path, body))

    async def ask() -> None:
        while await access.headers() == {"Authorization": "Bearer a"}:
            await asyncio.sleep(0.05)

    with pytest.raises(BadKubeconfig, match="log in again"):
        await ask()
    assert datetime.now(UTC) >= datetime.fromisoformat(until)
    assert runs(tmp_path) >= 2


@in_loop
async def test_a_plugin_may_give_a_certificate_and_another_later(tmp_path):
    authority = Authority(tmp_path, "authority")
    for name in ("client-1", "client-2"):
        authority.signed(name)
    body = (
        "name = f'client-{count}'\n"
        "give(clientCertificateData=Path(f'{name}.crt').read_text(), clientKeyData=Path(f'{name}.key').read_text())"
    )
    access = await open_access(plugin(tmp_path, body))
    first = access.tls
    assert await access.headers() == {}
    assert access.tls is first
    await access.renew()
    assert access.tls is not first


@in_loop
async def test_a_plugin_that_hangs_holds_up_nobody_and_is_not_run_twice(tmp_path, monkeypatch):
    access = await open_access(plugin(tmp_path, "count > 1 and time.sleep(3)\ngive(token=str(count))"))
    monkeypatch.setattr(module, "PLUGIN", 0.5)
    for _ in range(2):
        with pytest.raises(BadKubeconfig, match="credentials of user lab have not come") as caught:
            await access.renew()
    assert caught.value.hint
    monkeypatch.setattr(module, "PLUGIN", 10)
    await access.renew()
    assert await access.headers() == {"Authorization": "Bearer 2"}
    assert runs(tmp_path) == 2


def test_a_plugin_is_told_of_its_cluster(tmp_path):
    body = "give(token=json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']['cluster']['server'])"
    assert authorization(plugin(tmp_path, body, provideClusterInfo=True)) == f"Bearer {HOST}"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("sys.exit('no session for ' + os.environ['PLUGIN_SECRET'])", "process returned 1. no session for …"),
        ("sys.exit('Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl')", "hmac:"),
        ("print(os.environ['PLUGIN_SECRET'])", "failed to decode"),
        ("print('[]')", "malformed response"),
        ("give()", "gave neither a token nor a certificate"),
        ("give(clientCertificateData='x')", "gave neither a token nor a certificate"),
        ("give(token='a', expirationTimestamp='soon')", "expirationTimestamp"),
    ],
)
def test_plugins_that_fail(tmp_path, body, says):
    bad = refused(plugin(tmp_path, body))
    assert "exec plugin" in bad.message
    assert says in bad.message
    assert "eyJhbGci" not in str(bad)


def test_a_plugin_that_is_not_there(tmp_path):
    bad = refused(plugin(tmp_path, "", command="kube-login-nowhere", installHint="see\n  https://example.org/"))
    assert "exec plugin kube-login-nowhere of user lab: there is no such command" in bad.message
    assert bad.hint == "see https://example.org/"
    assert "cannot be run: Permission denied" in refused(plugin(tmp_path, "", command="./plugin.py")).message


# -- in a pod


def test_a_pod_has_an_account(tmp_path, monkeypatch):
    authority = Authority(tmp_path, "authority")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.ca))
    assert "the service account of this pod cannot be used: Service token file" in refused().message
    (tmp_path / "token").write_text("of-the-pod\n")
    access = opened()
    assert (access.context, access.host) == ("in-cluster", "https://[fd00::1]:443")
    assert asyncio.run(access.headers()) == {"Authorization": "Bearer of-the-pod"}


# -- proxies of the environment

ENVIRON = {"HTTPS_PROXY": "proxy:3128", "http_proxy": "http://plain:80"}


@pytest.mark.parametrize(
    ("host", "without", "direct"),
    [
        (HOST, "", False),
        (HOST, "10.0.0.1", True),
        (HOST, "10.0.0.2", False),
        (HOST, "192.168.0.0/16, 10.0.0.0/8", True),
        (HOST, "10.0.0.1:6443", True),
        (HOST, "10.0.0.1:443", False),
        (HOST, "*", True),
        (HOST, "nonsense/8", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://api.prod.example", "prod.example", True),
        ("https://api.prod.example", ".prod.example", True),
        ("https://api.prod.example", "*.prod.example", True),
        ("https://prod.example", "prod.example:443", True),
        ("https://prod.example", ".prod.example", False),
        ("https://notprod.example", "prod.example", False),
        ("https://localhost:6443", "", True),
        ("https://127.0.0.1:6443", "", True),
    ],
)
def test_which_hosts_are_reached_without_the_proxy(host, without, direct):
    assert proxy_for(host, {**ENVIRON, "no_proxy": without}) == (None if direct else "http://proxy:3128")


def test_the_proxy_is_that_of_the_scheme_and_what_the_kubeconfig_says_comes_first(tmp_path, monkeypatch):
    assert proxy_for("http://a:1", ENVIRON) == "http://plain:80"
    assert proxy_for("http://a:1", {}) is None
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "*")
    assert opened(kubeconfig(tmp_path, HOST)).proxy is None
    assert opened(kubeconfig(tmp_path, HOST, **{"proxy-url": "https://its:1"})).proxy == "https://its:1"
    monkeypatch.delenv("NO_PROXY")
    assert opened(kubeconfig(tmp_path, HOST)).proxy == "http://proxy:3128"
    monkeypatch.setenv("HTTPS_PROXY", f"socks5://me:{SECRET}@proxy:1")
    assert "the proxy of the environment is no" in refused(kubeconfig(tmp_path, HOST)).message

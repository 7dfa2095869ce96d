"""What a network and a server can do to a request (numbers: the table of pitfalls)."""

from __future__ import annotations

import asyncio
import base64
import gzip
import random
import socket
import time
from importlib.metadata import version

import pytest

from capture.kubernetes.live import transport as module
from capture.kubernetes.live.splitter import Splitter
from capture.kubernetes.live.transport import Lost, Response, TooLong, Untrusted
from schema.errors import BadKubeconfig
from tests.live.server import SERVER, Authority, Wire, in_loop, kubeconfig, serving, transport

WATCH = {"watch": "true"}


async def asked(session, params=None, patience=5.0) -> Response:
    return await session.request("/api/v1/pods", params or {}, "application/json", patience=patience)


async def answered(port, tmp_path, params=None, user=None) -> bytes:
    async with transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}", user=user)) as session:
        return await (await asked(session, params)).read()


async def lost(port, tmp_path, patience=5.0) -> str:
    with pytest.raises(Lost) as caught:
        async with transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")) as session:
            await (await asked(session, patience=patience)).read()
    return caught.value.reason


@in_loop
async def test_a_request_says_who_asks_for_what(tmp_path):
    heard = []

    async def behave(wire: Wire) -> None:
        heard.append((wire.line, dict(wire.headers)))
        await wire.answer(b"{}", Retry_After="3")

    async with (
        serving(behave) as port,
        transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}/k8s/c1/", user={"token": "abc"})) as session,
    ):
        params = {"fieldSelector": "type!=helm.sh/release.v1,metadata.name!=a", "continue": "eyJ2+/=="}
        answer = await session.request("/api/v1/secrets", params, "application/json;as=X", patience=5)
        assert answer.status == 200
        assert answer.headers["retry-after"] == "3"
        assert await answer.read() == b"{}"
        await (await asked(session, WATCH)).read()
    (line, headers), (_, watch) = heard
    assert line.startswith("GET /k8s/c1/api/v1/secrets?")
    assert "continue=eyJ2%2B/%3D%3D" in line
    assert headers["authorization"] == "Bearer abc"
    assert headers["accept"] == "application/json;as=X"
    assert headers["user-agent"] == f"hindgraph/{version('hindgraph')}"
    assert (headers["accept-encoding"], watch["accept-encoding"]) == ("gzip", "identity")


@in_loop
async def test_refused(tmp_path):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        assert await lost(unheard.getsockname()[1], tmp_path) == "connection refused"


@in_loop
async def test_reset_before_an_answer(tmp_path):
    async def behave(wire: Wire) -> None:
        wire.reset()

    async with serving(behave) as port:
        assert await lost(port, tmp_path) in ("connection reset by peer", "the server closed the connection")


@in_loop
async def test_reset_within_an_answer(tmp_path):
    async def behave(wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(b'{"items":[')
        await asyncio.sleep(0.05)
        wire.reset()

    async with serving(behave) as port:
        assert await lost(port, tmp_path) in ("connection reset by peer", "the connection ended within the answer")


@pytest.mark.parametrize("head", ["Transfer-Encoding: chunked\r\n\r\n3000\r\n", "Content-Length: 12288\r\n\r\n"])
@in_loop
async def test_what_came_before_a_cut_is_there_and_the_cut_is_told(tmp_path, head):
    async def behave(wire: Wire) -> None:
        await wire.send(f"HTTP/1.1 200 OK\r\n{head}".encode() + b"x" * 5000)
        await asyncio.sleep(0.05)
        wire.writer.transport.close()

    async with serving(behave) as port, transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")) as session:
        chunks = (await asked(session)).chunks()
        got = b""
        while len(got) < 5000:
            got += await anext(chunks)
        assert got == b"x" * 5000
        with pytest.raises(Lost, match="within the answer"):
            await anext(chunks)


@in_loop
async def test_18_an_answer_that_does_not_begin(tmp_path):
    async def behave(wire: Wire) -> None:
        await asyncio.sleep(60)

    began = time.monotonic()
    async with serving(behave) as port:
        assert await lost(port, tmp_path, patience=0.2) == "no answer within 0.2 s"
    assert time.monotonic() - began < 5


@in_loop
async def test_18_silence_within_an_answer_is_judged_by_who_reads_and_ends_nothing(tmp_path):
    speak = asyncio.Event()

    async def behave(wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(b"one\n")
        await speak.wait()
        await wire.chunk(b"two\n")
        await wire.chunk(b"")

    async with serving(behave) as port, transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")) as session:
        answer = await asked(session, WATCH, patience=0.5)
        chunks = answer.chunks()
        assert await anext(chunks) == b"one\n"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(chunks), 1)  # Longer than the patience, which was for the beginning.
        speak.set()
        assert await anext(chunks) == b"two\n"
        with pytest.raises(StopAsyncIteration):
            await anext(chunks)
        await answer.close()


@in_loop
async def test_a_watch_that_is_closed_is_closed_for_the_server(tmp_path):
    ended = asyncio.Event()

    async def behave(wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(b"one\n")
        assert not await wire.asked()
        ended.set()

    async with serving(behave) as port, transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")) as session:
        answer = await asked(session, WATCH)
        assert await anext(answer.chunks()) == b"one\n"
        await answer.close()
        await asyncio.wait_for(ended.wait(), 5)


@in_loop
async def test_connections_are_used_again(tmp_path):
    wires = []

    async def behave(wire: Wire) -> None:
        wires.append(wire)
        await wire.answer(b"{}")

    async with serving(behave) as port, transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")) as session:
        for _ in range(3):
            answer = await asked(session)
            await answer.read()
            await answer.close()
    assert len(set(map(id, wires))) == 1


@in_loop
async def test_hundreds_of_watches_at_once(tmp_path):
    async def behave(wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(b"here\n")
        await asyncio.sleep(60)

    async with serving(behave) as port, transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")) as session:
        answers = await asyncio.gather(*(asked(session, WATCH, patience=15) for _ in range(250)))
        said = await asyncio.gather(*(anext(answer.chunks()) for answer in answers))
        assert said == [b"here\n"] * 250
        for answer in answers:
            await answer.close()


@in_loop
async def test_28_who_does_not_read_makes_the_server_wait(tmp_path):
    sent = 0

    async def behave(wire: Wire) -> None:
        nonlocal sent
        await wire.begin()
        for _ in range(1000):
            await wire.chunk(b"x" * 65_535 + b"\n")
            sent += 65_536
        await wire.chunk(b"")

    async with serving(behave) as port, transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")) as session:
        answer = await asked(session, WATCH)
        await anext(answer.chunks())
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.5)
        assert sent < 30_000_000  # What the kernel holds for both sides, and little more.
        assert sum([len(chunk) async for chunk in answer.chunks()]) > 60_000_000


@in_loop
async def test_25_26_a_huge_line_and_characters_split_anywhere(tmp_path):
    lines = [("ü€😀" * 7).encode(), b"y" * 5_000_000, "日本".encode(), b""]
    body = b"\n".join(lines)
    rng = random.Random(1)

    async def behave(wire: Wire) -> None:
        await wire.begin()
        at = 0
        while at < len(body):
            step = 1 if at < 80 or at > len(body) - 10 else rng.randint(1, 100_000)
            await wire.chunk(body[at : at + step])
            at += step
            if step == 1:
                await asyncio.sleep(0)
        await wire.chunk(b"")

    async with serving(behave) as port, transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")) as session:
        splitter = Splitter()
        got = [line async for chunk in (await asked(session, WATCH)).chunks() for line in splitter.feed(chunk)]
        assert got == lines[:-1]


@in_loop
async def test_a_packed_list_is_unpacked_and_a_damaged_one_is_lost(tmp_path):
    body = b'{"items":[%b]}' % b",".join([b'"pod"'] * 50_000)
    packed = gzip.compress(body)

    async def behave(wire: Wire) -> None:
        damaged = "damaged" in wire.line
        await wire.answer(b"?" + packed if damaged else packed, Content_Encoding="gzip")

    async with serving(behave) as port:
        assert await answered(port, tmp_path) == body
        with pytest.raises(Lost):
            await answered(port, tmp_path, {"damaged": "yes"})


@in_loop
async def test_an_answer_without_end_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CAP", 1024 * 1024)

    async def behave(wire: Wire) -> None:
        await wire.begin()
        while True:
            await wire.chunk(b"x" * 100_000)

    async with serving(behave) as port:
        with pytest.raises(TooLong, match="longer than 1 MiB"):
            await answered(port, tmp_path)


@in_loop
async def test_what_is_no_http_is_lost(tmp_path):
    async def behave(wire: Wire) -> None:
        await wire.send(b"SSH-2.0-OpenSSH_9\r\n\r\n")

    async with serving(behave) as port:
        assert await lost(port, tmp_path)


@in_loop
async def test_nobody_is_sent_elsewhere(tmp_path):
    elsewhere = []

    async def other(wire: Wire) -> None:
        elsewhere.append(wire.line)
        await wire.answer(b"{}")

    async with serving(other) as port:

        async def behave(wire: Wire) -> None:
            await wire.answer(b"", 307, Location=f"http://127.0.0.1:{port}/")

        async with serving(behave) as first, transport(kubeconfig(tmp_path, f"http://127.0.0.1:{first}")) as session:
            assert (await asked(session)).status == 307
    assert elsewhere == []


@in_loop
async def test_27_after_401_a_new_token_is_taken_from_its_file(tmp_path):
    tokens = []
    (tmp_path / "token").write_text("old\n")

    async def behave(wire: Wire) -> None:
        tokens.append(wire.headers["authorization"])
        await wire.answer(b"{}", 200 if tokens[-1] == "Bearer new" else 401)

    async with (
        serving(behave) as port,
        transport(kubeconfig(tmp_path, f"http://127.0.0.1:{port}", user={"tokenFile": "token"})) as session,
    ):
        assert (await asked(session)).status == 401
        (tmp_path / "token").write_text("new\n")
        assert (await asked(session)).status == 401  # Not read at each request.
        await session.renew()
        assert (await asked(session)).status == 200
    assert tokens == ["Bearer old", "Bearer old", "Bearer new"]


@in_loop
async def test_27_where_there_are_no_other_credentials_that_is_told(tmp_path):
    (tmp_path / "token").write_text("old")
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", user={"tokenFile": "token"})
    async with transport(path) as session:
        (tmp_path / "token").unlink()
        with pytest.raises(Lost, match=r"tokenFile of user lab: .*token cannot be read: No such file") as caught:
            await session.renew()
        assert caught.value.hint


# -- TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"), "authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("other"), "stranger")


async def hello(wire: Wire) -> None:
    await wire.answer(b"hello")


async def over_tls(port, tmp_path, **cluster) -> bytes:
    user = cluster.pop("user", None)
    async with transport(kubeconfig(tmp_path, f"https://127.0.0.1:{port}", user=user, **cluster)) as session:
        return await (await asked(session)).read()


@in_loop
async def test_a_server_is_trusted_by_its_authority_and_name(tmp_path, authority, stranger):
    ca = {"certificate-authority": str(authority.ca), "tls-server-name": SERVER}
    async with serving(hello, authority.serve()) as port:
        assert await over_tls(port, tmp_path, **ca) == b"hello"
        data = base64.b64encode(authority.ca.read_bytes()).decode()
        assert await over_tls(port, tmp_path, **{**ca, "certificate-authority-data": data}) == b"hello"
        assert await over_tls(port, tmp_path, **{"insecure-skip-tls-verify": True}) == b"hello"
        with pytest.raises(Untrusted, match="is not trusted") as caught:
            await over_tls(port, tmp_path, **{**ca, "certificate-authority": str(stranger.ca)})
        assert "certificate-authority" in caught.value.hint
        with pytest.raises(Untrusted) as caught:
            await over_tls(port, tmp_path, **{"tls-server-name": SERVER})
        assert "certificate-authority" in caught.value.hint
        for name in ({}, {"tls-server-name": "other.example"}):
            with pytest.raises(Untrusted, match="mismatch") as caught:
                await over_tls(port, tmp_path, **{"certificate-authority": str(authority.ca), **name})
            assert "tls-server-name" in caught.value.hint


@in_loop
async def test_plain_http_where_tls_is_meant_and_the_reverse(tmp_path, authority):
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        with pytest.raises(Lost, match="TLS: wrong version number"):
            await over_tls(server.sockets[0].getsockname()[1], tmp_path)
    async with serving(hello, authority.serve()) as port:
        assert await lost(port, tmp_path)


@in_loop
async def test_a_client_certificate_authenticates_and_a_new_one_is_taken_when_it_changes(tmp_path, authority):
    names = []

    async def behave(wire: Wire) -> None:
        names.append(dict(part[0] for part in wire.writer.get_extra_info("peercert")["subject"])["commonName"])
        await wire.answer(b"")

    certificate, key = (tmp_path / name for name in ("client.crt", "client.key"))

    def become(name: str) -> None:
        for target, source in zip((certificate, key), authority.signed(name), strict=True):
            target.write_bytes(source.read_bytes())

    become("first")
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    cluster = {"certificate-authority": str(authority.ca), "tls-server-name": SERVER}
    async with serving(behave, authority.serve(clients=True)) as port:
        with pytest.raises(Lost):
            await over_tls(port, tmp_path, **cluster)
        path = kubeconfig(tmp_path, f"https://127.0.0.1:{port}", user=user, **cluster)
        async with transport(path) as session:
            for _ in range(2):
                await (await asked(session)).read()
            become("second")
            await session.renew()
            await (await asked(session)).read()
    assert names == ["first", "first", "second"]


# -- proxies


async def tunnel(wire: Wire) -> None:
    """A proxy, as far as it takes."""
    if wire.headers.get("proxy-authorization") != "Basic " + base64.b64encode(b"me:hush").decode():
        await wire.answer(b"", 407)
        return
    host, _, port = wire.line.split()[1].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    await wire.send(b"HTTP/1.1 200 OK\r\n\r\n")

    async def forward(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
        target.close()

    try:
        await asyncio.gather(forward(wire.reader, writer), forward(reader, wire.writer))
    finally:
        writer.transport.abort()


@in_loop
async def test_through_a_proxy(tmp_path, authority):
    cluster = {"certificate-authority": str(authority.ca), "tls-server-name": SERVER}
    async with serving(hello, authority.serve()) as port, serving(tunnel) as proxy:
        through = {**cluster, "proxy-url": f"http://me:hush@127.0.0.1:{proxy}"}
        assert await over_tls(port, tmp_path, **through) == b"hello"
        with pytest.raises(Lost, match="the proxy answered 407"):
            await over_tls(port, tmp_path, **{**cluster, "proxy-url": f"http://me:no@127.0.0.1:{proxy}"})
        with pytest.raises(Untrusted):
            await over_tls(port, tmp_path, **{**through, "tls-server-name": "other.example"})


@in_loop
async def test_a_proxy_that_is_not_there_is_told_without_its_password(tmp_path):
    with pytest.raises(Lost, match="the proxy: connection refused") as caught:
        await over_tls(1, tmp_path, **{"proxy-url": "http://me:hush@127.0.0.1:1"})
    assert "hush" not in repr(caught.value)
    with pytest.raises(BadKubeconfig, match="proxy-url of cluster lab is no") as bad:
        await over_tls(1, tmp_path, **{"proxy-url": "socks5://me:hush@127.0.0.1:1"})
    assert "hush" not in str(bad.value)

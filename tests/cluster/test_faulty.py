"""The relay does to a connection what it says."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.cluster.faulty import Relay


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with connection:
                try:
                    while data := connection.recv(65536):
                        connection.sendall(data)
                except OSError:
                    pass

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)


def connected(relay: Relay) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", relay.port), timeout=5)
    one.sendall(b"hello")
    assert one.recv(5) == b"hello"
    return one


def test_it_forwards_and_cuts_what_it_was_told_to(echo):
    with Relay(echo) as relay:
        with connected(relay) as idle:
            assert relay.cut(random.Random(1)) == 1
            assert _received(idle) == b""
        with connected(relay) as after:
            after.sendall(b"again")
            assert after.recv(5) == b"again"


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_falls_into_the_middle_of_what_is_sent(echo, seed):
    with Relay(echo) as relay, connected(relay) as one:
        cutter = threading.Thread(target=relay.cut, args=(random.Random(seed),))
        cutter.start()
        time.sleep(0.05)
        one.sendall(b"x" * 60_000)
        count = 0
        while piece := _received(one, 65_536):
            count += len(piece)
        cutter.join()
        assert 0 < count < 60_000


def test_it_holds_back_for_a_while(echo):
    with Relay(echo) as relay, connected(relay) as one:
        began = time.monotonic()
        relay.stall(0.3)
        time.sleep(0.05)
        one.sendall(b"late")
        assert one.recv(4) == b"late"
        assert time.monotonic() - began >= 0.3  # Since it was told to: on a busy machine sending itself may be late.


def test_without_a_server_a_connection_is_refused(echo):
    with Relay(("127.0.0.1", 1)) as relay, socket.create_connection(("127.0.0.1", relay.port), timeout=5) as one:
        assert not _received(one)


def _received(one: socket.socket, size: int = 1) -> bytes:
    try:
        return one.recv(size)
    except ConnectionResetError:
        return b""

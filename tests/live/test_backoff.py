from __future__ import annotations

import random

from capture.kubernetes.live.backoff import LONGEST, Backoff


def test_waits_grow_and_end_growing():
    backoff = Backoff(random.Random(1))
    waits = [backoff.failed() for _ in range(12)]
    assert waits[0] < 1
    assert all(wait <= LONGEST for wait in waits)
    assert min(waits[8:]) >= LONGEST / 2
    backoff.worked()
    assert backoff.failed() < 1


def test_23_never_sooner_than_the_server_says():
    backoff = Backoff(random.Random(1))
    assert 7 <= backoff.failed(7.0) < 8


def test_39_no_two_wait_alike():
    waits = {round(Backoff(random.Random(seed)).failed(), 6) for seed in range(50)}
    assert len(waits) > 45


def test_35_who_is_forbidden_asks_once_a_minute_then_once_in_five():
    backoff = Backoff(random.Random(1))
    waits = [backoff.forbidden() for _ in range(20)]
    assert all(45 <= wait <= 75 for wait in waits[:4])
    assert all(225 <= wait <= 375 for wait in waits[5:])

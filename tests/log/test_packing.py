"""Packing gives back what it was given, says so when it cannot, and its dictionary is worth shipping."""

from __future__ import annotations

import pytest

from schema.packing import NEWEST, PLAIN, Packer
from schema.records import dump
from tests.log.records import change


@pytest.mark.parametrize("raw", [b"", b"{}", bytes(range(256)) * 10, dump(change(1, 1))])
def test_round_trip(raw):
    packer = Packer()
    assert packer.unpack(NEWEST, packer.pack(raw)) == raw
    assert packer.unpack(PLAIN, packer.pack_plain(raw)) == raw


def test_the_dictionary_halves_a_small_record():
    packer = Packer()
    raw = dump(change(1, 1_700_000_000_000_000))
    assert len(packer.pack(raw)) < len(packer.pack_plain(raw)) / 2


@pytest.mark.parametrize(("coding", "body"), [(NEWEST, b"nonsense"), (PLAIN, b""), (7, b"")])
def test_what_cannot_be_unpacked(coding, body):
    with pytest.raises(ValueError, match=r"."):
        Packer().unpack(coding, body)

"""How the ledger keeps bodies of changes, contents and evidence: packed, one byte in front that says how.

0: as it is, for what is too small to gain; else the dictionary that packed the rest (`schema.packing`). Level 3 costs a
third of the time of the log's level and 3 % more bytes; the ledger is written again whenever its rows change, the log
never. Safe from several threads, as readers are.
"""

from __future__ import annotations

import threading

from schema.packing import NEWEST, PLAIN, Packer

_LEVEL = 3
_SMALL = 24
_PLAIN, _PACKED = bytes([PLAIN]), bytes([NEWEST])
_own = threading.local()


def pack(raw: bytes) -> bytes:
    return _PLAIN + raw if len(raw) <= _SMALL else _PACKED + _packer().pack(raw)


def unpack(body: bytes) -> bytes:
    """Raises ValueError when the bytes are not what `pack` gives."""
    return body[1:] if body[:1] == _PLAIN else _packer().unpack(body[0], body[1:])


def _packer() -> Packer:
    # A compressor must not be used by two threads at once.
    packer: Packer | None = getattr(_own, "packer", None)
    if packer is None:
        packer = _own.packer = Packer(_LEVEL)
    return packer

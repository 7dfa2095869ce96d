"""How bytes of records and states are kept in log, ledger and shelf: zstd with a dictionary that ships with Hindgraph.

Records are small and alike, so nearly all of the gain is in the dictionary. Which one packed a row stands in the row
(`coding`), and a dictionary that ever shipped stays in `dictionaries/` unchanged for as long as logs may hold rows of
it. Where bytes are kept, and whether they are still the ones written, is the business of others.
"""

from __future__ import annotations

from importlib.resources import files

import zstandard

PLAIN = 0
"""No dictionary."""
NEWEST = 1
"""The dictionary for new rows: `dictionaries/<number>.zdict`."""

_LEVEL = 6


class Packer:
    """Packs with the newest dictionary, unpacks with any. Not for use by two threads at once. `checked`: what is packed
    carries a checksum of its own."""

    def __init__(self, level: int = _LEVEL, *, checked: bool = False) -> None:
        newest = _dictionary(NEWEST)
        newest.precompute_compress(level=level)
        self._pack = zstandard.ZstdCompressor(
            level=level, dict_data=newest, write_dict_id=False, write_checksum=checked
        )
        self._pack_plain = zstandard.ZstdCompressor(level=level)
        self._unpack = {
            PLAIN: zstandard.ZstdDecompressor(),
            NEWEST: zstandard.ZstdDecompressor(dict_data=_dictionary(NEWEST)),
        }

    def pack(self, raw: bytes) -> bytes:
        return self._pack.compress(raw)

    def pack_plain(self, raw: bytes) -> bytes:
        return self._pack_plain.compress(raw)

    def unpack(self, coding: int, body: bytes) -> bytes:
        """Raises ValueError when the coding is unknown or the bytes are not what it packs."""
        unpack = self._unpack.get(coding)
        if unpack is None:
            raise ValueError(f"unknown coding {coding}")
        try:
            return unpack.decompress(body)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from None


def _dictionary(number: int) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict((files("schema") / "dictionaries" / f"{number}.zdict").read_bytes())

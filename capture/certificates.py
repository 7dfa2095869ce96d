"""What is public about a certificate: fingerprint, validity, names. Reads the DER itself; checks no signature. Pure.

Expiry and names are what questions are about, and a certificate is no secret; the rest of it only costs room. What does
not parse is None, and its caller hides it like anything else.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from hashlib import sha256
from ipaddress import ip_address

from schema import instants
from schema.canonical import Json
from schema.errors import BadInstant

_PEM = re.compile(
    rb"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END [A-Z0-9 ]{0,24}CERTIFICATE-----"
)
_SEQUENCE, _SET, _OID, _UTC, _GENERALIZED, _EXTENSIONS = 0x30, 0x31, 0x06, 0x17, 0x18, 0xA3
_COMMON_NAME, _ALTERNATIVE_NAMES = b"\x55\x04\x03", b"\x55\x1d\x11"
_MOST = 64  # Certificates of one bundle and names of one certificate that are told.

Tag = tuple[int, bytes]


def described(body: bytes) -> Json:
    """The certificates of a PEM text, or of the base64 of one: a map for one, a list for more; None if it is none."""
    found = _certificates(body) or _certificates(_decoded(body))
    told = [one for one in map(_described, found[:_MOST]) if one is not None]
    if not told or len(told) != len(found):
        return None
    return told[0] if len(told) == 1 else list(told)


def is_description(value: Json) -> bool:
    """Whether this is what `described` made of a certificate or of several."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) and is_description(one) for one in value)
    if not isinstance(value, dict) or value.keys() != {"fingerprint", "not_before", "not_after", "names"}:
        return False
    names, times = value["names"], f"{value['not_before']}{value['not_after']}"
    return (
        re.fullmatch(r"sha256:[0-9a-f]{64}", str(value["fingerprint"])) is not None
        and re.fullmatch(r"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ){2}", times) is not None
        and isinstance(names, list)
        and all(isinstance(name, str) for name in names)
    )


def _certificates(body: bytes) -> list[bytes]:
    """The DER of each certificate, if there is nothing else but blanks and comments around them."""
    if b"-----BEGIN " not in body or b"PRIVATE KEY" in body:
        return []
    return [_decoded(match[1]) for match in _PEM.finditer(body)]


def _decoded(body: bytes) -> bytes:
    try:
        return base64.b64decode(b"".join(body.split()), validate=True)
    except binascii.Error:
        return b""


def _described(der: bytes) -> dict[str, Json] | None:
    try:
        ((_, certificate),) = _read(der)
        fields = list(_read(next(_read(certificate))[1]))
        if fields[0][0] == 0xA0:  # The version, which the first kind of certificate does not say.
            fields = fields[1:]
        _, _, _, (_, validity), (_, subject), *rest = fields
        first, last = (_instant(*time) for time in _read(validity))
        names = _alternative_names(rest) or list(_common_names(subject))
    except (ValueError, IndexError, StopIteration, UnicodeError, BadInstant):
        return None
    return {
        "fingerprint": f"sha256:{sha256(der).hexdigest()}",
        "not_before": first,
        "not_after": last,
        "names": list(names[:_MOST]),
    }


def _read(body: bytes) -> Iterator[Tag]:
    """The elements of a DER body, one after the other. Raises ValueError when it is none."""
    at = 0
    while at < len(body):
        tag, length, at = body[at], body[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4:
                raise ValueError("not a DER length")
            length, at = int.from_bytes(body[at : at + size], "big"), at + size
        if at + length > len(body):
            raise ValueError("an element is cut short")
        yield tag, body[at : at + length]
        at += length


def _instant(tag: int, body: bytes) -> str:
    text = body.decode("ascii")
    if tag == _UTC:
        text = ("19" if text[:2] >= "50" else "20") + text
    elif tag != _GENERALIZED:
        raise ValueError("not a time")
    if not re.fullmatch(r"\d{14}Z", text):
        raise ValueError("not a time")
    shown = f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[8:10]}:{text[10:12]}:{text[12:14]}Z"
    instants.parse(shown)
    return shown


def _common_names(subject: bytes) -> Iterator[str]:
    for _, relative in _read(subject):
        for _, pair in _read(relative):
            (_, kind), (_, value) = _read(pair)
            if kind == _COMMON_NAME:
                yield value.decode()


def _alternative_names(rest: list[Tag]) -> list[str]:
    out = []
    for body in (body for tag, body in rest if tag == _EXTENSIONS):
        for _, extension in _read(next(_read(body))[1]):
            parts = list(_read(extension))
            if parts[0] != (_OID, _ALTERNATIVE_NAMES):
                continue
            for tag, name in _read(next(_read(parts[-1][1]))[1]):
                if tag in (0x81, 0x82, 0x86):  # Mail, DNS, URI.
                    out.append(name.decode("ascii"))
                elif tag == 0x87:
                    out.append(str(ip_address(name)))
    return out

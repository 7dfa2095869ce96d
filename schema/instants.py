"""Instants: integer microseconds since 1970 UTC, and the two spellings people use for them.

Everything inside Hindgraph is an `int`; text exists only at the edge, and both directions live here. A time without a
zone is refused rather than guessed. The wall clock is never read here: whoever accepts `now` passes what it means.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from schema.errors import BadInstant

MAX = 9_223_372_036_854_775_807
"""The open end of an interval (the largest signed 64-bit integer); never null, so that order and indexes hold."""

SECOND = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:([Zz])|([+-])(\d\d):?(\d\d))?\Z", re.ASCII
)
_AGO = re.compile(r"-(?=\d)(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?\Z", re.ASCII)
_HINT = "write RFC 3339 with a zone, as in 2026-03-01T03:00:00Z, or -15m, or now"


def parse(text: str) -> int:
    """Microseconds of an RFC 3339 instant with zone. Digits below a microsecond are cut.

    Raises BadInstant for anything else, a time without zone included.
    """
    if len(text) == 27 and text[26] == "Z" and text[10] == "T" and text[19] == "." and text.isascii():
        # The spelling of recordings, microseconds and Z, a hundred thousand times over: the same check, in C.
        try:
            return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
        except ValueError:
            pass  # Said below with its reason.
    match = _RFC3339.match(text)
    if match is None:
        raise BadInstant(f"not an instant: {text[:64]!r}", hint=_HINT)
    year, month, day, hour, minute, second, fraction, zulu, sign, off_hour, off_minute = match.groups()
    if zulu is None and sign is None:
        raise BadInstant(f"a time without a zone says nothing: {text!r}", hint=_HINT)
    try:
        # A leap second is stored as the last microsecond before it, as Go and Kubernetes do not write them either.
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), min(int(second), 59), tzinfo=UTC)
    except ValueError as error:
        raise BadInstant(f"not an instant: {text!r}: {error}", hint=_HINT) from None
    micros = (moment - _EPOCH) // _MICROSECOND
    micros += int((fraction or "0").ljust(6, "0")[:6])
    if sign is not None:
        if int(off_hour) > 23 or int(off_minute) > 59:
            raise BadInstant(f"not a zone: {text!r}", hint=_HINT)
        offset = (int(off_hour) * 60 + int(off_minute)) * 60 * SECOND
        micros += -offset if sign == "+" else offset
        if not _FIRST <= micros <= _LAST:
            raise BadInstant(f"outside the calendar (years 1 to 9999): {text!r}", hint=_HINT)
    return micros


def parse_relative(text: str, now: int) -> int:
    """Like `parse`, and `now` or an age such as `-15m`, `-1h30m`, `-2d`, counted back from `now` (microseconds)."""
    if text == "now":
        return now
    ago = _AGO.match(text)
    if ago is not None and any(ago.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in ago.groups())
        instant = now - (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * SECOND
        show(instant)  # Refuses what lies outside the calendar, before a store is asked for it.
        return instant
    return parse(text)


def show(instant: int) -> str:
    """RFC 3339 in UTC; microseconds only where there are any. The open end reads `open`."""
    if instant == MAX:
        return "open"
    try:
        moment = _EPOCH + timedelta(microseconds=instant)
    except OverflowError:
        raise BadInstant(f"{instant} microseconds is outside the calendar (years 1 to 9999)") from None
    text = moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{text}.{moment.microsecond:06d}Z" if moment.microsecond else f"{text}Z"

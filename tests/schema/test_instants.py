"""Instants: text and microseconds say the same, and what says no instant is refused with BadInstant only."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.errors import BadInstant
from schema.instants import MAX, SECOND, parse, parse_relative, show

FIRST = parse("0001-01-01T00:00:00Z")
LAST = parse("9999-12-31T23:59:59.999999Z")
instants = st.integers(FIRST, LAST)


@given(instants)
def test_what_is_shown_reads_back(instant: int) -> None:
    assert parse(show(instant)) == instant


@given(st.datetimes(), st.integers(-1439, 1439))
def test_parse_agrees_with_the_standard_library(moment: datetime, minutes: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    micros = (aware - epoch) // timedelta(microseconds=1)
    if FIRST <= micros <= LAST:
        assert parse(aware.isoformat()) == micros
        assert parse(show(micros)) == micros
    else:
        with pytest.raises(BadInstant):
            parse(aware.isoformat())


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-00:01"]
)
def test_an_offset_may_not_lead_out_of_the_calendar(text: str) -> None:
    with pytest.raises(BadInstant, match="outside the calendar"):
        parse(text)


@given(st.text())
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    with contextlib.suppress(BadInstant):
        assert isinstance(parse_relative(text, 0), int)


@given(
    st.integers(FIRST + 200 * 86_400 * SECOND, LAST),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(0, 99),
)
def test_an_age_counts_back_from_now(now: int, days: int, hours: int, minutes: int, seconds: int) -> None:
    ago = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds) // timedelta(microseconds=1)
    assert parse_relative(f"-{days}d{hours}h{minutes}m{seconds}s", now) == now - ago


@pytest.mark.parametrize(
    "text",
    ["", "-", "2026-03-01", "2026-03-01T03:00:00", "2026-02-30T00:00:00Z", "2026-03-01T24:00:00Z", "-15", "15m"],
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(BadInstant):
        parse_relative(text, 0)


def test_a_leap_second_is_the_second_before_it_and_digits_below_a_microsecond_are_cut() -> None:
    assert parse("2016-12-31T23:59:60Z") == parse("2016-12-31T23:59:59Z")
    assert parse("1970-01-01T00:00:01.1234569Z") == SECOND + 123_456


def test_the_open_end_is_said_and_what_no_calendar_holds_is_refused() -> None:
    assert show(MAX) == "open"
    with pytest.raises(BadInstant):
        show(MAX - 1)


@pytest.mark.parametrize("age", ["-99999999999999d", "-999999999d", "-" + "9" * 5000 + "s"])
def test_an_age_beyond_the_calendar_is_a_named_error(age: str) -> None:
    with pytest.raises(BadInstant):
        parse_relative(age, 0)

"""Calendars: timestamps to dates and back."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rulerag.errors import ConfigError, DataFormatError
from rulerag.kg.calendar import Calendar

HOURS = Calendar("hour", "2014-01-01", 24)
DAYS = Calendar("day", "2014-01-01")
YEARS = Calendar("year", "1786")


@pytest.mark.parametrize(
    ("calendar", "timestamp", "text"),
    [
        (HOURS, 0, "2014-01-01"),
        (HOURS, 8736, "2014-12-31"),
        (HOURS, 30, "2014-01-02 06:00"),
        (DAYS, 59, "2014-03-01"),
        (DAYS, -1, "2013-12-31"),
        (YEARS, 231, "2017"),
        (Calendar(), 17, "17"),
        (Calendar("year", "-500"), 100, "-400"),
    ],
)
def test_dates_in_words(calendar: Calendar, timestamp: int, text: str) -> None:
    assert calendar.format(timestamp) == text
    assert calendar.parse(text) == timestamp


@given(st.sampled_from([HOURS, DAYS, YEARS, Calendar()]), st.integers(-10_000, 10_000))
def test_parse_reverses_format(calendar: Calendar, timestamp: int) -> None:
    assert calendar.parse(calendar.format(timestamp)) == timestamp


@pytest.mark.parametrize(
    ("calendar", "text"),
    [
        (HOURS, "yesterday"),
        (HOURS, "2014-13-01"),
        (HOURS, "2014-01-01T00:00+01:00"),
        (YEARS, "MMXIV"),
    ],
)
def test_texts_that_are_no_dates(calendar: Calendar, text: str) -> None:
    with pytest.raises(DataFormatError, match=f"for example {calendar.format(0)}"):
        calendar.parse(text)


def test_timestamps_beyond_the_calendar() -> None:
    with pytest.raises(DataFormatError, match="is no date in days from 2014-01-01"):
        DAYS.format(4_000_000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("century",), "unknown time unit 'century'"),
        (("day", "2014"), "'2014' is no date"),
        (("year", "2014-01-01"), "'2014-01-01' is no date"),
        (("year", "2014", 0), "0 is out of range"),
    ],
)
def test_wrong_calendars(arguments: tuple[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Calendar(*arguments)

"""Calendars: how a graph's whole-number timestamps read as dates."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from rulerag.composition import check_choice, check_range
from rulerag.errors import ConfigError, DataFormatError

_UNITS = ("hour", "day", "year", "step")


@dataclass(frozen=True, slots=True)
class Calendar:
    """Maps timestamps to readable dates and back.

    Args:
        unit: what one timestamp step of 1 means: ``hour``, ``day``, ``year`` or ``step`` (no date).
        origin: the date of timestamp 0: ``YYYY-MM-DD`` for hours and days, a year for years.
        step: the distance of two neighbouring times in timestamps (24 for days in hours).

    Raises:
        ConfigError: an unknown unit, or an origin that is no date.
    """

    unit: str = "step"
    origin: str = "0"
    step: int = 1

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, _UNITS, "time unit")
        check_range("step", self.step, 1)
        try:
            self._origin()
        except ValueError:
            raise ConfigError(
                f"{self.origin!r} is no date", key="origin", hint="write YYYY-MM-DD, or a year"
            ) from None

    def _origin(self) -> dt.datetime | int:
        if self.unit in ("hour", "day"):
            return dt.datetime.combine(dt.date.fromisoformat(self.origin), dt.time())
        return int(self.origin)

    def format(self, timestamp: int) -> str:
        """The date in words: ``2014-06-23``, ``1987`` or the bare number.

        Raises:
            DataFormatError: the timestamp lies beyond the years 1 to 9999.
        """
        origin = self._origin()
        if isinstance(origin, int):
            return str(origin + timestamp)
        hours = int(timestamp) * (1 if self.unit == "hour" else 24)
        try:
            moment = origin + dt.timedelta(hours=hours)
        except OverflowError:
            raise DataFormatError(
                f"the timestamp {timestamp} is no date in {self.unit}s from {self.origin}",
                hint="give the graph another calendar",
            ) from None
        return moment.date().isoformat() if moment.hour == 0 else moment.isoformat(" ", "minutes")

    def parse(self, text: str) -> int:
        """The timestamp of a date in words, the reverse of :meth:`format`.

        Raises:
            DataFormatError: the text is no date of this calendar.
        """
        origin = self._origin()
        try:
            if isinstance(origin, int):
                return int(text) - origin
            hours = (dt.datetime.fromisoformat(text) - origin) // dt.timedelta(hours=1)
        except (ValueError, TypeError):  # TypeError: a text with a time zone
            raise DataFormatError(
                f"{text!r} is no date of this graph", hint=f"for example {self.format(0)}"
            ) from None
        return hours if self.unit == "hour" else hours // 24

"""Times in words as timestamps: which form a column of dates has, and what its values are.

A time of day may name its zone (``2023-01-02T23:30:00+02:00``, ``Z``). Where all times of a column
are in one zone, they count as written: an event at half past midnight is of the day that its clock
showed. Times of several zones are put in order on one clock, that of UTC; but for days written as
midnights, which stay the days that were written, as summer time moves their zone.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from rulerag.arrays import Ints
from rulerag.composition import check_choice
from rulerag.errors import DataFormatError
from rulerag.io import excerpt
from rulerag.kg.calendar import Calendar

#: What is the first number of 02/01/2023, by the value of ``dates=``.
DATE_ORDERS = {"day-first": (0, 1), "month-first": (1, 0)}

_ZONE = r"Z|z|UTC|GMT|[+-]\d\d(?::?\d\d)?"
_CLOCK = rf"(?:[T ]+(\d{{1,2}}):(\d\d)(?::\d\d(?:[.,]\d+)?)?\s*({_ZONE})?)?"
_YEAR_FIRST = re.compile(rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}}){_CLOCK}")
_DOTS = re.compile(rf"(\d{{1,2}})\.\s?(\d{{1,2}})\.\s?(\d{{4}}){_CLOCK}")
_SLASHES = re.compile(rf"(\d{{1,2}})([/-])(\d{{1,2}})\2(\d{{4}}){_CLOCK}")
_MONTH = re.compile(r"(\d{4})-(\d{2})")
_NUMBER = re.compile(r"(-?\d+)(?:\.0+)?")
_YEARS = (1000, 2999)  # whole numbers all between these are years

_FORMS = {
    "year first": "YYYY-MM-DD",
    "dots": "DD.MM.YYYY",
    "day-first": "DD/MM/YYYY",
    "month-first": "MM/DD/YYYY",
    "month": "YYYY-MM",
    "years": "years",
    "numbers": "whole numbers",
}
_WORKS = "write 2023-01-02, 02.01.2023, 2023-01, a year or a whole number, all in one form"


@dataclass(frozen=True)
class _Moment:
    """A date with a time of day: as written, with its zone.

    Args:
        written: what date and clock show; midnight for a date alone.
        zone: how far the clock is ahead of UTC; None where no zone is named.
        has_clock: whether a time of day stands there.
    """

    written: dt.datetime
    zone: dt.timedelta | None = None
    has_clock: bool = False


@dataclass(frozen=True)
class Times:
    """The timestamps of a column.

    Args:
        values: int32 array of shape (n,), in the order of the texts.
        calendar: how they read; None for whole numbers, whose steps depend on all of them.
        form: the forms found, for reports.
    """

    values: Ints
    calendar: Calendar | None
    form: str


def read_times(
    texts: Sequence[str], fault: Callable[[int, str, str], DataFormatError], order: str | None
) -> Times:
    """The timestamps of texts: dates of any form that has one meaning, months, or whole numbers.

    Dates with slashes are read in the order that all of them allow: one 13 decides.

    Args:
        texts: the distinct times of a column, at least one.
        fault: makes the error about the text of a number, from what is wrong and what would work.
        order: a key of :data:`DATE_ORDERS` for dates with slashes; found when None.

    Raises:
        DataFormatError: from ``fault``: a text that is no time, or has two meanings.
        ConfigError: an unknown order.
    """
    if order is not None:
        check_choice("dates", order, DATE_ORDERS, "order of dates")
    kinds = [_kind(text) for text in texts]
    most = Counter(kind for kind in kinds if kind).most_common(1)
    if not most:
        raise fault(0, f"expected a time, found {excerpt(texts[0])}", _WORKS)
    wanted = most[0][0]
    for number, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        if kind != wanted:
            like = excerpt(texts[kinds.index(wanted)])
            raise fault(number, f"expected a time such as {like}, found {excerpt(text)}", _WORKS)
    if wanted == "number":
        return _numbers(texts, fault)
    if wanted == "month":
        months = [
            _moment(n, t, (*map(int, t.split("-")), 1), (), fault) for n, t in enumerate(texts)
        ]
        return _dated([month.written for month in months], "YYYY-MM, read as the first day")
    return _dates(texts, fault, order)


def _kind(text: str) -> str | None:
    if any(form.fullmatch(text) for form in (_YEAR_FIRST, _DOTS, _SLASHES)):
        return "date"
    if _MONTH.fullmatch(text):
        return "month"
    return "number" if _NUMBER.fullmatch(text) else None


def _numbers(texts: Sequence[str], fault: Callable[[int, str, str], DataFormatError]) -> Times:
    values = [int(_NUMBER.fullmatch(text)[1]) for text in texts]  # type: ignore[index]
    if all(len(text) == 8 and text[:2] in ("18", "19", "20") for text in texts):  # 20230102
        parts = [(int(text[:4]), int(text[4:6]), int(text[6:])) for text in texts]
        try:
            return _dated([dt.datetime(*part) for part in parts], "YYYYMMDD")
        except ValueError:
            pass  # numbers after all
    for number, value in enumerate(values):
        if not -(2**31) <= value < 2**31:
            hint = "write dates, such as 2023-01-02; milliseconds are too fine"
            raise fault(number, f"the time {value} is too large", hint)
    array = np.array(values, np.int32)
    if all(_YEARS[0] <= value <= _YEARS[1] for value in values):
        return Times(array, Calendar("year", "0", _step(values)), "years")
    return Times(array, None, "whole numbers")


def _dates(
    texts: Sequence[str], fault: Callable[[int, str, str], DataFormatError], order: str | None
) -> Times:
    slashes = [(n, match) for n, text in enumerate(texts) if (match := _SLASHES.fullmatch(text))]
    if slashes and order is None:
        order = _slash_order(texts, slashes, fault)
    moments, forms = [], set()
    for number, text in enumerate(texts):
        if found := _YEAR_FIRST.fullmatch(text):
            parts, clock, form = (found[1], found[3], found[4]), found.groups()[4:], "year first"
        elif found := _DOTS.fullmatch(text):
            parts, clock, form = (found[3], found[2], found[1]), found.groups()[3:], "dots"
        elif order is not None and (found := _SLASHES.fullmatch(text)):
            day, month = (found[(1, 3)[place]] for place in DATE_ORDERS[order])
            parts, clock, form = (found[4], month, day), found.groups()[4:], order
        moments.append(_moment(number, text, tuple(map(int, parts)), clock, fault))
        forms.add(_FORMS[form])
    written, zones = _on_one_clock(texts, moments, fault)
    return _dated(written, " and ".join(sorted(forms)), zones)


def _on_one_clock(
    texts: Sequence[str],
    moments: Sequence[_Moment],
    fault: Callable[[int, str, str], DataFormatError],
) -> tuple[list[dt.datetime], str]:
    """The moments by one clock, and what was done about their zones, in words."""
    written = [moment.written for moment in moments]
    zones = {moment.zone for moment in moments if moment.zone is not None}
    if not zones:
        return written, ""
    one = next(n for n, moment in enumerate(moments) if moment.zone is not None)
    for number, moment in enumerate(moments):
        if moment.zone is None and (moment.has_clock or len(zones) > 1):
            raise fault(
                number,
                f"{texts[number]!r} names no time zone, and {texts[one]!r} does",
                "name the zone of every time of day, or of none",
            )
    if len(zones) == 1:
        return written, f", all times in {dt.timezone(zones.pop())}"
    if not any(moment.written.time() != dt.time() for moment in moments):
        return written, ", midnights of several time zones read as days"
    on_utc = []
    for number, moment in enumerate(moments):
        assert moment.zone is not None  # noqa: S101 - checked above
        try:
            on_utc.append(moment.written - moment.zone)
        except OverflowError as error:
            raise fault(number, f"{texts[number]!r} is no date ({error})", _WORKS) from error
    return on_utc, ", times of several time zones read in UTC"


def _slash_order(
    texts: Sequence[str],
    slashes: Sequence[tuple[int, re.Match[str]]],
    fault: Callable[[int, str, str], DataFormatError],
) -> str:
    """Which order all dates with slashes allow."""
    day_first = next((n for n, match in slashes if int(match[1]) > 12), None)
    month_first = next((n for n, match in slashes if int(match[3]) > 12), None)
    if day_first is not None and month_first is not None:
        raise fault(
            max(day_first, month_first),
            f"{texts[day_first]!r} has the day first, {texts[month_first]!r} the month",
            "write all dates in one form, best 2023-01-02",
        )
    if day_first is None and month_first is None:
        raise fault(
            slashes[0][0],
            f"{texts[slashes[0][0]]!r} may have the day or the month first, as all others here",
            "say --dates day-first or --dates month-first (in Python dates='day-first')",
        )
    return "month-first" if day_first is None else "day-first"


def _moment(
    number: int,
    text: str,
    day: Sequence[int],
    clock: Sequence[str | None],
    fault: Callable[[int, str, str], DataFormatError],
) -> _Moment:
    """A date, with hour, minute and zone where it has a clock."""
    time, zone = [int(part) for part in clock[:2] if part], clock[2] if len(clock) > 2 else None
    try:
        return _Moment(dt.datetime(*day, *time), _zone(zone), bool(time))  # type: ignore[arg-type]
    except ValueError as error:
        hint = "the date may be mistyped, or day and month changed round: --dates says their order"
        raise fault(number, f"{text!r} is no date ({error})", hint) from error


def _zone(text: str | None) -> dt.timedelta | None:
    """How far a zone is ahead of UTC; a ValueError where there is no such zone."""
    if text is None:
        return None
    if text[0] not in "+-":
        return dt.timedelta()
    digits = text[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 14 or minutes > 59:
        raise ValueError(f"there is no time zone {text}")
    ahead = dt.timedelta(hours=hours, minutes=minutes)
    return -ahead if text[0] == "-" else ahead


def _dated(moments: Sequence[dt.datetime], form: str, zones: str = "") -> Times:
    """Days since the first one, or whole hours where a time of day is given."""
    origin = min(moments).date()
    start = dt.datetime.combine(origin, dt.time())
    if any(moment.hour or moment.minute for moment in moments):
        hours = [(moment - start) // dt.timedelta(hours=1) for moment in moments]
        calendar = Calendar("hour", origin.isoformat(), _step(hours))
        return Times(np.array(hours, np.int32), calendar, f"{form} with hours{zones}")
    days = [(moment - start).days for moment in moments]
    calendar = Calendar("day", origin.isoformat(), _step(days))
    return Times(np.array(days, np.int32), calendar, form + zones)


def _step(values: Sequence[int]) -> int:
    first = min(values)
    return gcd(*(value - first for value in values)) or 1

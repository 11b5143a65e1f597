"""The time that a question states, in the steps of a calendar."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from rulerag.errors import DataFormatError
from rulerag.kg import Calendar

_DAY = r"\d{1,4}-\d{1,2}-\d{1,2}(?: \d{1,2}:\d{2})?"
_WRITTEN = r"\d{1,2}\.? [A-Za-z]{3,9}\.?,? \d{4}|[A-Za-z]{3,9}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4}"
_DOTTED = r"\d{1,2}\.\d{1,2}\.\d{4}"
_TIME = re.compile(
    # Few blanks at a place: many of them would be tried from each one on.
    rf"[,(]?\s{{0,9}}\b(?:time|on|in|at|by|as of|during|the year|year)\s{{1,9}}"
    rf"({_DAY}|{_DOTTED}|{_WRITTEN}|\d{{4}})\b[,)]?|({_DAY}|{_DOTTED})",
    re.IGNORECASE,
)
_FORMS = ("%d.%m.%Y", "%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y")
_MONTH = r"[A-Za-z]{3,9}\.?,? (?:of )?\d{4}|\d{4}-\d{2}(?!-?\d)|\d{1,2}/\d{4}"
_MONTH_FORMS = ("%B %Y", "%b %Y", "%Y-%m", "%m/%Y")


def stated_times(text: str, calendar: Calendar) -> Iterator[tuple[int, tuple[int, int]]]:
    """The times that a question states, with where they stand, in characters.

    Known are the calendar's own form after "Time", "on", "in" and the like, ``01.12.2014``,
    ``1 December 2014`` and ``December 1, 2014``.

    Args:
        text: the question.
        calendar: of the graph.
    """
    for match in _TIME.finditer(text):
        written = match.group(1) or match.group(2)
        for form in (written, *_as_dates(written)):
            try:
                yield calendar.parse(form), match.span()
            except DataFormatError:
                continue
            break


# Where a period begins and ends, by the word before a time; it is open where nothing stands.
_BOUNDS = {
    "in": ("first", "last"), "before": ("", "before"), "prior to": ("", "before"),
    "until": ("", "last"), "till": ("", "last"), "by": ("", "last"), "up to": ("", "last"),
    "after": ("after", ""), "since": ("first", ""), "from": ("first", ""),
}  # fmt: skip
_DECADE = r"\d{3}0s"
_WHEN = rf"(?:{_DAY}|{_DOTTED}|{_WRITTEN}|{_MONTH}|{_DECADE}|\d{{4}})"
_RANGE = re.compile(
    rf"[,(]?\s{{0,9}}\b(?:between|from)\s{{1,9}}({_WHEN})\s{{1,9}}(?:and|to|until|till)"
    rf"\s{{1,9}}({_WHEN})\b[,)]?",
    re.IGNORECASE,
)
_ONE = re.compile(
    rf"[,(]?\s{{0,9}}\b(?:(in|on|at|by|as of|during|throughout|until|till|up to|before|prior to"
    rf"|after|since|from)\s{{1,9}})?(?:the (?:year |month of |end of )?|year )?({_WHEN})\b[,)]?",
    re.IGNORECASE,
)


class AskedPeriod(NamedTuple):
    """The time that facts are asked of, in the steps of a calendar; None where it is open.

    Args:
        since: its first step.
        until: its last.
        spans: where it stands in the question, in characters.
    """

    since: int | None
    until: int | None
    spans: tuple[tuple[int, int], ...]


def asked_period(text: str, calendar: Calendar) -> AskedPeriod | None:
    """The period that a question is about: "in 2014", "before May 2014", "from 2010 to 2012".

    Args:
        text: the question.
        calendar: of the graph.
    """
    if calendar.unit == "step":
        return None
    for match in _RANGE.finditer(text):
        begin, end = (_steps(written, calendar) for written in match.groups())
        if begin and end:
            return AskedPeriod(begin[0], end[-1], (match.span(),))
    for match in _ONE.finditer(text):
        steps = _steps(match.group(2), calendar)
        if steps:
            bounds = _BOUNDS.get((match.group(1) or "in").casefold(), _BOUNDS["in"])
            times = {
                "first": steps[0],
                "last": steps[-1],
                "before": steps[0] - calendar.step,
                "after": steps[-1] + calendar.step,
            }
            since, until = (times.get(one) for one in bounds)
            return AskedPeriod(since, until, (match.span(),))
    return None


def _steps(written: str, calendar: Calendar) -> list[int]:
    return [step for day in _days(written) for step in _step(day, calendar)]


def _step(day: datetime, calendar: Calendar) -> Iterator[int]:
    for form in (f"{day:%Y-%m-%d}", f"{day.year:04}"):
        try:
            yield calendar.parse(form)
        except DataFormatError:
            continue
        return


def _days(written: str) -> list[datetime]:
    """The first and the last day of what is written; none where it is no time."""
    if written.isdecimal():
        year = int(written)
        return [datetime(year, 1, 1), datetime(year, 12, 31)] if year else []
    if re.fullmatch(_DECADE, written) and (year := int(written[:-1])):
        return [datetime(year, 1, 1), datetime(year + 9, 12, 31)]
    for form in (written, *_as_dates(written)):
        try:
            return [datetime.fromisoformat(form)]
        except ValueError:
            continue
    plain = re.sub(r"[.,]|\bof ", "", written)
    for form in _MONTH_FORMS:
        try:
            first = datetime.strptime(plain, form)
        except ValueError:
            continue
        return [first, first.replace(day=monthrange(first.year, first.month)[1])]
    return []


def _as_dates(written: str) -> Iterator[str]:
    plain = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b|,|\.(?=\s)", "", written)
    for form in _FORMS:
        try:
            day = datetime.strptime(plain, form)
        except ValueError:
            continue
        yield f"{day:%Y-%m-%d}"

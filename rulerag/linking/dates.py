"""The time that a question states, in the steps of a calendar."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

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


def _as_dates(written: str) -> Iterator[str]:
    plain = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b|,|\.(?=\s)", "", written)
    for form in _FORMS:
        try:
            day = datetime.strptime(plain, form)
        except ValueError:
            continue
        yield f"{day:%Y-%m-%d}"

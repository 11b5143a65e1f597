"""Whether a short answer says the same as an accepted one: words, edits, meaning and dates.

The hybrid metric of self-explanations. Each of its parts is a function of its own; dates need
dateparser (``pip install 'rulerag[faithfulness]'``), the match by meaning any sentence encoder.

References:
    Fragkathoulas and Chlapanis 2024 (SETN, doi 10.1145/3688671.3688775), section 3.3. What it
    leaves open is said at each function.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np

from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.protocols import Encoder
from rulerag.text import normalize_answer

FUZZY, COSINE = 90.0, 0.9
"""The least similarity by edits, of 100, and the least cosine that count as the same (3.3)."""

_NUMBER = re.compile(r"\d+")
# "11 to 16" and "11 - 16" are written "11–16"; a bare hyphen may part year, month and day.
_RANGE = re.compile(r"(?<=\d)(?:\s+(?:to|until|till|through|-)\s+|\s*[–—]\s*)(?=\d)")


def exact(expected: str, output: str) -> bool:
    """The same characters, but for white space around them; never for an empty output."""
    return bool(output.strip()) and expected.strip() == output.strip()


def normalized(expected: str, output: str) -> bool:
    """The same after normalisation (SQuAD's: case, punctuation, articles, spaces)."""
    wanted = normalize_answer(expected)
    return bool(wanted) and normalize_answer(output) == wanted


def fuzzy(expected: str, output: str) -> bool:
    """A similarity by edits of 90 of 100 or more, rapidfuzz's ``ratio`` of the plain texts."""
    return bool(output.strip()) and edit_similarity(expected, output) >= FUZZY


def edit_similarity(expected: str, output: str) -> float:
    """100 times the share of characters that insertions and deletions leave alone, in [0, 100]."""
    from rapidfuzz import fuzz

    return float(fuzz.ratio(expected, output))


def same_meaning(expected: str, output: str, encoder: Encoder) -> bool:
    """A cosine of 0.9 or more between the vectors of a sentence encoder."""
    if not (expected.strip() and output.strip()):
        return False
    one, other = np.asarray(encoder.encode([expected, output]), dtype=float)
    norm = float(np.linalg.norm(one) * np.linalg.norm(other))
    return norm > 0 and float(one @ other) / norm >= COSINE


def same_dates(expected: str, output: str, *, languages: Sequence[str] = ("en",)) -> bool:
    """Whether the dates in two texts are the same; so they are where neither has one.

    Raises:
        MissingDependencyError: dateparser is not installed.
    """
    return dates_of(expected, tuple(languages)) == dates_of(output, tuple(languages))


@lru_cache(maxsize=1 << 14)
def dates_of(text: str, languages: tuple[str, ...] = ("en",)) -> tuple[tuple[str, ...], ...]:
    """The dates in a text in one form: ``2018-05-18``; and the numbers beside them.

    A month stands for its first day and a year for its first. Dates without a number (``in May``)
    and spans of time (``two weeks``) are no dates. Numbers that no date explains, as the end of
    ``August 11 to 16, 1965``, are told apart only where there is a date.

    Args:
        text: any text.
        languages: of its dates.

    Raises:
        MissingDependencyError: dateparser is not installed.
    """
    try:
        from dateparser.search import search_dates
    except ImportError as error:
        raise MissingDependencyError("dateparser", "faithfulness") from error
    if not _NUMBER.search(text):
        return ((), ())
    plain = _RANGE.sub("–", text)
    settings: Any = {
        "RELATIVE_BASE": datetime(2000, 1, 1),  # a year that is not said is always the same one
        "PREFER_DAY_OF_MONTH": "first",
        "PREFER_MONTH_OF_YEAR": "first",
        "PARSERS": ["absolute-time"],
    }
    dates = search_dates(plain, languages=list(languages), settings=settings) or []
    days = [day for _, day in dates]
    if not days:
        return ((), ())
    numbers = Counter(str(int(number)) for number in _NUMBER.findall(plain))
    for day in days:
        numbers -= Counter(str(one) for one in (day.year, day.month, day.day))
    return (tuple(f"{day:%Y-%m-%d}" for day in days), tuple(sorted(numbers.elements())))


@dataclass(frozen=True, slots=True)
class HybridCorrectness:
    """Whether an output is one of the accepted answers by the hybrid metric; a predicate.

    ``exact or ((normalized or fuzzy or same meaning) and the same dates)`` for some accepted
    answer (the paper's questions have one each).

    Args:
        answers: every accepted answer.
        encoder: of sentences, for the match by meaning; the paper names a sentence transformer.
            Without one that match is left out.
        languages: of dates.

    Raises:
        ConfigError: there is no accepted answer, or one is empty.
        MissingDependencyError: when called, if dateparser is not installed.
    """

    answers: tuple[str, ...]
    encoder: Encoder | None = None
    languages: tuple[str, ...] = ("en",)

    def __post_init__(self) -> None:
        if not self.answers or not all(answer.strip() for answer in self.answers):
            what = "an accepted answer is empty" if self.answers else "there is no accepted answer"
            raise ConfigError(what, key="answers", hint="give at least one that says something")

    def __call__(self, output: str) -> bool:
        """Whether the output is correct."""
        return any(self._same(answer, output) for answer in self.answers)

    def _same(self, expected: str, output: str) -> bool:
        if exact(expected, output):
            return True
        alike = (
            normalized(expected, output)
            or fuzzy(expected, output)
            or (self.encoder is not None and same_meaning(expected, output, self.encoder))
        )
        return alike and same_dates(expected, output, languages=self.languages)

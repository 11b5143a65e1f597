"""The hybrid metric of section 3.3, part by part and as a whole."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.explanation.correctness import (
    HybridCorrectness,
    dates_of,
    edit_similarity,
    exact,
    fuzzy,
    normalized,
    same_dates,
    same_meaning,
)

needs_extra = pytest.mark.skipif(
    importlib.util.find_spec("dateparser") is None,
    reason="needs pip install 'rulerag[faithfulness]'",
)


class Directions:
    """Texts as directions of the plane, in degrees."""

    def __init__(self, **degrees: float) -> None:
        self.degrees = degrees

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        angles = np.radians([self.degrees[text] for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def test_words_alone() -> None:
    assert exact("Paris", " Paris ") and not exact("Paris", "paris") and not exact("", "")
    assert normalized("The Beatles", "beatles!") and not normalized("...", "!")
    assert not normalized("القاهرة", "بغداد") and normalized("القاهرة", "القاهرة.")


def test_edits_are_counted_on_the_texts_as_they_are() -> None:
    # Indel distance 1 of 9 + 10 characters: 100 * (1 - 1 / 19).
    assert edit_similarity("Stevenson", "Stevenssen"[:10]) == pytest.approx(100 * (1 - 3 / 19))
    assert edit_similarity("1234567890", "123456789") == pytest.approx(100 * (1 - 1 / 19))
    assert fuzzy("1234567890", "123456789")
    # 2 of 20 is 90 and counts; 2 of 18 does not.
    assert fuzzy("abcdefghij", "abcdefghiX") and not fuzzy("abcdefghi", "abcdefghX")
    assert not fuzzy("abcdefghij", "ABCDEFGHIJ") and not fuzzy("a", " ")


def test_meaning_is_a_cosine_of_nine_tenths() -> None:
    encoder = Directions(near=0.0, just=25.8, beyond=25.9)  # cos 25.84° = 0.9
    assert same_meaning("near", "just", encoder) and not same_meaning("near", "beyond", encoder)
    assert not same_meaning("near", " ", encoder)


@needs_extra
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("May 18, 2018", "18 May 2018", True),
        ("May 18, 2018", "2018-05-18", True),
        ("May 18, 2018", "May 19, 2018", False),
        ("18th September", "September 18", True),
        ("1965", "1966", False),
        # The end of a span counts, though a date parser stops before it.
        ("August 11 to 16, 1965", "August 11–16, 1965", True),
        ("August 11 to 16, 1965", "August 11 to 18, 1965", False),
        # Without dates there is nothing to disagree about.
        ("Paris", "Lyon", True),
        ("150,782 SEK", "150,783 SEK", True),
        ("Theresa May", "Teresa May", True),
        ("Paris", "1965", False),
    ],
)
def test_dates_agree_where_they_are_the_same_days(one: str, other: str, same: bool) -> None:
    assert same_dates(one, other) is same


@needs_extra
def test_a_year_that_is_not_said_is_always_the_same_one() -> None:
    assert dates_of("4 May")[0] == ("2000-05-04",) and dates_of("March 1978")[0] == ("1978-03-01",)
    assert dates_of("18 мая 2018", ("ru",))[0] == ("2018-05-18",)


@needs_extra
@pytest.mark.parametrize(
    ("expected", "output", "degrees", "parts", "correct"),
    [
        # exact, normalised, fuzzy, meaning, dates: exact or ((one of three) and the dates)
        ("Paris", "Paris", 0, "nfed", True),
        ("Paris", "Lyon", 90, "d", False),
        ("1965", "Lyon", 90, "", False),
        ("A.B.C.", "the abc", 90, "nd", True),
        ("Grand Hotel Europa", "grand Hotel Europa", 90, "nfd", True),
        ("1/5/2001", "15/2001", 90, "nf", False),
        ("A.B.C.", "the abc", 0, "ned", True),
        ("Grand Hotel Europa", "Grand Hotel Europe", 90, "fd", True),
        ("September 18, 1965", "September 19, 1965", 90, "f", False),
        ("NYC", "New York City", 0, "ed", True),
        ("in 1965", "1966 it was", 0, "e", False),
        ("Grand Hotel Europa", "Grand Hotel Europe", 0, "fed", True),
        ("September 18, 1965", "September 19, 1965", 0, "fe", False),
        ("1/5/2001", "15/2001", 0, "nfe", False),
    ],
)
def test_the_truth_table(
    expected: str, output: str, degrees: float, parts: str, correct: bool
) -> None:
    encoder = Directions(**{expected: 0.0, output: degrees})
    values = {
        "n": normalized(expected, output),
        "f": fuzzy(expected, output),
        "e": same_meaning(expected, output, encoder),
        "d": same_dates(expected, output),
    }
    assert "".join(part for part, value in values.items() if value) == parts
    assert exact(expected, output) is (expected == output)
    assert HybridCorrectness((expected,), encoder)(output) is correct


@needs_extra
def test_any_accepted_answer_counts_and_nothing_is_no_answer() -> None:
    metric = HybridCorrectness(("1957", "August 31, 1957"))
    assert metric("31 August 1957") is False  # neither by words, edits nor (no encoder) meaning
    assert metric("August 31st, 1957") and metric("in 1957") is False and metric("1957.")
    encoder = Directions(**{"1957": 0.0, "August 31, 1957": 10.0, "31 August 1957": 20.0})
    assert HybridCorrectness(metric.answers, encoder)("31 August 1957")
    # So near in meaning, and another day.
    other = Directions(**{"August 31, 1957": 0.0, "August 30, 1957": 1.0})
    assert not HybridCorrectness(("August 31, 1957",), other)("August 30, 1957")
    assert not metric("") and not metric("  ") and not metric("...")


@pytest.mark.parametrize("answers", [(), ("",), ("Paris", " ")])
def test_an_empty_accepted_answer_is_refused(answers: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="accepted answer"):
        HybridCorrectness(answers)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dateparser.search", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'rulerag\[faithfulness\]'"):
        dates_of("1965, once")

"""Intervals: one fact for each year in which they hold, and the cut by time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rulerag.errors import ConfigError, DataFormatError, UnknownNameError
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.readers.intervals import (
    OPEN_END,
    OPEN_START,
    Intervals,
    cut_times,
)
from rulerag.types import Fact

Writer = Callable[..., Path]

VOCABULARY = {"entity2id": "ann|0\nbath|1\nely|2\n", "relation2id": "lives_in|0\n"}
TRAIN = "0|0|1|1990-##-##|1992-##-##\n0|0|2|1992-##-##|####-##-##\n"
VALID = "1|0|2|####-##-##|1991-##-##\n"
TEST = "2|0|1|1995-##-##|1994-##-##\n2|0|1|1994-##-##|1994-##-##\n"


def test_every_year_is_a_fact(tmp_path: Path, write: Writer) -> None:
    folder = write(tmp_path, train=TRAIN, valid=VALID, test=TEST, **VOCABULARY)
    graph = KnowledgeGraph.load(folder)
    assert graph.calendar == Calendar("year", "1990")
    assert graph.notes["years"] == [1990, 1995]
    assert graph.notes["intervals"] == {"train": 2, "valid": 1, "test": 2}
    assert graph.notes["intervals_without_a_year"] == 1  # it starts after its end
    assert list(graph.train) == [
        Fact("ann", "lives_in", "bath", 0),
        Fact("ann", "lives_in", "bath", 1),
        Fact("ann", "lives_in", "bath", 2),
        Fact("ann", "lives_in", "ely", 2),
        Fact("ann", "lives_in", "ely", 3),
        Fact("ann", "lives_in", "ely", 4),
        Fact("ann", "lives_in", "ely", 5),
    ]
    assert [fact.timestamp for fact in graph.valid] == [0, 1]
    assert list(graph.test) == [Fact("ely", "lives_in", "bath", 4)]


def test_a_calendar_sets_the_first_year(tmp_path: Path, write: Writer) -> None:
    folder = write(tmp_path, train=TRAIN, valid=VALID, test=TEST, **VOCABULARY)
    graph = KnowledgeGraph.load(folder, calendar=Calendar("year", "1992"))
    assert [fact.timestamp for fact in graph.train] == [0, 0, 1, 2, 3]
    graph = KnowledgeGraph.load(folder, calendar=Calendar("year", "0"))
    assert [fact.timestamp for fact in graph.valid] == [1990, 1991]
    with pytest.raises(ConfigError, match=r"in years.*Calendar\('year', '1786'\)"):
        KnowledgeGraph.load(folder, calendar=Calendar("hour", "2014-01-01", 24))


def test_a_cut_by_time(tmp_path: Path, write: Writer) -> None:
    folder = write(tmp_path, train=TRAIN, valid=VALID, test=TEST, **VOCABULARY)
    graph = KnowledgeGraph.load(folder, layout="intervals-by-time")
    times = [[fact.timestamp for fact in table] for table in graph.splits.values()]
    flat = list(chain(*times))
    assert flat == sorted(flat)
    assert all(times)
    assert all(a[-1] < b[0] for a, b in pairwise(times))
    plain = KnowledgeGraph.load(folder)
    assert {f for t in graph.splits.values() for f in t} == {
        f for t in plain.splits.values() for f in t
    }


def test_intervals_of_names(tmp_path: Path, write: Writer) -> None:
    graph = KnowledgeGraph.load(write(tmp_path, train="ann|is in|New York|1990-##-##|1991-##-##\n"))
    assert list(graph.train) == [
        Fact("ann", "is in", "New York", 0),
        Fact("ann", "is in", "New York", 1),
    ]


def test_bare_years(tmp_path: Path, write: Writer) -> None:
    folder = write(tmp_path, train="0|0|1|1990|1991\n0|0|2|1991|1991\n", **VOCABULARY)
    graph = KnowledgeGraph.load(folder, layout="intervals")
    assert [fact.timestamp for fact in graph.train] == [0, 1, 1]


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("0|0|1|1990-##-##|soon\n" + TRAIN, "line 1: expected 'subject relation object start end'"),
        (TRAIN + "0|0|1|1990-##-##\n", "line 3"),
        (TRAIN + "0||1|1990-##-##|1990-##-##\n", "line 3"),
        ("0|0|1|####-##-##|####-##-##\n", "no interval has a known date"),
    ],
)
def test_wrong_intervals(train: str, message: str, tmp_path: Path, write: Writer) -> None:
    with pytest.raises(DataFormatError, match=message):
        KnowledgeGraph.load(write(tmp_path, train=train, **VOCABULARY))


def test_unknown_ids_of_intervals(tmp_path: Path, write: Writer) -> None:
    folder = write(tmp_path, train=TRAIN + "0|1|1|1990-##-##|1990-##-##\n", **VOCABULARY)
    with pytest.raises(UnknownNameError, match=r"train\.txt, line 3: the relation '1'"):
        KnowledgeGraph.load(folder)


_YEARS = st.none() | st.integers(-5, 12)


@given(st.lists(st.tuples(_YEARS, _YEARS), max_size=12), st.integers(-6, 12), st.integers(-6, 12))
def test_expansion_against_the_rule_spelt_out(
    intervals: list[tuple[int | None, int | None]], first: int, last: int
) -> None:
    start = [OPEN_START if a is None else a for a, _ in intervals]
    end = [OPEN_END if b is None else b for _, b in intervals]
    years_of = (np.array(years, np.int64) for years in (start, end))
    rows, years = Intervals(*years_of).expand(first, last)
    expected = [
        (i, year)
        for year in range(first, last + 1)
        for i, (a, b) in enumerate(intervals)
        if (a is None or a <= year) and (b is None or year <= b)
    ]
    assert list(zip(rows.tolist(), years.tolist(), strict=True)) == expected


@given(st.lists(st.integers(0, 30), min_size=3, max_size=80).filter(lambda x: len(set(x)) > 2))
def test_cuts_leave_no_split_empty(years: list[int]) -> None:
    valid, test = cut_times(np.array(sorted(years), np.int32))
    assert min(years) < valid < test <= max(years)

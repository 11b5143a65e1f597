"""Facts that hold from a start to an end: reading them, and one fact for each time step.

The rule (Dasgupta et al. 2018, HyTE; Jin et al. 2020, RE-Net, arXiv:1904.05530): the year of a
date is what stands before its first ``-``; an unknown start is minus infinity, an unknown end plus
infinity; every year of a window repeats each fact that holds in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rulerag.arrays import Ints, Longs
from rulerag.errors import ConfigError, DataFormatError
from rulerag.io import excerpt, read_lines
from rulerag.kg.calendar import Calendar
from rulerag.kg.readers.detect import (
    COLUMN_ORDERS,
    GraphFiles,
    RawGraph,
    is_interval_date,
)
from rulerag.kg.readers.integers import read_vocabularies
from rulerag.kg.readers.known_graphs import recognise
from rulerag.kg.readers.tables import Facts

#: Stands for an unknown start or end.
OPEN_START, OPEN_END = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class Intervals:
    """The years in which facts hold, all ends included.

    Args:
        start: int64 array of shape (n,), first years; :data:`OPEN_START` where unknown.
        end: int64 array of shape (n,), last years; :data:`OPEN_END` where unknown.
    """

    start: Longs
    end: Longs

    @property
    def known_years(self) -> tuple[int, int]:
        """The earliest and the latest year that a date states.

        Raises:
            DataFormatError: no date is known.
        """
        years = np.concatenate([self.start, self.end])
        years = years[(years != OPEN_START) & (years != OPEN_END)]
        if not len(years):
            raise DataFormatError(
                "no interval has a known date", hint="nothing can be placed in time"
            )
        return int(years.min()), int(years.max())

    def expand(self, first: int, last: int) -> tuple[Longs, Ints]:
        """One entry for each year from first to last in which a fact holds.

        Returns:
            The rows of the facts and their years, by year and within a year in line order. A fact
            whose start is after its end, or that lies outside the window, has no entry.
        """
        low = np.maximum(self.start, first)
        counts = np.maximum(np.minimum(self.end, last) - low + 1, 0)
        rows = np.repeat(np.arange(len(counts)), counts)
        offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        years = (low[rows] + offsets).astype(np.int32)
        order = np.argsort(years, kind="stable")
        return rows[order], years[order]


def read_intervals(files: GraphFiles, columns: str | None, calendar: Calendar | None) -> RawGraph:
    """One fact for each year; the splits of the files, or cut anew by time.

    Args:
        files: the files.
        columns: the order of subject, relation and object; ``hrt`` when None.
        calendar: years; those of a public graph, or since the first, when None.

    Raises:
        DataFormatError: a line of another form, or no known date.
        UnknownNameError: a name that the vocabulary files lack.
        ConfigError: the calendar has no years.
    """
    facts, intervals = gather_intervals(files.splits)
    given = read_vocabularies(files) if files.vocabularies else None
    order = COLUMN_ORDERS[columns or "hrt"]
    entities, relations, ids = facts.with_ids(order, given, coded=files.coded)
    known = recognise(entities, relations)
    calendar = calendar or (known.calendar if known else None)
    if calendar is not None and calendar.unit != "year":
        raise ConfigError(
            f"intervals are counted in years, not in units of {calendar.unit}",
            key="calendar",
            hint="for example Calendar('year', '1786')",
        )
    first, last = intervals.known_years
    origin = first if calendar is None else int(calendar.origin)
    first, last = max(first, origin), min(last, origin + known.last) if known else last
    rows, years = intervals.expand(first, last)
    table = np.column_stack([ids[rows], years - np.int32(origin)])
    sizes = {split: len(part) for split, part in facts.by_split(ids).items()}
    if files.layout == "intervals":
        file = np.repeat(np.arange(len(sizes)), list(sizes.values()))[rows]
        splits = {split: table[file == number] for number, split in enumerate(sizes)}
    else:
        starts = known.cuts if known and known.cuts else cut_times(table[:, 3])
        parts = np.split(table, np.searchsorted(table[:, 3], starts))
        splits = dict(zip(("train", "valid", "test"), parts, strict=True))
    notes: dict[str, object] = {
        "intervals": sizes,
        "intervals_without_a_year": len(ids) - len(np.unique(rows)),
        "years": [first, last],
    }
    return RawGraph(entities, relations, splits, Calendar("year", str(origin)), notes)


def gather_intervals(splits: Mapping[str, Path]) -> tuple[Facts, Intervals]:
    """The facts of files with lines ``subject relation object start end``, and their years.

    Raises:
        DataFormatError: a line of another form; names file and line.
    """
    facts = Facts(times=2)
    for split, path in splits.items():
        facts.add(split, _records(path), path)
    ends = (
        np.array([_year(text, unknown) for text in facts.texts_of_times], np.int64)[column]
        for column, unknown in zip(facts.table[:, 3:].T, (OPEN_START, OPEN_END), strict=True)
    )
    return facts, Intervals(*ends)


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line, with its number."""
    for number, line in read_lines(path):
        parts = line.split("\t")
        if len(parts) != 5 or "" in parts or not all(map(_is_year, parts[3:])):
            raise DataFormatError(
                f"expected 'subject relation object start end', found {excerpt(line)}",
                path=path,
                line=number,
                hint="dates are written 1946-##-##, unknown ones ####-##-##",
            )
        yield number, parts


def cut_times(times: Ints, fractions: Sequence[float] = (0.8, 0.9)) -> tuple[int, int]:
    """The times at which valid and test begin, so that train and valid hold about these fractions.

    Args:
        times: the times of all facts.
        fractions: of the facts before valid, and before test.
    """
    distinct, counts = np.unique(times, return_counts=True)
    before = np.cumsum(counts) - counts
    cuts = [int(np.abs(before - fraction * len(times)).argmin()) for fraction in fractions]
    valid = min(max(cuts[0], 1), max(len(distinct) - 2, 0))
    test = min(max(cuts[1], valid + 1), len(distinct) - 1)
    return int(distinct[valid]), int(distinct[test])


def _is_year(text: str) -> bool:
    return is_interval_date(text) or text.removeprefix("-").isdigit()


def _year(text: str, unknown: int) -> int:
    if text.startswith("####"):
        return unknown
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    return sign * int(digits.partition("-")[0])

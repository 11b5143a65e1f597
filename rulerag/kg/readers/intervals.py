"""Facts that hold from a start to an end: reading them, and one fact for each time step.

The rule (Dasgupta et al. 2018, HyTE; Jin et al. 2020, RE-Net, arXiv:1904.05530): the year of a
date is what stands before its first ``-``; an unknown start is minus infinity, an unknown end plus
infinity; every year of a window repeats each fact that holds in it.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    unknown_name,
)
from rulerag.kg.readers.integers import read_vocabularies
from rulerag.kg.readers.known_graphs import recognise

#: Stands for an unknown start or end.
OPEN_START, OPEN_END = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class IntervalFacts:
    """Facts of several files with the years in which they hold, all ends included.

    Args:
        fields: the texts before the two dates, one list of three for each fact.
        start: int64 array of shape (n,), first years; :data:`OPEN_START` where unknown.
        end: int64 array of shape (n,), last years; :data:`OPEN_END` where unknown.
        places: the number of the file and the line of each fact.
    """

    fields: list[list[str]]
    start: Longs
    end: Longs
    places: list[tuple[int, int]]

    @classmethod
    def read(cls, *paths: Path) -> IntervalFacts:
        """Read lines ``subject relation object start end``, one file after another.

        Raises:
            DataFormatError: a line of another form; names file and line.
        """
        rows, places = [], []
        for file, path in enumerate(paths):
            for number, line in read_lines(path):
                parts = line.split("\t")
                if len(parts) != 5 or "" in parts or not all(map(_is_year, parts[3:])):
                    raise DataFormatError(
                        f"expected 'subject relation object start end', found {excerpt(line)}",
                        path=path,
                        line=number,
                        hint="dates are written 1946-##-##, unknown ones ####-##-##",
                    )
                rows.append(parts)
                places.append((file, number))
        start = np.array([_year(row[3], OPEN_START) for row in rows], np.int64)
        end = np.array([_year(row[4], OPEN_END) for row in rows], np.int64)
        return cls([row[:3] for row in rows], start, end, places)

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
        rows = np.repeat(np.arange(len(self.fields)), counts)
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
    facts = IntervalFacts.read(*files.splits.values())
    entities, relations, ids = _ids(files, facts, COLUMN_ORDERS[columns or "hrt"])
    known = recognise(entities, relations)
    calendar = calendar or (known.calendar if known else None)
    if calendar is not None and calendar.unit != "year":
        raise ConfigError(
            f"intervals are counted in years, not in units of {calendar.unit}",
            key="calendar",
            hint="for example Calendar('year', '1786')",
        )
    first, last = facts.known_years
    origin = first if calendar is None else int(calendar.origin)
    first, last = max(first, origin), min(last, origin + known.last) if known else last
    rows, years = facts.expand(first, last)
    table = np.column_stack([ids[rows], years - np.int32(origin)])
    if files.layout == "intervals":
        file = np.array([file for file, _ in facts.places])[rows]
        splits = {split: table[file == number] for number, split in enumerate(files.splits)}
    else:
        starts = known.cuts if known and known.cuts else cut_times(table[:, 3])
        parts = np.split(table, np.searchsorted(table[:, 3], starts))
        splits = dict(zip(("train", "valid", "test"), parts, strict=True))
    sizes = np.bincount([file for file, _ in facts.places], minlength=len(files.splits))
    notes: dict[str, object] = {
        "intervals": dict(zip(files.splits, sizes.tolist(), strict=True)),
        "intervals_without_a_year": len(facts.fields) - len(np.unique(rows)),
        "years": [first, last],
    }
    return RawGraph(entities, relations, splits, Calendar("year", str(origin)), notes)


def _ids(
    files: GraphFiles, facts: IntervalFacts, order: Sequence[int]
) -> tuple[list[str], list[str], Ints]:
    """Both vocabularies, and the ids of subject, relation and object of each fact."""
    rows = [[row[place] for place in order] for row in facts.fields]
    if files.vocabularies:
        entities, relations = read_vocabularies(files)
    else:
        entities = list(dict.fromkeys(row[end] for row in rows for end in (0, 2)))
        relations = list(dict.fromkeys(row[1] for row in rows))
    entity, relation = (
        {str(i) if files.coded else name: i for i, name in enumerate(names)}
        for names in (entities, relations)
    )
    ids = [[entity.get(s, -1), relation.get(r, -1), entity.get(o, -1)] for s, r, o in rows]
    for row, texts, (file, line) in zip(ids, rows, facts.places, strict=True):
        if -1 in row:
            place = row.index(-1)
            raise unknown_name(texts[place], place, list(files.splits.values())[file], line)
    return entities, relations, np.array(ids, np.int32).reshape(-1, 3)


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

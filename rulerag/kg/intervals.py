"""Facts that hold from a start to an end: reading them, and one fact for each time step.

The rule (Dasgupta et al. 2018, HyTE; Jin et al. 2020, RE-Net, arXiv:1904.05530): the year of a
date is what stands before its first ``-``; an unknown start is minus infinity, an unknown end plus
infinity; every year of a window repeats each fact that holds in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rulerag.errors import DataFormatError
from rulerag.kg.layouts import is_interval_date
from rulerag.kg.tables import excerpt, read_lines

__all__ = ["OPEN_END", "OPEN_START", "IntervalFacts", "cut_years", "read_intervals", "year_window"]

Ints = npt.NDArray[np.int32]

#: Stands for an unknown start or end.
OPEN_START, OPEN_END = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class IntervalFacts:
    """Facts with the years in which they hold, all ends included.

    Args:
        fields: the texts before the two dates, one list of three for each fact.
        start: int64 array of shape (n,), first years; :data:`OPEN_START` where unknown.
        end: int64 array of shape (n,), last years; :data:`OPEN_END` where unknown.
        lines: int64 array of shape (n,), the line of each fact in its file.
    """

    fields: list[list[str]]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.fields)

    @classmethod
    def join(cls, parts: Iterable[IntervalFacts]) -> IntervalFacts:
        """The facts of several files, one after another."""
        tables = list(parts)
        columns = zip(*((t.start, t.end, t.lines) for t in tables), strict=True)
        fields = [row for table in tables for row in table.fields]
        return cls(fields, *(np.concatenate(column) for column in columns))

    @property
    def known_years(self) -> tuple[int, int] | None:
        """The earliest and the latest year that is told; None when none is."""
        told = np.concatenate(
            [self.start[self.start != OPEN_START], self.end[self.end != OPEN_END]]
        )
        return (int(told.min()), int(told.max())) if len(told) else None

    def expand(self, first: int, last: int) -> tuple[npt.NDArray[np.int64], Ints]:
        """One entry for each year from first to last in which a fact holds.

        Returns:
            The rows of the facts and their years, by year and within a year in line order. A fact
            whose start is after its end, or that lies outside the window, has no entry.
        """
        low = np.maximum(self.start, first)
        counts = np.maximum(np.minimum(self.end, last) - low + 1, 0)
        rows = np.repeat(np.arange(len(self)), counts)
        offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        years = (low[rows] + offsets).astype(np.int32)
        order = np.argsort(years, kind="stable")
        return rows[order], years[order]


def read_intervals(path: Path) -> IntervalFacts:
    """Read ``subject relation object start end``.

    Raises:
        DataFormatError: a line of another form; names the line.
    """
    fields, starts, ends, lines = [], [], [], []
    for number, line in read_lines(path):
        parts = line.split("\t")
        dates = parts[3:]
        if len(parts) != 5 or "" in parts or not all(_is_year(date) for date in dates):
            raise DataFormatError(
                f"expected 'subject relation object start end', found {excerpt(line)}",
                path=path,
                line=number,
                hint="dates are written 1946-##-##, unknown ones ####-##-##",
            )
        fields.append(parts[:3])
        starts.append(_year(dates[0], OPEN_START))
        ends.append(_year(dates[1], OPEN_END))
        lines.append(number)
    return IntervalFacts(fields, *(np.array(c, np.int64) for c in (starts, ends, lines)))


def cut_years(years: Ints, shares: Sequence[float] = (0.8, 0.9)) -> tuple[int, int]:
    """The years at which valid and test begin, so that train and valid hold about these shares.

    Args:
        years: sorted years of all facts.
        shares: the parts of the facts before valid, and before test.
    """
    distinct, counts = np.unique(years, return_counts=True)
    before = np.cumsum(counts) - counts
    cuts = [int(np.abs(before - share * len(years)).argmin()) for share in shares]
    valid = min(max(cuts[0], 1), max(len(distinct) - 2, 0))
    test = min(max(cuts[1], valid + 1), len(distinct) - 1)
    return int(distinct[valid]), int(distinct[test])


def year_window(facts: Mapping[str, IntervalFacts]) -> tuple[int, int]:
    """The years from the earliest to the latest that some split tells.

    Raises:
        DataFormatError: no date is known.
    """
    known = [f.known_years for f in facts.values()]
    told = [years for years in known if years is not None]
    if not told:
        raise DataFormatError("no interval has a known date", hint="nothing can be placed in time")
    return min(low for low, _ in told), max(high for _, high in told)


def _is_year(text: str) -> bool:
    return is_interval_date(text) or text.removeprefix("-").isdigit()


def _year(text: str, unknown: int) -> int:
    if text.startswith("####"):
        return unknown
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    return sign * int(digits.partition("-")[0])

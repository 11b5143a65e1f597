"""Tables of facts with a header: CSV, TSV and the like, and rows from anywhere else.

A fact is the cells of four columns, found by their names or named; what is left out is counted with
its reason and the first line of each.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rulerag.arrays import Ints
from rulerag.errors import DataFormatError, EmptyDataError
from rulerag.io import excerpt
from rulerag.kg.readers.dates import read_times
from rulerag.kg.readers.detect import GraphFiles, RawGraph, unknown_name
from rulerag.kg.readers.headers import ROLES, Header, find_header, find_sheet

if TYPE_CHECKING:
    from rulerag.kg.coding import CodedLines


@dataclass
class Facts:
    """Facts by name, gathered row by row: what the readers of all layouts with names share.

    Args:
        times: how many columns of times follow subject, relation and object.
    """

    times: int = 0
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)
    _times: dict[str, int] = field(default_factory=dict)
    _codes: array[int] = field(default_factory=lambda: array("i"))
    _lines: array[int] = field(default_factory=lambda: array("i"))
    _splits: dict[str, slice] = field(default_factory=dict)
    _sources: list[tuple[int, Path | None, str | None]] = field(default_factory=list)

    def leave_out(self, why: str, line: int, count: int = 1) -> None:
        """Count what makes no fact, and keep the first line of each reason."""
        self.left_out.setdefault(why, {"rows": 0, "first_line": line})["rows"] += count

    def add(
        self,
        split: str,
        rows: Iterable[tuple[int, Sequence[str]]],
        path: Path | None = None,
        time: str | None = None,
    ) -> None:
        """Add the facts of a source to a split; one split after another.

        Args:
            split: the split.
            rows: three names and the times, each row with its line.
            path: where they are from.
            time: what the column of times is called, for messages.
        """
        start = len(self._lines)
        self._sources.append((start, path, time))
        names, times = self._names, self._times
        for line, cells in rows:
            self._codes.extend([names.setdefault(cell, len(names)) for cell in cells[:3]])
            self._codes.extend([times.setdefault(cell, len(times)) for cell in cells[3:]])
            self._lines.append(line)
        known = self._splits.get(split, slice(start, start))
        self._splits[split] = slice(known.start, len(self._lines))

    def add_coded(self, split: str, lines: CodedLines, path: Path, first: int) -> None:
        """Add the facts of coded lines, the first of which has that number, as :meth:`add` does."""
        start = len(self._lines)
        self._sources.append((start, path, None))
        table = np.empty_like(lines.codes)
        for known, texts, places in (
            (self._names, lines.names, slice(0, 3)),
            (self._times, lines.times, slice(3, None)),
        ):
            if not known:
                known.update(zip(texts, range(len(texts)), strict=True))
                table[:, places] = lines.codes[:, places]
                continue
            ids = [known.setdefault(text, len(known)) for text in texts]
            table[:, places] = np.array(ids, np.int32)[lines.codes[:, places]]
        self._codes.frombytes(table.tobytes())
        numbers = np.arange(first, first + len(table), dtype=np.int32)
        self._lines.frombytes(numbers.tobytes())
        self._splits[split] = slice(start, len(self._lines))

    @property
    def table(self) -> Ints:
        """Codes of the names and of the times, an array of shape (n, 3 + times)."""
        return np.frombuffer(self._codes, np.int32).reshape(-1, 3 + self.times)

    @property
    def names(self) -> list[str]:
        """The distinct names, by code."""
        return list(self._names)

    @property
    def texts_of_times(self) -> list[str]:
        """The distinct times, by code."""
        return list(self._times)

    def by_split(self, rows: Ints) -> dict[str, Ints]:
        """The rows of an array of shape (n, k), one a fact, by split."""
        return {split: rows[part] for split, part in self._splits.items()}

    def with_ids(
        self,
        order: Sequence[int] = (0, 1, 2),
        vocabularies: tuple[list[str], list[str]] | None = None,
        *,
        coded: bool = False,
    ) -> tuple[list[str], list[str], Ints]:
        """The names of entities and of relations, and each fact as ids, shape (n, 3).

        Args:
            order: which of the three columns are subject, relation and object.
            vocabularies: both names by id; ids follow first appearance, a fact's subject before its
                object, when None.
            coded: whether the texts are ids of the vocabularies already.

        Raises:
            UnknownNameError: a name that the vocabularies lack; names its file and line.
        """
        facts, names = self.table[:, order], list(self._names)
        ids, both = np.empty_like(facts), []
        for kind, places in enumerate(([0, 2], [1])):
            used = np.zeros(len(names), bool)  # codes follow first appearance
            used[facts[:, places]] = True
            if vocabularies is None:
                both.append(list(compress(names, used)))
                id_of = np.cumsum(used, dtype=np.int32) - 1
            else:
                both.append(vocabularies[kind])
                number = {str(i) if coded else name: i for i, name in enumerate(both[-1])}
                id_of = np.array([number.get(name, -1) for name in names], np.int32)
            ids[:, places] = id_of[facts[:, places]]
        for row, place in np.argwhere(ids < 0).tolist():
            known = () if coded else both[place % 2]
            raise unknown_name(names[facts[row, place]], place, *self._place(row)[:2], known)
        return both[0], both[1], ids

    def fault_of_time(self, code: int, message: str, hint: str | None = None) -> DataFormatError:
        """The error about a time, at the first fact that has it."""
        fact = int(np.flatnonzero((self.table[:, 3:] == code).any(axis=1))[0])
        path, line, column = self._place(fact)
        return DataFormatError(message, path=path, line=line, key=column, hint=hint)

    def _place(self, fact: int) -> tuple[Path | None, int, str | None]:
        """File, line and column of times of a fact."""
        _, path, column = next(one for one in reversed(self._sources) if one[0] <= fact)
        return path, self._lines[fact], column

    def graph(self, notes: Mapping[str, object], dates: str | None = None) -> RawGraph:
        """The graph of all facts added, their times in any form of dates.

        Args:
            notes: what the reader saw, for reports.
            dates: the order of dates with slashes, a key of
                :data:`~rulerag.kg.readers.dates.DATE_ORDERS`; found when None.

        Raises:
            DataFormatError: a text is no time; names its file, line and column.
            EmptyDataError: there is no fact.
        """
        if not len(self.table):
            why = "; ".join(
                f"{one} ({entry['rows']:,} times)" for one, entry in self.left_out.items()
            )
            raise EmptyDataError(f"holds no fact: {why or 'no row below the header'}")
        entities, relations, ids = self.with_ids()
        report, calendar = dict(notes), None
        if self.times:
            read = read_times(self.texts_of_times, self.fault_of_time, dates)
            ids = np.column_stack([ids, read.values[self.table[:, 3]]])
            calendar, report["dates"] = read.calendar, read.form
        splits = self.by_split(ids)
        return RawGraph(entities, relations, splits, calendar, report, left_out=self.left_out)


def add_columns(
    facts: Facts,
    split: str,
    header: Header,
    rows: Iterable[tuple[int, Sequence[str]]],
    path: Path | None = None,
) -> None:
    """Add the facts that some columns of rows make.

    Args:
        facts: added to.
        split: the split.
        header: which cells make a fact.
        rows: the rows, each with its line.
        path: where they are from.

    Raises:
        DataFormatError: rows have another width, or most have an empty cell.
    """
    width = len(header.names) or max(header.columns.values()) + 1
    roles = [role for role in ROLES if role in header.columns]
    numbers = [header.columns[role] for role in roles]
    empty, seen = Counter[str](), 0

    def whole() -> Iterator[tuple[int, Sequence[str]]]:
        nonlocal seen
        for line, row in rows:
            seen += 1
            if len(row) < width or (header.names and any(row[width:])):
                raise _width(row, header, width, path, line)
            cells = [row[number] for number in numbers]
            if "" not in cells:
                yield line, cells
                continue
            role = roles[cells.index("")]
            empty[role] += 1
            facts.leave_out(f"the column {header.name(role)!r} is empty", line)

    facts.add(split, whole(), path, header.name(roles[-1]))
    for role, count in empty.items():
        if 2 * count > seen:
            hint = "say time=none in --columns to read the facts without dates"
            raise DataFormatError(
                f"the column is empty in {count:,} of {seen:,} rows",
                path=path,
                key=header.name(role),
                hint=hint if role == "time" else f"name another column as the {role}",
            )


def read_table(
    files: GraphFiles, columns: str | Mapping[str, str] | None, dates: str | None
) -> RawGraph:
    """Read tables of facts, one a split.

    Args:
        files: the files.
        columns: the columns by role, as :func:`~rulerag.kg.readers.headers.read_columns` takes
            them; found from their names when None.
        dates: the order of dates with slashes; found when None.

    Raises:
        DataFormatError: columns, a row or a date cannot be read; names file, line and column.
        EmptyDataError: there is no fact.
        ConfigError: ``columns`` or ``dates`` names what is not there.
    """
    sheets = {split: find_sheet(path) for split, path in files.splits.items()}
    headers = {split: find_header(sheet, columns) for split, sheet in sheets.items()}
    first = headers["train"]
    facts = Facts(int("time" in first.columns))
    for split, sheet in sheets.items():
        header = headers[split]
        if header.columns.keys() != first.columns.keys():
            raise DataFormatError(
                f"has no dates, and {files.splits['train'].name} has, or the other way round",
                path=sheet.path,
                hint="give every split a date column, or say time=none in --columns",
            )
        rows = islice(sheet.rows(), int(bool(header.names)), None)
        add_columns(facts, split, header, rows, sheet.path)
    try:
        return facts.graph(
            {
                "columns": {role: first.name(role) for role in first.columns},
                "other_columns": first.others,
                "parted_by": sheets["train"].parted_by,
            },
            dates,
        )
    except EmptyDataError as error:
        raise EmptyDataError(error.message, path=files.splits["train"]) from error


def _width(
    row: Sequence[str], header: Header, width: int, path: Path | None, line: int
) -> DataFormatError:
    named = f" ({', '.join(header.names)})" if header.names else ""
    return DataFormatError(
        f"expected {width} columns{named}, found {len(row)}: {excerpt(' | '.join(row))}",
        path=path,
        line=line,
        hint="a cell that holds the sign between columns is written in quotes"
        if len(row) > width
        else "every row has a cell for each column, an empty one too; a quote may be missing",
    )

"""Tables of facts with a header: CSV, TSV and the like, and rows from anywhere else.

A fact is the cells of four columns, found by their names or named; what is left out is counted with
its reason and the first line of each.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from rulerag.arrays import Ints
from rulerag.errors import DataFormatError, EmptyDataError
from rulerag.io import excerpt
from rulerag.kg.readers.dates import read_times
from rulerag.kg.readers.detect import GraphFiles, RawGraph
from rulerag.kg.readers.headers import ROLES, Header, find_header, find_sheet


@dataclass
class Facts:
    """Facts by name, gathered row by row from one or several sources.

    Args:
        dated: whether facts have times.
        dates: the order of dates with slashes, a key of
            :data:`~rulerag.kg.readers.dates.DATE_ORDERS`; found when None.
    """

    dated: bool
    dates: str | None = None
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    _names: tuple[dict[str, int], ...] = field(default_factory=lambda: ({}, {}, {}))
    _codes: array[int] = field(default_factory=lambda: array("i"))
    _lines: array[int] = field(default_factory=lambda: array("i"))
    _splits: list[tuple[str, int]] = field(default_factory=list)
    _sources: list[tuple[int, Path | None, str]] = field(default_factory=list)

    def leave_out(self, why: str, line: int, count: int = 1) -> None:
        """Count what makes no fact, and keep the first line of each reason."""
        self.left_out.setdefault(why, {"rows": 0, "first_line": line})["rows"] += count

    def add(
        self,
        split: str,
        header: Header,
        rows: Iterable[tuple[int, list[str]]],
        path: Path | None = None,
    ) -> None:
        """Add the facts of a source to a split; one split after another.

        Args:
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
        entities, relations, times = self._names
        known = (entities, relations, entities, times)[: len(roles)]
        self._sources.append((len(self._lines), path, header.name(roles[-1])))
        empty, seen = Counter[str](), 0
        for line, row in rows:
            seen += 1
            if len(row) < width or (header.names and any(row[width:])):
                raise _width(row, header, width, path, line)
            cells = [row[number] for number in numbers]
            if "" in cells:
                role = roles[cells.index("")]
                empty[role] += 1
                self.leave_out(f"the column {header.name(role)!r} is empty", line)
                continue
            self._codes.extend(
                names.setdefault(cell, len(names)) for names, cell in zip(known, cells, strict=True)
            )
            self._lines.append(line)
        self._splits.append((split, len(self._lines)))
        for role, count in empty.items():
            if 2 * count > seen:
                hint = "say time=none in --columns to read the facts without dates"
                raise DataFormatError(
                    f"the column is empty in {count:,} of {seen:,} rows",
                    path=path,
                    key=header.name(role),
                    hint=hint if role == "time" else f"name another column as the {role}",
                )

    def finished(self, notes: Mapping[str, object]) -> RawGraph:
        """The graph of all facts added.

        Raises:
            DataFormatError: a text is no time; names its file, line and column.
            EmptyDataError: there is no fact.
        """
        entities, relations, times = self._names
        table = np.frombuffer(self._codes, np.int32).reshape(-1, 4 if self.dated else 3)
        if not len(table):
            why = "; ".join(
                f"{one} ({entry['rows']:,} times)" for one, entry in self.left_out.items()
            )
            raise EmptyDataError(f"holds no fact: {why or 'no row below the header'}")
        report, calendar = dict(notes), None
        if self.dated:
            read = read_times(list(times), partial(self._fault, table[:, 3]), self.dates)
            table = np.column_stack([table[:, :3], read.values[table[:, 3]]])
            calendar, report["dates"] = read.calendar, read.form
        splits, start = {}, 0
        for split, end in dict(self._splits).items():
            splits[split], start = table[start:end], end
        return RawGraph(
            list(entities), list(relations), splits, calendar, report, left_out=self.left_out
        )

    def _fault(self, times: Ints, text: int, message: str, hint: str) -> DataFormatError:
        """The error about a time, at the first fact that has it."""
        fact = int(np.flatnonzero(times == text)[0])
        _, path, column = next(one for one in reversed(self._sources) if one[0] <= fact)
        line = self._lines[fact]
        return DataFormatError(message, path=path, line=line, key=column, hint=hint)


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
    facts = Facts("time" in first.columns, dates)
    for split, sheet in sheets.items():
        header = headers[split]
        if header.columns.keys() != first.columns.keys():
            raise DataFormatError(
                f"has no dates, and {files.splits['train'].name} has, or the other way round",
                path=sheet.path,
                hint="give every split a date column, or say time=none in --columns",
            )
        facts.add(split, header, islice(sheet.rows(), int(bool(header.names)), None), sheet.path)
    try:
        return facts.finished(
            {
                "columns": {role: first.name(role) for role in first.columns},
                "other_columns": first.others,
                "parted_by": sheets["train"].parted_by,
            }
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

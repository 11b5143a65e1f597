"""Facts as ids, and the vocabulary files that name them; every complaint names file and line.

Columns are separated by TAB (OpenKE: by one ASCII space too) and by nothing else: names hold
spaces, and some hold U+00A0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from rulerag.arrays import Ints
from rulerag.errors import DataFormatError
from rulerag.io import excerpt, read_bytes, read_lines
from rulerag.kg.readers.detect import COLUMN_ORDERS, GraphFiles, RawGraph, unknown_name

_INTEGER = re.compile(r"-?\d+", re.ASCII)
_HEAD = 1 << 16  # bytes that hold the first lines


def read_ids(files: GraphFiles, columns: str | None) -> RawGraph:
    """Read quadruples, OpenKE triples or TAB-separated triples of ids.

    Args:
        files: the files.
        columns: the order of triples, a key of :data:`~rulerag.kg.readers.detect.COLUMN_ORDERS`;
            ``hrt``
            when None.

    Raises:
        DataFormatError: a line, a count or ``stat.txt`` is wrong.
        UnknownNameError: an id without a name.
    """
    entities, relations = read_vocabularies(files)
    openke, dated = files.layout == "openke", files.layout == "quadruples"
    places = (0, 1, 2, 3) if dated else COLUMN_ORDERS["htr" if openke else columns or "hrt"]
    limits = np.array([len(entities), len(relations), len(entities)])
    splits = {}
    for split, path in files.splits.items():
        separators = " \t" if openke else "\t"
        table = read_integers(
            path, columns=(4, 5) if dated else (3,), separators=separators, counted=openke
        )
        splits[split] = rows = table[:, places]
        wrong = (rows[:, :3] < 0) | (rows[:, :3] >= limits)
        if wrong.any():
            row, place = (int(i) for i in np.argwhere(wrong)[0])
            line = next(islice(read_lines(path), row + openke, None))[0]
            raise unknown_name(str(rows[row, place]), place, path, line)
    _check_stat(files, len(entities), len(relations))
    return RawGraph(entities, relations, splits)


def _check_stat(files: GraphFiles, entities: int, relations: int) -> None:
    """``stat.txt`` counts entities and relations; other counts mean files of two graphs."""
    if files.stat is None:
        return
    counts = read_bytes(files.stat).split()
    if len(counts) < 2 or not all(c.isdigit() for c in counts[:2]):
        raise DataFormatError(
            "expected 'entities TAB relations TAB …'",
            path=files.stat,
            line=1,
            hint="correct the file or remove it",
        )
    if [int(c) for c in counts[:2]] != [entities, relations]:
        raise DataFormatError(
            f"says {int(counts[0]):,} entities and {int(counts[1]):,} relations; "
            f"entity2id.txt and relation2id.txt hold {entities:,} and {relations:,}",
            path=files.stat,
            hint="the files may be of two graphs; remove stat.txt to load them as they are",
        )


def read_integers(
    path: Path, *, columns: Sequence[int], separators: str = "\t", counted: bool = False
) -> Ints:
    """A table of whole numbers, all rows of one width; empty lines are passed over.

    Args:
        path: the file.
        columns: the widths that are allowed; the first row chooses.
        separators: the characters that separate columns.
        counted: whether the first line is the number of rows.

    Returns:
        An int32 array of shape (rows, columns).

    Raises:
        DataFormatError: a row of another form, or a count that disagrees.
    """
    lines = read_lines(path, _HEAD)
    count = _count(path, *next(lines, (1, ""))) if counted and read_bytes(path, 1) else None
    first = next(lines, (0, ""))[1]
    table = _read_fast(path, first, separators, skip=int(counted))
    if table is None or table.shape[1] not in columns:
        rows = list(_read_slowly(path, columns, separators, skip=int(counted)))
        table = np.array(rows, np.int32).reshape(len(rows), -1 if rows else columns[0])
    if count is not None and count != len(table):
        raise DataFormatError(
            f"the first line counts {count:,} rows, but {len(table):,} follow",
            path=path,
            line=1,
            hint="the file may be cut short; correct the count or fetch the file again",
        )
    return table


def _read_fast(path: Path, first: str, separators: str, *, skip: int) -> Ints | None:
    """The table by compiled code, which takes more than we do and names no line; None if unsure."""
    data = read_bytes(path)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    if not first or data.translate(None, f"-0123456789\n{separators}".encode()):
        return None
    delimiter = next((c for c in separators if c in first), "\t")
    try:
        return np.loadtxt(
            path, np.int32, delimiter=delimiter, comments=None, skiprows=skip, ndmin=2
        )
    except ValueError:
        return None


def _read_slowly(
    path: Path, columns: Sequence[int], separators: str, *, skip: int
) -> Iterator[list[int]]:
    for number, line in islice(read_lines(path), skip, None):
        cells = re.split(f"[{separators}]", line)
        whole = all(_INTEGER.fullmatch(cell) for cell in cells)
        row = [int(cell) for cell in cells] if whole else []
        if len(row) not in columns or any(abs(value) >= 2**31 for value in row):
            parted = "TAB" if separators == "\t" else "one space"
            raise DataFormatError(
                f"expected {' or '.join(map(str, columns))} whole numbers parted by {parted}, "
                f"found {excerpt(line)}",
                path=path,
                line=number,
            )
        columns = (len(row),)
        yield row


def read_vocabularies(files: GraphFiles) -> tuple[list[str], list[str]]:
    """The names of entities and of relations of a graph that has files of both."""
    entities, relations = map(read_vocabulary, files.vocabularies)
    return entities, relations


def read_vocabulary(path: Path) -> list[str]:
    """The names of a file ``name TAB id [TAB …]``, placed at their ids.

    A first line that is one whole number is taken as the count (OpenKE).

    Raises:
        DataFormatError: a line of another form, a name or an id twice, an id left out, or a count
            that disagrees; names the line.
    """
    names: dict[int, str] = {}
    seen: set[str] = set()
    count: int | None = None
    for number, line in read_lines(path):
        name, tab, rest = line.partition("\t")
        token = rest.partition("\t")[0]
        if not tab and line.isascii() and line.strip().isdigit() and count is None and not names:
            count = int(line)
            continue
        if not name or not (token.isascii() and token.isdigit()):
            raise DataFormatError(
                f"expected 'name TAB id', found {excerpt(line)}", path=path, line=number
            )
        key = int(token)
        if key in names or name in seen:
            what = f"the id {key}" if key in names else f"the name {name!r}"
            raise DataFormatError(f"{what} stands here a second time", path=path, line=number)
        names[key] = name
        seen.add(name)
    if count is not None and count != len(names):
        raise DataFormatError(
            f"the first line counts {count:,} names, but {len(names):,} follow", path=path, line=1
        )
    missing = next((i for i in range(len(names)) if i not in names), None)
    if missing is not None:
        raise DataFormatError(
            f"no name has the id {missing}",
            path=path,
            hint=f"{len(names):,} names need the ids 0 to {len(names) - 1}",
        )
    return [names[i] for i in range(len(names))]


def _count(path: Path, number: int, line: str) -> int:
    if not (line.isascii() and line.strip().isdigit()):
        raise DataFormatError(
            f"expected the number of rows alone on the first line, found {excerpt(line)}",
            path=path,
            line=number,
            hint="OpenKE files start with their count",
        )
    return int(line)

"""Facts by name: triples in any column order, and dated facts with whole numbers or ISO dates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rulerag.arrays import Ints
from rulerag.errors import DataFormatError
from rulerag.io import excerpt, read_bytes, read_lines
from rulerag.kg.calendar import Calendar
from rulerag.kg.readers.dates import read_times
from rulerag.kg.readers.detect import COLUMN_ORDERS, GraphFiles, RawGraph, is_jsonl
from rulerag.kg.readers.headers import ROLES, by_words
from rulerag.kg.readers.integers import read_vocabularies
from rulerag.kg.readers.tables import Facts

if TYPE_CHECKING:
    from rulerag.kg.coding import CodedLines

_LARGE = 1 << 21  # bytes from which compiled code is worth its loading
_INTEGER = re.compile(r"-?\d{1,10}")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read_named(files: GraphFiles, columns: str | None, calendar: Calendar | None) -> RawGraph:
    """Read facts by name.

    A first line such as ``subject TAB relation TAB object`` is a header and gives the order.

    Args:
        files: the files; with vocabularies, names take their ids.
        columns: the order of the first three columns, a key of
            :data:`~rulerag.kg.readers.detect.COLUMN_ORDERS`; found from header or names when None.
        calendar: reads dates; without it ISO dates become days since the earliest one.

    Raises:
        DataFormatError: a line of another form, or an order that cannot be found.
        UnknownNameError: a name that the vocabulary files lack.
    """
    width = 4 if files.layout == "quadruples" else 3
    facts = Facts(times=width - 3)
    for split, path in files.splits.items():
        columns = columns or _header(path, width)
        coded = _coded(path, width)
        if coded is None:  # line by line, which says what is wrong with one
            facts.add(split, _records(path, width), path)
        else:
            facts.add_coded(split, *coded)
    order = columns or _column_order(facts.table, files.splits["train"])
    given = read_vocabularies(files) if files.vocabularies else None
    entities, relations, ids = facts.with_ids(COLUMN_ORDERS[order], given)
    dates = None
    if width == 4:
        values, dates = _times(facts, calendar)
        ids = np.column_stack([ids, values[facts.table[:, 3]]])
    return RawGraph(entities, relations, facts.by_split(ids), dates, {"columns": order})


def _coded(path: Path, width: int) -> tuple[CodedLines, Path, int] | None:
    """A large file's lines by compiled code, with the number of the first; None where unsure."""
    if is_jsonl(path) or path.stat().st_size < _LARGE:
        return None
    from rulerag.kg.coding import code_lines  # loads numba

    data, header = read_bytes(path).removeprefix(b"\xef\xbb\xbf"), _header(path, width) is not None
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    coded = code_lines(data[data.find(b"\n") + 1 :] if header else data, width)
    return None if coded is None else (coded, path, 1 + header)


def _records(path: Path, width: int) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line but the header's, with the line's number."""
    keys = ("subject", "relation", "object", "timestamp")[:width]
    if not is_jsonl(path):
        for number, line in islice(read_lines(path), int(_header(path, width) is not None), None):
            fields = line.split("\t")
            if len(fields) != width or "" in fields:
                raise DataFormatError(
                    f"expected {width} TAB-separated names, found {excerpt(line)}",
                    path=path,
                    line=number,
                    hint="part columns by TAB, not by spaces" if len(fields) == 1 else None,
                )
            yield number, fields
        return
    for number, line in read_lines(path):
        try:
            row = json.loads(line)
            yield number, [str(row[key]) for key in keys]
        except (ValueError, KeyError, TypeError) as error:
            raise DataFormatError(
                f"expected a JSON object with {', '.join(keys)}, found {excerpt(line)}",
                path=path,
                line=number,
            ) from error


def _header(path: Path, width: int) -> str | None:
    """The column order that the first line names; None where it is no header."""
    if is_jsonl(path):
        return "hrt"
    line = next(read_lines(path, 1 << 16), (0, ""))[1]
    words = line.split("\t")
    places = by_words(words)
    if len(words) != width or (width == 4 and places.get("time") != [3]):
        return None
    order = tuple(place for role in ROLES[:3] for place in places.get(role, ()))
    return next((name for name, known in COLUMN_ORDERS.items() if known == order), None)


def _column_order(table: Ints, path: Path) -> str:
    """Tell ``hrt`` from ``rht`` by the distinct names of three columns.

    The relation column shares no name with the others. Where both of the first two columns
    qualify (subjects and objects never meet), or neither does, the one with at most half as many
    distinct names is the relation.

    Raises:
        DataFormatError: both orders are possible; names the option ``columns``.
    """
    used = np.zeros((3, int(table[:, :3].max(initial=-1)) + 1), bool)
    for place in range(3):
        used[place, table[:, place]] = True
    first, second, third = used
    hrt = not (second & (first | third)).any()
    rht = not (first & (second | third)).any()
    if hrt != rht:
        return "hrt" if hrt else "rht"
    if 2 * second.sum() <= first.sum():
        return "hrt"
    if 2 * first.sum() <= second.sum():
        return "rht"
    raise DataFormatError(
        "the order of the columns cannot be found from the names",
        path=path,
        key="columns",
        hint="say columns='hrt' for subject relation object, 'rht' for relation subject object",
    )


def _times(facts: Facts, calendar: Calendar | None) -> tuple[Ints, Calendar | None]:
    """The timestamp of each distinct time, and the calendar of ISO dates."""
    texts = facts.texts_of_times
    dated = bool(texts) and _ISO_DATE.fullmatch(texts[0]) is not None
    if dated and calendar is None:
        read = read_times(texts, facts.fault_of_time, None)
        return read.values, read.calendar
    pattern, form = (_ISO_DATE, "YYYY-MM-DD") if dated else (_INTEGER, "a whole number")
    values = []
    for code, text in enumerate(texts):
        try:
            if not pattern.fullmatch(text):
                raise ValueError(text)
            value = calendar.parse(text) if dated and calendar is not None else int(text)
            if not -(2**31) <= value < 2**31:
                raise ValueError(text)
        except (ValueError, DataFormatError) as error:
            message = f"expected {form} as the time, found {excerpt(text)}"
            raise facts.fault_of_time(code, message) from error
        values.append(value)
    return np.array(values, np.int32), None

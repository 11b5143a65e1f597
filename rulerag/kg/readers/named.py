"""Facts by name: triples in any column order, and dated facts with whole numbers or ISO dates."""

from __future__ import annotations

import datetime as dt
import json
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from math import gcd
from pathlib import Path

import numpy as np

from rulerag.arrays import Ints
from rulerag.errors import DataFormatError, UnknownNameError, did_you_mean
from rulerag.io import excerpt, read_lines
from rulerag.kg.calendar import Calendar
from rulerag.kg.readers.detect import COLUMN_ORDERS, GraphFiles, RawGraph, is_jsonl
from rulerag.kg.readers.integers import read_vocabularies

_HEADER = {
    "h": {"subject", "head", "subj", "source", "from"},
    "r": {"relation", "predicate", "rel", "property", "edge"},
    "t": {"object", "tail", "obj", "target", "to"},
}
_TIME_HEADER = {"time", "timestamp", "date", "year"}
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
    width = _width(files)
    names: dict[str, int] = {}
    times: dict[str, int] = {}
    codes, bounds = array("i"), {}
    for split, path in files.splits.items():
        start = len(codes) // width
        columns = columns or _header(path, width)
        for number, fields in _records(path, width):
            if len(fields) != width or "" in fields:
                raise DataFormatError(
                    f"expected {width} TAB-separated names, found {excerpt(chr(9).join(fields))}",
                    path=path,
                    line=number,
                    hint="part columns by TAB, not by spaces" if len(fields) == 1 else None,
                )
            codes.extend(names.setdefault(name, len(names)) for name in fields[:3])
            codes.extend(times.setdefault(time, len(times)) for time in fields[3:])
        bounds[split] = slice(start, len(codes) // width)
    table = np.frombuffer(codes, np.int32).reshape(-1, width)
    order = columns or _column_order(table, next(iter(files.splits.values())))
    facts = table[:, COLUMN_ORDERS[order]]
    entities, relations, ids = _vocabularies(files, list(names), facts)
    dates = None
    if width == 4:
        values, dates = _times(files, list(times), table[:, 3], calendar)
        ids = np.column_stack([ids, values[table[:, 3]]])
    splits = {split: ids[rows] for split, rows in bounds.items()}
    return RawGraph(entities, relations, splits, dates, {"columns": order})


def _width(files: GraphFiles) -> int:
    return 4 if files.layout == "quadruples" else 3


def _records(path: Path, width: int) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line but the header's, with the line's number."""
    keys = ("subject", "relation", "object", "timestamp")[:width]
    if not is_jsonl(path):
        for number, line in islice(read_lines(path), int(_header(path, width) is not None), None):
            yield number, line.split("\t")
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
    words = [text.strip().lower() for text in line.split("\t")]
    if len(words) != width or (width == 4 and words[3] not in _TIME_HEADER):
        return None
    order = "".join(next((k for k, known in _HEADER.items() if w in known), "?") for w in words[:3])
    return order if order in COLUMN_ORDERS else None


def _place(files: GraphFiles, row: int) -> tuple[Path, int]:
    """The file and the line of a row of all files together."""
    width = _width(files)
    places = ((p, n) for p in files.splits.values() for n, _ in _records(p, width))
    return next(islice(places, row, None))


def _column_order(table: Ints, path: Path) -> str:
    """Tell ``hrt`` from ``rht`` by the distinct names of three columns.

    The relation column shares no name with the others. Where both of the first two columns
    qualify (subjects and objects never meet), or neither does, the one with at most half as many
    distinct names is the relation.

    Raises:
        DataFormatError: both orders are possible; names the option ``columns``.
    """
    first, second, third = (set(np.unique(table[:, place]).tolist()) for place in range(3))
    hrt = second.isdisjoint(first) and second.isdisjoint(third)
    rht = first.isdisjoint(second) and first.isdisjoint(third)
    if hrt != rht:
        return "hrt" if hrt else "rht"
    if 2 * len(second) <= len(first):
        return "hrt"
    if 2 * len(first) <= len(second):
        return "rht"
    raise DataFormatError(
        "the order of the columns cannot be found from the names",
        path=path,
        key="columns",
        hint="say columns='hrt' for subject relation object, 'rht' for relation subject object",
    )


def _vocabularies(
    files: GraphFiles, names: Sequence[str], facts: Ints
) -> tuple[list[str], list[str], Ints]:
    """Entity and relation names, and the facts as ids of these."""
    ids = np.empty_like(facts)
    given = read_vocabularies(files) if files.vocabularies else None
    orders = []
    for kind, (what, places) in enumerate((("entity", [0, 2]), ("relation", [1]))):
        # Ids follow first appearance, a fact's subject before its object.
        used, first = np.unique(facts[:, places], return_index=True)
        orders.append(given[kind] if given else [names[i] for i in used[np.argsort(first)]])
        number = {name: i for i, name in enumerate(orders[-1])}
        id_of = np.array([number.get(name, -1) for name in names], np.int32)
        strange = used[id_of[used] < 0]
        if len(strange):
            name = names[strange[0]]
            row = int(np.argwhere(facts[:, places] == strange[0])[0, 0])
            path, line = _place(files, row)
            raise UnknownNameError(
                f"the {what} {name!r} is not in {what}2id.txt",
                path=path,
                line=line,
                hint=did_you_mean(name, number),
            )
        ids[:, places] = id_of[facts[:, places]]
    return orders[0], orders[1], ids


def _times(
    files: GraphFiles, texts: Sequence[str], column: Ints, calendar: Calendar | None
) -> tuple[Ints, Calendar | None]:
    """The timestamp of each distinct time, and the calendar of ISO dates."""
    dated = bool(texts) and _ISO_DATE.fullmatch(texts[0]) is not None
    pattern, form = (_ISO_DATE, "YYYY-MM-DD") if dated else (_INTEGER, "a whole number")
    values = []
    for code, text in enumerate(texts):
        try:
            if not pattern.fullmatch(text):
                raise ValueError(text)
            if not dated:
                value = int(text)
            elif calendar is None:
                value = dt.date.fromisoformat(text).toordinal()
            else:
                value = calendar.parse(text)
            if not -(2**31) <= value < 2**31:
                raise ValueError(text)
        except (ValueError, DataFormatError) as error:
            path, line = _place(files, int(np.flatnonzero(column == code)[0]))
            raise DataFormatError(
                f"expected {form} as the time, found {excerpt(text)}", path=path, line=line
            ) from error
        values.append(value)
    times = np.array(values, np.int64)
    if not dated or calendar is not None:
        return times.astype(np.int32), None
    origin = int(times.min())
    step = gcd(*(times - origin).tolist()) or 1
    day = Calendar("day", dt.date.fromordinal(origin).isoformat(), step)
    return (times - origin).astype(np.int32), day

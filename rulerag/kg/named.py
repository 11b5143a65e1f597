"""Facts by name: triples in any column order, and dated facts with whole numbers or ISO dates."""

from __future__ import annotations

import datetime as dt
import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rulerag.errors import DataFormatError, UnknownNameError, did_you_mean
from rulerag.kg.calendar import Calendar
from rulerag.kg.layouts import is_jsonl
from rulerag.kg.tables import excerpt, read_lines

__all__ = ["COLUMN_ORDERS", "NamedFacts", "column_order", "read_named"]

Ints = npt.NDArray[np.int32]

#: Where head, relation and tail stand, by the value of ``columns=``.
COLUMN_ORDERS: Mapping[str, tuple[int, int, int]] = {
    "hrt": (0, 1, 2),
    "rht": (1, 0, 2),
    "htr": (0, 2, 1),
}

_HEADER = {
    "h": {"subject", "head", "subj", "source", "from"},
    "r": {"relation", "predicate", "rel", "property", "edge"},
    "t": {"object", "tail", "obj", "target", "to"},
}
_TIME_HEADER = {"time", "timestamp", "date", "year"}
_INTEGER = re.compile(r"-?\d{1,10}")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass
class NamedFacts:
    """Facts of several files, coded over one pair of vocabularies.

    Args:
        entities: names of entity ids.
        relations: names of relation ids.
        splits: by split, an int32 array of shape (facts, 3 or 4): subject, relation, object and
            the timestamp of dated facts.
        calendar: how the timestamps read, where the file says it (ISO dates).
        order: the column order that was found or given.
    """

    entities: list[str]
    relations: list[str]
    splits: dict[str, Ints]
    calendar: Calendar | None
    order: str


@dataclass
class _Column:
    """One column of a file, coded by first appearance."""

    codes: dict[str, int] = field(default_factory=dict)
    values: array[int] = field(default_factory=lambda: array("i"))
    places: list[tuple[Path, int]] = field(default_factory=list)  # where each code was first seen


def read_named(
    files: Mapping[str, Path],
    *,
    dated: bool,
    columns: str | None = None,
    calendar: Calendar | None = None,
    vocabulary: tuple[Sequence[str], Sequence[str]] | None = None,
) -> NamedFacts:
    """Read facts by name.

    A first line such as ``subject TAB relation TAB object`` is a header and gives the order.

    Args:
        files: the file of each split.
        dated: whether a fourth column holds the time.
        columns: the order of the first three columns, a key of :data:`COLUMN_ORDERS`; found from
            the names when None.
        calendar: reads dates; without it ISO dates become days since the earliest one.
        vocabulary: the entity and relation names in id order, where files give them.

    Raises:
        DataFormatError: a line of another form, or an order that cannot be told.
        UnknownNameError: a name that the given vocabulary lacks.
    """
    table = [_Column() for _ in range(4 if dated else 3)]
    bounds = {}
    for split, path in files.items():
        first = len(table[0].values)
        header = _read_columns(path, table)
        columns = columns or header
        bounds[split] = (first, len(table[0].values))
    names = [list(column.codes) for column in table[:3]]
    some = next(iter(files.values()))
    order = columns or column_order(names, some)
    coded = [np.frombuffer(column.values, np.int32) for column in table]
    head, relation, tail = (coded[place] for place in COLUMN_ORDERS[order])
    spots = [table[place] for place in COLUMN_ORDERS[order]]
    entities, relations, maps = _vocabularies(spots, (head, tail), vocabulary)
    whole = [maps[0][head], maps[1][relation], maps[2][tail]]
    found_calendar = None
    if dated:
        times, found_calendar = _times(table[3], calendar)
        whole.append(times[coded[3]])
    rows = np.stack(whole, axis=1)
    splits = {split: rows[start:end] for split, (start, end) in bounds.items()}
    return NamedFacts(entities, relations, splits, found_calendar, order)


def column_order(names: Sequence[Sequence[str]], path: Path | None = None) -> str:
    """Tell ``hrt`` from ``rht`` by the distinct names of three columns.

    The relation column shares no name with the others. Where both of the first two columns
    qualify (subjects and objects never meet), or neither does, the one with at most half as many
    distinct names is the relation.

    Raises:
        DataFormatError: both orders are possible; names the option ``columns``.
    """
    first, second, third = (set(column) for column in names)
    hrt = second.isdisjoint(first) and second.isdisjoint(third)
    rht = first.isdisjoint(second) and first.isdisjoint(third)
    if hrt != rht:
        return "hrt" if hrt else "rht"
    if 2 * len(second) <= len(first):
        return "hrt"
    if 2 * len(first) <= len(second):
        return "rht"
    raise DataFormatError(
        "the order of the columns cannot be told from the names",
        path=path,
        key="columns",
        hint="say columns='hrt' for subject relation object, 'rht' for relation subject object",
    )


def _read_columns(path: Path, table: Sequence[_Column]) -> str | None:
    """Code the fields of a file into the columns; return the order that its header gives."""
    width = len(table)
    order = None
    codes = [column.codes for column in table]
    values = [column.values for column in table]
    start = True
    for number, fields in _records(path, width):
        if start:
            start = False
            order = _header_order(fields)
            if order is not None:
                continue
        if len(fields) != width or "" in fields:
            raise DataFormatError(
                f"expected {width} TAB-separated names, found {excerpt(chr(9).join(fields))}",
                path=path,
                line=number,
                hint="part columns by TAB, not by spaces" if len(fields) == 1 else None,
            )
        for place, text in enumerate(fields):
            known = codes[place]
            code = known.get(text)
            if code is None:
                code = known[text] = len(known)
                table[place].places.append((path, number))
            values[place].append(code)
    return order or ("hrt" if is_jsonl(path) else None)


def _records(path: Path, width: int) -> Iterator[tuple[int, list[str]]]:
    if not is_jsonl(path):
        for number, line in read_lines(path):
            yield number, line.split("\t")
        return
    keys = ("subject", "relation", "object", "timestamp")[:width]
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


def _header_order(fields: Sequence[str]) -> str | None:
    """The column order that a header line names; None when the line is no header."""
    words = [text.strip().lower() for text in fields]
    if len(words) == 4 and words[3] not in _TIME_HEADER:
        return None
    order = "".join(next((k for k, known in _HEADER.items() if w in known), "?") for w in words[:3])
    return order if order in COLUMN_ORDERS else None


def _vocabularies(
    spots: Sequence[_Column],
    ends: tuple[Ints, Ints],
    vocabulary: tuple[Sequence[str], Sequence[str]] | None,
) -> tuple[list[str], list[str], list[Ints]]:
    """Entity and relation names, and for each column the ids of its codes."""
    if vocabulary is not None:
        entities, relations = (list(names) for names in vocabulary)
        known = [{name: i for i, name in enumerate(v)} for v in (entities, relations)]
        maps = [_known(spots[i], known[i == 1], ("entity", "relation")[i == 1]) for i in range(3)]
        return entities, relations, maps
    # Ids follow first appearance, a fact's subject before its object.
    first: dict[str, int] = {}
    for place, (column, codes) in enumerate(zip((spots[0], spots[2]), ends, strict=True)):
        rows = np.unique(codes, return_index=True)[1].tolist()
        for name, row in zip(column.codes, rows, strict=True):
            spot = 2 * row + place
            first[name] = min(first.get(name, spot), spot)
    entities = sorted(first, key=first.__getitem__)
    ids = {name: i for i, name in enumerate(entities)}
    relations = list(spots[1].codes)
    head, tail = (np.array([ids[n] for n in spots[i].codes], np.int32) for i in (0, 2))
    return entities, relations, [head, np.arange(len(relations), dtype=np.int32), tail]


def _known(column: _Column, ids: Mapping[str, int], what: str) -> Ints:
    found = []
    for (path, line), name in zip(column.places, column.codes, strict=True):
        if name not in ids:
            raise UnknownNameError(
                f"the {what} {name!r} is not in {what}2id.txt",
                path=path,
                line=line,
                hint=did_you_mean(name, ids),
            )
        found.append(ids[name])
    return np.array(found, np.int32)


def _times(column: _Column, calendar: Calendar | None) -> tuple[Ints, Calendar | None]:
    """The timestamp of each distinct time, and the calendar of ISO dates."""
    texts = list(column.codes)
    dated = bool(texts) and _ISO_DATE.fullmatch(texts[0]) is not None
    pattern, form = (_ISO_DATE, "YYYY-MM-DD") if dated else (_INTEGER, "a whole number")
    values = []
    for (path, line), text in zip(column.places, texts, strict=True):
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

"""From files to a :class:`~rulerag.kg.graph.KnowledgeGraph`: one reader for each layout.

A reader gives names and rows of ids; what all layouts share stands in :func:`load_graph`:
duplicates dropped, calendar found, labels made, notes taken.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, DataFormatError, EmptyDataError, UnknownNameError
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.kg.intervals import IntervalFacts, cut_years, read_intervals, year_window
from rulerag.kg.known import KnownGraph, recognise
from rulerag.kg.label_files import GivenLabels, find_labels, read_labels
from rulerag.kg.labels import entity_ladder, make_labels, relation_ladder
from rulerag.kg.layouts import GraphFiles, find_graph
from rulerag.kg.named import COLUMN_ORDERS, read_named
from rulerag.kg.tables import read_bytes, read_integers, read_vocabulary
from rulerag.kg.vocabulary import Vocabulary

__all__ = ["load_graph"]

Ints = npt.NDArray[np.int32]
logger = logging.getLogger(__name__)


@dataclass
class _Raw:
    """What a reader found: names by id, and rows (subject, relation, object[, timestamp])."""

    entities: list[str]
    relations: list[str]
    splits: dict[str, Ints]
    calendar: Calendar | None = None
    notes: dict[str, object] = field(default_factory=dict)


def load_graph(
    path: str | Path,
    *,
    layout: str = "auto",
    labels: str | Path | None = None,
    calendar: Calendar | None = None,
    columns: str | None = None,
) -> KnowledgeGraph:
    """Read a graph folder or a single file of facts (gzip by its name).

    Facts that stand twice in a split are kept once; ``notes`` of the graph counts them. A single
    file is the training split. Intervals become one fact for each year in which they hold.

    Args:
        path: the folder (``train.txt`` or ``train2id.txt`` …) or one file.
        layout: a key of :data:`rulerag.kg.layouts.LAYOUTS`, or ``auto``.
        labels: a file or folder of readable labels; those in the folder or beside it when None.
        calendar: how timestamps read. When None, public graphs are recognised by their names, ISO
            dates give their own, and other times stay bare numbers.
        columns: the order of three named columns: ``hrt``, ``rht`` or ``htr``; found when None.

    Raises:
        DataError: no such path, no facts in it, or a vocabulary file is missing.
        DataFormatError: a line, a count or the layout is wrong; names file and line.
        UnknownNameError: a fact uses an id or a name that the vocabulary lacks.
        EmptyDataError: the training split is empty.
        ConfigError: no such layout or column order.
    """
    files = find_graph(path, layout)
    _check_columns(columns, files)
    if files.layout.startswith("intervals"):
        raw = _read_intervals(files, columns, calendar)
    elif files.coded:
        raw = _read_ids(files, columns)
    else:
        raw = _read_names(files, columns, calendar)
    if not len(raw.splits["train"]):
        raise EmptyDataError("holds no fact", path=files.splits["train"])
    if files.coded:
        _check_stat(files, raw)
    known = recognise(raw.entities, raw.relations)
    found = _calendar(raw, known) if calendar is None else calendar
    given = read_labels(labels) if labels is not None else find_labels(files.folder, known)
    entities, relations, label_notes = _vocabularies(raw, given, explicit=labels is not None)
    tables = _tables(raw, entities, relations, found)
    dropped = {split: len(rows) - len(tables[split]) for split, rows in raw.splits.items()}
    if any(dropped.values()):
        logger.info("%s: duplicate facts dropped: %s", files.name, dropped)
    notes: dict[str, object] = {
        "layout": files.layout,
        "known_as": known.name if known else None,
        "files": {split: file.name for split, file in files.splits.items()},
        "facts_read": {split: len(rows) for split, rows in raw.splits.items()},
        "duplicates_dropped": dropped,
        "labels": label_notes,
        **raw.notes,
    }
    return KnowledgeGraph(entities, relations, tables, calendar=found, name=files.name, notes=notes)


def _check_columns(columns: str | None, files: GraphFiles) -> None:
    if columns is None:
        return
    if columns not in COLUMN_ORDERS:
        raise ConfigError(
            f"there is no column order {columns!r}",
            key="columns",
            hint="one of 'hrt' (subject relation object), 'rht' and 'htr'",
        )
    if files.layout == "openke" or (files.layout == "quadruples" and files.coded):
        raise ConfigError(
            f"the layout {files.layout} of ids has its own column order",
            key="columns",
            hint="leave columns out",
        )


def _tables(
    raw: _Raw, entities: Vocabulary, relations: Vocabulary, calendar: Calendar
) -> dict[str, FactTable]:
    """The tables of all splits, each fact once."""
    tables = {}
    for split, rows in raw.splits.items():
        kept = _distinct(rows, len(entities), len(relations))
        s, r, o = (np.ascontiguousarray(kept[:, place]) for place in range(3))
        times = np.ascontiguousarray(kept[:, 3]) if kept.shape[1] == 4 else None
        tables[split] = FactTable(entities, relations, s, r, o, times, calendar, split)
    return tables


def _read_ids(files: GraphFiles, columns: str | None) -> _Raw:
    """Quadruples, OpenKE triples and TAB-separated triples of ids."""
    entities, relations = _vocabulary_files(files)
    openke = files.layout == "openke"
    widths: tuple[int, ...] = (3,)
    places: tuple[int, ...] = COLUMN_ORDERS["htr" if openke else columns or "hrt"]
    if files.layout == "quadruples":
        widths, places = (4, 5), (0, 1, 2, 3)
    separators = b" \t" if openke else b"\t"
    splits = {}
    for split, path in files.splits.items():
        table, lines = read_integers(path, columns=widths, separators=separators, counted=openke)
        rows = table[:, list(places)]
        _check_ids(rows, (len(entities), len(relations)), path, lines)
        splits[split] = rows
    return _Raw(entities, relations, splits)


def _read_names(files: GraphFiles, columns: str | None, calendar: Calendar | None) -> _Raw:
    named = read_named(
        files.splits,
        dated=files.layout == "quadruples",
        columns=columns,
        calendar=calendar,
        vocabulary=_vocabulary_files(files) if _has_vocabulary(files) else None,
    )
    notes: dict[str, object] = {"columns": named.order}
    return _Raw(named.entities, named.relations, named.splits, named.calendar, notes)


def _read_intervals(files: GraphFiles, columns: str | None, calendar: Calendar | None) -> _Raw:
    """One fact for each year; the splits of the files, or cut anew by time."""
    facts = {split: read_intervals(path) for split, path in files.splits.items()}
    places = COLUMN_ORDERS[columns or "hrt"]
    entities, relations, ids = _interval_ids(files, facts, places)
    known = recognise(entities, relations)
    calendar = calendar or (known.calendar if known else None)
    first, last = year_window(facts)
    origin = first if calendar is None else _origin_year(calendar)
    first = max(first, origin)
    if known is not None:
        last = min(last, origin + known.last)
    unplaced = sum(len(f) - len(np.unique(f.expand(first, last)[0])) for f in facts.values())
    if files.layout == "intervals":
        parts = {split: _dated(ids[split], f, first, last, origin) for split, f in facts.items()}
    else:
        everything = IntervalFacts.join(facts.values())
        rows = _dated(np.concatenate(list(ids.values())), everything, first, last, origin)
        valid, test = known.cuts if known and known.cuts else cut_years(rows[:, 3])
        cuts = np.searchsorted(rows[:, 3], (valid, test))
        parts = dict(zip(("train", "valid", "test"), np.split(rows, cuts), strict=True))
    notes: dict[str, object] = {
        "intervals": {split: len(f) for split, f in facts.items()},
        "intervals_without_a_year": unplaced,
        "years": [first, last],
    }
    return _Raw(entities, relations, parts, Calendar("year", str(origin)), notes)


def _origin_year(calendar: Calendar) -> int:
    if calendar.unit != "year":
        raise ConfigError(
            f"intervals are told in years, not in units of {calendar.unit}",
            key="calendar",
            hint="for example Calendar('year', '1786')",
        )
    return int(calendar.origin)


def _dated(ids: Ints, facts: IntervalFacts, first: int, last: int, origin: int) -> Ints:
    rows, years = facts.expand(first, last)
    return np.column_stack([ids[rows], years - np.int32(origin)])


def _interval_ids(
    files: GraphFiles, facts: Mapping[str, IntervalFacts], places: Sequence[int]
) -> tuple[list[str], list[str], dict[str, Ints]]:
    """Vocabularies, and for each split the ids of subject, relation and object."""
    if files.coded or _has_vocabulary(files):
        entities, relations = _vocabulary_files(files)
    else:
        rows = [fields for table in facts.values() for fields in table.fields]
        head, relation, tail = places
        entities = list(dict.fromkeys(row[i] for row in rows for i in (head, tail)))
        relations = list(dict.fromkeys(row[relation] for row in rows))
    if files.coded:
        known = [{str(i): i for i in range(len(names))} for names in (entities, relations)]
    else:
        known = [{name: i for i, name in enumerate(names)} for names in (entities, relations)]
    maps = (known[0], known[1], known[0])
    ids = {}
    for split, table in facts.items():
        rows_of_ids = []
        for fields, line in zip(table.fields, table.lines.tolist(), strict=True):
            row = [maps[k].get(fields[place], -1) for k, place in enumerate(places)]
            if -1 in row:
                kind = row.index(-1)
                raise _unknown(fields[places[kind]], kind, files.splits[split], line)
            rows_of_ids.append(row)
        ids[split] = np.array(rows_of_ids, np.int32).reshape(-1, 3)
    return entities, relations, ids


def _has_vocabulary(files: GraphFiles) -> bool:
    # Beside a single file of names, vocabulary files may belong to something else.
    return files.root.is_dir() and files.entity2id is not None and files.relation2id is not None


def _vocabulary_files(files: GraphFiles) -> tuple[list[str], list[str]]:
    if files.entity2id is None or files.relation2id is None:  # pragma: no cover (find_graph checks)
        raise DataFormatError("the vocabulary files are missing", path=files.folder)
    return read_vocabulary(files.entity2id), read_vocabulary(files.relation2id)


def _check_ids(
    rows: Ints, sizes: tuple[int, int], path: Path, lines: npt.NDArray[np.int64]
) -> None:
    limits = np.array([sizes[0], sizes[1], sizes[0]])
    wrong = (rows[:, :3] < 0) | (rows[:, :3] >= limits)
    if wrong.any():
        row, kind = (int(i) for i in np.argwhere(wrong)[0])
        raise _unknown(str(rows[row, kind]), kind, path, int(lines[row]))


def _unknown(text: str, kind: int, path: Path, line: int) -> UnknownNameError:
    what = ("entity", "relation", "entity")[kind]
    role = ("subject", "relation", "object")[kind]
    return UnknownNameError(
        f"the {role} {text!r} is not in {what}2id.txt",
        path=path,
        line=line,
        hint="the files may be of two graphs, or the columns in another order",
    )


def _check_stat(files: GraphFiles, raw: _Raw) -> None:
    """``stat.txt`` counts entities and relations; other counts mean files of two graphs."""
    if files.stat is None:
        return
    counts = read_bytes(files.stat).split()
    have = [len(raw.entities), len(raw.relations)]
    if len(counts) < 2 or not all(c.isdigit() for c in counts[:2]):
        raise DataFormatError(
            "expected 'entities TAB relations TAB …'",
            path=files.stat,
            line=1,
            hint="correct the file or remove it",
        )
    said = [int(c) for c in counts[:2]]
    if said != have:
        raise DataFormatError(
            f"says {said[0]:,} entities and {said[1]:,} relations; "
            f"entity2id.txt and relation2id.txt hold {have[0]:,} and {have[1]:,}",
            path=files.stat,
            hint="the files may be of two graphs; remove stat.txt to load them as they are",
        )


def _calendar(raw: _Raw, known: KnownGraph | None) -> Calendar:
    """The calendar of a public graph, of the files, or bare steps of their common distance."""
    if raw.calendar is not None:
        return raw.calendar
    times = [np.unique(rows[:, 3]) for rows in raw.splits.values() if rows.shape[1] == 4]
    if not times:
        return Calendar()
    distinct = np.unique(np.concatenate(times))
    if known is not None and distinct[0] >= 0 and distinct[-1] <= known.last:
        return known.calendar
    return Calendar("step", step=gcd(*np.diff(distinct.astype(np.int64)).tolist()) or 1)


def _vocabularies(
    raw: _Raw, given: GivenLabels, *, explicit: bool
) -> tuple[Vocabulary, Vocabulary, dict[str, object]]:
    """Both vocabularies with their labels, and what the notes say about those."""
    vocabularies = (raw.entities, raw.relations)
    found = [sum(name in given.ladders for name in names) for names in vocabularies]
    if explicit and not any(found):
        raise DataFormatError(
            "labels no name of this graph",
            path=given.paths[0],
            hint=f"names look like {raw.entities[0]!r} and {raw.relations[0]!r}",
        )
    notes: dict[str, object] = {
        "entities": found[0],
        "relations": found[1],
        "files": [path.name for path in given.paths],
    }
    entities = make_labels(raw.entities, entity_ladder, given.ladders)
    relations = make_labels(raw.relations, relation_ladder, given.ladders)
    return Vocabulary(raw.entities, entities), Vocabulary(raw.relations, relations), notes


def _distinct(rows: Ints, entities: int, relations: int) -> Ints:
    """The rows without later copies, in order."""
    times = rows[:, 3].astype(np.int64) if rows.shape[1] == 4 else np.zeros(len(rows), np.int64)
    low, high = (int(times.min()), int(times.max())) if len(rows) else (0, 0)
    if entities**2 * relations * (high - low + 1) < 2**63:
        # One number per fact: sorting numbers is several times faster than sorting rows.
        key = rows[:, 0].astype(np.int64)
        for column, size in ((1, relations), (2, entities)):
            key = key * size + rows[:, column]
        key = key * (high - low + 1) + (times - low)
        first = np.unique(key, return_index=True)[1]
    else:
        first = np.unique(rows, axis=0, return_index=True)[1]
    return rows if len(first) == len(rows) else rows[np.sort(first)]

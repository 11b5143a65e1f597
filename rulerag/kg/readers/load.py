"""From files to a :class:`~rulerag.kg.KnowledgeGraph`.

A reader for each layout gives names and rows of ids (:class:`~rulerag.kg.readers.detect.RawGraph`);
what all layouts share is done here: duplicates dropped, calendar found, labels made, notes taken.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from math import gcd
from pathlib import Path

import numpy as np

from rulerag.arrays import Ints
from rulerag.errors import ConfigError, DataFormatError, EmptyDataError
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.kg.labels import (
    GivenLabels,
    entity_candidates,
    find_labels,
    make_labels,
    read_labels,
    relation_candidates,
)
from rulerag.kg.readers.detect import COLUMN_ORDERS, GraphFiles, RawGraph, find_graph
from rulerag.kg.readers.integers import read_ids
from rulerag.kg.readers.intervals import read_intervals
from rulerag.kg.readers.known_graphs import KnownGraph, recognise
from rulerag.kg.readers.named import read_named
from rulerag.kg.readers.neo4j import read_neo4j
from rulerag.kg.readers.rdf import read_rdf
from rulerag.kg.readers.tables import read_table
from rulerag.kg.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


def load_graph(
    path: str | Path,
    *,
    layout: str = "auto",
    labels: str | Path | None = None,
    calendar: Calendar | None = None,
    columns: str | Mapping[str, str] | None = None,
    dates: str | None = None,
) -> KnowledgeGraph:
    """Read a graph folder or a single file of facts (gzip by its name).

    Facts that stand twice in a split are kept once; ``notes`` of the graph counts them. A single
    file is the training split. Intervals become one fact for each year in which they hold.

    Args:
        path: the folder (``train.txt`` or ``train2id.txt`` …) or one file.
        layout: a key of :data:`rulerag.kg.readers.detect.LAYOUTS`, or ``auto``.
        labels: a file or folder of readable labels; those in the folder or beside it when None.
        calendar: how timestamps read. When None, public graphs are recognised by their names, ISO
            dates give their own, and other times stay bare numbers.
        columns: the order of three named columns: ``hrt``, ``rht`` or ``htr``; or, of a table with
            a header, ``subject=Person,relation=Does,object=What,time=Day`` (``time=none``: without
            dates); found when None.
        dates: of a table, whether dates with slashes are ``day-first`` or ``month-first``; found
            where they have one meaning.

    Raises:
        DataError: no such path, no facts in it, or a vocabulary file is missing.
        DataFormatError: a line, a count or the layout is wrong; names file and line.
        UnknownNameError: a fact uses an id or a name that the vocabulary lacks.
        EmptyDataError: the training split is empty.
        ConfigError: no such layout or column order.
    """
    files = find_graph(path, layout)
    raw = _read(files, columns, dates, calendar)
    if not len(raw.splits["train"]):
        raise EmptyDataError("holds no fact", path=files.splits["train"])
    known = recognise(raw.entities, raw.relations)
    if labels is not None:
        given = read_labels(labels)
    else:
        given = find_labels(files.folder, known.labels if known else "")
    if labels is not None and not any(
        name in given.candidates for name in (*raw.entities, *raw.relations)
    ):
        raise DataFormatError(
            "labels no name of this graph",
            path=given.paths[0],
            hint=f"names look like {raw.entities[0]!r} and {raw.relations[0]!r}",
        )
    notes = {
        "layout": files.layout,
        "known_as": known.name if known else None,
        "files": {split: file.name for split, file in files.splits.items()},
        **({"parts": [file.name for file in files.parts]} if len(files.parts) > 1 else {}),
    }
    return make_graph(raw, files.name, calendar or _calendar(raw, known), labels=given, notes=notes)


def make_graph(
    raw: RawGraph,
    name: str,
    calendar: Calendar | None = None,
    *,
    labels: GivenLabels | None = None,
    notes: Mapping[str, object] | None = None,
) -> KnowledgeGraph:
    """The graph of what was read; facts that stand twice in a split are kept once.

    Args:
        raw: what was read.
        name: what the graph is called.
        calendar: how timestamps read; found from them when None.
        labels: of files, which go before those that were read with the facts.
        notes: what else was seen, for reports.
    """
    calendar = calendar or _calendar(raw, None)
    given = labels or GivenLabels()
    candidates = {**raw.labels, **given.candidates}
    entities, relations = (
        Vocabulary(names, partial(make_labels, names, own, candidates), raw.aliases)
        for names, own in ((raw.entities, entity_candidates), (raw.relations, relation_candidates))
    )
    tables = {
        split: FactTable.of(_distinct(rows), entities, relations, calendar, split)
        for split, rows in raw.splits.items()
    }
    dropped = {split: len(rows) - len(tables[split]) for split, rows in raw.splits.items()}
    if any(dropped.values()):
        logger.info("%s: duplicate facts dropped: %s", name, dropped)
    for why, entry in raw.left_out.items():
        logger.info("%s: %d rows left out: %s", name, entry["rows"], why)
    labelled = [sum(one in candidates for one in names) for names in (raw.entities, raw.relations)]
    report: dict[str, object] = {
        **(notes or {}),
        "facts_read": {split: len(rows) for split, rows in raw.splits.items()},
        "duplicates_dropped": dropped,
        "labels": {
            "entities": labelled[0],
            "relations": labelled[1],
            "files": [path.name for path in given.paths],
        },
        "left_out": raw.left_out,
        **raw.notes,
    }
    return KnowledgeGraph(entities, relations, tables, calendar=calendar, name=name, notes=report)


def _read(
    files: GraphFiles,
    columns: str | Mapping[str, str] | None,
    dates: str | None,
    calendar: Calendar | None,
) -> RawGraph:
    """What the files hold, by the reader of their layout."""
    if files.layout == "table":
        if isinstance(columns, str) and columns in COLUMN_ORDERS:
            names = ("subject", "relation", "object")
            order = COLUMN_ORDERS[columns]
            columns = {name: str(n + 1) for name, n in zip(names, order, strict=True)}
        return read_table(files, columns, dates)
    if files.layout == "neo4j":
        return read_neo4j(files, columns, dates)
    if dates is not None:
        raise ConfigError(
            f"means nothing to the layout {files.layout}",
            key="dates",
            hint="it is for tables with a header; layout='table' says that this is one",
        )
    if files.layout == "rdf":
        if columns is not None:
            raise ConfigError("RDF has no columns", key="columns", hint="leave columns out")
        return read_rdf(files)
    if columns is not None and not isinstance(columns, str):
        columns = ",".join(f"{role}={name}" for role, name in columns.items())
    if columns is not None and columns not in COLUMN_ORDERS:
        raise ConfigError(
            f"there is no column order {columns!r}",
            key="columns",
            hint="one of 'hrt' (subject relation object), 'rht' and 'htr'; the columns of a table "
            "with a header go by their names, and layout='table' says that this is one",
        )
    if files.layout.startswith("intervals"):
        return read_intervals(files, columns, calendar)
    if not files.coded:
        return read_named(files, columns, calendar)
    if columns is not None and files.layout != "triples":
        raise ConfigError(
            f"the layout {files.layout} of ids has its own column order",
            key="columns",
            hint="leave columns out",
        )
    return read_ids(files, columns)


def _calendar(raw: RawGraph, known: KnownGraph | None) -> Calendar:
    """The calendar of the files, of a public graph, or bare steps of their common distance."""
    if raw.calendar is not None:
        return raw.calendar
    times = [np.unique(rows[:, 3]) for rows in raw.splits.values() if rows.shape[1] == 4]
    if not times:
        return Calendar()
    distinct = np.unique(np.concatenate(times))
    if known is not None and distinct[0] >= 0 and distinct[-1] <= known.last:
        return known.calendar
    return Calendar("step", step=gcd(*np.diff(distinct.astype(np.int64)).tolist()) or 1)


def _distinct(rows: Ints) -> Ints:
    """The rows without later copies, in order."""
    low = rows.min(axis=0, initial=0).astype(np.int64)
    sizes = rows.max(axis=0, initial=0) - low + 1
    if float(np.prod(sizes.astype(float))) < 2**63:
        # One number per fact: sorting numbers is several times faster than sorting rows.
        key = np.ravel_multi_index(tuple((rows - low).T), tuple(sizes.tolist()))
        ordered = np.sort(key)
        if not (ordered[1:] == ordered[:-1]).any():
            return rows
        first = np.unique(key, return_index=True)[1]
    else:
        first = np.unique(rows, axis=0, return_index=True)[1]
    return rows if len(first) == len(rows) else rows[np.sort(first)]

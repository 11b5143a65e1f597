"""Graphs that are in memory: data frames of pandas or polars."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from rulerag.errors import DataFormatError, EmptyDataError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.readers.headers import Header, choose_columns
from rulerag.kg.readers.load import make_graph
from rulerag.kg.readers.tables import Facts, add_columns


def graph_from_frame(
    frame: Any,
    *,
    columns: str | Mapping[str, str] | None = None,
    dates: str | None = None,
    name: str = "graph",
) -> KnowledgeGraph:
    """What :meth:`~rulerag.kg.KnowledgeGraph.from_frame` gives, which states the arguments."""
    if not hasattr(frame, "columns") or not hasattr(frame, "__getitem__"):
        raise DataFormatError(
            f"expected a data frame of pandas or polars, found {type(frame).__name__}",
            hint="from rows of your own: KnowledgeGraph.from_facts([(subject, relation, object)])",
        )
    names = [str(column) for column in frame.columns]
    if len(set(names)) < len(names):
        raise DataFormatError(f"two columns have one name: {', '.join(names)}")
    if not len(frame):
        raise EmptyDataError("the frame holds no row")
    cells = [[_text(value) for value in list(frame[column])] for column in frame.columns]
    rows = [list(row) for row in zip(*cells, strict=True)]
    header = choose_columns(names, rows[:50], columns)
    header = Header(header.columns, tuple(names))
    facts = Facts(int("time" in header.columns))
    add_columns(facts, "train", header, enumerate(rows, start=1))
    notes = {
        "columns": {role: header.name(role) for role in header.columns},
        "other_columns": header.others,
    }
    return make_graph(facts.graph(notes, dates), name, notes={"layout": "frame"})


def _text(value: Any) -> str:
    """A cell as a table would have it; empty where a value is missing."""
    if isinstance(value, str):
        return " ".join(value.split())
    try:
        if value is None or value != value:  # NaN and NaT differ from themselves
            return ""
    except TypeError:  # pandas.NA has no truth value
        return ""
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%d %H:%M") if value.hour or value.minute else _day(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return " ".join(str(value).split())


def _day(value: dt.datetime) -> str:
    return value.date().isoformat()

"""Graphs that are in memory: data frames of pandas or polars, graphs of networkx."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from rulerag.errors import DataFormatError, EmptyDataError, UnknownNameError, did_you_mean
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.labels import LabelCandidates
from rulerag.kg.readers.headers import Header, by_words, choose_columns
from rulerag.kg.readers.load import make_graph
from rulerag.kg.readers.tables import Facts

#: The attributes of a node that name it for people, those that say most first.
NAME_ATTRIBUTES = ("label", "name", "title")


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
    facts = Facts("time" in header.columns, dates)
    facts.add("train", header, enumerate(rows, start=1))
    notes = {
        "columns": {role: header.name(role) for role in header.columns},
        "other_columns": header.others,
    }
    return make_graph(facts.finished(notes), name, notes={"layout": "frame"})


def graph_from_networkx(
    graph: Any,
    *,
    relation: str | None = None,
    time: str | None = None,
    dates: str | None = None,
    name: str = "graph",
) -> KnowledgeGraph:
    """What :meth:`~rulerag.kg.KnowledgeGraph.from_networkx` gives, which states the arguments."""
    if not hasattr(graph, "edges") or not hasattr(graph, "nodes"):
        raise DataFormatError(f"expected a networkx graph, found {type(graph).__name__}")
    if not graph.number_of_edges():
        raise EmptyDataError("the graph holds no edge")
    attributes = list(dict.fromkeys(key for *_, data in graph.edges(data=True) for key in data))
    known = [str(attribute) for attribute in attributes]
    found = {
        role: [attributes[n] for n in places]
        for role, places in by_words(known).items()
        if role in ("relation", "time")
    }
    for role, given in (("relation", relation), ("time", time)):
        if given is not None and given not in attributes:
            raise UnknownNameError(
                f"no edge has the attribute {given!r}", key=role, hint=did_you_mean(given, known)
            )
        if given is not None:
            found[role] = [given]
    by_key = not found.get("relation") and graph.is_multigraph()
    if by_key:
        by_key = all(isinstance(key, str) for *_, key in graph.edges(keys=True))
    if not by_key and len(found.get("relation", ())) != 1:
        raise DataFormatError(
            "which attribute of an edge is its relation cannot be found; edges have "
            + (", ".join(known) or "no attributes"),
            key="relation",
            hint="name it: KnowledgeGraph.from_networkx(graph, relation='…')",
        )
    when = found.get("time", [])
    if len(when) > 1:
        raise DataFormatError(
            f"several attributes may be the time: {', '.join(map(str, when))}",
            key="time",
            hint="name one: KnowledgeGraph.from_networkx(graph, time='…')",
        )
    what = "key" if by_key else str(found["relation"][0])
    names = ("source", what, "target", *map(str, when))
    columns = {"subject": 0, "relation": 1, "object": 2, **({"time": 3} if when else {})}
    facts = Facts(bool(when), dates)

    def rows() -> Iterator[tuple[int, list[str]]]:
        edges = graph.edges(keys=True, data=True) if by_key else graph.edges(data=True)
        for number, (source, target, *key, data) in enumerate(edges, start=1):
            does = key[0] if by_key else data.get(found["relation"][0])
            values = (source, does, target, *(data.get(one) for one in when))
            yield number, [_text(value) for value in values]

    facts.add("train", Header(columns, names), rows())
    raw = facts.finished(
        {
            "columns": dict(zip(columns, names, strict=True)),
            "directed": graph.is_directed(),
            "other_columns": [one for one in known if one not in names],
        }
    )
    raw.labels = _node_labels(graph)
    return make_graph(raw, name, notes={"layout": "networkx"})


def _node_labels(graph: Any) -> dict[str, LabelCandidates]:
    labels: dict[str, LabelCandidates] = {}
    for node, data in graph.nodes(data=True):
        given = next((_text(data[one]) for one in NAME_ATTRIBUTES if data.get(one)), "")
        if given:
            labels[_text(node)] = (given, f"{given} ({_text(node)})")
    return labels


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

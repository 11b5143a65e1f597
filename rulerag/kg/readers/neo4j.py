"""Exports of Neo4j: CSV files of nodes and relationships."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rulerag.errors import ConfigError, DataFormatError, EmptyDataError
from rulerag.kg.labels import LabelCandidates
from rulerag.kg.readers.detect import GraphFiles, RawGraph
from rulerag.kg.readers.headers import NEO4J_FIELD, NONE, Header, by_words, find_sheet, read_columns
from rulerag.kg.readers.tables import Facts, add_columns

_NAMES = ("name", "title", "label", "caption")  # properties that name a node, the best first
_TYPE = re.compile(r":[a-z]+(\[\])?$")  # as in since:date


@dataclass(frozen=True)
class _Fields:
    """The columns of a file: those of the format by kind, and properties by name."""

    places: Mapping[str, int]
    spaces: Mapping[str, str]
    properties: Mapping[str, int]

    @classmethod
    def of(cls, header: Sequence[str]) -> _Fields:
        places: dict[str, int] = {}
        spaces: dict[str, str] = {}
        properties: dict[str, int] = {}
        for number, text in enumerate(header):
            field = NEO4J_FIELD.fullmatch(text)
            if field is None or (kind := field[2]) in places:
                properties[_TYPE.sub("", text)] = number
                continue
            places[kind] = number
            spaces[kind] = field[3] or ""
            if kind == "ID" and field[1]:
                properties[field[1]] = number
        return cls(places, spaces, properties)

    def name(self, row: Sequence[str], kind: str) -> str:
        """The raw name of the node that a cell holds the id of."""
        cell, space = row[self.places[kind]], self.spaces[kind]
        return f"{space}/{cell}" if space and cell else cell


def read_neo4j(
    files: GraphFiles, columns: str | Mapping[str, str] | None, dates: str | None
) -> RawGraph:
    """Read an export of Neo4j; relationships are facts, a node's name its label.

    Relationships have times where each of their files has a property that is called as a time is.

    Args:
        files: the files, in ``parts``.
        columns: ``time=PROPERTY``, or ``time=none`` for undated facts; found when None.
        dates: the order of dates with slashes; found when None.

    Raises:
        DataFormatError: a row has another width, or a date cannot be read; names file and line.
        EmptyDataError: there is no relationship.
        ConfigError: ``columns`` names more than a time, or a property that is not there.
    """
    named = read_columns(columns) if columns is not None else {}
    if named.keys() - {"time"}:
        raise ConfigError(
            "an export of Neo4j has its own columns of nodes and types",
            key="columns",
            hint="name the property of dates alone: time=since, or time=none",
        )
    labels: dict[str, LabelCandidates] = {}
    edges: list[tuple[Path, _Fields, list[tuple[int, list[str]]]]] = []
    for path in files.parts:
        rows = list(find_sheet(path).rows())
        fields = _Fields.of(rows[0][1])
        linked = []
        for line, row in islice(rows, 1, None):
            if len(row) != len(rows[0][1]):
                raise DataFormatError(
                    f"expected {len(rows[0][1])} columns, found {len(row)}",
                    path=path,
                    line=line,
                    hint="every row has a cell for each column, an empty one too",
                )
            if "START_ID" in fields.places and row[fields.places["START_ID"]]:
                linked.append((line, row))
            elif "ID" in fields.places and row[fields.places["ID"]]:
                labels.update(_labels(row, fields))
        if linked:
            edges.append((path, fields, linked))
    times = [_time(fields, rows, named.get("time")) for _, fields, rows in edges]
    dated = bool(times) and all(times)
    facts = Facts(int(dated))
    for (path, fields, rows), time in zip(edges, times, strict=True):
        where = {"subject": 0, "relation": 1, "object": 2, **({"time": 3} if dated else {})}
        header = Header(where, (":START_ID", ":TYPE", ":END_ID", *([str(time)] * dated)))
        linked = [(n, _fact(row, fields, path, time)) for n, row in rows]
        add_columns(facts, "train", header, linked, path)
    try:
        raw = facts.graph({"other_columns": _others(edges, times, dated=dated)}, dates)
    except EmptyDataError as error:
        raise EmptyDataError(
            "holds no relationship",
            path=files.root,
            hint="export the relationships too: a file with :START_ID, :END_ID and :TYPE",
        ) from error
    known = set(raw.entities)
    raw.notes["nodes_without_relationship"] = len(labels.keys() - known)
    words = {name: (name.replace("_", " ").lower(),) for name in raw.relations if name.isupper()}
    raw.labels = {**{name: one for name, one in labels.items() if name in known}, **words}
    return raw


def _fact(row: list[str], fields: _Fields, path: Path, time: str | None) -> list[str]:
    """Start, type and end of a relationship, and its time where it has one."""
    place = fields.places.get("TYPE")
    does = path.name.partition(".")[0] if place is None else row[place]
    cells = [fields.name(row, "START_ID"), does, fields.name(row, "END_ID")]
    return cells if time is None else [*cells, row[fields.properties[time]]]


def _labels(row: Sequence[str], fields: _Fields) -> dict[str, LabelCandidates]:
    name = fields.name(row, "ID")
    text = next((row[fields.properties[one]] for one in _NAMES if one in fields.properties), "")
    kind = row[fields.places["LABEL"]] if "LABEL" in fields.places else ""
    kind = " ".join(re.split(r"[;:]", kind)).strip()
    return {name: (text, *([f"{text} ({kind})"] * bool(kind)), f"{text} ({name})")} if text else {}


def _time(fields: _Fields, rows: Sequence[tuple[int, list[str]]], named: str | None) -> str | None:
    """The property of relationships that holds their time: one that most of them have."""
    if named is not None:
        if named != NONE and named not in fields.properties:
            raise ConfigError(
                f"there is no property {named!r} in each file of relationships",
                key="columns",
                hint=f"properties here: {', '.join(fields.properties) or 'none'}",
            )
        return None if named == NONE else named
    filled = [
        name
        for name, place in fields.properties.items()
        if 2 * sum(bool(row[place]) for _, row in rows) > len(rows)
    ]
    columns = by_words(filled).get("time", [])
    return filled[columns[0]] if len(columns) == 1 else None


def _others(
    edges: Sequence[tuple[Path, _Fields, object]], times: Sequence[str | None], *, dated: bool
) -> list[str]:
    """Properties of relationships that are not read."""
    names = dict.fromkeys(name for _, fields, _ in edges for name in fields.properties)
    return [name for name in names if not dated or name not in times]

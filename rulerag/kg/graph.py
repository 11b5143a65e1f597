"""Knowledge graphs as integer-coded columns; names and labels only at the edge."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints
from rulerag.errors import DataFormatError, EmptyDataError
from rulerag.io import fingerprint_object
from rulerag.kg.calendar import Calendar
from rulerag.kg.labels import entity_candidates, make_labels, relation_candidates
from rulerag.kg.vocabulary import Vocabulary
from rulerag.types import Fact


@dataclass(frozen=True)
class FactTable:
    """Facts as columns of equal length; row i is one fact.

    Args:
        entities: names of entity ids.
        relations: names of relation ids.
        subject: int32 array of shape (n,), entity ids.
        relation: int32 array of shape (n,), relation ids.
        object: int32 array of shape (n,), entity ids.
        timestamp: int32 array of shape (n,), or None for static facts.
        calendar: how timestamps read.
        name: what the table is called in messages.
    """

    entities: Vocabulary
    relations: Vocabulary
    subject: Ints
    relation: Ints
    object: Ints
    timestamp: Ints | None = None
    calendar: Calendar = field(default_factory=Calendar)
    name: str = "facts"

    @classmethod
    def of(
        cls,
        rows: Ints,
        entities: Vocabulary,
        relations: Vocabulary,
        calendar: Calendar,
        name: str = "facts",
    ) -> FactTable:
        """The table of rows (subject, relation, object[, timestamp]) of shape (n, 3 or 4)."""
        columns = (np.ascontiguousarray(column, dtype=np.int32) for column in rows.T)
        subject, relation, object_, *times = columns
        time = times[0] if times else None
        return cls(entities, relations, subject, relation, object_, time, calendar, name)

    def __len__(self) -> int:
        return int(self.subject.shape[0])

    @property
    def is_temporal(self) -> bool:
        """Whether the facts carry timestamps."""
        return self.timestamp is not None

    @property
    def rows(self) -> Ints:
        """The facts as an int32 array of shape (n, 3), or (n, 4) with timestamps."""
        columns = (self.subject, self.relation, self.object, self.timestamp)
        return np.stack([column for column in columns if column is not None], axis=1)

    def fact(self, row: int) -> Fact:
        """The fact of one row, by raw names."""
        time = None if self.timestamp is None else int(self.timestamp[row])
        return Fact(
            self.entities.names[self.subject[row]],
            self.relations.names[self.relation[row]],
            self.entities.names[self.object[row]],
            time,
        )

    def __iter__(self) -> Iterator[Fact]:
        entities, relations = self.entities.names, self.relations.names
        times: Iterable[int | None] = (
            [None] * len(self) if self.timestamp is None else self.timestamp.tolist()
        )
        columns = (self.subject.tolist(), self.relation.tolist(), self.object.tolist())
        for s, r, o, t in zip(*columns, times, strict=True):
            yield Fact(entities[s], relations[r], entities[o], t)

    def select(self, rows: npt.NDArray[np.generic], name: str | None = None) -> FactTable:
        """The table of some rows (an index array or a Boolean mask of shape (n,))."""
        time = None if self.timestamp is None else self.timestamp[rows]
        return replace(
            self,
            subject=self.subject[rows],
            relation=self.relation[rows],
            object=self.object[rows],
            timestamp=time,
            name=name or self.name,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of names, ids and facts, independent of files, labels and calendar."""
        digest = hashlib.sha256(self.rows.tobytes()).hexdigest()
        return fingerprint_object([self.entities.names, self.relations.names, len(self), digest])


def _as_facts(split: str, rows: Iterable[Fact | tuple[str, ...]]) -> list[Fact]:
    facts = []
    for number, row in enumerate(rows):
        fact = Fact(*row) if len(row) in (3, 4) else None
        time = fact.timestamp if fact is not None else None
        if (
            fact is None
            or not all(isinstance(name, str) and name for name in fact[:3])
            or not (time is None or (isinstance(time, int | np.integer) and abs(time) < 2**31))
        ):
            raise DataFormatError(
                f"fact {number} of {split} is no (subject, relation, object[, timestamp]): {row!r}",
                hint="three names that are not empty, then a whole number for dated facts",
            )
        facts.append(fact)
    return facts


class KnowledgeGraph:
    """A graph with its vocabularies and splits.

    Args:
        entities: names of entity ids.
        relations: names of relation ids.
        splits: tables by split name, all over the same vocabularies.
        calendar: how timestamps read.
        name: what the graph is called.
        notes: what the loader saw and did (duplicates dropped, lines read), for reports.
    """

    def __init__(
        self,
        entities: Vocabulary,
        relations: Vocabulary,
        splits: Mapping[str, FactTable],
        *,
        calendar: Calendar | None = None,
        name: str = "graph",
        notes: Mapping[str, object] | None = None,
    ) -> None:
        self.entities = entities
        self.relations = relations
        self.splits = dict(splits)
        self.calendar = calendar or Calendar()
        self.name = name
        self.notes = dict(notes or {})

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        layout: str = "auto",
        labels: str | Path | None = None,
        calendar: Calendar | None = None,
        columns: str | Mapping[str, str] | None = None,
        dates: str | None = None,
    ) -> KnowledgeGraph:
        """Read a graph folder or a single file of facts; see :mod:`rulerag.kg.readers.load`.

        Args:
            path: the folder (``train.txt`` …) or one file.
            layout: ``auto`` finds it from the files; or ``quadruples``, ``openke``, ``triples``,
                ``intervals``, ``intervals-by-time``, ``table``.
            labels: a file or folder of readable labels, where the graph has none beside it.
            calendar: how timestamps read; recognised for the public graphs when None.
            columns: the order of named columns, ``hrt``, ``rht`` or ``htr``; of a table with a
                header, its columns: ``subject=Person,relation=Does,object=What,time=Day``; found
                when None.
            dates: of a table, ``day-first`` or ``month-first``; found when None.

        Raises:
            DataError: a path is missing.
            DataFormatError: a line or the layout is wrong; names file and line.
            UnknownNameError: a fact uses an id that the vocabulary lacks.
            EmptyDataError: there is no training fact.
        """
        # The readers make graphs, so they import this module; it finds them by name.
        load_graph = importlib.import_module("rulerag.kg.readers.load").load_graph
        graph: KnowledgeGraph = load_graph(
            path, layout=layout, labels=labels, calendar=calendar, columns=columns, dates=dates
        )
        return graph

    @classmethod
    def from_facts(
        cls,
        train: Iterable[Fact | tuple[str, ...]],
        *,
        valid: Iterable[Fact | tuple[str, ...]] = (),
        test: Iterable[Fact | tuple[str, ...]] = (),
        calendar: Calendar | None = None,
        name: str = "graph",
    ) -> KnowledgeGraph:
        """Build a graph from facts by name; ids follow first appearance, labels are made.

        Args:
            train: the training facts.
            valid: the validation facts.
            test: the test facts.
            calendar: how timestamps read.
            name: what the graph is called.

        Raises:
            DataFormatError: some facts are dated and others are not, or a fact has another form.
        """
        given = {"train": train, "valid": valid, "test": test}
        lists = {split: _as_facts(split, facts) for split, facts in given.items()}
        everything = [fact for facts in lists.values() for fact in facts]
        dated = {fact.timestamp is not None for fact in everything}
        if len(dated) > 1:
            raise DataFormatError("some facts are dated and others are not")
        ends = (end for fact in everything for end in (fact.subject, fact.object))
        entity_names = list(dict.fromkeys(ends))
        relation_names = list(dict.fromkeys(fact.relation for fact in everything))
        entities = Vocabulary(entity_names, make_labels(entity_names, entity_candidates))
        relations = Vocabulary(relation_names, make_labels(relation_names, relation_candidates))
        calendar = calendar or Calendar()
        splits = {}
        for split, facts in lists.items():
            if not facts and split != "train":
                continue
            rows = [
                (entities.id(s), relations.id(r), entities.id(o), t or 0) for s, r, o, t in facts
            ]
            ids = np.array(rows, dtype=np.int32).reshape(-1, 4)[:, : 4 if True in dated else 3]
            splits[split] = FactTable.of(ids, entities, relations, calendar, split)
        return cls(entities, relations, splits, calendar=calendar, name=name)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        columns: str | Mapping[str, str] | None = None,
        dates: str | None = None,
        name: str = "graph",
    ) -> KnowledgeGraph:
        """Build a graph from a data frame of pandas or polars, one fact a row.

        Rows with an empty cell are left out; ``notes`` of the graph counts them.

        Args:
            frame: the frame.
            columns: its columns by role, such as ``{"subject": "Person", "relation": "Does",
                "object": "What", "time": "Day"}`` (``"time": "none"``: without dates); found from
                their names when None.
            dates: ``day-first`` or ``month-first``, for dates with slashes; found when None.
            name: what the graph is called.

        Raises:
            DataFormatError: the columns cannot be found, or a cell is no date; names the row.
            ConfigError: a named column is not there.
            EmptyDataError: there is no fact.
        """
        make = importlib.import_module("rulerag.kg.readers.frames").graph_from_frame
        graph: KnowledgeGraph = make(frame, columns=columns, dates=dates, name=name)
        return graph

    def split(self, name: str) -> FactTable:
        """The table of a split.

        Raises:
            EmptyDataError: the graph has no such split, or it is empty.
        """
        table = self.splits.get(name)
        if table is None or not len(table):
            have = ", ".join(n for n, t in self.splits.items() if len(t)) or "none"
            raise EmptyDataError(
                f"the graph {self.name!r} has no facts in its split {name!r}",
                hint=f"splits with facts: {have}",
            )
        return table

    @property
    def train(self) -> FactTable:
        """The training facts."""
        return self.split("train")

    @property
    def valid(self) -> FactTable:
        """The validation facts."""
        return self.split("valid")

    @property
    def test(self) -> FactTable:
        """The test facts."""
        return self.split("test")

    @property
    def is_temporal(self) -> bool:
        """Whether the facts carry timestamps."""
        return any(table.is_temporal for table in self.splits.values())

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of all splits, and of the labels and the calendar that make its texts."""
        calendar = self.calendar
        return fingerprint_object(
            {
                "splits": {n: t.fingerprint for n, t in sorted(self.splits.items())},
                "labels": [self.entities.labels, self.relations.labels],
                "calendar": [calendar.unit, calendar.origin, calendar.step],
            }
        )

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(table):,}" for name, table in self.splits.items())
        kind = "temporal" if self.is_temporal else "static"
        return (
            f"KnowledgeGraph({self.name!r}, {kind}, {len(self.entities):,} entities, "
            f"{len(self.relations):,} relations, {sizes} facts)"
        )

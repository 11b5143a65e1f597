"""Knowledge graphs as integer-coded columns; names and labels only at the edge."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rulerag.errors import DataFormatError, EmptyDataError
from rulerag.io import fingerprint_object
from rulerag.kg.calendar import Calendar
from rulerag.kg.labels import entity_ladder, make_labels, relation_ladder
from rulerag.kg.vocabulary import Vocabulary
from rulerag.types import Fact

__all__ = ["FactTable", "KnowledgeGraph", "Vocabulary"]

Ints = npt.NDArray[np.int32]


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

    def __len__(self) -> int:
        return int(self.subject.shape[0])

    @property
    def is_temporal(self) -> bool:
        """Whether the facts carry timestamps."""
        return self.timestamp is not None

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
        return FactTable(
            self.entities,
            self.relations,
            self.subject[rows],
            self.relation[rows],
            self.object[rows],
            None if self.timestamp is None else self.timestamp[rows],
            self.calendar,
            name or self.name,
        )

    def between(self, start: int | None = None, end: int | None = None) -> FactTable:
        """The facts with ``start <= timestamp < end``; an open end where None is given.

        Raises:
            DataFormatError: the facts are not dated.
        """
        if self.timestamp is None:
            raise DataFormatError(f"{self.name} has no timestamps", hint="use a temporal graph")
        keep = np.ones(len(self), dtype=bool)
        if start is not None:
            keep &= self.timestamp >= start
        if end is not None:
            keep &= self.timestamp < end
        return self.select(keep)

    @cached_property
    def _relation_rows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        order = np.argsort(self.relation, kind="stable")
        bounds = np.searchsorted(self.relation[order], np.arange(len(self.relations) + 1))
        return order, bounds

    def rows_of_relation(self, relation: int) -> npt.NDArray[np.int64]:
        """Rows with this relation id, in table order."""
        order, bounds = self._relation_rows
        return order[bounds[relation] : bounds[relation + 1]]

    @cached_property
    def _subject_rows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        order = np.argsort(self.subject, kind="stable")
        return order, np.searchsorted(self.subject[order], np.arange(len(self.entities) + 1))

    @cached_property
    def _object_rows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        order = np.argsort(self.object, kind="stable")
        return order, np.searchsorted(self.object[order], np.arange(len(self.entities) + 1))

    def rows_of_entity(self, entity: int, *, as_object: bool = False) -> npt.NDArray[np.int64]:
        """Rows in which the entity is the subject (or the object), in table order."""
        order, bounds = self._object_rows if as_object else self._subject_rows
        return order[bounds[entity] : bounds[entity + 1]]

    @cached_property
    def fingerprint(self) -> str:
        """A fingerprint of names, ids and facts, independent of files, labels and calendar."""
        columns = [self.subject, self.relation, self.object]
        if self.timestamp is not None:
            columns.append(self.timestamp)
        rows = np.stack(columns, axis=1)
        parts: list[object] = [self.entities.names, self.relations.names, len(self)]
        return fingerprint_object([*parts, _digest(rows)])


def _digest(array: npt.NDArray[np.int32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


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
        columns: str | None = None,
    ) -> KnowledgeGraph:
        """Read a graph folder or a single file of facts; see :mod:`rulerag.kg.loaders`.

        Args:
            path: the folder (``train.txt`` …) or one file.
            layout: ``auto`` finds it from the files; or ``quadruples``, ``openke``, ``triples``,
                ``intervals``, ``intervals-by-time``.
            labels: a file or folder of readable labels, where the graph has none beside it.
            calendar: how timestamps read; recognised for the public graphs when None.
            columns: the order of named columns, ``hrt``, ``rht`` or ``htr``; found when None.

        Raises:
            DataError: a path is missing.
            DataFormatError: a line or the layout is wrong; names file and line.
            UnknownNameError: a fact uses an id that the vocabulary lacks.
            EmptyDataError: there is no training fact.
        """
        from rulerag.kg.loaders import load_graph

        return load_graph(path, layout=layout, labels=labels, calendar=calendar, columns=columns)

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
        given = (("train", train), ("valid", valid), ("test", test))
        lists = {split: _as_facts(split, facts) for split, facts in given}
        everything = [fact for facts in lists.values() for fact in facts]
        dated = {fact.timestamp is not None for fact in everything}
        if len(dated) > 1:
            raise DataFormatError("some facts are dated and others are not")
        ends = (end for fact in everything for end in (fact.subject, fact.object))
        entity_names = list(dict.fromkeys(ends))
        relation_names = list(dict.fromkeys(fact.relation for fact in everything))
        entities = Vocabulary(entity_names, make_labels(entity_names, entity_ladder))
        relations = Vocabulary(relation_names, make_labels(relation_names, relation_ladder))
        calendar = calendar or Calendar()
        splits = {}
        for split, facts in lists.items():
            if not facts and split != "train":
                continue
            ids = np.array(
                [(entities.id(s), relations.id(r), entities.id(o), t or 0) for s, r, o, t in facts],
                dtype=np.int32,
            ).reshape(-1, 4)
            s, r, o, t = (np.ascontiguousarray(ids[:, c]) for c in range(4))
            times = t if dated == {True} else None
            splits[split] = FactTable(entities, relations, s, r, o, times, calendar, split)
        return cls(entities, relations, splits, calendar=calendar, name=name)

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

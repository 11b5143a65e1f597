"""Knowledge graphs as integer-coded columns; names and labels only at the edge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rulerag.errors import DataFormatError, EmptyDataError, UnknownNameError, did_you_mean
from rulerag.io import fingerprint_object
from rulerag.kg.calendar import Calendar
from rulerag.types import Fact

__all__ = ["FactTable", "KnowledgeGraph", "Vocabulary"]

Ints = npt.NDArray[np.int32]


class Vocabulary:
    """Names by id, ids by name, and one readable label for each name.

    Args:
        names: the raw names; position is the id.
        labels: readable labels in the same order, unique; the names themselves when None.

    Raises:
        DataFormatError: a name or a label occurs twice.
    """

    def __init__(self, names: Sequence[str], labels: Sequence[str] | None = None) -> None:
        self.names = list(names)
        self.labels = list(labels) if labels is not None else self.names
        self._ids = {name: i for i, name in enumerate(self.names)}
        if len(self._ids) != len(self.names) or len(self.labels) != len(self.names):
            twice = next((n for i, n in enumerate(self.names) if self._ids[n] != i), "")
            raise DataFormatError(f"the name {twice!r} has two ids")
        if labels is not None and len(set(self.labels)) != len(self.labels):
            raise DataFormatError("two names share one label", hint="labels must be unique")

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def id(self, name: str) -> int:
        """The id of a raw name, or of a label.

        Raises:
            UnknownNameError: neither; suggests close names.
        """
        found = self._ids.get(name)
        if found is None:
            found = self._label_ids.get(name)
        if found is None:
            raise UnknownNameError(
                f"{name!r} is not in the graph", hint=did_you_mean(name, self.labels)
            )
        return found

    def label(self, name: str) -> str:
        """The readable label of a raw name; a name that is not here is returned as it is."""
        found = self._ids.get(name)
        return name if found is None else self.labels[found]

    def name_of_label(self, label: str) -> str:
        """The raw name behind a label.

        Raises:
            UnknownNameError: no name has it; suggests close labels.
        """
        return self.names[self.id(label)] if label not in self._label_ids else (
            self.names[self._label_ids[label]]
        )

    @cached_property
    def _label_ids(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels)}


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
        """A fingerprint of the facts by name, independent of ids and files."""
        columns = [self.subject, self.relation, self.object]
        if self.timestamp is not None:
            columns.append(self.timestamp)
        rows = np.stack(columns, axis=1)
        parts: list[object] = [self.entities.names, self.relations.names, len(self)]
        return fingerprint_object([*parts, _digest(rows)])


def _digest(array: npt.NDArray[np.int32]) -> str:
    import hashlib

    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


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
                ``intervals``.
            labels: a file of readable labels, where the folder has none of its own.
            calendar: how timestamps read; recognised for the public graphs when None.
            columns: the order of named triples, ``hrt`` or ``rht``; found when None.

        Raises:
            DataError: a file is missing; DataFormatError: a line or the layout is wrong.
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
        """Build a graph from facts by name; ids follow first appearance.

        Raises:
            DataFormatError: some facts are dated and others are not.
        """
        lists = {
            split: [Fact(*fact) for fact in facts]  # type: ignore[arg-type]
            for split, facts in (("train", train), ("valid", valid), ("test", test))
        }
        everything = [fact for facts in lists.values() for fact in facts]
        dated = {fact.timestamp is not None for fact in everything}
        if len(dated) > 1:
            raise DataFormatError("some facts are dated and others are not")
        ends = (end for fact in everything for end in (fact.subject, fact.object))
        entities = Vocabulary(list(dict.fromkeys(ends)))
        relations = Vocabulary(list(dict.fromkeys(fact.relation for fact in everything)))
        calendar = calendar or Calendar()
        splits = {}
        for split, facts in lists.items():
            if not facts and split != "train":
                continue
            ids = np.array(
                [
                    (entities.id(s), relations.id(r), entities.id(o), t or 0)
                    for s, r, o, t in facts
                ],
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
        """A fingerprint of all splits."""
        return fingerprint_object({n: t.fingerprint for n, t in sorted(self.splits.items())})

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(table):,}" for name, table in self.splits.items())
        kind = "temporal" if self.is_temporal else "static"
        return (
            f"KnowledgeGraph({self.name!r}, {kind}, {len(self.entities):,} entities, "
            f"{len(self.relations):,} relations, {sizes} facts)"
        )

"""The facts of a corpus as candidate scorers see them, each with the document that states it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from rulerag.arrays import Bools, Doubles, Floats, Longs
from rulerag.errors import EmptyDataError
from rulerag.io import fingerprint_object
from rulerag.kg import FactTable, corpus_facts, derived_phrase
from rulerag.kg.grounding import TableIndex
from rulerag.rules import readable
from rulerag.types import Document, Fact, Query

T = TypeVar("T")
NO_TIME = np.iinfo(np.int32).max
"""Stands for a time after all facts."""
INVERSE = "^"
"""Stands before a relation whose subject is asked for."""


class CorpusFacts:
    """What the documents of a corpus state, coded as columns.

    Args:
        documents: the corpus; those without facts state nothing.
        labels: readable names, under ``entities`` and ``relations``; names in readable form where
            one is missing.

    Raises:
        EmptyDataError: no document states a fact.
        DataFormatError: some facts are dated and others are not.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        labels: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.documents = documents
        self.labels = labels or {}
        self.table, self.owner = corpus_facts(documents)
        if not len(self.table):
            raise EmptyDataError(
                "no document states a fact, so no candidate can be scored",
                hint="use documents with metadata.facts (rulerag extract makes such a corpus)",
            )
        self.forward: CorpusFacts | None = None
        """The facts as stated, where the ends of these are swapped."""

    @classmethod
    def of_table(cls, table: FactTable) -> CorpusFacts:
        """The facts of a table that no document states: they can be scored, and not be shown.

        Raises:
            EmptyDataError: the table holds none.
        """
        if not len(table):
            raise EmptyDataError(f"{table.name} holds no fact, so no candidate can be scored")
        made = cls.__new__(cls)
        made.documents, made.labels, made.forward = (), {}, None
        made.table, made.owner = table, np.arange(len(table))
        return made

    @cached_property
    def reversed(self) -> CorpusFacts:
        """The same facts with their ends swapped, where questions ask for subjects."""
        made = self.select(np.arange(len(self)))
        subject, object_ = self.table.subject, self.table.object
        made.table = replace(self.table, subject=object_, object=subject)
        made.forward = self
        return made

    def select(self, rows: Longs | Bools) -> CorpusFacts:
        """Some of the facts, over the same names and documents."""
        made = CorpusFacts.__new__(CorpusFacts)
        made.documents, made.labels, made.forward = self.documents, self.labels, None
        made.table, made.owner = self.table.select(rows), self.owner[rows]
        if self.forward is not None:
            made.forward = self.forward.select(rows)
        return made

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def fingerprint(self) -> str:
        """Names the facts and the documents that state them."""
        return fingerprint_object([self.table.fingerprint, self.owner.tolist()])

    @property
    def names(self) -> Sequence[str]:
        """The names of entities by id."""
        return self.table.entities.names

    @property
    def is_dated(self) -> bool:
        """Whether the facts have times."""
        return self.table.is_temporal

    @cached_property
    def times(self) -> Longs:
        """The time of each fact; 0 for undated ones."""
        found = self.table.timestamp
        return np.zeros(len(self), np.int64) if found is None else found.astype(np.int64)

    @cached_property
    def time_step(self) -> int:
        """The usual distance of two neighbouring times; 1 for undated facts."""
        gaps = np.diff(np.unique(self.times))
        return int(np.median(gaps)) if len(gaps) else 1

    def coded(self, queries: Sequence[Query]) -> tuple[Longs, Longs, Longs]:
        """Subject, relation and time of queries, arrays of shape (q,).

        Unknown names are -1. A question for the subject of a relation names it ``^relation``: it
        is one of the facts with swapped ends (:attr:`reversed`), and unknown elsewhere. A time that
        no fact reaches is :data:`NO_TIME`, and so is that of an undated query: every fact is before
        it.
        """
        entities, relations = self.table.entities, self.table.relations
        last = int(self.times.max(initial=-1))
        rows = []
        for query in queries:
            name = query.relation if self.forward is None else query.relation.removeprefix(INVERSE)
            undated = not self.is_dated or query.timestamp is None or query.timestamp > last
            rows.append(
                (
                    entities.id(query.subject) if query.subject in entities else -1,
                    relations.id(name) if name in relations else -1,
                    NO_TIME if undated else query.timestamp,
                )
            )
        subject, relation, time = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return subject, relation, time

    def now(self, time: int) -> int:
        """A time as coded by :meth:`coded`, as a time of the calendar."""
        return int(self.times.max(initial=0)) + 1 if time == NO_TIME else time

    @cached_property
    def remembered(self) -> dict[tuple[object, ...], dict[Any, Any]]:
        """What was made of these facts, by what it is and what for."""
        return {}

    def remember(
        self, kind: tuple[object, ...], key: object, make: Callable[[], T], most: int = 4
    ) -> T:
        """What was made of these facts before; made where it was not, and kept for others.

        Args:
            kind: what it is, with the settings that it depends on.
            key: what for, such as a time.
            make: makes it.
            most: how many of a kind are kept.
        """
        known = self.remembered.setdefault(kind, {})
        if key not in known:
            if len(known) >= most:
                known.clear()
            known[key] = make()
        found: T = known[key]
        return found

    def fresh(self, rows: Longs, time: int, decay: float) -> Floats:
        """How much some facts count at a time, ``exp(-decay * age)``; 1 for undated ones."""
        if not self.is_dated:
            return np.ones(len(rows), np.float32)
        age = self.now(time) - self.times[rows]
        # So that the oldest of a long past still count a little, and stay apart from nothing.
        faded: Floats = np.maximum(np.exp(-decay * age), 1e-6).astype(np.float32)
        return faded

    def rows(self, relation: int, time: int = NO_TIME) -> Longs:
        """The rows of a relation's facts from before a time, in the order of the corpus."""
        bounds, order = self._by_relation
        found = order[bounds[relation] : bounds[relation + 1]] if relation >= 0 else order[:0]
        return found if time == NO_TIME else found[self.times[found] < time]

    def rows_of(self, subject: int, relation: int) -> Longs:
        """The rows of a subject and a relation, in the order of the corpus."""
        if min(subject, relation) < 0:
            return np.zeros(0, np.int64)
        spans = self.index.spans(np.array([subject]), np.array([relation]))
        _, _, rows, _ = self.index.at(*spans)
        return np.sort(rows)

    def around(self, entity: int) -> Longs:
        """The rows of an entity's facts, as subject or as object, each once."""
        return self.index.rows_around(entity)

    def answers(self, relation: int, time: int = NO_TIME) -> tuple[Longs, Doubles]:
        """The objects of a relation and how often each is one, in the order that breaks ties.

        More frequent ones come first, then the first in the order of names.
        """

        def counted() -> tuple[Longs, Doubles]:
            objects = self.table.object[self.rows(relation, time)].astype(np.int64)
            found, counts = np.unique(objects, return_counts=True)
            order = np.lexsort((self.name_rank[found], -counts))
            return found[order], counts[order].astype(np.float64)

        return self.remember(("answers",), (relation, time), counted, most=4096)

    @cached_property
    def name_rank(self) -> Longs:
        """The place of each entity in the order of names."""
        rank = np.empty(len(self.names), np.int64)
        rank[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(rank))
        return rank

    def entities_named(self, name: str) -> Sequence[int]:
        """The entities whose readable name, or raw name, this is."""
        return self._by_label.get(name, ())

    @cached_property
    def _by_label(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for entity in range(len(self.names)):
            for name in {self.entity(entity), self.names[entity]}:
                found.setdefault(name, []).append(entity)
        return found

    def fact(self, row: int) -> Fact:
        """The fact of a row as it is stated, by raw names."""
        return self.table.fact(row) if self.forward is None else self.forward.fact(row)

    def document(self, row: int) -> Document:
        """The document that states the fact of a row."""
        return self.documents[int(self.owner[row])]

    def entity(self, entity: int) -> str:
        """An entity in words."""
        name = self.names[entity]
        return self.labels.get("entities", {}).get(name) or readable(name)

    def relation(self, relation: int) -> str:
        """What ties a subject to an object, in words: ``is … of`` where ends are swapped."""
        words = self._label(relation)
        return words if self.forward is None else f"is {words} of"

    def _label(self, relation: int) -> str:
        name = self.table.relations.names[relation]
        return self.labels.get("relations", {}).get(name) or readable(name)

    def answer(self, relation: int, entity: int) -> str:
        """What is said of a subject that has a candidate: "label Vanguard"."""
        if self.forward is not None:
            return self.tie(relation, entity, is_object=False)
        return f"{self._label(relation)} {self.entity(entity)}"

    def tie(self, relation: int, end: int, *, is_object: bool) -> str:
        """What a fact says of one of its ends: "has genre folk", "visits Bonn".

        Args:
            relation: of the fact.
            end: the other end.
            is_object: whether it is the fact's object of which this is said.
        """
        label, name = self._label(relation), self.entity(end)
        is_subject = is_object is (self.forward is not None)
        before, _, verb = derived_phrase(label).removesuffix(" {y}").partition("{x} ")
        if before:  # a noun
            return f"has {label} {name}" if is_subject else f"is {label} of {name}"
        if is_subject:
            return f"{verb} {name}"
        plain = not verb.endswith(":")
        return f"is one that {name} {verb}" if plain else f"is in “{name} {verb} …”"

    def sentence(self, row: int) -> str:
        """The fact of a row as it is stated, in words."""
        facts, table = self.forward or self, (self.forward or self).table
        ends = facts.entity(int(table.subject[row])), facts.entity(int(table.object[row]))
        return f"{ends[0]} {facts.relation(int(table.relation[row]))} {ends[1]}"

    @cached_property
    def _by_relation(self) -> tuple[Longs, Longs]:
        order = np.argsort(self.table.relation, kind="stable")
        sizes = np.bincount(self.table.relation, minlength=len(self.table.relations))
        return np.concatenate([[0], np.cumsum(sizes)]), order

    @cached_property
    def index(self) -> TableIndex:
        """The facts by entity, for joins."""
        return TableIndex(self.table)

"""The facts of a whole graph by entity, as sorted columns: joins are look-ups in them."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from rulerag.arrays import Longs
from rulerag.errors import DataFormatError
from rulerag.kg.graph import FactTable


class Neighbours(NamedTuple):
    """The facts around one entity, as columns of shape (n,).

    ``relation`` is the relation id where the entity is the subject, and the id plus the number
    of relations where it is the object; ``other`` is the fact's other end.
    """

    relation: Longs
    other: Longs
    timestamp: Longs | None
    row: Longs


class TableIndex:
    """Facts of a table by entity, as columns; serves tables of millions of rows.

    Args:
        facts: the table to index.
    """

    def __init__(self, facts: FactTable) -> None:
        self.facts = facts
        n = len(facts.relations)
        rows = np.arange(len(facts))
        anchor = np.concatenate([facts.subject, facts.object])
        order = np.argsort(anchor, kind="stable")
        self._bounds = np.searchsorted(anchor[order], np.arange(len(facts.entities) + 1))
        relation = facts.relation.astype(np.int64)
        self._relation = np.concatenate([relation, relation + n])[order]
        self._other = np.concatenate([facts.object, facts.subject]).astype(np.int64)[order]
        self._row = np.concatenate([rows, rows])[order]
        self._time = None
        if facts.timestamp is not None:
            self._time = np.concatenate([facts.timestamp, facts.timestamp]).astype(np.int64)[order]

    def neighbours(self, entity: int) -> Neighbours:
        """Every fact that the entity takes part in, seen from it (a loop is seen twice)."""
        part = slice(self._bounds[entity], self._bounds[entity + 1])
        time = None if self._time is None else self._time[part]
        return Neighbours(self._relation[part], self._other[part], time, self._row[part])

    @cached_property
    def _sorted(self) -> tuple[Longs, Longs, Longs, Longs | None]:
        """Codes ``(anchor * 2 R + relation) * N + other``, ascending, with other, row and time."""
        entities, directed = len(self.facts.entities), 2 * len(self.facts.relations)
        if directed * entities * entities >= 2**63:
            raise DataFormatError(
                f"{entities:,} entities and {directed // 2:,} relations are too many to join"
            )
        anchor = np.repeat(np.arange(entities), np.diff(self._bounds))
        codes = (anchor * directed + self._relation) * entities + self._other
        order = np.argsort(codes, kind="stable")
        time = None if self._time is None else self._time[order]
        return codes[order], self._other[order], self._row[order], time

    def spans(
        self, anchor: Longs, relation: Longs, other: Longs | None = None
    ) -> tuple[Longs, Longs]:
        """Where the facts around many entities stand, for :meth:`at`, before any is read.

        Args:
            anchor: int64 array of shape (n,), entities.
            relation: int64 array of shape (n,), directed relations seen from them.
            other: int64 array of shape (n,), what the other end must be; None allows every entity.

        Returns:
            Two int64 arrays of shape (n,): the first place, and how many facts stand there.
        """
        codes = self._sorted[0]
        entities = len(self.facts.entities)
        first = (anchor * (2 * len(self.facts.relations)) + relation) * entities
        last = first + entities if other is None else first + other + 1
        start = np.searchsorted(codes, first if other is None else first + other)
        return start, np.searchsorted(codes, last) - start

    def at(self, start: Longs, length: Longs) -> tuple[Longs, Longs, Longs, Longs | None]:
        """The facts of many spans.

        Args:
            start: int64 array of shape (n,), first places.
            length: int64 array of shape (n,), how many facts of each span to read.

        Returns:
            Four columns, one row a fact: which of the n spans, the other end, the fact's row and
            its timestamp (None for undated facts).
        """
        _, others, rows, times = self._sorted
        source = np.repeat(np.arange(len(start)), length)
        place = np.arange(len(source)) - np.repeat(np.cumsum(length) - length - start, length)
        time = None if times is None else times[place]
        return source, others[place], rows[place], time

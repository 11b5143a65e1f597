"""The facts of a whole graph by entity, as sorted columns: joins are look-ups in them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rulerag.arrays import Longs
from rulerag.errors import DataFormatError
from rulerag.kg.graph import FactTable


class TableIndex:
    """Facts of a table by entity, as columns; serves tables of millions of rows.

    Args:
        facts: the table to index.
    """

    def __init__(self, facts: FactTable) -> None:
        self.facts = facts

    def rows_around(self, entity: int) -> Longs:
        """The rows of the facts that an entity takes part in, ascending, each once."""
        codes, _, rows, _ = self._sorted
        width = 2 * len(self.facts.relations) * len(self.facts.entities)
        start, end = np.searchsorted(codes, [entity * width, (entity + 1) * width])
        return np.unique(rows[start:end])

    @cached_property
    def _sorted(self) -> tuple[Longs, Longs, Longs, Longs | None]:
        """Codes ``(anchor * 2 R + relation) * N + other``, ascending, with other, row and time."""
        facts, entities, relations = self.facts, len(self.facts.entities), len(self.facts.relations)
        if 2 * relations * entities * entities >= 2**63:
            raise DataFormatError(
                f"{entities:,} entities and {relations:,} relations are too many to join"
            )
        anchor = np.concatenate([facts.subject, facts.object]).astype(np.int64)
        other = np.concatenate([facts.object, facts.subject]).astype(np.int64)
        relation = np.concatenate([facts.relation, facts.relation + relations])
        codes = (anchor * (2 * relations) + relation) * entities + other
        order = np.argsort(codes, kind="stable")
        row = order % max(len(facts), 1)
        time = None if facts.timestamp is None else facts.timestamp.astype(np.int64)[row]
        return codes[order], other[order], row, time

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

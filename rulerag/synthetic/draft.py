"""The facts of a world while it is made: pairs of entities first, then the relations they carry.

Any two entities meet in one *cell* only. Relations can therefore hold between the same pair, which
is what a one-atom rule is, only where both were put into one cell on purpose. That is why a world
has no accidental one-atom rule, in either direction, whatever its seed and size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints, Longs
from rulerag.errors import ConfigError

_TAIL = 0.75  # popularity of rank i is about i ** -0.75
_POPULAR_ROUNDS = 4  # draws by popularity before a crowded subject draws evenly
_ROUNDS = 400


def zipf_ranks(rng: np.random.Generator, count: int, sizes: Longs | int) -> Longs:
    """Ranks from 0, below ``sizes``, small ones more often: density about ``rank ** -0.75``.

    Args:
        rng: the source of random numbers.
        count: how many.
        sizes: how many ranks there are, one number or an array of shape (count,).
    """
    power = 1.0 - _TAIL
    top = np.asarray(sizes, dtype=np.float64) + 1.0
    ranks = (rng.random(count) * (top**power - 1.0) + 1.0) ** (1.0 / power) - 1.0
    return np.minimum(ranks.astype(np.int64), np.asarray(sizes, dtype=np.int64) - 1)


def zipf_counts(total: int, size: int, cap: int) -> Longs:
    """Deal ``total`` out to ``size`` ranks, popular ones more, each at most ``cap``.

    What the cap leaves goes to the ranks that have nothing yet, one each: the long tail.
    ``size`` must be at least ``total``.
    """
    weights = np.arange(1, size + 1, dtype=np.float64) ** -_TAIL
    counts: Longs = np.minimum((total * weights / weights.sum()).astype(np.int64), cap)
    rest = total - int(counts.sum())
    counts[np.flatnonzero(counts == 0)[:rest]] = 1
    return counts


@dataclass(frozen=True)
class DraftFacts:
    """All facts of a draft, by entity id and relation name index.

    Args:
        subject: int64 array of shape (n,).
        relation: int32 array of shape (n,), positions in the draft's relation names.
        object: int64 array of shape (n,).
        time: int32 array of shape (n,).
        split: int8 array of shape (n,): 0 train, 1 valid, 2 test.
    """

    subject: Longs
    relation: Ints
    object: Longs
    time: Ints
    split: npt.NDArray[np.int8]


@dataclass(frozen=True)
class QueryTruth:
    """The truth about held-out facts, as columns; row i is one query.

    Args:
        row: int64 array of shape (q,), the held-out facts: rows of their split's table, or ids of
            a draft while it is made.
        kind: int8 array of shape (q,), positions in
            :data:`~rulerag.synthetic.planting.QUERY_KINDS`.
        rule: int32 array of shape (q, 2), positions in the planted rules; -1 for none.
        support: int64 array of shape (q, 2, 2), the training facts of each rule and body atom, as
            ``row`` names facts; -1 for none.
    """

    row: Longs
    kind: npt.NDArray[np.int8]
    rule: Ints
    support: Longs


class Draft:
    """Collects cells, facts and queries; objects are drawn when all cells are known.

    Args:
        pools: how many entities of each kind there are; ids run on from kind to kind.
        rng: the source of random numbers.
    """

    def __init__(self, pools: Mapping[str, int], rng: np.random.Generator) -> None:
        self.rng = rng
        self.pools = dict(pools)
        ends = np.cumsum(list(self.pools.values())).tolist()
        self.start = dict(zip(self.pools, [0, *ends[:-1]], strict=True))
        self.relations: dict[str, int] = {}
        self._cells: list[tuple[Longs, int, Longs | int, bool]] = []
        self._num_cells = 0
        self._facts: list[tuple[Longs, int, bool, Longs, int | Longs]] = []
        self.num_facts = 0
        self._queries: list[tuple[Longs, int, Ints, Longs]] = []

    def entities(self, kind: str) -> Longs:
        """The ids of a kind, most popular first."""
        return np.arange(self.start[kind], self.start[kind] + self.pools[kind], dtype=np.int64)

    def cells(
        self,
        subject: Longs,
        kind: str,
        *,
        size: int | None = None,
        object_: Longs | None = None,
        movable: bool = False,
    ) -> Longs:
        """Open one cell for each subject; return their ids.

        Args:
            subject: entity ids.
            kind: the kind of the objects.
            size: draw from this many of the most popular ones.
            object_: the objects, where they are settled; pairs must differ from each other.
            movable: whether the subject may be drawn again when its objects run out.
        """
        size = min(size or self.pools[kind], self.pools[kind])
        code = self.start[kind] * 2**32 + size  # a pool in one number
        self._cells.append((subject, code, -1 if object_ is None else object_, movable))
        first = self._num_cells
        self._num_cells += len(subject)
        return np.arange(first, self._num_cells, dtype=np.int64)

    def facts(
        self,
        cell: Longs,
        relation: str,
        time: Longs,
        *,
        split: int | Longs = 0,
        inverse: bool = False,
    ) -> Longs:
        """Add one fact for each cell, from its subject to its object (or back); return fact ids."""
        number = self.relations.setdefault(relation, len(self.relations))
        self._facts.append((cell, number, inverse, time, split))
        first = self.num_facts
        self.num_facts += len(cell)
        return np.arange(first, self.num_facts, dtype=np.int64)

    def queries(self, asked: Longs, kind: int, *ways: tuple[int, tuple[Longs, ...]]) -> None:
        """Add one query for each held-out fact.

        Args:
            asked: the held-out facts.
            kind: what sort of query.
            ways: at most two ways to the answer: a rule and, for each of its body atoms, the
                facts (one for each query).
        """
        rule = np.full((len(asked), 2), -1, dtype=np.int32)
        support = np.full((len(asked), 2, 2), -1, dtype=np.int64)
        for way, (number, atoms) in enumerate(ways):
            rule[:, way] = number
            for atom, facts in enumerate(atoms):
                support[:, way, atom] = facts
        self._queries.append((asked, kind, rule, support))

    def finish(self) -> tuple[DraftFacts, QueryTruth]:
        """Draw the objects of all cells and lay out the facts.

        Raises:
            ConfigError: a world so small that its entities have no new partner left.
        """
        subject, object_ = self._draw()
        cell = np.concatenate([facts[0] for facts in self._facts])
        sizes = [len(facts[0]) for facts in self._facts]
        inverse = np.repeat([facts[2] for facts in self._facts], sizes)
        heads, tails = subject[cell], object_[cell]
        asked = [queries[0] for queries in self._queries]
        drawn = DraftFacts(
            subject=np.where(inverse, tails, heads),
            relation=np.repeat([facts[1] for facts in self._facts], sizes).astype(np.int32),
            object=np.where(inverse, heads, tails),
            time=np.concatenate([facts[3] for facts in self._facts]).astype(np.int32),
            split=np.concatenate(
                [np.broadcast_to(facts[4], len(facts[0])) for facts in self._facts]
            ).astype(np.int8),
        )
        return drawn, QueryTruth(
            row=np.concatenate(asked),
            kind=np.repeat([q[1] for q in self._queries], [len(a) for a in asked]).astype(np.int8),
            rule=np.concatenate([queries[2] for queries in self._queries]),
            support=np.concatenate([queries[3] for queries in self._queries]),
        )

    def _draw(self) -> tuple[Longs, Longs]:
        """Subject and object of every cell, no two entities in two cells."""
        sizes = [len(cells[0]) for cells in self._cells]
        subject = np.concatenate([cells[0] for cells in self._cells])
        pool = np.repeat(np.array([cells[1] for cells in self._cells], dtype=np.int64), sizes)
        object_ = np.concatenate(
            [np.broadcast_to(np.asarray(c[2], np.int64), len(c[0])) for c in self._cells]
        )
        movable = np.repeat([cells[3] for cells in self._cells], sizes)
        fixed = object_ >= 0
        taken = np.sort(_pair(subject[fixed], object_[fixed]))
        # Cells that may move come last and find what is left.
        for turn in (~fixed & ~movable, ~fixed & movable):
            rows = np.flatnonzero(turn)
            taken = self._draw_rows(rows, subject, object_, pool, taken, bool(movable[rows].any()))
        return subject, object_

    def _draw_rows(
        self, rows: Longs, subject: Longs, object_: Longs, pool: Longs, taken: Longs, move: bool
    ) -> Longs:
        """Draw the objects of some cells, in place; return all pairs taken by then, sorted."""
        start, size = pool >> 32, pool & (2**32 - 1)
        for turn in range(_ROUNDS):
            if not len(rows):
                return taken
            if turn < _POPULAR_ROUNDS:
                drawn = zipf_ranks(self.rng, len(rows), size[rows])
            else:
                drawn = (self.rng.random(len(rows)) * size[rows]).astype(np.int64)
                if move:
                    subject[rows] = self._another(subject[rows])
            object_[rows] = start[rows] + drawn
            pairs = _pair(subject[rows], object_[rows])
            order = np.argsort(pairs, kind="stable")
            pairs = pairs[order]
            new = subject[rows][order] != object_[rows][order]
            new[1:] &= pairs[1:] != pairs[:-1]
            if len(taken):
                nearest = np.minimum(np.searchsorted(taken, pairs), len(taken) - 1)
                new &= taken[nearest] != pairs
            # A stable sort merges two sorted runs in linear time.
            taken = np.sort(np.concatenate([taken, pairs[new]]), kind="stable")
            rows = np.sort(rows[order[~new]])
        raise ConfigError(
            "the world is too small for its facts", key="num_facts", hint="ask for more facts"
        )

    def _another(self, subject: Longs) -> Longs:
        """Other entities of the same kinds."""
        starts = np.array(list(self.start.values()), dtype=np.int64)
        sizes = np.array(list(self.pools.values()), dtype=np.int64)
        kind = np.searchsorted(starts, subject, side="right") - 1
        return starts[kind] + (self.rng.random(len(subject)) * sizes[kind]).astype(np.int64)


def _pair(one: Longs, other: Longs) -> Longs:
    """One number for two entities, whichever comes first."""
    return (np.minimum(one, other) << 31) | np.maximum(one, other)

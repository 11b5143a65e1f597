"""Longer temporal rules: walks suggest them, bodies count them, one relation at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rulerag.errors import MiningError
from rulerag.mining.memory import available_memory
from rulerag.mining.tlogic_rules import TemporalRules
from rulerag.mining.walks import cyclic_walks
from rulerag.mining.walks_bodies import body_counts
from rulerag.mining.walks_index import WalkIndex, build_walk_index
from rulerag.mining.walks_random import stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rulerag.kg.graph import FactTable
    from rulerag.mining.amie_work import Work
    from rulerag.mining.tlogic_index import Ints, Longs

__all__ = ["RuleWalks"]

# Bytes for each directed fact: sorted copies in four orders, the index and the hash table.
_PER_DIRECTED_FACT = 330
_LOOSE = 60_000_000  # the compiler, and the columns of rules


class RuleWalks:
    """Finds temporal rules in walks and counts them.

    Args:
        facts: what to learn from.
        lengths: body lengths of rules to look for.
        num_walks: walks tried for each directed relation and length.
        num_bodies: bodies held for each rule: all, or so many samples.
        uniform: whether walks draw all facts alike, or recent ones more.
        seed: of all random streams.
        work: where and how relations are worked on.
        max_memory_gb: refuse facts whose estimate is above it; the free memory when None.

    Raises:
        MiningError: the facts are static, or the memory would not suffice.
    """

    def __init__(
        self,
        facts: FactTable,
        *,
        lengths: Sequence[int],
        num_walks: int,
        num_bodies: int,
        uniform: bool,
        seed: int,
        work: Work,
        max_memory_gb: float | None = None,
    ) -> None:
        _check_memory(facts, max_memory_gb)
        self._index = build_walk_index([facts])
        self._lengths = tuple(lengths)
        self._sizes = (num_walks, num_bodies)
        self._uniform = uniform
        self._seed = seed
        self._work = work

    def candidates(self) -> Ints:
        """The distinct rules that walks suggest, rows of :class:`TemporalRules`, by their body."""
        heads = np.flatnonzero(np.diff(self._index.relation_bounds)).tolist()
        task = _Suggest(self._index, self._lengths, self._sizes[0], self._uniform, self._seed)
        parts = self._work.map("random walks", "walks", task, heads)
        rows = np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in parts)])
        rules = rows.reshape(-1, 9)
        order = np.lexsort((*rules[:, [8, 7, 6, 5, 0]].T, *rules[:, [4, 3, 2]].T))
        return np.ascontiguousarray(rules[order], np.int32)

    def counted(self, rules: Ints) -> TemporalRules:
        """The rules with their counts; those without any body are left out.

        Args:
            rules: rows as :meth:`candidates` gives them, in that order.
        """
        first = np.unique(rules[:, 2])
        bounds = np.searchsorted(rules[:, 2], first)
        ends = [*bounds[1:], len(rules)] if len(first) else []
        parts_of = zip(first.tolist(), bounds, ends, strict=True)
        groups = {relation: rules[start:end] for relation, start, end in parts_of}
        task = _Count(self._index, groups, self._sizes[1], self._seed)
        parts = self._work.map("bodies", "bodies", task, list(groups))
        none = np.zeros(0, np.int64)
        support = np.concatenate([none, *(support for support, _ in parts)])
        body_size = np.concatenate([none, *(size for _, size in parts)])
        keep = body_size > 0
        return TemporalRules(rules[keep], support[keep], body_size[keep])


@dataclass(frozen=True)
class _Suggest:
    """The rules that walks from one directed relation suggest; the second array is empty."""

    index: WalkIndex
    lengths: tuple[int, ...]
    num_walks: int
    uniform: bool
    seed: int

    def __call__(self, head: int) -> tuple[Longs, Longs]:
        parts = [np.zeros((0, 9), np.int64)]
        for length in self.lengths:
            state = stream(self.seed, length, head)
            walks = cyclic_walks(self.index, head, length, self.num_walks, self.uniform, state)
            bodies = np.unique(walks, axis=0)
            bodies[:, length:3] = -1
            front = np.tile(np.array([head, length]), (len(bodies), 1))
            parts.append(np.concatenate([front, bodies], axis=1))
        return np.concatenate(parts).reshape(-1), np.zeros(0, np.int64)


@dataclass(frozen=True)
class _Count:
    """Support and body size of the rules whose bodies begin with one directed relation."""

    index: WalkIndex
    groups: dict[int, Ints]
    num_bodies: int
    seed: int

    def __call__(self, first: int) -> tuple[Longs, Longs]:
        counts = body_counts(self.index, self.groups[first], self.num_bodies, self.seed)
        return np.ascontiguousarray(counts[:, 0]), np.ascontiguousarray(counts[:, 1])


def _check_memory(facts: FactTable, max_memory_gb: float | None) -> None:
    """Refuse facts whose index would not fit.

    Raises:
        MiningError: with both numbers and what would help.
    """
    needed = _LOOSE + 2 * len(facts) * _PER_DIRECTED_FACT
    needed += 2 * len(facts.relations) * len(facts.entities)
    allowed = available_memory() if max_memory_gb is None else max_memory_gb * 1e9
    if allowed is not None and needed > allowed:
        source = "is free" if max_memory_gb is None else "is allowed (max_memory_gb)"
        raise MiningError(
            f"walks over {len(facts):,} facts need about {needed / 1e9:.2f} GB and "
            f"{allowed / 1e9:.2f} GB {source}",
            hint="raise max_memory_gb, or mine fewer facts (a time window)",
        )

"""Bodies of one atom by sorted columns alone: no compiled code, so small graphs start at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rulerag.mining.amie_index import DirectedIndex, Longs

__all__ = ["one_atom_pca_sizes", "one_atom_supports"]

# Joins run in blocks of about this many rows, which bounds their memory at some 50 MB.
_BLOCK = 1 << 20
# Counters up to this size are arrays; larger ones are sorted keys.
_DENSE = 1 << 24


def one_atom_supports(index: DirectedIndex, min_support: Longs) -> tuple[Longs, Longs, Longs]:
    """Count how many facts of a head another relation predicts, for all pairs of relations.

    Args:
        index: the graph.
        min_support: int64 array of shape (R,), least support of each head; heads with 0 are left
            out.

    Returns:
        Three arrays of one row per candidate: the head relation, the directed body relation from
        the head's subject to its object, the support. Sorted by head, then body.
    """
    directed = 2 * index.num_relations
    relation, starts = index.pair_relation, index.pair_starts
    # Rows that are facts of a head (forward), each joined with all relations of its pair.
    wanted = np.zeros(directed, dtype=bool)
    wanted[: index.num_relations] = min_support > 0
    rows = np.flatnonzero(wanted[relation])
    pair = np.searchsorted(starts, rows, side="right") - 1
    counts = _Counter(index.num_relations * directed)
    for left, right in _expand(starts[pair], starts[pair + 1]):
        head = relation[rows[left]].astype(np.int64)
        body = relation[right].astype(np.int64)
        keys = head * directed + body
        counts.add(keys[head != body], None)
    keys, support = counts.result()
    head, body = np.divmod(keys, directed)
    enough = support >= min_support[head]
    return head[enough], body[enough], support[enough]


def one_atom_pca_sizes(index: DirectedIndex, head: Longs, body: Longs) -> Longs:
    """PCA body sizes: the body's facts whose start also starts a fact of the head.

    Args:
        index: the graph.
        head: int64 array of shape (n,), directed heads, read from their functional end.
        body: int64 array of shape (n,), directed bodies, read from the same end.

    Returns:
        int64 array of shape (n,).
    """
    heads, head_ids = np.unique(head, return_inverse=True)
    bodies, body_ids = np.unique(body, return_inverse=True)
    by_source = np.argsort(index.group_source, kind="stable")
    relation = index.group_relation[by_source]
    source = index.group_source[by_source]
    degree = np.diff(index.group_starts)[by_source]
    left = np.flatnonzero(np.isin(relation, heads))
    right = np.flatnonzero(np.isin(relation, bodies))
    first = np.searchsorted(source[right], source[left], side="left")
    last = np.searchsorted(source[right], source[left], side="right")
    head_of = np.searchsorted(heads, relation[left])
    body_of = np.searchsorted(bodies, relation[right])
    sizes = _Counter(len(heads) * max(len(bodies), 1))
    for i, j in _expand(first, last):
        sizes.add(head_of[i] * len(bodies) + body_of[j], degree[right[j]])
    keys, totals = sizes.result()
    wanted = head_ids * len(bodies) + body_ids
    place = np.searchsorted(keys, wanted)
    # Every candidate has support, so its key was counted.
    return totals[place]


def _expand(first: Longs, last: Longs) -> Iterator[tuple[Longs, Longs]]:
    """Yield blocks of ``(i, j)`` for every row i and every j in ``first[i]:last[i]``."""
    lengths = last - first
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        done = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, done + _BLOCK, side="right")), start + 1)
        rows = np.arange(start, stop)
        i = np.repeat(rows, lengths[start:stop])
        offset = np.arange(len(i)) - np.repeat(
            ends[start:stop] - lengths[start:stop] - done, lengths[start:stop]
        )
        yield i, first[i] + offset
        start = stop


class _Counter:
    """Sums by integer key: a dense array where keys are few, sorted keys where they are many."""

    def __init__(self, num_keys: int) -> None:
        self._dense = np.zeros(num_keys, dtype=np.int64) if num_keys <= _DENSE else None
        self._keys = np.zeros(0, dtype=np.int64)
        self._sums = np.zeros(0, dtype=np.int64)

    def add(self, keys: Longs, weights: Longs | None) -> None:
        if self._dense is not None:
            # Sums stay far below 2**53, so bincount's float64 weights are exact.
            self._dense += np.bincount(keys, weights, len(self._dense)).astype(np.int64)
            return
        ones = np.ones(len(keys), dtype=np.int64) if weights is None else weights
        keys = np.concatenate([self._keys, keys])
        sums = np.concatenate([self._sums, ones])
        self._keys, place = np.unique(keys, return_inverse=True)
        self._sums = np.bincount(place, sums, len(self._keys)).astype(np.int64)

    def result(self) -> tuple[Longs, Longs]:
        """The keys with a sum, ascending, and their sums."""
        if self._dense is None:
            return self._keys, self._sums
        keys = np.flatnonzero(self._dense)
        return keys, self._dense[keys]

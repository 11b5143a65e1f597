"""Families of subsets as truth tables: one integer of 2**n bits, bit ``m`` for the subset ``m``.

A whole level of the lattice moves with a handful of shifts and ands of one long integer (128 KB
for 20 sources), which Python does at memory speed; that is what makes the exact miners fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rulerag.explanation.lattice import indices_of

__all__ = ["KeptIndices", "Masks", "children", "masks_of", "table_of", "without_child"]

Masks = npt.NDArray[np.int64]

_TABLE_BITS = 16


@lru_cache(maxsize=32)
def _holding(num_sources: int) -> tuple[int, ...]:
    """For each source, the table of the subsets that hold it."""
    tables = []
    for index in range(num_sources):
        table = ((1 << (1 << index)) - 1) << (1 << index)
        for larger in range(index + 1, num_sources):
            table |= table << (1 << larger)
        tables.append(table)
    return tuple(tables)


def children(parents: int, num_sources: int) -> int:
    """The subsets one level below ``parents`` all of whose own parents are among them.

    Args:
        parents: the table of subsets of one level.
        num_sources: how many sources the lattice has.
    """
    if not parents:
        return 0
    # Every missing source, put back, must give one of the parents. That also lets the full set
    # through, which misses nothing: it is no child.
    found = (1 << ((1 << num_sources) - 1)) - 1
    for index, holding in enumerate(_holding(num_sources)):
        found &= holding | (parents >> (1 << index))
    return found


def without_child(parents: int, members: int, num_sources: int) -> int:
    """The subsets of the table ``parents`` that are left when no child is in ``members``."""
    covered = 0
    if members:
        for index, holding in enumerate(_holding(num_sources)):
            covered |= (members << (1 << index)) & holding
    return parents & ~covered


def masks_of(table: int, num_sources: int) -> Masks:
    """The subsets of a table as masks, ascending, of shape (count,)."""
    packed = np.frombuffer(table.to_bytes(max(1, (1 << num_sources) >> 3), "little"), np.uint8)
    masks: Masks = np.unpackbits(packed, bitorder="little").view(np.bool_).nonzero()[0]
    return masks


def table_of(masks: Masks, num_sources: int) -> int:
    """The table that holds exactly ``masks``."""
    flags = np.zeros(1 << num_sources, dtype=np.bool_)
    flags[masks] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


class KeptIndices:
    """Masks to tuples of kept indices, ascending.

    Args:
        num_sources: how many sources the masks run over.
    """

    def __init__(self, num_sources: int) -> None:
        self._num_sources = num_sources

    def __call__(self, masks: Masks | Sequence[int]) -> list[tuple[int, ...]]:
        """The kept indices of each mask."""
        if self._num_sources > 2 * _TABLE_BITS:
            return [indices_of(int(mask)) for mask in masks]
        array = np.asarray(masks, dtype=np.int64)
        split = min(self._num_sources, _TABLE_BITS)
        kept = _index_tuples(0, split)[array & ((1 << split) - 1)]
        if self._num_sources > split:
            kept = kept + _index_tuples(split, self._num_sources)[array >> split]
        tuples: list[tuple[int, ...]] = kept.tolist()
        return tuples


@lru_cache(maxsize=32)
def _index_tuples(start: int, stop: int) -> npt.NDArray[np.object_]:
    """The kept indices of every mask over the sources ``start`` to ``stop``, as an object array.

    For 16 sources it takes 7 MB and 10 ms, once in a process; engines share it.
    """
    tuples: list[tuple[int, ...]] = [()]
    for index in range(start, stop):
        tuples += [(*kept, index) for kept in tuples]
    return np.fromiter(tuples, dtype=np.object_, count=len(tuples))

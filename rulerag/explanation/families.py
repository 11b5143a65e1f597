"""A set of subsets kept as masks, so that a million of them stay small."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from functools import cached_property
from typing import Any

import numpy as np

from rulerag.explanation.lattice import indices_of, mask_of
from rulerag.explanation.tables import Masks

__all__ = ["SubsetFamily"]


class SubsetFamily(Set[frozenset[int]]):
    """A read-only set of ``frozenset[int]`` kept as masks: a million subsets take 8 MB.

    It compares equal to a plain set of frozensets, and has the set operators.

    Args:
        masks: distinct masks of fewer than 63 sources, in any order.
    """

    __slots__ = ("__dict__", "_masks")

    def __init__(self, masks: Masks) -> None:
        self._masks = masks

    @classmethod
    def _from_iterable(cls, it: Any) -> Any:  # the result of an operator is a plain set
        return set(it)

    @property
    def masks(self) -> Masks:
        """The subsets as masks."""
        return self._masks

    @cached_property
    def _sorted(self) -> Masks:
        return np.sort(self._masks)

    def __len__(self) -> int:
        return int(self._masks.size)

    def __iter__(self) -> Iterator[frozenset[int]]:
        for mask in self._masks.tolist():
            yield frozenset(indices_of(mask))

    def __contains__(self, subset: object) -> bool:
        if not isinstance(subset, frozenset | set) or not all(
            isinstance(index, int) and 0 <= index < 63 for index in subset
        ):
            return False
        mask = mask_of(subset)
        place = int(np.searchsorted(self._sorted, mask))
        return place < len(self) and int(self._sorted[place]) == mask

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SubsetFamily):
            return bool(np.array_equal(self._sorted, other._sorted))
        return super().__eq__(other)

    def __hash__(self) -> int:
        return self._hash()

    def issubset(self, other: Iterable[frozenset[int]]) -> bool:
        """Whether every subset of this family is in ``other``."""
        return self <= set(other)

    def issuperset(self, other: Iterable[frozenset[int]]) -> bool:
        """Whether every subset of ``other`` is in this family."""
        return all(subset in self for subset in other)

    def __repr__(self) -> str:
        shown = ", ".join(str(set(indices_of(m)) or "{}") for m in self._masks[:8].tolist())
        more = f", … {len(self) - 8} more" if len(self) > 8 else ""
        return f"SubsetFamily({shown}{more})"

"""Candidate rules as columns, before they become :class:`rulerag.rules.Rule` objects."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

__all__ = ["Candidates", "Shape"]

Longs = npt.NDArray[np.int64]


class Shape(IntEnum):
    """The closed bodies between ``?x`` and ``?y``; every ``d`` is a directed relation."""

    ATOM = 0
    """``d1(x, y)``"""
    PATH = 1
    """``d1(x, z), d2(z, y)``"""
    PARALLEL = 2
    """``d1(x, y), d2(x, y)`` with ``d1 < d2``"""
    CHAIN = 3
    """``d1(x, z), d2(z, w), d3(w, y)``"""
    TRIANGLE = 4
    """``d1(x, y), d2(x, z), d3(z, y)``"""
    NEAR_SIDE = 5
    """``d1(x, y), d2(x, z), d3(x, z)`` with ``d2 < d3``"""
    FAR_SIDE = 6
    """``d1(x, y), d2(y, z), d3(y, z)`` with ``d2 < d3``"""
    NEAR_PAIR = 7
    """``d1(x, z), d2(x, z), d3(z, y)`` with ``d1 < d2``"""
    FAR_PAIR = 8
    """``d1(x, z), d2(z, y), d3(z, y)`` with ``d2 < d3``"""
    TRIPLE = 9
    """``d1(x, y), d2(x, y), d3(x, y)`` with ``d1 < d2 < d3``"""


@dataclass(frozen=True)
class Candidates:
    """Columns of equal length, all int64; row i is one rule.

    Args:
        head: relation ids.
        shape: values of :class:`Shape`.
        first: directed relation of the first body atom.
        second: directed relation of the second one; -1 where there is none.
        third: directed relation of the third one; -1 where there is none.
        support: facts of the head that the body predicts.
        pca_body_size: pairs of the body whose functional end has a fact of the head.
        body_size: pairs of the body; 0 where it was not counted.
    """

    head: Longs
    shape: Longs
    first: Longs
    second: Longs
    third: Longs
    support: Longs
    pca_body_size: Longs
    body_size: Longs

    @classmethod
    def unsized(
        cls,
        head: Longs,
        shape: Longs | Shape,
        first: Longs,
        second: Longs | int = -1,
        third: Longs | int = -1,
        *,
        support: Longs,
    ) -> Candidates:
        """Candidates whose bodies are not counted yet; scalars stand for every row."""
        none = np.zeros(len(head), dtype=np.int64)
        return cls(head, none + shape, first, none + second, none + third, support, none, none)

    def __len__(self) -> int:
        return len(self.head)

    def rows(self, rows: npt.NDArray[np.generic]) -> Candidates:
        """Some rows, by an index array or a Boolean mask."""
        return Candidates(*(getattr(self, f.name)[rows] for f in fields(self)))

    def sized(self, pca_body_size: Longs, body_size: Longs) -> Candidates:
        """The same candidates with their body sizes."""
        return replace(self, pca_body_size=pca_body_size, body_size=body_size)

    @property
    def pca_confidence(self) -> npt.NDArray[np.float64]:
        """float64 array of shape (n,)."""
        return self.support / np.maximum(self.pca_body_size, 1)

    @classmethod
    def concatenate(cls, parts: list[Candidates]) -> Candidates:
        """All rows of all parts, in order."""
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

"""Candidate rules as columns, before they become :class:`rulerag.Rule` objects."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Longs


class Shape(IntEnum):
    """The closed bodies between ``?x`` and ``?y``; every ``d`` is a directed relation."""

    ATOM = 0
    """``d1(x, y)``"""
    PATH = 1
    """``d1(x, z), d2(z, y)``"""
    PARALLEL = 2
    """``d1(x, y), d2(x, y)`` with ``d1 < d2``"""
    LONG_PATH = 3
    """``d1(x, z), d2(z, w), d3(w, y)``"""
    TRIANGLE = 4
    """``d1(x, z), d2(z, y), d3(x, y)``"""
    TWIN_SUBJECT = 5
    """``d1(x, z), d2(x, z), d3(x, y)`` with ``d1 < d2``"""
    TWIN_OBJECT = 6
    """``d1(y, z), d2(y, z), d3(x, y)`` with ``d1 < d2``"""
    TWIN_FIRST = 7
    """``d1(x, z), d2(x, z), d3(z, y)`` with ``d1 < d2``"""
    TWIN_LAST = 8
    """``d1(x, z), d2(z, y), d3(z, y)`` with ``d2 < d3``"""
    TRIPLE = 9
    """``d1(x, y), d2(x, y), d3(x, y)`` with ``d1 < d2 < d3``"""


class CandidateRules(NamedTuple):
    """Columns of equal length, all int64; row i is one rule.

    Attributes:
        head: relation ids.
        shape: values of :class:`Shape`.
        first: directed relation of the first body atom.
        second: directed relation of the second one; -1 where there is none.
        third: directed relation of the third one; -1 where there is none.
        support: facts of the head that the body predicts.
        pca_body_size: pairs of the body whose functional end has a fact of the head.
        body_size: pairs of the body; 0 where the PCA confidence is below its threshold.
    """

    head: Longs
    shape: Longs
    first: Longs
    second: Longs
    third: Longs
    support: Longs
    pca_body_size: Longs
    body_size: Longs

    def rows(self, rows: npt.NDArray[np.generic]) -> CandidateRules:
        """Some rows, by an index array or a Boolean mask."""
        return CandidateRules(*(column[rows] for column in self))

    @property
    def pca_confidence(self) -> npt.NDArray[np.float64]:
        """float64 array of shape (n,)."""
        return self.support / np.maximum(self.pca_body_size, 1)

    @property
    def standard_confidence(self) -> npt.NDArray[np.float64]:
        """float64 array of shape (n,); the support where the size is not counted."""
        return self.support / np.maximum(self.body_size, 1)

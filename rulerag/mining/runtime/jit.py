"""Compiled kernels: numba, cached on disk where that is possible and without a cache elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

int64 = cast("Callable[[object], int]", np.int64)
"""A 64-bit whole number; in compiled code a constant without it is a type of its own."""

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=np.generic)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of arrays and numbers on its first call, free of Python's global lock.

    The machine code is kept beside the source, or in numba's cache folder when the install is
    read-only; where neither can be written, every process compiles anew instead of failing.

    Compiling costs more than running on small graphs. What keeps it short: one type for each
    argument (``int64(0)`` for a constant, which would be a type of its own), loops instead of
    slices that are assigned, sorted or joined, and few arrays in a tuple.
    """
    return _jit(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small function into each of its compiled callers."""
    return _jit(function, forceinline=True)


def _jit(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    try:
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:  # numba found no folder that it can write
        return cast("Callable[P, R]", numba.njit(nogil=True, **options)(function))


@compiled
def doubled(values: npt.NDArray[D]) -> npt.NDArray[D]:
    """The same array with room for twice as many values behind; a loop compiles fastest."""
    larger = np.zeros(2 * len(values), values.dtype)
    for row in range(len(values)):
        larger[row] = values[row]
    return larger

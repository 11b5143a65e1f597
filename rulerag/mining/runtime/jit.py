"""Compiled kernels: numba, cached on disk where that is possible and without a cache elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

__all__ = ["compiled"]

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of arrays and numbers on its first call, free of Python's global lock.

    The machine code is kept beside the source, or in numba's cache folder when the install is
    read-only; where neither can be written, every process compiles anew instead of failing.
    """
    try:
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no folder that it can write
        return cast("Callable[P, R]", numba.njit(nogil=True)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small function into each of its compiled callers."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, forceinline=True)(function))

"""Is one method better than another, or was it chance? Tests on per-query values.

References:
    Smucker et al. 2007, "A comparison of statistical significance tests for information retrieval
    evaluation" (the paired randomization test); Efron 1979 (the bootstrap); Holm 1979.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rulerag.errors import DataError, EmptyDataError

__all__ = ["bootstrap_interval", "holm", "paired_randomization_test"]

# Rows of random numbers made at a time; bounds memory at about 8 MB for 6,656 queries.
_BLOCK = 1024


def paired_randomization_test(
    first: Sequence[float], second: Sequence[float], *, samples: int = 10_000, seed: int = 0
) -> float:
    """The two-sided p-value of the difference of two means over the same queries.

    Under the null hypothesis the two values of a query could as well be swapped: the p-value is
    the share of random swaps whose absolute mean difference reaches the one seen, the seen one
    counted in, so that it is never 0.

    Args:
        first: one value a query, of shape (n,).
        second: the other method's values, in the same order.
        samples: how many random swaps.
        seed: of the swaps.

    Raises:
        EmptyDataError: there is no query.
        DataError: the two have different lengths.
    """
    difference = _column(first) - _column(second) if len(first) == len(second) else None
    if difference is None:
        raise DataError(
            f"{len(first)} and {len(second)} values cannot be paired",
            hint="compare runs over the same queries",
        )
    seen = abs(difference.sum())
    random = np.random.default_rng(seed)
    reached = 0
    for start in range(0, samples, _BLOCK):
        rows = min(_BLOCK, samples - start)
        signs = random.integers(0, 2, size=(rows, len(difference)), dtype=np.int8) * 2 - 1
        # Sums of halves and thirds differ in their last bit by order: allow for that.
        reached += int((np.abs(signs @ difference) >= seen - 1e-9).sum())
    return (reached + 1) / (samples + 1)


def bootstrap_interval(
    values: Sequence[float], *, level: float = 0.95, samples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean over queries.

    Args:
        values: one value a query, of shape (n,).
        level: the coverage, in (0, 1).
        samples: how many resamples of n queries with replacement.
        seed: of the resamples.

    Raises:
        EmptyDataError: there is no query.
    """
    column = _column(values)
    random = np.random.default_rng(seed)
    means = np.empty(samples)
    for start in range(0, samples, _BLOCK):
        rows = min(_BLOCK, samples - start)
        chosen = random.integers(0, len(column), size=(rows, len(column)))
        means[start : start + rows] = column[chosen].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for the number of comparisons, in the order given (Holm 1979)."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - step) * p_values[place]))
        adjusted[place] = running
    return adjusted


def _column(values: Sequence[float]) -> npt.NDArray[np.float64]:
    column = np.asarray(values, dtype=np.float64)
    if not len(column):
        raise EmptyDataError("there is no value to compare", hint="give one value a query")
    return column

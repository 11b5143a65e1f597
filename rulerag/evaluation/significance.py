"""Is one method better than another, or was it chance? Tests on per-query values.

References:
    Smucker et al. 2007, "A comparison of statistical significance tests for information retrieval
    evaluation" (the paired randomization test); Efron 1979 (the bootstrap); Davison and Hinkley
    1997, "Bootstrap methods and their application" (resampling at several levels); Holm 1979;
    Wilson 1927, "Probable inference, the law of succession, and statistical inference".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from rulerag.errors import DataError, EmptyDataError

LEVEL = 0.05
"""A corrected p-value from here on is chance."""
# Random numbers made at a time: 8 MB of them, however many queries there are.
_BLOCK = 1 << 20


def paired_randomization_test(
    first: Sequence[float], second: Sequence[float], *, samples: int = 10_000, seed: int = 0
) -> float:
    """The two-sided p-value of the difference of two means over the same queries.

    Under the null hypothesis the two values of a query could as well be swapped: the p-value is
    the fraction of random swaps whose absolute mean difference reaches the one seen, the seen one
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
    block = max(1, _BLOCK // len(difference))
    for start in range(0, samples, block):
        rows = min(block, samples - start)
        signs = random.integers(0, 2, size=(rows, len(difference)), dtype=np.int8) * 2 - 1
        # Sums of halves and thirds differ in their last bit by order: allow for that.
        reached += int((np.abs(signs @ difference) >= seen - 1e-9).sum())
    return (reached + 1) / (samples + 1)


def bootstrap_interval(
    values: Sequence[float] | Sequence[Sequence[float]],
    *,
    level: float = 0.95,
    samples: int = 10_000,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean over queries, and over seeds where it has some.

    Several seeds are a sample too: each resample draws seeds and queries, both with replacement
    and all seeds over the same queries, so that the interval holds what another training run would
    change (Davison and Hinkley 1997, section 3.8). Of very few seeds it is still too narrow: with
    s of them by (s - 1) / s of the variance between seeds.

    Args:
        values: one value a query, of shape (n,), or one row for each seed, of shape (seeds, n).
        level: the coverage, in (0, 1).
        samples: how many resamples.
        seed: of the resamples.

    Raises:
        EmptyDataError: there is no query.
        DataError: the seeds have different numbers of queries.
    """
    if len({np.size(row) for row in values}) > 1:
        raise DataError(
            "the seeds have different numbers of values",
            hint="compare runs over the same queries",
        )
    table = np.atleast_2d(_column(values))
    seeds, queries = table.shape
    random = np.random.default_rng(seed)
    drawn = np.zeros((samples, 1), dtype=np.int64)
    if seeds > 1:
        drawn = random.integers(0, seeds, size=(samples, seeds))
    weights = np.stack([(drawn == one).mean(axis=1) for one in range(seeds)])
    means = np.empty(samples)
    block = max(1, _BLOCK // queries)
    for start in range(0, samples, block):
        rows = slice(start, min(start + block, samples))
        chosen = random.integers(0, queries, size=(rows.stop - start, queries))
        of_seeds = np.stack([row[chosen].mean(axis=1) for row in table])
        means[rows] = (weights[:, rows] * of_seeds).sum(axis=0)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def wilson_interval(successes: int, count: int, *, level: float = 0.95) -> tuple[float, float]:
    """The interval of a fraction of independent tries (Wilson 1927, the score interval).

    It stays honest where all tries are alike: of 10 out of 10 it is 72 to 100 per cent, where a
    bootstrap says 100 to 100. (scipy has it in ``scipy.stats``, which takes a second to import.)

    Args:
        successes: of ``count`` tries.
        count: at least 1.
        level: the coverage, in (0, 1).

    Raises:
        EmptyDataError: there was no try.
    """
    if count < 1:
        raise EmptyDataError("there is no value to compare", hint="give one value a query")
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, weight = successes / count, z * z / count
    middle = (share + weight / 2) / (1 + weight)
    reach = math.sqrt(share * (1 - share) * weight + weight * weight / 4) / (1 + weight)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def verdict(difference: float, corrected: float) -> str:
    """What a difference shows: ``yes`` or ``no`` below :data:`LEVEL`, else ``within chance``.

    Args:
        difference: of the two means; positive speaks for a yes.
        corrected: its p-value, adjusted for the number of comparisons (:func:`holm`).
    """
    if corrected >= LEVEL or difference == 0:
        return "within chance"
    return "yes" if difference > 0 else "no"


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for the number of comparisons, in the order given (Holm 1979)."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - step) * p_values[place]))
        adjusted[place] = running
    return adjusted


def _column(
    values: Sequence[float] | Sequence[Sequence[float]],
) -> npt.NDArray[np.float64]:
    column = np.asarray(values, dtype=np.float64)
    if not column.size:
        raise EmptyDataError("there is no value to compare", hint="give one value a query")
    return column

"""A linear surrogate: a sparse sum of the kept sources that follows the score of random ablations.

It works as ContextCite does (a LASSO on random ablations) and is not ContextCite's estimator: that
one explains the logit of the response's probability, divided by its number of tokens, with a
penalty of 0.01. Here the score is explained as it is given, be it a log-probability or a verdict,
and the penalty goes by its spread. ``benchmarks/explanation_contextcite.py`` runs ContextCite's own
package beside it.

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 3: LASSO on random ablations.
    Friedman, Hastie, Tibshirani 2010 (J. Statistical Software 33): coordinate descent.
    Golub, Heath, Wahba 1979 (Technometrics 21): the penalty of ridge regression.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError
from rulerag.explanation.attribution import MAX_EXACT_VALUES, Attribution, banzhaf_values
from rulerag.explanation.lattice import indices_of, mask_of
from rulerag.explanation.predictors import LinearSurrogate
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.values import Floats, Score, SetValue, valued

__all__ = ["RuleSurrogate", "fit_lasso", "fit_ridge", "linear_surrogate"]

_PENALTIES = np.geomspace(1e-3, 1e2, 21) / 4
"""For one row; a quarter is the variance of a source that is kept every other time."""


class RuleSurrogate:
    """Minimal rules read as a formula: 1 for subsets with a whole rule, else 0.

    Args:
        rules: the sets of source indices of minimal retention rules, such as ``rules.minimal``.
        names: what the sources are called, in order.
    """

    def __init__(self, rules: Iterable[Iterable[int]], names: Sequence[str]) -> None:
        self._masks = [mask_of(rule) for rule in rules]
        self._names = tuple(names)

    def __call__(self, mask: int) -> float:
        """The predicted verdict on a subset."""
        return float(any(rule & ~mask == 0 for rule in self._masks))

    def attribution(self, *, samples: int = 4096, seed: int = 0) -> Attribution:
        """The Banzhaf values of the formula; no model is asked.

        Args:
            samples: random subsets of the sources in the rules, where these are too many for
                exact values.
            seed: of the random subsets.
        """
        union = 0
        for mask in self._masks:
            union |= mask
        places = indices_of(union)

        def value(masks: list[int]) -> list[float]:
            spread = (mask_of(places[i] for i in indices_of(mask)) for mask in masks)
            return [self(mask) for mask in spread]

        exact = len(places) <= MAX_EXACT_VALUES
        inner = banzhaf_values(
            SetValue(value, len(places)), samples=None if exact else samples, seed=seed
        )
        full = (1 << len(self._names)) - 1
        errors = None if inner.errors is None else self._placed(places, inner.errors)
        values = self._placed(places, inner.values)
        return Attribution("rules", self._names, values, self(full), self(0), 0, errors)

    def _placed(self, places: Sequence[int], numbers: Sequence[float]) -> tuple[float, ...]:
        """Numbers of the sources in the rules, and 0 for all others."""
        found = dict(zip(places, numbers, strict=True))
        return tuple(found.get(place, 0.0) for place in range(len(self._names)))


def linear_surrogate(
    engine: ProbeEngine | SetValue,
    score: Score | None = None,
    *,
    ablations: int = 64,
    keep: float = 0.5,
    penalty: float | None = None,
    seed: int = 0,
) -> Attribution:
    """The weights of a sparse linear function fitted to random ablations.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None for the generator's own score.
        ablations: how many random subsets to ask.
        keep: the probability that an ablation keeps a source.
        penalty: the weight of the LASSO's penalty, in the unit of the score; None for a tenth of
            the largest penalty that leaves a source.
        seed: of the random subsets.

    Raises:
        ConfigError: an argument is out of range.
        ExplanationError: the generator states no score.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    if ablations < 2:
        raise ConfigError(f"expected 2 or more, found {ablations}", key="ablations")
    if not 0 < keep < 1:
        raise ConfigError(f"expected a share between 0 and 1, found {keep}", key="keep")
    value = valued(engine, score)
    chance = random.Random(seed)
    masks = [
        sum(1 << i for i in range(value.num_sources) if chance.random() < keep)
        for _ in range(ablations)
    ]
    found = value(masks)
    kept = np.array([[m >> i & 1 for i in range(value.num_sources)] for m in masks], dtype=float)
    fitted = fit_lasso(kept, found, penalty)
    return Attribution(
        "linear surrogate",
        value.names,
        fitted.weights,
        fitted(value.full),
        fitted(0),
        value.num_probes,
    )


def fit_lasso(
    kept: npt.ArrayLike, found: npt.ArrayLike, penalty: float | None = None
) -> LinearSurrogate:
    """Least squares with a penalty on the weights of standardised columns.

    Minimises ``|found - prediction|^2 / (2 rows) + penalty * sum |weight * deviation|``, what
    scikit-learn's ``Lasso`` minimises behind its ``StandardScaler``.

    Args:
        kept: 1 where a row keeps a source, else 0, of shape (rows, sources).
        found: the score of each row, of shape (rows,).
        penalty: of the objective; None for a tenth of the largest that leaves a source.

    Raises:
        ConfigError: the penalty is negative.
    """
    table, target = np.asarray(kept, dtype=np.float64), np.asarray(found, dtype=np.float64)
    means, deviations = table.mean(axis=0), table.std(axis=0)
    usable = deviations > 0
    columns = (table - means) / np.where(usable, deviations, 1.0)
    centred = target - target.mean()
    if penalty is None:
        reach = np.abs(columns.T @ centred) / len(target)
        penalty = 0.1 * float(reach.max(initial=0.0))
    if penalty < 0:
        raise ConfigError(f"expected a number from 0, found {penalty}", key="penalty")
    scaled = _descend(columns, centred, penalty, usable)
    weights = scaled / np.where(usable, deviations, 1.0)
    return LinearSurrogate(tuple(weights.tolist()), float(target.mean() - means @ weights))


def fit_ridge(kept: npt.ArrayLike, found: npt.ArrayLike) -> LinearSurrogate:
    """Least squares with a penalty on squared weights, as large as leave-one-out residuals say.

    All penalties share one singular value decomposition, and each gives its leave-one-out
    residuals in closed form.

    Args:
        kept: 1 where a row keeps a source, else 0, of shape (rows, sources).
        found: the score of each row, of shape (rows,).

    References:
        Golub, Heath, Wahba 1979 (Technometrics 21, 215-223).
    """
    table, target = np.asarray(kept, dtype=np.float64), np.asarray(found, dtype=np.float64)
    rows = len(target)
    means, centred = table.mean(axis=0), target - target.mean()
    left, sizes, right = np.linalg.svd(table - means, full_matrices=False)
    reached = left.T @ centred
    best, weights = np.inf, np.zeros(table.shape[1])
    for penalty in _PENALTIES * rows:
        shrunk = sizes**2 / (sizes**2 + penalty)
        leverage = left**2 @ shrunk + 1 / rows
        misses = (centred - left @ (shrunk * reached)) / np.maximum(1 - leverage, 1e-6)
        error = float(np.mean(misses**2))
        if error < best:
            best, weights = error, right.T @ (sizes / (sizes**2 + penalty) * reached)
    return LinearSurrogate(tuple(weights.tolist()), float(target.mean() - means @ weights))


def _descend(
    columns: Floats, target: Floats, penalty: float, usable: npt.NDArray[np.bool_]
) -> Floats:
    """Coordinate descent on standardised columns, until nothing moves."""
    rows, count = columns.shape
    weights, left = np.zeros(count), target.copy()
    scale = float(np.abs(target).max(initial=0.0)) or 1.0
    for _ in range(10_000):
        largest = 0.0
        for index in np.flatnonzero(usable).tolist():
            column, old = columns[:, index], weights[index]
            pull = float(column @ left) / rows + old
            new = np.sign(pull) * max(0.0, abs(pull) - penalty)
            if new != old:
                left += column * (old - new)
                weights[index] = new
                largest = max(largest, abs(new - old))
        if largest < 1e-9 * scale:
            break
    return weights

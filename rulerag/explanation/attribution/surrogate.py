"""A linear surrogate: a sparse sum of the kept sources that follows the score of random ablations.

It works as ContextCite does (a LASSO on random ablations) and is not ContextCite's estimator: that
one explains the logit of the response's probability, divided by its number of tokens, with a
penalty of 0.01. Here the score itself is explained, be it a log-probability or a predicate value,
and the penalty goes by its spread. ``benchmarks/explanation/contextcite.py`` runs ContextCite's own
package beside it.

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 3: LASSO on random ablations.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from rulerag.composition import register
from rulerag.errors import ConfigError
from rulerag.explanation.attribution.values import (
    MAX_EXACT_VALUES,
    Attribution,
    LinearSurrogate,
    SplitSurrogate,
    banzhaf_values,
)
from rulerag.explanation.lattice import full_mask, indices_of, mask_of
from rulerag.explanation.probing import Probed, Score, SetValue, valued

_PENALTIES = np.geomspace(1e-3, 1e2, 21) / 4
"""For one row; a quarter is the variance of a source that is kept every other time."""


def rule_surrogate(rules: Iterable[Iterable[int]], names: Sequence[str]) -> Attribution:
    """Minimal rules read as a formula, 1 for subsets with a whole rule, else 0; asks no model.

    Args:
        rules: the sets of source indices of minimal retention rules, such as ``rules.minimal``.
        names: what the sources are called, in order.

    Returns:
        The Banzhaf values of the formula, over 4,096 random subsets where the rules name more than
        20 sources; its ``predict`` is the formula.
    """
    count = len(names)
    sets, flat = tuple(tuple(sorted(rule)) for rule in rules), (0.0,) * count
    formula = SplitSurrogate(sets, LinearSurrogate(flat, 1.0), LinearSurrogate(flat, 0.0), True)
    places = sorted({index for rule in sets for index in rule})

    def value(masks: list[int]) -> list[float]:
        spread = (mask_of(places[i] for i in indices_of(mask)) for mask in masks)
        return [float(formula.holds(mask)) for mask in spread]

    def placed(numbers: Sequence[float]) -> tuple[float, ...]:
        found = dict(zip(places, numbers, strict=True))
        return tuple(found.get(place, 0.0) for place in range(count))

    samples = None if len(places) <= MAX_EXACT_VALUES else 4096
    inner = banzhaf_values(SetValue(value, len(places)), samples=samples)
    errors = None if inner.errors is None else placed(inner.errors)
    full, empty = formula(full_mask(count)), formula(0)
    values = placed(inner.values)
    return Attribution("rules", tuple(names), values, errors, full, empty, 0, surrogate=formula)


@register("explainer", "linear")
def explain_by_linear_surrogate(
    engine: Probed, score: Score | None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """:func:`linear_surrogate` of 64 random subsets by default."""
    return linear_surrogate(engine, score, ablations=samples or 64, seed=seed)


def linear_surrogate(
    engine: Probed,
    score: Score | None = None,
    *,
    ablations: int = 64,
    penalty: float | None = None,
    seed: int = 0,
) -> Attribution:
    """The weights of a sparse linear function fitted to random ablations.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        ablations: how many random subsets to ask, each source kept with the probability one half.
        penalty: the weight of the LASSO's penalty, in the unit of the score; None for a tenth of
            the largest penalty that leaves a source.
        seed: of the random subsets.

    Raises:
        ConfigError: an argument is out of range.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    if ablations < 2:
        raise ConfigError(f"expected 2 or more, found {ablations}", key="ablations")
    value = valued(engine, score)
    rng = random.Random(seed)
    masks = [
        sum(1 << i for i in range(value.num_sources) if rng.random() < 0.5)
        for _ in range(ablations)
    ]
    found = value(masks)
    kept = np.array([[m >> i & 1 for i in range(value.num_sources)] for m in masks], dtype=float)
    fitted = fit_lasso(kept, found, penalty)
    numbers = (fitted.weights, None, fitted(value.full), fitted(0), value.num_probes)
    return Attribution("linear surrogate", value.names, *numbers)


def fit_lasso(
    kept: npt.ArrayLike, found: npt.ArrayLike, penalty: float | None = None
) -> LinearSurrogate:
    """Least squares with a penalty on the weights of standardised columns (scikit-learn's LASSO).

    Args:
        kept: 1 where a row keeps a source, else 0, of shape (rows, sources).
        found: the score of each row, of shape (rows,).
        penalty: of the objective; None for a tenth of the largest that leaves a source.

    Raises:
        ConfigError: the penalty is not above 0.
    """
    from sklearn.linear_model import Lasso

    table, target = np.asarray(kept, dtype=np.float64), np.asarray(found, dtype=np.float64)
    means, deviations = table.mean(axis=0), table.std(axis=0)
    deviations[deviations == 0] = np.inf  # what every row keeps, or none, has no weight
    columns = (table - means) / deviations
    if penalty is None:
        reach = np.abs(columns.T @ (target - target.mean())) / len(target)
        penalty = 0.1 * float(reach.max(initial=0.0)) or 1.0  # of a flat score any will do
    if penalty <= 0:
        raise ConfigError(f"expected a number above 0, found {penalty}", key="penalty")
    model = Lasso(alpha=penalty, tol=1e-10, max_iter=100_000).fit(columns, target)
    weights = model.coef_ / deviations
    return LinearSurrogate(tuple(weights.tolist()), float(model.intercept_ - means @ weights))


def fit_ridge(kept: npt.ArrayLike, found: npt.ArrayLike) -> LinearSurrogate:
    """Least squares with a penalty on squared weights, as large as leave-one-out residuals say.

    Args:
        kept: 1 where a row keeps a source, else 0, of shape (rows, sources).
        found: the score of each row, of shape (rows,).

    References:
        Golub, Heath, Wahba 1979 (Technometrics 21, 215-223), in scikit-learn.
    """
    from sklearn.linear_model import RidgeCV

    table, target = np.asarray(kept, dtype=np.float64), np.asarray(found, dtype=np.float64)
    if len(target) < 2:  # nothing can be left out
        return LinearSurrogate((0.0,) * table.shape[1], float(target.mean()))
    model = RidgeCV(alphas=_PENALTIES * len(target)).fit(table, target)
    return LinearSurrogate(tuple(model.coef_.tolist()), float(model.intercept_))

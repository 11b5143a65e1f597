"""Functions fitted to the scores of some subsets: linear, split by rules, a Gaussian process.

References:
    Golub, Heath, Wahba 1979 (Technometrics 21): the ridge penalty by leave-one-out residuals.
    Kondor, Lafferty 2002 (ICML): diffusion kernels; on subsets a factor for each difference.
    Rasmussen, Williams 2006 (Gaussian Processes for Machine Learning), sections 2.2, 2.7, 5.1:
    prediction, an unknown mean, a scale for each input by the marginal likelihood.
    Snelson, Rasmussen, Ghahramani 2003 (Warped Gaussian processes, NIPS 16): another scale for what
    is modelled; van der Waerden 1952 (Indagationes Mathematicae 14): normal scores.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Doubles
from rulerag.errors import ConfigError, needs_package
from rulerag.explanation.lattice import bits, mask_of, random_masks
from rulerag.explanation.probing import SetValue
from rulerag.explanation.records import Record

_EFFECT_SUBSETS = 512
_RIDGE_PENALTIES = np.geomspace(1e-3, 1e2, 21) / 4
"""For one row; a quarter is the variance of a source that is kept every other time."""

_RATE, _NOISE, _VARIANCE = 0.05, 0.01, 2.0
"""The means (of the logarithms, whose standard deviation is 1) of what each source does to the
likeness of two subsets, of the noise and of the variance; the normal scores have the variance 1."""
_MEAN_VARIANCE, _JITTER, _STEPS = 10.0, 1e-6, 60
_BOUNDS = 1e-30, 1e30  # of scikit-learn, beyond ours
_FAR = 100.0  # beyond every normal score


class Surrogate(Record, ABC):
    """A function that predicts the score of any subset."""

    @abstractmethod
    def scores(self, masks: Sequence[int]) -> Doubles:
        """The predicted scores of some subsets, of shape (len(masks),)."""

    def __call__(self, mask: int) -> float:
        """The predicted score of a subset, whose mask has bit i set when source i is kept."""
        return float(self.scores([mask])[0])


@dataclass(frozen=True)
class LinearSurrogate(Surrogate):
    """A linear function of the kept sources.

    Args:
        weights: of the sources, in order.
        bias: the number without any source.
    """

    weights: tuple[float, ...]
    bias: float

    def scores(self, masks: Sequence[int]) -> Doubles:
        """The predicted scores of some subsets, of shape (len(masks),)."""
        return np.asarray(self.bias + bits(masks, len(self.weights)) @ np.array(self.weights))


@dataclass(frozen=True)
class SplitSurrogate(Surrogate):
    """One linear function for the subsets with a whole rule, another for those without.

    Args:
        rules: the minimal sets of source indices that keep the score.
        above: predicts subsets with a whole rule.
        below: predicts the others.
        complete: whether the search for rules ended, so that under the assumption that more
            sources keep the score too there are no others.
    """

    rules: tuple[tuple[int, ...], ...]
    above: LinearSurrogate
    below: LinearSurrogate
    complete: bool

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """The rules as masks."""
        return tuple(map(mask_of, self.rules))

    def holds(self, mask: int) -> bool:
        """Whether a subset has a whole rule."""
        return any(rule & ~mask == 0 for rule in self.masks)

    def scores(self, masks: Sequence[int]) -> Doubles:
        """The predicted scores of some subsets, of shape (len(masks),)."""
        whole = [self.holds(mask) for mask in masks]
        return np.where(whole, self.above.scores(masks), self.below.scores(masks))


@dataclass(frozen=True)
class KernelSurrogate(Surrogate):
    """What a Gaussian process over subsets predicts.

    Args:
        masks: the subsets that were asked.
        weights: of their likeness to the subset in question.
        rates: of the sources; a likeness falls by a factor ``exp(-rate)`` for each source that
            only one of two subsets keeps.
        level: what is predicted far from all of them.
        scale: normal scores and the scores that they stand for, ascending; between them lines, and
            beyond them a line as steep as the whole, so that the order of predictions is kept.
    """

    masks: tuple[int, ...]
    weights: tuple[float, ...]
    rates: tuple[float, ...]
    level: float
    scale: tuple[tuple[float, float], ...]

    def scores(self, masks: Sequence[int]) -> Doubles:
        """The predicted scores of some subsets, of shape (len(masks),)."""
        from scipy.spatial.distance import cdist

        new, known = (bits(some, len(self.rates)) for some in (masks, self.masks))
        apart = cdist(new, known, "cityblock", w=np.array(self.rates))
        normal = self.level + np.exp(-apart) @ np.array(self.weights)
        (low, least), (high, most) = self.scale[0], self.scale[-1]
        rise = _FAR * ((most - least) / (high - low) if high > low else 1.0)
        ends = (low - _FAR, least - rise), (high + _FAR, most + rise)
        return np.asarray(np.interp(normal, *np.array([ends[0], *self.scale, ends[1]]).T))


class SubsetSample:
    """The subsets that a surrogate is fitted to, up to a number of probes.

    Args:
        value: the score.
        probes: how many distinct subsets to ask, at most.
        seed: of the random subsets.
    """

    def __init__(self, value: SetValue, probes: int, seed: int) -> None:
        self.value, self.scores, self.count = value, value.known, value.num_sources
        self.probes, self.limit = probes, min(probes, 1 << self.count)
        self.rng = random.Random(seed)

    def draw(self, target: int) -> None:
        """Ask random subsets, each source kept with the probability one half, up to a total."""
        wanted = max(0, target - len(self.scores))
        self.value(random_masks(self.count, wanted, self.rng, self.scores, listed=12))

    def effects(self, surrogate: Surrogate) -> tuple[float, ...]:
        """The mean effect of each source on a prediction, over random subsets of the others.

        Over every subset of nine sources and fewer.
        """
        masks: Sequence[int] = range(1 << self.count) if 1 << self.count <= _EFFECT_SUBSETS else ()
        masks = masks or [self.rng.getrandbits(self.count) for _ in range(_EFFECT_SUBSETS)]
        effects = []
        for index in range(self.count):
            kept = surrogate.scores([mask | 1 << index for mask in masks])
            removed = surrogate.scores([mask & ~(1 << index) for mask in masks])
            effects.append(float((kept - removed).mean()))
        return tuple(effects)


def fit_lasso(
    presence: npt.ArrayLike, scores: npt.ArrayLike, penalty: float | None = None
) -> LinearSurrogate:
    """Least squares with a penalty on the weights of standardised columns (scikit-learn's LASSO).

    Args:
        presence: 1 where a row keeps a source, else 0, of shape (rows, sources).
        scores: the score of each row, of shape (rows,).
        penalty: of the objective; None for a tenth of the largest that leaves a source.

    Raises:
        ConfigError: the penalty is not above 0.
    """
    with needs_package("scikit-learn", "learn"):
        from sklearn.linear_model import Lasso

    table, target = np.asarray(presence, dtype=np.float64), np.asarray(scores, dtype=np.float64)
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


def fit_ridge(presence: npt.ArrayLike, scores: npt.ArrayLike) -> LinearSurrogate:
    """Least squares with a penalty on squared weights, as large as leave-one-out residuals say.

    Args:
        presence: 1 where a row keeps a source, else 0, of shape (rows, sources).
        scores: the score of each row, of shape (rows,).

    References:
        Golub, Heath, Wahba 1979 (Technometrics 21, 215-223), in scikit-learn.
    """
    with needs_package("scikit-learn", "learn"):
        from sklearn.linear_model import RidgeCV

    table, target = np.asarray(presence, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    if len(target) < 2:  # nothing can be left out
        return LinearSurrogate((0.0,) * table.shape[1], float(target.mean()))
    model = RidgeCV(alphas=_RIDGE_PENALTIES * len(target)).fit(table, target)
    return LinearSurrogate(tuple(model.coef_.tolist()), float(model.intercept_))


def fit_kernel(masks: Sequence[int], scores: Sequence[float], num_sources: int) -> KernelSurrogate:
    """The Gaussian process (scikit-learn's) that makes some scores likeliest, given weak priors.

    Args:
        masks: distinct subsets.
        scores: theirs, of shape (len(masks),).
        num_sources: how many sources the masks run over.
    """
    from scipy.optimize import minimize
    from scipy.stats import norm, rankdata

    with needs_package("scikit-learn", "learn"):
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    target = norm.ppf((rankdata(scores) - 0.5) / len(masks))
    target /= target.std() or 1.0
    lengths = np.full(num_sources, math.sqrt(0.5 / _RATE))  # a rate is half of one over its square
    means = np.log([_VARIANCE, *lengths, _NOISE])
    deviations = np.array([1.0, *np.full(num_sources, 0.5), 1.0])
    bounds = np.stack([means - 8 * deviations, means + 8 * deviations], axis=1)

    def likeliest(loss: Any, logs: Doubles, **_: Any) -> tuple[Doubles, float]:
        def posterior(logs: Doubles) -> tuple[float, Doubles]:
            value, slope = loss(logs)
            away = (logs - means) / deviations
            return value + 0.5 * away @ away, slope + away / deviations

        ways = {"method": "L-BFGS-B", "bounds": bounds, "options": {"maxiter": _STEPS}}
        best = minimize(posterior, logs, jac=True, **ways)
        return best.x, float(best.fun)

    kernel = ConstantKernel(_VARIANCE, _BOUNDS) * RBF(lengths, _BOUNDS)
    kernel += WhiteKernel(_NOISE, _BOUNDS) + ConstantKernel(_MEAN_VARIANCE, "fixed")
    process = GaussianProcessRegressor(kernel, alpha=_JITTER, optimizer=likeliest)
    process.fit(bits(masks, num_sources), target)
    variance, *fitted, _ = np.exp(process.kernel_.theta).tolist()
    level = _MEAN_VARIANCE * float(process.alpha_.sum())
    scale = sorted(set(zip(target.tolist(), map(float, scores), strict=True)))
    return KernelSurrogate(
        tuple(masks),
        tuple((variance * process.alpha_).tolist()),
        tuple(0.5 / length**2 for length in fitted),
        level,
        tuple(scale),
    )

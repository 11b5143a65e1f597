"""A Gaussian process over the subsets: near ones score alike, and each source counts as it does.

A linear function cannot follow a score that stands as long as one of several documents does. Here
the scores of two subsets are correlated by a factor for each source that only one of them keeps;
the factors are fitted, so that sources that do nothing drop out and few probes are enough, and
with more of them sources that work together, or stand in for each other, show by themselves. Few
probes, or a score that adds up, make it all but linear. Scores are modelled by their normal scores,
the quantiles of their ranks, so that a few that fall out of line, such as a log-probability without
any source, do not bend the rest. One probe in eight goes to the removals that are expected to
cost most, which are tried before they are stated.

References:
    Kondor, Lafferty 2002 (ICML): diffusion kernels; on subsets a factor for each difference.
    Rasmussen, Williams 2006 (Gaussian Processes for Machine Learning), sections 2.2, 2.7, 5.1:
    prediction, an unknown mean, a scale for each input by the marginal likelihood.
    Snelson, Rasmussen, Ghahramani 2003 (Warped Gaussian processes, NIPS 16): another scale for what
    is modelled; van der Waerden 1952 (Indagationes Mathematicae 14): normal scores.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from rulerag.arrays import Doubles
from rulerag.composition import register
from rulerag.errors import ConfigError
from rulerag.explanation.attribution.values import Attribution, KernelSurrogate
from rulerag.explanation.lattice import indices_of, random_masks
from rulerag.explanation.probing import Probed, Score, SetValue, valued

_REMOVALS, _TRIED, _BEAM, _SAMPLES = 0.125, 4, 16, 512
_LEAST, _DEFAULT = 4, 64
_START = (math.log(0.05), math.log(0.01), math.log(2.0))
"""The means of the logarithms of a source's rate, of the noise and of the variance, each with a
standard deviation of 1; the normal scores have the variance 1."""
_PRIOR_PRECISION = 1.0
_MEAN_VARIANCE, _JITTER, _STEPS = 10.0, 1e-6, 60


@register("explainer", "kernel")
def explain_by_kernel(
    engine: Probed, score: Score | None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """:func:`kernel_surrogate` of 64 subsets by default."""
    probes = max(_LEAST, samples or _DEFAULT)
    return kernel_surrogate(engine, score, probes=probes, seed=seed)


def kernel_surrogate(
    engine: Probed, score: Score | None = None, *, probes: int = _DEFAULT, seed: int = 0
) -> Attribution:
    """Fit a Gaussian process to a score.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        probes: how many distinct subsets to ask, at most.
        seed: of the random subsets.

    Returns:
        What each source adds to the prediction for a random subset of the others (its Banzhaf
        value, over 512 random subsets with ten sources and more), in the unit of the score; the
        prediction itself (``kernel``); and the sources in the order in which removing them costs
        most (``removals``).

    Raises:
        ConfigError: fewer than 4 probes.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's own budget ran out.
    """
    if probes < _LEAST:
        raise ConfigError(f"expected {_LEAST} or more, found {probes}", key="probes")
    return _KernelFit(valued(engine, score), probes, seed).result()


class _KernelFit:
    """The probes of one surrogate, and what is fitted to them."""

    def __init__(self, value: SetValue, probes: int, seed: int) -> None:
        self._value, self._known, self._count = value, value.known, value.num_sources
        self._limit = min(probes, 1 << self._count)
        self._rng = random.Random(seed)

    def result(self) -> Attribution:
        self._value([self._value.full])
        removals = int(_REMOVALS * self._limit)
        self._draw(self._limit - removals)
        self._try(removals)
        self._draw(self._limit)
        kernel = self._fitted()
        full, empty = kernel.scores([self._value.full, 0]).tolist()
        return Attribution(
            "kernel surrogate",
            self._value.names,
            self._effects(kernel),
            None,
            full,
            empty,
            len(self._known),
            self._order(kernel),
            kernel=kernel,
        )

    def _draw(self, target: int) -> None:
        """Ask random subsets, each source kept with the probability one half, up to a total."""
        wanted = max(0, target - len(self._known))
        self._value(random_masks(self._count, wanted, self._rng, self._known, listed=12))

    def _fitted(self) -> KernelSurrogate:
        masks = tuple(self._known)
        return fit_kernel(masks, [self._known[mask] for mask in masks], self._count)

    def _try(self, allowed: int) -> None:
        """Ask what is expected along the best order of removal, until all of it is known."""
        while allowed > 0:
            left, path = self._value.full, []
            for index in self._order(self._fitted()):
                left ^= 1 << index
                path.append(left)
            new = [mask for mask in path if mask not in self._known][: min(_TRIED, allowed)]
            if not new:
                return
            self._value(new)
            allowed -= len(new)

    def _order(self, kernel: KernelSurrogate) -> tuple[int, ...]:
        """The order of removal with the least area under the deletion curve, by a beam search.

        Of several documents that each are enough, no single removal shows what the removal of all
        of them costs: the best order is not the greedy one.
        """
        beam: dict[int, tuple[float, tuple[int, ...]]] = {self._value.full: (0.0, ())}
        for _ in range(self._count):
            following: dict[int, tuple[float, tuple[int, ...]]] = {}
            steps = [(mask, i) for mask in beam for i in indices_of(mask)]
            scores = self._expected(kernel, [mask ^ 1 << i for mask, i in steps])
            for (mask, index), score in zip(steps, scores, strict=True):
                area, order = beam[mask]
                state = (area + score, (*order, index))
                left = mask ^ 1 << index
                following[left] = min(following.get(left, state), state)
            best = sorted(following.items(), key=lambda item: item[1])
            beam = dict(best[:_BEAM])
        return beam[0][1]

    def _expected(self, kernel: KernelSurrogate, masks: Sequence[int]) -> list[float]:
        """The scores of some subsets, known or predicted."""
        new = list({mask: None for mask in masks if mask not in self._known})
        predicted = dict(zip(new, kernel.scores(new).tolist(), strict=True)) if new else {}
        return [self._known[m] if m in self._known else predicted[m] for m in masks]

    def _effects(self, kernel: KernelSurrogate) -> tuple[float, ...]:
        """The mean effect of each source on the prediction for random subsets of the others."""
        count = self._count
        masks: Sequence[int] = range(1 << count) if 1 << count <= _SAMPLES else ()
        masks = masks or [self._rng.getrandbits(count) for _ in range(_SAMPLES)]
        means = []
        for index in range(count):
            kept = kernel.scores([mask | 1 << index for mask in masks])
            means.append(float((kept - kernel.scores([m & ~(1 << index) for m in masks])).mean()))
        return tuple(means)


def fit_kernel(masks: Sequence[int], scores: Sequence[float], num_sources: int) -> KernelSurrogate:
    """The Gaussian process that makes some scores likeliest, given weak priors of its scales.

    Args:
        masks: distinct subsets.
        scores: theirs, of shape (len(masks),).
        num_sources: how many sources the masks run over.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve
    from scipy.optimize import minimize
    from scipy.stats import norm, rankdata

    kept = bits(masks, num_sources)
    differ = (kept[:, None] != kept[None]).astype(np.float64)
    size = len(masks)
    target = norm.ppf((rankdata(scores) - 0.5) / size)
    target /= target.std() or 1.0
    start = np.array([_START[0]] * num_sources + [_START[1], _START[2]])

    def covariance(logs: Doubles) -> tuple[Doubles, Doubles]:
        likeness = np.exp(logs[-1] - differ @ np.exp(logs[:-2]))
        noise = (math.exp(logs[-2]) + _JITTER) * np.eye(size)
        return likeness, likeness + noise + _MEAN_VARIANCE

    def loss(logs: Doubles) -> tuple[float, Doubles]:
        likeness, whole = covariance(logs)
        try:
            factor = cho_factor(whole, lower=True)
        except LinAlgError:
            return 1e9, np.zeros_like(logs)
        solved = cho_solve(factor, target)
        away = logs - start
        value = 0.5 * target @ solved + np.log(np.diag(factor[0])).sum()
        slope = 0.5 * (cho_solve(factor, np.eye(size)) - np.outer(solved, solved))
        weighted = slope * likeness
        rates = -np.einsum("ij,ijk->k", weighted, differ) * np.exp(logs[:-2])
        scales = [np.trace(slope) * math.exp(logs[-2]), weighted.sum()]
        gradient = np.concatenate([rates, scales]) + _PRIOR_PRECISION * away
        return float(value + 0.5 * _PRIOR_PRECISION * away @ away), gradient

    bounds = [(low - 8.0, low + 8.0) for low in start]
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS}
    )
    logs = np.asarray(found.x, dtype=np.float64)
    solved = cho_solve(cho_factor(covariance(logs)[1], lower=True), target)
    weights = math.exp(logs[-1]) * solved
    level = _MEAN_VARIANCE * float(solved.sum())
    scale = sorted(set(zip(target.tolist(), map(float, scores), strict=True)))
    rates = tuple(np.exp(logs[:-2]).tolist())
    return KernelSurrogate(tuple(masks), tuple(weights.tolist()), rates, level, tuple(scale))


def bits(masks: Sequence[int], num_sources: int) -> Doubles:
    """1.0 where a mask keeps a source, else 0.0, of shape (len(masks), num_sources)."""
    return np.array([[mask >> i & 1 for i in range(num_sources)] for mask in masks], dtype=float)

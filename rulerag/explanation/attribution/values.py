"""How much each source counts: leave-one-out, Shapley and Banzhaf values.

Every function takes an engine and a score (a number for an output, or a predicate) and asks the
engine in batches; what it knows is not asked again. An explainer is such a function ``(engine,
score, *, samples, seed) -> Attribution`` under ``@register("explainer", NAME)``.

References:
    Shapley 1953 (Contributions to the Theory of Games 2, 307-317).
    Castro, Gomez, Tejada 2009 (Computers and Operations Research 36, 1726-1730): permutations.
    Mitchell, Cooper, Frank, Holmes 2022 (JMLR 23): antithetic permutations.
    Wang and Jia 2023 (Data Banzhaf, arXiv:2205.15466): every sample serves every source.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rulerag.arrays import Doubles
from rulerag.composition import find, register
from rulerag.errors import ConfigError, ProbeBudgetError
from rulerag.explanation.lattice import indices_of, mask_of
from rulerag.explanation.probing import Predicate, Probed, Score, SetValue, valued
from rulerag.explanation.records import Record

MAX_EXACT_VALUES = 20

_EXACT_BY_DEFAULT = 10
"""Up to so many sources Shapley and Banzhaf values are exact when no sample size is given."""


@dataclass(frozen=True)
class LinearSurrogate(Record):
    """A linear function of the kept sources.

    Args:
        weights: of the sources, in order.
        bias: the number without any source.
    """

    weights: tuple[float, ...]
    bias: float

    def __call__(self, mask: int) -> float:
        """The predicted score of a subset, whose mask has bit i set when source i is kept."""
        return self.bias + sum(w for i, w in enumerate(self.weights) if mask >> i & 1)


@dataclass(frozen=True)
class SplitSurrogate(Record):
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

    def __call__(self, mask: int) -> float:
        """The predicted score of a subset."""
        return self.above(mask) if self.holds(mask) else self.below(mask)


@dataclass(frozen=True)
class KernelSurrogate(Record):
    """What a Gaussian process over subsets predicts.

    Args:
        masks: the subsets that were asked.
        weights: of their likeness to the subset in question.
        rates: of the sources; a likeness falls by a factor ``exp(-rate)`` for each source that
            only one of two subsets keeps.
        level: what is predicted far from all of them.
        scale: normal scores and the scores that they stand for, ascending; between them lines.
    """

    masks: tuple[int, ...]
    weights: tuple[float, ...]
    rates: tuple[float, ...]
    level: float
    scale: tuple[tuple[float, float], ...]

    def scores(self, masks: Sequence[int]) -> Doubles:
        """The predicted scores of some subsets, of shape (len(masks),)."""
        known, new = (
            np.array([[mask >> i & 1 for i in range(len(self.rates))] for mask in some])
            for some in (self.masks, masks)
        )
        rates = np.array(self.rates)
        # Bits differ where one of the two is 1 and not both.
        apart = (new * rates).sum(1)[:, None] + known @ rates - 2 * (new * rates) @ known.T
        normal = self.level + np.exp(-apart) @ np.array(self.weights)
        inside = np.interp(normal, *np.array(self.scale).T)
        return np.asarray(inside + self._beyond(normal), dtype=np.float64)

    def _beyond(self, normal: Doubles) -> Doubles:
        """What is added outside of the scale, so that the order of the predictions is kept."""
        (low, least), (high, most) = self.scale[0], self.scale[-1]
        slope = (most - least) / (high - low) if high > low else 1.0
        return np.asarray((normal - np.clip(normal, low, high)) * slope, dtype=np.float64)

    def __call__(self, mask: int) -> float:
        """The predicted score of a subset."""
        return float(self.scores([mask])[0])


@dataclass(frozen=True)
class Attribution(Record):
    """A number for each source.

    Args:
        method: how it was found.
        names: what the sources are called, in order.
        values: what each counts, in the unit of the score.
        errors: the standard error of each value: the standard deviation that it would have over
            other seeds. None for exact values and where none is stated.
        full: the score with every source kept; for a surrogate, what it predicts.
        empty: the score with every source removed, likewise; None when it was not asked.
        num_probes: how many distinct subsets were needed.
        removals: the sources in the order in which removing them costs most, each after those
            before it, where that was looked for. It differs from ``ranking`` where sources stand in
            for each other: the second of two that say the same costs nothing until the first goes.
        surrogate: predicts the score of a subset; None where the sum of the values does.
        kernel: does so instead, where a Gaussian process was fitted.
    """

    method: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...] | None
    full: float
    empty: float | None
    num_probes: int
    removals: tuple[int, ...] | None = None
    surrogate: SplitSurrogate | None = None
    kernel: KernelSurrogate | None = None

    @property
    def ranking(self) -> tuple[int, ...]:
        """The source indices, the one that counts most first; ties in their order."""
        return tuple(sorted(range(len(self.values)), key=lambda i: (-self.values[i], i)))

    def predict(self, mask: int) -> float:
        """The score that is predicted for a subset; up to a constant where ``empty`` is None."""
        linear = LinearSurrogate(self.values, self.empty or 0.0)
        return (self.kernel or self.surrogate or linear)(mask)

    def top(self, count: int) -> frozenset[int]:
        """The ``count`` sources that count most."""
        return frozenset(self.ranking[:count])

    def __str__(self) -> str:
        """One line a source, the one that counts most first; removals and rules where known."""
        lines = [f"{self.method}, {self.num_probes:,} probes, all sources score {self.full:.4g}"]
        for index in self.ranking:
            error = f" ± {self.errors[index]:.2g}" if self.errors is not None else ""
            lines.append(f"  {self.values[index]:+.4f}{error}  {self.names[index]}")
        if self.removals is not None:
            order = ", ".join(self.names[index] for index in self.removals)
            lines.append(f"  removed in this order, most is lost: {order}")
        if self.surrogate is not None and any(self.surrogate.rules):
            rules = [" + ".join(self.names[i] for i in rule) for rule in self.surrogate.rules]
            more = "" if self.surrogate.complete else ", or with sets not looked for"
            lines.append(f"  the score is kept with {' or with '.join(rules)}{more}")
        return "\n".join(lines)


@register("explainer", "leave-one-out")
def explain_by_leave_one_out(
    engine: Probed, score: Score | None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """:func:`leave_one_out`, which takes no sample."""
    return leave_one_out(engine, score)


def leave_one_out(engine: Probed, score: Score | None = None) -> Attribution:
    """What the score loses when a source alone is removed: ``v(all) - v(all without i)``.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.

    Raises:
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    value = valued(engine, score)
    found = value([value.full, *(value.full ^ 1 << i for i in range(value.num_sources))])
    values = tuple((found[0] - found[1:]).tolist())
    full, probes = float(found[0]), value.num_probes
    return Attribution("leave-one-out", value.names, values, None, full, None, probes)


@register("explainer", "shapley")
def explain_by_shapley_values(
    engine: Probed, score: Score | None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """:func:`shapley_values` from random orders: by default exact up to 10 sources, else 200."""
    if samples is None and engine.num_sources > _EXACT_BY_DEFAULT:
        samples = 200
    return shapley_values(engine, score, permutations=samples, seed=seed)


def shapley_values(
    engine: Probed, score: Score | None = None, *, permutations: int | None = None, seed: int = 0
) -> Attribution:
    """What a source adds to those before it, on average over every order of the sources.

    The values sum to ``v(all) - v(none)``.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        permutations: how many random orders to average over, at most ``num_sources`` new probes
            each. Every other one is the reverse of the one before, which evens out errors; an odd
            last one, which would have no reverse, is not drawn. None for exact values from every
            subset.
        seed: of the random orders.

    Returns:
        Values with standard errors from the spread of the pairs' means, since the two orders of a
        pair depend on each other; without errors from a single pair, which has no spread.

    Raises:
        ConfigError: exact values of more than 20 sources, or fewer than 2 permutations.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    value = valued(engine, score)
    count = value.num_sources
    if permutations is None:
        table = _every_value(value, "permutations=200")
        # The share of the orders in which a set of each size comes before a source besides.
        shares = [1 / (count * math.comb(count - 1, size)) for size in range(count)] + [0.0]
        weights = np.array([shares[mask.bit_count()] for mask in range(table.size)])
        values = [_mean_gain(table, index, weights) for index in range(count)]
        return _of("Shapley (exact)", value, values)
    if permutations < 2:
        raise ConfigError(f"expected 2 or more, found {permutations}", key="permutations")
    gains = _permutation_gains(value, permutations // 2, random.Random(seed))
    pairs = (gains[0::2] + gains[1::2]) / 2
    errors = pairs.std(axis=0, ddof=1) / math.sqrt(len(pairs)) if len(pairs) > 1 else None
    return _of("Shapley (sampled)", value, pairs.mean(axis=0), errors)


@register("explainer", "banzhaf")
def explain_by_banzhaf_values(
    engine: Probed, score: Score | None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """:func:`banzhaf_values` from random subsets: by default exact up to 10 sources, else 400."""
    if samples is None and engine.num_sources > _EXACT_BY_DEFAULT:
        samples = 400
    return banzhaf_values(engine, score, samples=samples, seed=seed)


def banzhaf_values(
    engine: Probed, score: Score | None = None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """What a source adds to a random subset of the others, each subset equally likely.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        samples: how many random subsets to ask; a value is the mean score of those with the source
            less that of those without. None for exact values from every subset.
        seed: of the random subsets.

    Returns:
        Values with the standard errors of a difference of two means.

    Raises:
        ConfigError: exact values of more than 20 sources, or fewer than 4 samples.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    value = valued(engine, score)
    count = value.num_sources
    if samples is None:
        table = _every_value(value, "samples=400")
        weights = np.full(table.size, 2.0 ** (1 - count))
        gains = [_mean_gain(table, i, weights) for i in range(count)]
        return _of("Banzhaf (exact)", value, gains)
    if samples < 4:
        raise ConfigError(f"expected 4 or more, found {samples}", key="samples")
    masks = _random_masks(count, samples, random.Random(seed))
    found = value(masks)
    means, errors = np.zeros(count), np.zeros(count)
    for index in range(count):
        kept = np.array([mask >> index & 1 for mask in masks], dtype=np.bool_)
        one, other = found[kept], found[~kept]
        means[index] = one.mean() - other.mean()
        errors[index] = math.sqrt(one.var(ddof=1) / one.size + other.var(ddof=1) / other.size)
    return _of("Banzhaf (sampled)", value, means, errors)


def _random_masks(count: int, samples: int, rng: random.Random) -> list[int]:
    """Random subsets, each source kept in at least two of them and left out of two, for its error.

    They do not come with their complements, as permutations come with their reverses: what a
    source adds to a subset and what it adds to the complement agree where scores add up, so that a
    pair would tell little more than one of the two and cost twice as much. Nor is a source kept in
    exactly half of them: that would spread the values less than the errors say.
    """
    masks = [0] * samples
    for index in range(count):
        column = rng.getrandbits(samples)
        while not 2 <= column.bit_count() <= samples - 2:  # hardly ever, but for few samples
            column = rng.getrandbits(samples)
        for place in indices_of(column):
            masks[place] |= 1 << index
    return masks


def _every_value(value: SetValue, alternative: str) -> Doubles:
    count = value.num_sources
    if count > MAX_EXACT_VALUES:
        what = f"exact values of {count} sources need 2^{count} = {2**count:,} probes"
        raise ConfigError(what, hint=f"sample: {alternative}")
    return value(range(1 << count))


def _mean_gain(table: Doubles, index: int, weights: Doubles) -> float:
    """The weighted mean of what a source adds, over all subsets without it."""
    without = np.flatnonzero(np.arange(table.size) >> index & 1 == 0)
    return float(np.dot(table[without | 1 << index] - table[without], weights[without]))


def _permutation_gains(value: SetValue, pairs: int, rng: random.Random) -> Doubles:
    """What each source adds in each order and its reverse, of shape (2 * pairs, num_sources)."""
    order = list(range(value.num_sources))
    orders: list[list[int]] = []
    for _ in range(pairs):
        rng.shuffle(order)
        orders += [order.copy(), order[::-1]]
    masks = [mask_of(one[:length]) for one in orders for length in range(len(one) + 1)]
    steps = np.diff(value(masks).reshape(len(orders), -1), axis=1)
    gains = np.zeros_like(steps)
    for row, one in enumerate(orders):
        gains[row, one] = steps[row]
    return gains


def _of(
    method: str, value: SetValue, values: Doubles | list[float], errors: Doubles | None = None
) -> Attribution:
    numbers = tuple(np.asarray(values, dtype=float).tolist())
    stated = None if errors is None else tuple(errors.tolist())
    full, empty = value([value.full, 0]).tolist()
    return Attribution(method, value.names, numbers, stated, full, empty, value.num_probes)


def attributions(
    engine: Probed,
    score: Predicate | None,
    methods: Sequence[str],
    *,
    samples: int | None = None,
    seed: int = 0,
) -> tuple[tuple[Attribution, ...], bool]:
    """Values of the sources by several methods.

    Args:
        engine: answers, or numbers, for subsets of the sources.
        score: whether an output meets the condition, counted as 1 and 0; None where outputs
            are numbers, taken as log-probabilities.
        methods: names of registered explainers.
        samples: random orders (Shapley) or random subsets (the others) to ask; by default what
            each explainer says.
        seed: of the random choices.

    Returns:
        What the methods found, in order, and whether the probe budget sufficed for all of them.

    Raises:
        ConfigError: no explainer has such a name, or it refuses the sample size.
        PredicateError: the score raised.
    """
    check_methods(methods)
    found, complete = [], True
    for method in methods:
        explain = find("explainer", method).component
        try:
            found.append(explain(engine, score, samples=samples, seed=seed))
        except ProbeBudgetError:
            complete = False
    return tuple(found), complete


def check_methods(methods: Sequence[str]) -> None:
    """Refuse names that :func:`attributions` would refuse, before any work is done.

    Raises:
        ConfigError: no explainer has such a name.
    """
    for method in methods:
        find("explainer", method, key="attribution")

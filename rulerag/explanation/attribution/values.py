"""How much each source counts: leave-one-out, Shapley and Banzhaf values, a linear surrogate.

An explainer is a function ``(engine, score, *, samples, seed) -> Attribution`` under
``@register("explainer", NAME)``. It takes an engine and a score (a number for an output, or a
predicate) and asks the engine in batches; what that knows is not asked again.

References:
    Shapley 1953 (Contributions to the Theory of Games 2, 307-317).
    Castro, Gomez, Tejada 2009 (Computers and Operations Research 36, 1726-1730): permutations.
    Mitchell, Cooper, Frank, Holmes 2022 (JMLR 23): antithetic permutations.
    Wang and Jia 2023 (Data Banzhaf, arXiv:2205.15466): every sample serves every source.
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 3: LASSO on random ablations.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from rulerag.arrays import Doubles
from rulerag.composition import check_range, find, register
from rulerag.errors import ConfigError, ProbeBudgetError
from rulerag.explanation.attribution.surrogates import (
    KernelSurrogate,
    LinearSurrogate,
    SplitSurrogate,
    SubsetSample,
    fit_lasso,
)
from rulerag.explanation.lattice import bits, full_mask, indices_of, mask_of
from rulerag.explanation.probing import Predicate, Probed, Score, SetValue, valued
from rulerag.explanation.records import Record

MAX_EXACT_VALUES = 20
"""Exact values of more sources would ask over a million subsets."""

EXACT_SOURCES = 10
"""Up to so many sources Shapley and Banzhaf values are exact when no sample size is given."""


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
def leave_one_out(
    engine: Probed, score: Score | None = None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """What the score loses when a source alone is removed: ``v(all) - v(all without i)``.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        samples: not used, nothing is drawn.
        seed: not used either.

    Raises:
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    value = valued(engine, score)
    numbers = value([value.full, *(value.full ^ 1 << i for i in range(value.num_sources))])
    values = tuple((numbers[0] - numbers[1:]).tolist())
    full, probes = float(numbers[0]), value.num_probes
    return Attribution("leave-one-out", value.names, values, None, full, None, probes)


@register("explainer", "shapley")
def shapley_values(
    engine: Probed,
    score: Score | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
    exact: int = EXACT_SOURCES,
) -> Attribution:
    """What a source adds to those before it, on average over every order of the sources.

    The values sum to ``v(all) - v(none)``.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        samples: how many random orders to average over, at most ``num_sources`` new probes each.
            Every other one is the reverse of the one before, which evens out errors; an odd last
            one, which would have no reverse, is not drawn. None for exact values of few sources,
            and for 200 orders of many.
        seed: of the random orders.
        exact: up to so many sources are few; exact values ask every subset.

    Returns:
        Values with standard errors from the spread of the pairs' means, since the two orders of a
        pair depend on each other; without errors from a single pair, which has no spread.

    Raises:
        ConfigError: exact values of more than 20 sources, or fewer than 2 orders.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    value = valued(engine, score)
    count = value.num_sources
    if samples is None and count <= exact:
        # The share of the orders in which a set of each size comes before a source besides.
        shares = [1 / (count * math.comb(count - 1, size)) for size in range(count)]
        return _attribution("Shapley (exact)", value, _mean_gains(value, shares))
    samples = 200 if samples is None else samples
    check_range("samples", samples, 2)
    gains = _permutation_gains(value, samples // 2, random.Random(seed))
    pairs = (gains[0::2] + gains[1::2]) / 2
    errors = pairs.std(axis=0, ddof=1) / math.sqrt(len(pairs)) if len(pairs) > 1 else None
    return _attribution("Shapley (sampled)", value, pairs.mean(axis=0), errors)


@register("explainer", "banzhaf")
def banzhaf_values(
    engine: Probed,
    score: Score | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
    exact: int = EXACT_SOURCES,
) -> Attribution:
    """What a source adds to a random subset of the others, each subset equally likely.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        samples: how many random subsets to ask; a value is the mean score of those with the source
            less that of those without. None for exact values of few sources, and for 400 subsets
            of many.
        seed: of the random subsets.
        exact: up to so many sources are few; exact values ask every subset.

    Returns:
        Values with the standard errors of a difference of two means.

    Raises:
        ConfigError: exact values of more than 20 sources, or fewer than 4 samples.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    value = valued(engine, score)
    count = value.num_sources
    if samples is None and count <= exact:
        gains = _mean_gains(value, [2.0 ** (1 - count)] * count)
        return _attribution("Banzhaf (exact)", value, gains)
    samples = 400 if samples is None else samples
    check_range("samples", samples, 4)
    masks = _random_masks(count, samples, random.Random(seed))
    numbers = value(masks)
    means, errors = np.zeros(count), np.zeros(count)
    for index, column in enumerate(bits(masks, count).T.astype(np.bool_)):
        one, other = numbers[column], numbers[~column]
        means[index] = one.mean() - other.mean()
        errors[index] = math.sqrt(one.var(ddof=1) / one.size + other.var(ddof=1) / other.size)
    return _attribution("Banzhaf (sampled)", value, means, errors)


@register("explainer", "linear")
def linear_surrogate(
    engine: Probed,
    score: Score | None = None,
    *,
    samples: int = 64,
    penalty: float | None = None,
    seed: int = 0,
) -> Attribution:
    """The weights of a sparse linear function fitted to random ablations.

    It works as ContextCite does and is not ContextCite's estimator: that one explains the logit of
    the response's probability, divided by its number of tokens, with a penalty of 0.01. Here the
    score itself is explained, be it a log-probability or a predicate value, and the penalty goes by
    its spread. ``benchmarks/explanation/contextcite.py`` runs ContextCite's own package beside it.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        samples: how many random subsets to ask, each source kept with the probability one half.
        penalty: the weight of the LASSO's penalty, in the unit of the score; None for a tenth of
            the largest penalty that leaves a source.
        seed: of the random subsets.

    Raises:
        ConfigError: an argument is out of range.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    check_range("samples", samples, 2)
    value = valued(engine, score)
    rng = random.Random(seed)
    masks = [
        mask_of(i for i in range(value.num_sources) if rng.random() < 0.5) for _ in range(samples)
    ]
    fitted = fit_lasso(bits(masks, value.num_sources), value(masks), penalty)
    numbers = (fitted.weights, None, fitted(value.full), fitted(0), value.num_probes)
    return Attribution("linear surrogate", value.names, *numbers)


def rule_surrogate(rules: Iterable[Iterable[int]], names: Sequence[str]) -> Attribution:
    """Minimal rules read as a formula, 1 for subsets with a whole rule, else 0; asks no model.

    Args:
        rules: the sets of source indices of minimal retention rules, such as ``rules.minimal``.
        names: what the sources are called, in order.

    Returns:
        The Banzhaf values of the formula, over 4,096 random subsets where the rules name more than
        20 sources; its ``predict`` is the formula.
    """
    sets, flat = tuple(tuple(sorted(rule)) for rule in rules), (0.0,) * len(names)
    formula = SplitSurrogate(sets, LinearSurrogate(flat, 1.0), LinearSurrogate(flat, 0.0), True)
    places = sorted({index for rule in sets for index in rule})
    masks = [mask_of(map(places.index, rule)) for rule in sets]

    def value(asked: list[int]) -> list[float]:
        return [float(any(rule & ~mask == 0 for rule in masks)) for mask in asked]

    def placed(numbers: Sequence[float]) -> tuple[float, ...]:
        spread = np.zeros(len(names))
        spread[places] = numbers
        return tuple(spread.tolist())

    samples = None if len(places) <= MAX_EXACT_VALUES else 4096
    inner = banzhaf_values(SetValue(value, len(places)), samples=samples, exact=MAX_EXACT_VALUES)
    errors = None if inner.errors is None else placed(inner.errors)
    full, empty = formula(full_mask(len(names))), formula(0)
    values = placed(inner.values)
    return Attribution("rules", tuple(names), values, errors, full, empty, 0, surrogate=formula)


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


def _mean_gains(value: SetValue, shares: Sequence[float]) -> Doubles:
    """The weighted mean of what each source adds, over every subset of the others.

    Args:
        value: the score.
        shares: the weight of a subset, by how many sources it keeps.
    """
    count = value.num_sources
    if count > MAX_EXACT_VALUES:
        what = f"exact values of {count} sources need 2^{count} = {2**count:,} probes"
        raise ConfigError(what, key="exact", hint="name a number of samples")
    table, masks = value(range(1 << count)), np.arange(1 << count)
    gains = np.zeros(count)
    for index in range(count):
        without = masks[masks >> index & 1 == 0]
        weights = np.array(shares)[np.bitwise_count(without)]
        gains[index] = np.dot(table[without | 1 << index] - table[without], weights)
    return gains


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
    np.put_along_axis(gains, np.array(orders), steps, axis=1)
    return gains


def _attribution(
    method: str, value: SetValue, values: Doubles, errors: Doubles | None = None
) -> Attribution:
    spread = None if errors is None else tuple(errors.tolist())
    full, empty = value([value.full, 0]).tolist()
    numbers = tuple(values.tolist())
    return Attribution(method, value.names, numbers, spread, full, empty, value.num_probes)


def fitted_attribution(
    method: str,
    sample: SubsetSample,
    surrogate: SplitSurrogate | KernelSurrogate,
    removals: tuple[int, ...],
) -> Attribution:
    """The effects of the sources on what a surrogate predicts.

    Args:
        method: what it is called.
        sample: the subsets that it was fitted to.
        surrogate: the prediction.
        removals: the order in which removing the sources costs most.
    """
    full, empty = surrogate.scores([sample.value.full, 0]).tolist()
    numbers = sample.effects(surrogate), None, full, empty, len(sample.scores), removals
    split, kernel = (
        (surrogate, None) if isinstance(surrogate, SplitSurrogate) else (None, surrogate)
    )
    return Attribution(method, sample.value.names, *numbers, split, kernel)


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
        The values by each method, in order, and whether the probe budget sufficed for all of them.

    Raises:
        ConfigError: no explainer has such a name, or it refuses the sample size.
        PredicateError: the score raised.
    """
    explainers = check_methods(methods)
    options = {"seed": seed} if samples is None else {"seed": seed, "samples": samples}
    values = []
    for explain in explainers:
        with suppress(ProbeBudgetError):
            values.append(explain(engine, score, **options))
    return tuple(values), len(values) == len(methods)


def check_methods(methods: Sequence[str]) -> list[Callable[..., Attribution]]:
    """The registered explainers of these names; asks nothing.

    Raises:
        ConfigError: no explainer has such a name.
    """
    return [find("explainer", method, key="attribution").component for method in methods]

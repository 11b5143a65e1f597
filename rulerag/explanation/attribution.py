"""How much each source counts: leave-one-out, Shapley and Banzhaf values.

Every function takes an engine and a score (a number for an output, a predicate, or the
generator's own score) and asks the engine in batches; what it knows is not asked again.

References:
    Shapley 1953 (Contributions to the Theory of Games 2, 307-317).
    Castro, Gomez, Tejada 2009 (Computers and Operations Research 36, 1726-1730): permutations.
    Mitchell, Cooper, Frank, Holmes 2022 (JMLR 23): antithetic permutations.
    Wang and Jia 2023 (Data Banzhaf, arXiv:2205.15466): every sample serves every source.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rulerag.errors import ConfigError
from rulerag.explanation.lattice import indices_of, mask_of
from rulerag.explanation.predictors import LinearSurrogate, SplitSurrogate
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.trace import expect
from rulerag.explanation.values import Floats, Score, SetValue, valued

__all__ = ["MAX_EXACT_VALUES", "Attribution", "banzhaf_values", "leave_one_out", "shapley_values"]

MAX_EXACT_VALUES = 20


@dataclass(frozen=True, slots=True)
class Attribution:
    """A number for each source.

    Args:
        method: how it was found.
        names: what the sources are called, in order.
        values: what each counts, in the unit of the score.
        full: the score with every source kept; for a surrogate, what it predicts.
        empty: the score with every source removed, likewise; None when it was not asked.
        num_probes: how many distinct subsets were needed.
        errors: the standard error of each value: the standard deviation that it would have over
            other seeds. None for exact values and where none is stated.
        removals: the sources in the order in which removing them costs most, each after those
            before it, where that was looked for. It differs from ``ranking`` where sources stand in
            for each other: the second of two that say the same costs nothing until the first goes.
        surrogate: predicts the score of a subset; None where the sum of the values does.
    """

    method: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    full: float
    empty: float | None
    num_probes: int
    errors: tuple[float, ...] | None = None
    removals: tuple[int, ...] | None = None
    surrogate: SplitSurrogate | None = None

    @property
    def ranking(self) -> tuple[int, ...]:
        """The source indices, the one that counts most first; ties in their order."""
        return tuple(sorted(range(len(self.values)), key=lambda i: (-self.values[i], i)))

    def predict(self, mask: int) -> float:
        """The score that is predicted for a subset; up to a constant where ``empty`` is None."""
        if self.surrogate is not None:
            return self.surrogate(mask)
        return LinearSurrogate(self.values, self.empty or 0.0)(mask)

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
        if self.surrogate is not None and self.surrogate.rules not in ((), (0,)):
            rules = [" + ".join(self.names[i] for i in indices_of(m)) for m in self.surrogate.rules]
            more = "" if self.surrogate.complete else ", or with sets not looked for"
            lines.append(f"  the score is kept with {' or with '.join(rules)}{more}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The values as a JSON object."""
        return {
            "method": self.method,
            "names": list(self.names),
            "values": list(self.values),
            "errors": None if self.errors is None else list(self.errors),
            "full": self.full,
            "empty": self.empty,
            "num_probes": self.num_probes,
            "removals": None if self.removals is None else list(self.removals),
            "surrogate": None if self.surrogate is None else self.surrogate.to_json(),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Attribution:
        """Read the object that ``to_json`` makes; older ones have no removals and no surrogate.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        errors = expect(row, "errors", list | None)
        removals = expect({"removals": None, **row}, "removals", list | None)
        surrogate = expect({"surrogate": None, **row}, "surrogate", dict | None)
        return cls(
            method=expect(row, "method", str),
            names=tuple(expect(row, "names", list)),
            values=tuple(float(value) for value in expect(row, "values", list)),
            full=float(expect(row, "full", int | float)),
            empty=None if row.get("empty") is None else float(row["empty"]),
            num_probes=expect(row, "num_probes", int),
            errors=None if errors is None else tuple(float(value) for value in errors),
            removals=None if removals is None else tuple(removals),
            surrogate=None if surrogate is None else SplitSurrogate.from_json(surrogate),
        )


def leave_one_out(engine: ProbeEngine | SetValue, score: Score | None = None) -> Attribution:
    """What the score loses when a source alone is removed: ``v(all) - v(all without i)``.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None for the generator's own score.

    Raises:
        ExplanationError: the generator states no score.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    value = valued(engine, score)
    found = value([value.full, *(value.full ^ 1 << i for i in range(value.num_sources))])
    values = tuple((found[0] - found[1:]).tolist())
    return Attribution(
        "leave-one-out", value.names, values, float(found[0]), None, value.num_probes
    )


def shapley_values(
    engine: ProbeEngine | SetValue,
    score: Score | None = None,
    *,
    permutations: int | None = None,
    seed: int = 0,
) -> Attribution:
    """What a source adds to those before it, on average over every order of the sources.

    The values sum to ``v(all) - v(none)``.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None for the generator's own score.
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
        ExplanationError: the generator states no score.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    value = valued(engine, score)
    if permutations is None:
        table = _every_value(value, "permutations=200")
        sizes = np.array([mask.bit_count() for mask in range(table.size)])
        weights = np.array([_shapley_weight(size, value.num_sources) for size in sizes])
        values = [_mean_gain(table, index, weights) for index in range(value.num_sources)]
        return _exact("Shapley", value, values)
    if permutations < 2:
        raise ConfigError(f"expected 2 or more, found {permutations}", key="permutations")
    gains = _permutation_gains(value, permutations // 2, random.Random(seed))
    pairs = (gains[0::2] + gains[1::2]) / 2
    errors = pairs.std(axis=0, ddof=1) / math.sqrt(len(pairs)) if len(pairs) > 1 else None
    return _sampled("Shapley", value, pairs.mean(axis=0), errors)


def banzhaf_values(
    engine: ProbeEngine | SetValue,
    score: Score | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
) -> Attribution:
    """What a source adds to a random subset of the others, each subset equally likely.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None for the generator's own score.
        samples: how many random subsets to ask; a value is the mean score of those with the source
            less that of those without. None for exact values from every subset.
        seed: of the random subsets.

    Returns:
        Values with the standard errors of a difference of two means.

    Raises:
        ConfigError: exact values of more than 20 sources, or fewer than 4 samples.
        ExplanationError: the generator states no score.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's budget ran out.
    """
    value = valued(engine, score)
    count = value.num_sources
    if samples is None:
        table = _every_value(value, "samples=400")
        weights = np.full(table.size, 2.0 ** (1 - count))
        return _exact("Banzhaf", value, [_mean_gain(table, i, weights) for i in range(count)])
    if samples < 4:
        raise ConfigError(f"expected 4 or more, found {samples}", key="samples")
    masks = _random_masks(count, samples, random.Random(seed))
    found = value(masks)
    means, errors = np.zeros(count), np.zeros(count)
    for index in range(count):
        kept = np.array([mask >> index & 1 for mask in masks], dtype=np.bool_)
        means[index] = found[kept].mean() - found[~kept].mean()
        errors[index] = math.sqrt(_error(found[kept]) + _error(found[~kept]))
    return _sampled("Banzhaf", value, means, errors)


def _error(values: Floats) -> float:
    """The squared standard error of a mean."""
    return float(values.var(ddof=1) / values.size)


def _random_masks(count: int, samples: int, chance: random.Random) -> list[int]:
    """Random subsets, each source kept in at least two of them and left out of two, for its error.

    They do not come with their complements, as permutations come with their reverses: what a
    source adds to a subset and what it adds to the complement agree where scores add up, so that a
    pair would tell little more than one of the two and cost twice as much. Nor is a source kept in
    exactly half of them: that would spread the values less than the errors say.
    """
    masks = [0] * samples
    for index in range(count):
        column = chance.getrandbits(samples)
        while not 2 <= column.bit_count() <= samples - 2:  # hardly ever, but for few samples
            column = chance.getrandbits(samples)
        for place in indices_of(column):
            masks[place] |= 1 << index
    return masks


def _every_value(value: SetValue, alternative: str) -> Floats:
    if value.num_sources > MAX_EXACT_VALUES:
        raise ConfigError(
            f"exact values of {value.num_sources} sources need "
            f"2^{value.num_sources} = {2**value.num_sources:,} probes",
            hint=f"sample: {alternative}",
        )
    return value(range(1 << value.num_sources))


def _shapley_weight(size: int, count: int) -> float:
    """The share of the orders in which a given set of ``size`` comes before a given source."""
    return 1 / (count * math.comb(count - 1, size)) if size < count else 0.0


def _mean_gain(table: Floats, index: int, weights: Floats) -> float:
    """The weighted mean of what a source adds, over all subsets without it."""
    without = np.flatnonzero(np.arange(table.size) >> index & 1 == 0)
    return float(np.dot(table[without | 1 << index] - table[without], weights[without]))


def _permutation_gains(value: SetValue, pairs: int, chance: random.Random) -> Floats:
    """What each source adds in each order and its reverse, of shape (2 * pairs, num_sources)."""
    order = list(range(value.num_sources))
    orders: list[list[int]] = []
    for _ in range(pairs):
        chance.shuffle(order)
        orders += [order.copy(), order[::-1]]
    masks = [mask_of(one[:length]) for one in orders for length in range(len(one) + 1)]
    steps = np.diff(value(masks).reshape(len(orders), -1), axis=1)
    gains = np.zeros_like(steps)
    for row, one in enumerate(orders):
        gains[row, one] = steps[row]
    return gains


def _exact(method: str, value: SetValue, values: list[float]) -> Attribution:
    full, empty = value([value.full, 0]).tolist()
    return Attribution(
        f"{method} (exact)", value.names, tuple(values), full, empty, value.num_probes
    )


def _sampled(method: str, value: SetValue, means: Floats, errors: Floats | None) -> Attribution:
    full, empty = value([value.full, 0]).tolist()
    return Attribution(
        f"{method} (sampled)",
        value.names,
        tuple(means.tolist()),
        full,
        empty,
        value.num_probes,
        None if errors is None else tuple(errors.tolist()),
    )

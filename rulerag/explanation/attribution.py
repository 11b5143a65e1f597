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
from rulerag.explanation.lattice import mask_of
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
        errors: the standard error of each value; None for exact ones.
    """

    method: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    full: float
    empty: float | None
    num_probes: int
    errors: tuple[float, ...] | None = None

    @property
    def ranking(self) -> tuple[int, ...]:
        """The source indices, the one that counts most first; ties in their order."""
        return tuple(sorted(range(len(self.values)), key=lambda i: (-self.values[i], i)))

    def top(self, count: int) -> frozenset[int]:
        """The ``count`` sources that count most."""
        return frozenset(self.ranking[:count])

    def __str__(self) -> str:
        """One line a source, the one that counts most first."""
        lines = [f"{self.method}, {self.num_probes:,} probes, all sources score {self.full:.4g}"]
        for index in self.ranking:
            error = f" ± {self.errors[index]:.2g}" if self.errors is not None else ""
            lines.append(f"  {self.values[index]:+.4f}{error}  {self.names[index]}")
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
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Attribution:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        errors = expect(row, "errors", list | None)
        return cls(
            method=expect(row, "method", str),
            names=tuple(expect(row, "names", list)),
            values=tuple(float(value) for value in expect(row, "values", list)),
            full=float(expect(row, "full", int | float)),
            empty=None if row.get("empty") is None else float(row["empty"]),
            num_probes=expect(row, "num_probes", int),
            errors=None if errors is None else tuple(float(value) for value in errors),
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
            each; every other one is the reverse of the one before, which evens out errors. None
            for exact values from every subset.
        seed: of the random orders.

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
    gains = _permutation_gains(value, permutations, random.Random(seed))
    pairs = (gains[0 : 2 * (permutations // 2) : 2] + gains[1::2]) / 2
    means = gains.mean(axis=0)
    spread = pairs.std(axis=0, ddof=1) if len(pairs) > 1 else np.abs(gains[0] - gains[1])
    return _sampled("Shapley", value, means, spread / math.sqrt(len(pairs)))


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
    chance = random.Random(seed)
    # Each subset comes with its complement, so that every source is kept in half of them.
    masks = [chance.getrandbits(max(1, count)) & value.full for _ in range(samples // 2)]
    masks += [value.full ^ mask for mask in masks]
    found = value(masks)
    means, errors = np.zeros(count), np.zeros(count)
    for index in range(count):
        kept = np.array([mask >> index & 1 for mask in masks], dtype=np.bool_)
        means[index] = found[kept].mean() - found[~kept].mean()
        errors[index] = math.sqrt(_error(found[kept]) + _error(found[~kept]))
    return _sampled("Banzhaf", value, means, errors)


def _error(values: Floats) -> float:
    """The squared standard error of a mean."""
    return float(values.var(ddof=1) / values.size) if values.size > 1 else float("nan")


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


def _permutation_gains(value: SetValue, permutations: int, chance: random.Random) -> Floats:
    """What each source adds in each order, of shape (permutations, num_sources)."""
    order = list(range(value.num_sources))
    orders: list[list[int]] = []
    for number in range(permutations):
        if number % 2:
            orders.append(orders[-1][::-1])
        else:
            chance.shuffle(order)
            orders.append(order.copy())
    masks = [mask_of(one[:length]) for one in orders for length in range(len(one) + 1)]
    steps = np.diff(value(masks).reshape(permutations, -1), axis=1)
    gains = np.zeros_like(steps)
    for row, one in enumerate(orders):
        gains[row, one] = steps[row]
    return gains


def _exact(method: str, value: SetValue, values: list[float]) -> Attribution:
    full, empty = value([value.full, 0]).tolist()
    return Attribution(
        f"{method} (exact)", value.names, tuple(values), full, empty, value.num_probes
    )


def _sampled(method: str, value: SetValue, means: Floats, errors: Floats) -> Attribution:
    full, empty = value([value.full, 0]).tolist()
    return Attribution(
        f"{method} (sampled)",
        value.names,
        tuple(means.tolist()),
        full,
        empty,
        value.num_probes,
        tuple(errors.tolist()),
    )

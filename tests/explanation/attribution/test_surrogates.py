"""Surrogates fitted to subsets: what they follow, what they ask, what they state."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import spearmanr

from rulerag.errors import DataFormatError
from rulerag.explanation.attribution import (
    LOG_MARGIN,
    Attribution,
    LinearSurrogate,
    attributions,
    banzhaf_values,
    linear_surrogate,
)
from rulerag.explanation.attribution.guided import guided_surrogate
from rulerag.explanation.attribution.kernel import kernel_surrogate
from rulerag.explanation.attribution.surrogates import fit_kernel, fit_lasso, fit_ridge
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.probing import SetValue
from tests.planted import PlantedAnswer


def scored(count: int, score: Callable[[int], float]) -> SetValue:
    return SetValue(lambda masks: [score(mask) for mask in masks], count)


def weighted(count: int, seed: int, spread: float) -> Callable[[int], float]:
    chance = random.Random(seed)
    weights = [chance.gauss(0, spread) for _ in range(count)]
    return lambda mask: sum(w for i, w in enumerate(weights) if mask >> i & 1)


def two_sided(rules: list[set[int]], seed: int, count: int = 16) -> SetValue:
    """A score like a log-probability: high and flat with a rule, low and uneven without."""
    high, low = weighted(count, seed, 0.3), weighted(count, seed + 1000, 3)
    masks = [sum(1 << index for index in rule) for rule in rules]

    def score(mask: int) -> float:
        whole = any(rule & ~mask == 0 for rule in masks)
        return high(mask) if whole else low(mask) - 70.0

    return scored(count, score)


def either(seed: int) -> SetValue:
    """High with 2 or with 7, low without both, where nothing else counts for much."""
    own = weighted(12, seed, 0.3)
    return scored(12, lambda mask: own(mask) - (0 if mask & (1 << 2 | 1 << 7) else 20))


def agreement(value: SetValue, predict: Callable[[int], float]) -> float:
    """How well a prediction ranks random subsets: Spearman's rho."""
    masks = [random.Random(n).getrandbits(value.num_sources) for n in range(1000, 1256)]
    return float(spearmanr([predict(mask) for mask in masks], value(masks)).statistic)


def loss(value: SetValue, removals: tuple[int, ...] | None, count: int) -> float:
    """What the score loses without the first sources of an order."""
    full, rest = value([value.full, value.full & ~mask_of((removals or ())[:count])])
    return float(full - rest)


@pytest.mark.parametrize("rules", [[{3}], [{3}, {9}], [{2, 5}, {11}]])
@pytest.mark.parametrize("seed", range(3))
def test_guided_follows_two_sided_scores_to_the_letter(rules: list[set[int]], seed: int) -> None:
    value = two_sided(rules, seed)
    made = guided_surrogate(value, samples=96, margin=LOG_MARGIN + 3, seed=seed)
    assert value.num_probes == made.num_probes == 96
    assert made.surrogate is not None and made.surrogate.complete
    assert set(map(frozenset, made.surrogate.rules)) == set(map(frozenset, rules))
    fresh = two_sided(rules, seed)
    linear = linear_surrogate(two_sided(rules, seed), samples=96, seed=seed)
    scores = [agreement(fresh, one.predict) for one in (made, linear)]
    assert scores[0] > max(0.97, scores[1])
    # The removals reach what the rules keep up, which no order by average effect promises.
    assert loss(fresh, made.removals, len(rules)) > 40


@pytest.mark.parametrize("seed", range(3))
def test_kernel_follows_sums_and_what_stands_in_for_each_other_better_than_a_sum(seed: int) -> None:
    value = scored(12, weighted(12, seed, 1))
    made = kernel_surrogate(value, samples=48, seed=seed)
    assert value.num_probes == made.num_probes == 48
    assert agreement(value, made.predict) > 0.95
    made = kernel_surrogate(either(seed), samples=64, seed=seed)
    linear = linear_surrogate(either(seed), samples=64, seed=seed)
    ours, theirs = (agreement(either(seed), one.predict) for one in (made, linear))
    assert ours > 0.9 and ours > theirs + 0.05
    # What stands in for each other is removed together.
    assert made.removals is not None and sorted(made.removals) == list(range(12))
    assert set(made.removals[:2]) == set(made.ranking[:2]) == {2, 7}
    assert loss(either(seed), made.removals, 2) > 15


@pytest.mark.parametrize("explain", [guided_surrogate, kernel_surrogate])
def test_few_sources_are_asked_in_full_and_effects_are_banzhaf_values(
    explain: Callable[..., Attribution],
) -> None:
    planted = PlantedAnswer(5, [{0}, {1, 2}])
    engine = planted.engine()
    made = explain(engine, planted.predicate)
    assert engine.num_probes == 32
    exact = banzhaf_values(planted.engine(), planted.predicate)
    assert made.values == pytest.approx(exact.values, abs=0.05)
    assert made.full == pytest.approx(1, abs=0.05) and made.ranking[0] == 0
    order = ", ".join(f"source {index}" for index in made.removals or ())
    assert f"  removed in this order, most is lost: {order}" in str(made)
    rules = "  the score is kept with source 0 or with source 1 + source 2"
    assert (rules in str(made)) == (made.surrogate is not None)


@pytest.mark.parametrize("explain", [guided_surrogate, kernel_surrogate])
def test_flat_scores_few_sources_and_seeds(explain: Callable[..., Attribution]) -> None:
    flat = explain(scored(9, lambda mask: -3.0), samples=32)
    assert flat.values == pytest.approx([0.0] * 9, abs=1e-9) and flat.full == pytest.approx(-3.0)
    assert sorted(flat.removals or ()) == list(range(9))
    assert explain(scored(2, float)).num_probes == 4
    one, other = (explain(two_sided([{1}], 4), samples=40, seed=3) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("method", ["guided", "kernel"])
def test_what_is_returned_predicts_as_well_as_what_was_fitted(method: str) -> None:
    """The sum of its values, which alone used to come back, ranks fresh subsets far worse."""
    (made,), _ = attributions(two_sided([{2, 5}, {11}], 0), None, [method], samples=96, seed=0)
    read = Attribution.from_json(json.loads(json.dumps(made.to_json())))
    assert read == made and sorted(read.removals or ()) == list(range(16))
    assert [read.predict(mask) for mask in range(99)] == [made.predict(m) for m in range(99)]
    fresh = two_sided([{2, 5}, {11}], 0)
    returned = agreement(fresh, read.predict)
    summed = agreement(fresh, LinearSurrogate(made.values, 0.0))
    assert returned > 0.85 and (method == "kernel" or returned > 0.95 > summed + 0.1)
    with pytest.raises(DataFormatError, match="rules"):
        Attribution.from_json({**made.to_json(), "surrogate": {}})


@pytest.mark.parametrize("penalty", [0.01, 0.1])
def test_the_lasso_meets_its_conditions(penalty: float) -> None:
    """What its optimum is known by: the correlations of columns and residuals, source by source."""
    chance = np.random.default_rng(4)
    kept = (chance.random((64, 12)) < 0.5).astype(float)
    kept[:, 5] = 1.0  # a source that every ablation kept
    scores = kept @ chance.normal(size=12) + chance.normal(size=64) * 0.1 + 2
    fitted = fit_lasso(kept, scores, penalty)
    left = scores - fitted.scores([sum(1 << i for i in range(12) if row[i]) for row in kept])
    assert left.mean() == pytest.approx(0, abs=1e-9) and fitted.weights[5] == 0
    for index in (*range(5), *range(6, 12)):
        column = (kept[:, index] - kept[:, index].mean()) / kept[:, index].std()
        pull, weight = float(column @ left) / 64, fitted.weights[index]
        if weight:
            assert pull == pytest.approx(np.sign(weight) * penalty, abs=1e-6)
        else:
            assert abs(pull) <= penalty + 1e-6


def test_ridge_finds_the_weights_and_picks_a_penalty() -> None:
    numbers = np.random.default_rng(0)
    kept = numbers.integers(0, 2, size=(60, 6))
    weights = np.array([4.0, 0, -2, 0, 1, 0])
    exact = fit_ridge(kept, kept @ weights + 3)
    assert exact.weights == pytest.approx(weights, abs=0.02)
    assert exact.bias == pytest.approx(3, abs=0.05)
    noise = numbers.normal(size=60)
    noisy = fit_ridge(kept, noise)  # nothing to learn: the penalty grows
    least = np.linalg.lstsq(kept - kept.mean(axis=0), noise - noise.mean(), rcond=None)[0]
    assert np.linalg.norm(noisy.weights) < 0.5 * np.linalg.norm(least)
    assert fit_ridge([[1, 0]], [5.0]).bias == 5.0


def test_the_process_passes_through_what_was_asked_and_keeps_an_order_beyond() -> None:
    value = scored(12, weighted(12, 5, 1))
    masks = [random.Random(1).getrandbits(12) for _ in range(40)]
    kernel = fit_kernel(masks, value(masks).tolist(), 12)
    assert kernel.scores(masks) == pytest.approx(value(masks), abs=0.3)
    best = sum(1 << i for i in range(12) if value([1 << i])[0] > 0)
    assert kernel(best) > max(value(masks)) - 0.3  # the scale does not end with what was seen

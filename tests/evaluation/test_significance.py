"""Significance against exact enumeration and known distributions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binomtest

from rulerag.errors import DataError
from rulerag.evaluation.significance import (
    bootstrap_interval,
    holm,
    paired_randomization_test,
    verdict,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1, 1, 1, 1, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0, 0, 0]),
        ([0.5, 0.25, 1.0, 0.0, 0.3], [0.1, 0.35, 0.2, 0.0, 0.1]),
    ],
)
def test_the_p_value_is_that_of_all_swaps(first: list[float], second: list[float]) -> None:
    difference = np.subtract(first, second)
    sums = [np.dot(s, difference) for s in itertools.product((-1, 1), repeat=len(first))]
    exact = np.mean(np.abs(sums) >= abs(difference.sum()) - 1e-9)
    assert paired_randomization_test(first, second, samples=20_000) == pytest.approx(
        exact, abs=0.01
    )
    p_value = paired_randomization_test(first, second, seed=5)
    assert p_value == paired_randomization_test(first, second, seed=5)
    assert p_value == paired_randomization_test(second, first, seed=5)
    assert paired_randomization_test(first, first) == 1.0


def test_the_interval_is_that_of_the_normal_distribution_for_many_values() -> None:
    values = np.random.default_rng(0).normal(2.0, 3.0, size=900)
    low, high = bootstrap_interval(values.tolist(), samples=4000)
    half = 1.96 * values.std() / 30
    assert low == pytest.approx(values.mean() - half, abs=0.02)
    assert high == pytest.approx(values.mean() + half, abs=0.02)
    assert bootstrap_interval([0.5, 0.5]) == (0.5, 0.5)


def test_seeds_are_resampled_too() -> None:
    random = np.random.default_rng(1)
    base = random.random(400)
    seeds = [(base + shift).tolist() for shift in (-0.3, 0.0, 0.3)]
    low, high = bootstrap_interval(seeds, samples=4000)
    one = bootstrap_interval(np.mean(seeds, axis=0).tolist(), samples=4000)
    # three seeds drawn with replacement: their mean has the deviation sqrt(0.06 / 3)
    deviation = np.sqrt(0.06 / 3 + base.var() / 400)
    assert high - low == pytest.approx(2 * 1.96 * deviation, rel=0.06)
    assert high - low > 4 * (one[1] - one[0]), "queries alone hide what training changes"
    # Equal seeds add nothing, and one seed is what it was.
    same = bootstrap_interval([base.tolist()] * 3, samples=4000)
    assert same == pytest.approx(bootstrap_interval(base.tolist(), samples=4000), abs=0.004)
    alone = bootstrap_interval([base.tolist()], samples=500)
    assert alone == bootstrap_interval(base.tolist(), samples=500)


def test_the_seeded_interval_covers_the_true_mean() -> None:
    random, inside = np.random.default_rng(7), 0
    for trial in range(200):
        queries, seeds = random.normal(0, 1, 60), random.normal(0, 0.6, (8, 1))
        values = queries + seeds + random.normal(0, 0.5, (8, 60))
        low, high = bootstrap_interval(values.tolist(), samples=300, seed=trial)
        inside += low <= 0 <= high
    assert inside >= 178, "of 200 intervals of 95 %"


def test_the_interval_of_a_fraction_is_scipys() -> None:
    for successes, count in ((0, 5), (10, 10), (50, 200), (3, 7)):
        expected = binomtest(successes, count).proportion_ci(method="wilson")
        assert wilson_interval(successes, count) == pytest.approx((expected.low, expected.high))


def test_a_verdict_needs_a_corrected_p_value_below_the_level() -> None:
    assert verdict(0.1, 0.01) == "yes" and verdict(-0.1, 0.01) == "no"
    assert verdict(0.1, 0.05) == verdict(-0.1, 0.4) == verdict(0.0, 0.01) == "within chance"


def test_holm_by_hand() -> None:
    # Holm 1979: 0.01 * 4, 0.02 * 3, 0.03 * 2, 0.04 * 1, made monotone.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("compare", "message"),
    [
        (lambda: paired_randomization_test([1, 0], [1]), "2 and 1 values cannot be paired"),
        (lambda: paired_randomization_test([], []), "there is no value"),
        (lambda: bootstrap_interval([]), "there is no value"),
        (lambda: bootstrap_interval([[0.5, 1.0], [1.0]]), "different numbers of values"),
        (lambda: wilson_interval(0, 0), "there is no value"),
    ],
)
def test_values_that_cannot_be_compared(compare: Callable[[], object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        compare()

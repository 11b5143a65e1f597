"""Significance against exact enumeration and known distributions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rulerag.errors import DataError, EmptyDataError
from rulerag.evaluation.significance import bootstrap_interval, holm, paired_randomization_test


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


def test_equal_methods_do_not_differ() -> None:
    assert paired_randomization_test([0.2, 0.4, 1.0], [0.2, 0.4, 1.0]) == 1.0


def test_the_same_seed_gives_the_same_p_value_and_order_of_methods_does_not_matter() -> None:
    random = np.random.default_rng(3)
    one, two = random.random(50).tolist(), random.random(50).tolist()
    p_value = paired_randomization_test(one, two, seed=5)
    assert p_value == paired_randomization_test(one, two, seed=5)
    assert p_value == paired_randomization_test(two, one, seed=5)
    assert 0 < p_value <= 1


def test_the_interval_is_that_of_the_normal_distribution_for_many_values() -> None:
    values = np.random.default_rng(0).normal(2.0, 3.0, size=900)
    low, high = bootstrap_interval(values.tolist(), samples=4000)
    half = 1.96 * values.std() / 30
    assert low == pytest.approx(values.mean() - half, abs=0.02)
    assert high == pytest.approx(values.mean() + half, abs=0.02)
    assert bootstrap_interval([0.5, 0.5]) == (0.5, 0.5)


def test_holm_by_hand() -> None:
    # Holm 1979: 0.01 * 4, 0.02 * 3, 0.03 * 2, 0.04 * 1, made monotone.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_values_that_cannot_be_compared() -> None:
    with pytest.raises(DataError, match="2 and 1 values cannot be paired"):
        paired_randomization_test([1, 0], [1])
    with pytest.raises(EmptyDataError):
        paired_randomization_test([], [])
    with pytest.raises(EmptyDataError):
        bootstrap_interval([])

from __future__ import annotations

import math
import random

import pytest

from rulerag.errors import ConfigError
from rulerag.explanation.source_rules.certification import (
    check_level,
    lower_bound,
    samples_needed,
    staged_lower_bound,
    upper_bound,
)


def binomial(count: int, total: int, share: float) -> float:
    return math.comb(total, count) * share**count * (1 - share) ** (total - count)


def test_fifty_nine_successes_show_ninety_five_percent() -> None:
    assert samples_needed(0.95, 0.05) == 59
    assert lower_bound(59, 59, 0.05) >= 0.95 > lower_bound(58, 58, 0.05)
    assert samples_needed(0.5, 0.5) == 1


@pytest.mark.parametrize(("successes", "samples"), [(0, 5), (3, 5), (5, 5), (40, 60)])
def test_limits_solve_the_binomial_equation(successes: int, samples: int) -> None:
    low, high = lower_bound(successes, samples, 0.05), upper_bound(successes, samples, 0.05)
    assert 0 <= low <= successes / samples <= high <= 1
    if successes:
        tail = sum(binomial(k, samples, low) for k in range(successes, samples + 1))
        assert tail == pytest.approx(0.05)
    if successes < samples:
        tail = sum(binomial(k, samples, high) for k in range(successes + 1))
        assert tail == pytest.approx(0.05)


def test_a_clean_first_stage_proves_what_one_stage_proves() -> None:
    assert staged_lower_bound(59, 236, 0, 0.05) == pytest.approx(lower_bound(59, 59, 0.05))


def test_the_staged_limit_solves_the_equation_of_the_plan() -> None:
    first, total, risk = 5, 12, 0.1
    for failures in range(1, total + 1):
        share = staged_lower_bound(first, total, failures, risk)
        as_good = binomial(0, first, 1 - share)  # a clean first stage
        for early in range(1, min(first, failures) + 1):
            for late in range(min(total - first, failures - early) + 1):
                as_good += binomial(early, first, 1 - share) * binomial(
                    late, total - first, 1 - share
                )
        assert as_good == pytest.approx(risk, abs=1e-6) or (failures == total and share < 1e-9)


def test_the_staged_limit_is_above_the_truth_as_rarely_as_promised() -> None:
    chance = random.Random(1)
    limits = {k: staged_lower_bound(20, 80, k, 0.1) for k in range(81)}
    for share in (0.85, limits[0], 0.97):
        wrong = 0
        for _ in range(4000):
            failures = sum(chance.random() > share for _ in range(20))
            if failures:
                failures += sum(chance.random() > share for _ in range(60))
            wrong += limits[failures] > share + 1e-12
        assert wrong / 4000 < 0.1 + 0.015  # three standard errors


def test_more_failures_prove_less() -> None:
    limits = [staged_lower_bound(59, 236, failures, 0.05) for failures in range(20)]
    assert limits == sorted(limits, reverse=True) and len(set(limits)) == 20


@pytest.mark.parametrize("value", [0, 1, -0.5, 1.5, True, "0.9", None])
def test_a_level_is_a_share(value: object) -> None:
    with pytest.raises(ConfigError, match="key 'validity'"):
        check_level("validity", value)  # type: ignore[arg-type]
    assert check_level("validity", 0.9) == 0.9

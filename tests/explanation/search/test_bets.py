"""Bets against a share: worth what the theory says, right as often, and quick where it is clear."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest

from rulerag.explanation.search.sampling import (
    ShareBets,
    lower_bound,
    samples_needed,
    shown_together,
)


@pytest.mark.parametrize("share", [0.3, 0.8, 0.95])
@pytest.mark.parametrize("draws", [1, 3, 8])
def test_bets_against_the_truth_are_fair(share: float, draws: int) -> None:
    """Summed over every course of the draws, wealth is 1 before and after."""
    less = more = 0.0
    for course in product([True, False], repeat=draws):
        bets = ShareBets(sum(course), draws - sum(course))
        chance = share**bets.successes * (1 - share) ** bets.failures
        less += chance * bets.against_less(share)
        more += chance * bets.against_more(share)
    assert less == pytest.approx(1) and more == pytest.approx(1)


def test_about_sixty_draws_without_failure_show_95_percent_and_few_refute_half() -> None:
    needed = next(n for n in range(200) if ShareBets(n, 0).against_less(0.95) >= 20)
    assert needed in (59, 60)
    assert ShareBets(needed, 0).lower(0.05) == pytest.approx(0.95, abs=0.001)
    rng, count = random.Random(1), 0
    for _ in range(500):
        bets = ShareBets()
        while bets.against_more(0.95) < 20:
            bets = bets.after(rng.random() < 0.5)
        count += bets.successes + bets.failures
    assert count / 500 < 6, "not 59"


@pytest.mark.parametrize("share", [0.93, 0.95, 0.97])
def test_bounds_hold_at_every_look_together(share: float) -> None:
    rng, wrong = random.Random(7), 0
    for _ in range(400):
        bets, outside = ShareBets(), False
        for _ in range(150):
            bets = bets.after(rng.random() < share)
            outside |= bets.against_less(share) >= 20 or bets.against_more(share) >= 40
        wrong += outside
    assert wrong <= 0.075 * 400 + 12, "at most 1/20 and 1/40, and three standard deviations"
    assert bets.lower(0.05) <= bets.successes / 150


def test_a_family_is_shown_without_dividing_the_risk() -> None:
    assert shown_together([20, 20, 20], 0.05) == [True, True, True]
    assert shown_together([20, 19], 0.05) == [False, False]
    assert shown_together([39.5, 1.0], 0.05) == [True, False]  # their mean is above 20
    assert shown_together([30, 1.0], 0.05) == [False, False]
    assert shown_together([], 0.05) == []


def test_no_family_is_wrong_too_often() -> None:
    """Ten rules at the border, looked at after every draw until one is shown wrongly."""
    rng, wrong = random.Random(3), 0
    for _ in range(150):
        family = [ShareBets() for _ in range(10)]
        for _ in range(80):
            family = [bets.after(rng.random() < 0.95) for bets in family]
            if any(shown_together([bets.against_less(0.95) for bets in family], 0.05)):
                wrong += 1
                break
    assert wrong <= 0.05 * 150 + 8


def test_fifty_nine_successes_show_ninety_five_percent() -> None:
    assert samples_needed(0.95, 0.05) == 59 and samples_needed(0.5, 0.5) == 1
    assert lower_bound(59, 59, 0.05) >= 0.95 > lower_bound(58, 58, 0.05)


@pytest.mark.parametrize(("successes", "samples"), [(0, 5), (3, 5), (5, 5), (40, 60)])
def test_a_limit_solves_the_binomial_equation(successes: int, samples: int) -> None:
    low = lower_bound(successes, samples, 0.05)
    chances = (
        math.comb(samples, k) * low**k * (1 - low) ** (samples - k)
        for k in range(successes, samples + 1)
    )
    assert 0 <= low <= successes / samples
    assert sum(chances) == pytest.approx(0.05 if successes else 1)

"""Seeded runs near the threshold: what has a confidence of 95 % is wrong in 5 % of them at most."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from scipy.stats import binom

from rulerag.explanation.faithfulness.planted import PlantedAnswer
from rulerag.explanation.lattice import full_mask
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.source_rules.certification import Certifier
from rulerag.explanation.source_rules.certified import CertifiedMiner
from rulerag.explanation.source_rules.draws import by_size
from rulerag.explanation.source_rules.monotone_search import RuleOracle

RISK = 0.05
# A hundred runs find a gross error; what is promised to the per cent takes all of them.
MANY = 500
runs = pytest.mark.parametrize("runs", [100, pytest.param(MANY, marks=pytest.mark.slow)])


def most_wrong(runs: int) -> int:
    """So many wrong runs may be; more are as rare as 1 in 1,000 at this risk."""
    return int(binom.ppf(0.999, runs, RISK))


def oracle(holds: Callable[[int], bool], num_sources: int) -> RuleOracle:
    """A retention oracle over a function of how many sources besides the first are kept."""

    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        return ["yes" if holds(len(one) - (0 in one)) else "no" for one in kept]

    engine = ProbeEngine.from_function(answer, num_sources=num_sources)
    return RuleOracle("retention", engine, lambda output: output == "yes")


def test_the_bar_leaves_room_for_chance_alone() -> None:
    assert most_wrong(MANY) == 41
    # A test that stops after 40 clean draws would be wrong in 10 % of the runs and be caught.
    assert binom.sf(most_wrong(MANY), MANY, 0.945**40) > 0.8


@runs
def test_a_rule_just_below_the_validity_is_certified_as_rarely_as_promised(runs: int) -> None:
    wrong = 0
    for seed in range(runs):
        answer = PlantedAnswer(30, [{7}], noise=0.055, seed=seed)
        assert answer.validity([7]) == pytest.approx(0.945)
        rules = CertifiedMiner("retention", seed=seed).mine(answer.engine(), answer.predicate)
        # No set holds for more than 94.5 % of its subsets: every certificate is a wrong one.
        wrong += len(rules.certified) > 0
    assert 0 < wrong <= most_wrong(runs)


@runs
def test_a_bound_is_about_the_subsets_as_they_are_drawn(runs: int) -> None:
    wrong = 0
    for seed in range(runs):
        # Of 18 numbers of other sources that can be kept, each as likely, one is too few.
        judged = oracle(lambda count: count >= 1, 18)
        certifier = Certifier(judged, 0.95, random.Random(seed), "by-size")
        (found,) = certifier.first_stage([1], RISK)
        if found.failing:
            found = certifier.second_stage(1, RISK)
        assert not found.exact
        wrong += found.bound > 17 / 18
    assert wrong <= most_wrong(runs)


def test_the_two_ways_to_draw_tell_different_shares() -> None:
    judged = oracle(lambda count: count >= 3, 50)
    shares = {}
    for subsets in ("uniform", "by-size"):
        certifier = Certifier(judged, 0.5, random.Random(1), subsets)
        drawn = [certifier._superset(1) for _ in range(2000)]
        shares[subsets] = judged.hold(drawn).count(True) / 2000
        assert all(mask & 1 for mask in drawn)
    assert shares["uniform"] == 1.0
    assert shares["by-size"] == pytest.approx(0.94, abs=0.02)  # four standard errors


def test_a_rule_that_fails_with_nearly_all_sources_is_certified_by_uniform_subsets_alone() -> None:
    """It holds with up to 41 of the 49 other sources and with all of them."""
    shown = {}
    for subsets in ("uniform", "by-size"):
        judged = oracle(lambda count: not 42 <= count < 49, 50)
        certifier = Certifier(judged, 0.95, random.Random(1), subsets)
        (found,) = certifier.first_stage([1], RISK)
        shown[subsets] = found if not found.failing else certifier.second_stage(1, RISK)
    assert shown["uniform"].bound == 0.95 and shown["by-size"].bound < 0.9
    assert shown["uniform"].sizes[1].samples > 50 > 9 > shown["uniform"].sizes[2].samples
    few, some, most = shown["by-size"].sizes
    assert (few.least, few.most, most.least, most.most) == (0, 16, 34, 49)
    assert few.samples == few.successes > 50 and some.samples == some.successes > 50
    assert most.samples - most.successes == len(shown["by-size"].failing) > 9


def test_subsets_are_counted_in_thirds_of_the_sizes_that_they_can_have() -> None:
    masks = list(range(1, 1 << 6, 2))  # those with the first source
    counts = by_size(1, 6, masks, [mask.bit_count() < 5 for mask in masks])
    assert [(one.least, one.most, one.samples, one.successes) for one in counts] == [
        (0, 1, 6, 6),
        (2, 3, 20, 20),
        (4, 5, 6, 0),
    ]
    for num_sources, sizes in ((1, [(0, 0)]), (2, [(0, 0), (1, 1)])):
        counts = by_size(1, num_sources, [full_mask(num_sources)] * 3, [True] * 3)
        assert [(one.least, one.most) for one in counts] == sizes
        assert [one.samples for one in counts][-1] == 3


def test_a_whole_lattice_is_weighed_as_it_would_be_drawn() -> None:
    for subsets, share in (("uniform", 1 - 1 / 16), ("by-size", 1 - 1 / 5)):
        judged = oracle(lambda count: count >= 1, 5)
        certifier = Certifier(judged, 0.9, random.Random(2), subsets)
        (found,) = certifier.first_stage([1], RISK)
        assert found.exact and found.samples == 16 and len(found.failing) == 1
        assert found.bound == found.ceiling == pytest.approx(share)


@runs
@pytest.mark.parametrize("subsets", ["uniform", "by-size"])
def test_a_smaller_rule_that_holds_often_enough_is_rarely_said_to_fall_below(
    subsets: str, runs: int
) -> None:
    wrong = 0
    for seed in range(runs):
        if subsets == "uniform":
            answer = PlantedAnswer(60, [{0}], noise=0.048, seed=seed)
            judged = RuleOracle("retention", answer.engine(), answer.predicate)
        else:
            judged = oracle(lambda count: count >= 2, 41)  # 39 of 41 numbers: 95.1 %
        certifier = Certifier(judged, 0.95, random.Random(seed), subsets)
        (found,) = certifier.smaller([1], RISK).values()
        wrong += found.ceiling < 0.95
    assert wrong <= most_wrong(runs)


def test_a_smaller_rule_that_holds_for_half_is_shown_below_with_few_draws() -> None:
    shown, drawn = 0, 0
    for seed in range(100):
        answer = PlantedAnswer(50, [{7}], seed=seed)
        judged = RuleOracle("retention", answer.engine(), answer.predicate)
        (found,) = (
            Certifier(judged, 0.95, random.Random(seed), "uniform").smaller([0], 0.001).values()
        )
        shown += found.ceiling < 0.95
        drawn += found.samples
    assert shown == 100 and drawn / 100 < 25

"""Random subsets: drawn as is said, the same for every claim, and counted size by size."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from scipy.stats import chisquare

from rulerag.explanation.lattice import full_mask
from rulerag.explanation.search import RandomSubsets, by_size, samples_needed
from rulerag.explanation.search.sampling import ROUND_RISKS


def test_supersets_keep_every_number_of_others_as_often_or_every_set() -> None:
    rng, rule = random.Random(1), 0b101
    counts = {}
    for subsets in ("by-size", "uniform"):
        draws = RandomSubsets(6, 0.95, 0.95, 0, subsets)
        drawn = [draws.superset(rule, rng) for _ in range(8000)]
        assert all(one & rule == rule and one < 64 for one in drawn)
        counts[subsets] = Counter(drawn)
        assert len(counts[subsets]) == 16
    sizes = Counter((one ^ rule).bit_count() for one in counts["by-size"].elements())
    assert chisquare([sizes[n] for n in range(5)]).pvalue > 0.001
    pairs = [n for one, n in counts["by-size"].items() if (one ^ rule).bit_count() == 2]
    assert len(pairs) == 6 and chisquare(pairs).pvalue > 0.001
    assert chisquare(list(counts["uniform"].values())).pvalue > 0.001


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("subsets", ["by-size", "uniform"])
def test_a_shared_draw_is_for_the_sets_that_it_holds_as_one_of_their_own(
    subsets: str, size: int
) -> None:
    draws, rng, rule = RandomSubsets(9, 0.95, 0.95, 0, subsets), random.Random(5), full_mask(size)
    drawn = [draws.shared(size, rng) for _ in range(20_000)]
    hits = Counter((one ^ rule).bit_count() for one in drawn if rule & ~one == 0)
    own = Counter((draws.superset(rule, rng) ^ rule).bit_count() for _ in range(20_000))
    assert hits.total() == pytest.approx(20_000 / draws.draws_a_hit(size), rel=0.05)
    assert set(hits) == set(own) == set(range(10 - size))
    for count in hits:
        spread = (own[count] / 20_000 / hits.total()) ** 0.5
        assert hits[count] / hits.total() == pytest.approx(own[count] / 20_000, abs=5 * spread)


def test_rounds_are_the_same_for_every_claim_and_share_the_risk() -> None:
    one, other = (RandomSubsets(40, 0.95, 0.9, 7) for _ in range(2))
    rounds = [one.round(number) for number in range(len(ROUND_RISKS))]
    assert rounds == [other.round(n) for n in range(4, -1, -1)][::-1]
    risks = [one.risk(number) for number in range(len(ROUND_RISKS))]
    assert sum(risks) == pytest.approx(0.1), "together, not each"
    assert [len(masks) for masks in rounds] == [samples_needed(0.95, risk) for risk in risks]
    assert rounds[1][: len(rounds[0])] != rounds[0] != RandomSubsets(40, 0.95, 0.9, 8).round(0)


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

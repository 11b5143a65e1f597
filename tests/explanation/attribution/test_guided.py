from __future__ import annotations

import json
import random

import numpy as np
import pytest

from rulerag.errors import ConfigError, DataFormatError
from rulerag.explanation.attribution.guided import LOG_MARGIN, guided_surrogate
from rulerag.explanation.attribution.surrogate import fit_ridge, linear_surrogate
from rulerag.explanation.attribution.values import (
    Attribution,
    LinearSurrogate,
    attributions,
    banzhaf_values,
)
from rulerag.explanation.faithfulness.curves import comprehensiveness, linear_datamodeling_score
from rulerag.explanation.faithfulness.planted import PlantedAnswer
from rulerag.explanation.probing.values import SetValue


def two_sided(count: int, rules: list[set[int]], seed: int) -> SetValue:
    """A score like a log-probability: high and flat with a rule, low and uneven without."""
    chance = random.Random(seed)
    high = [chance.gauss(0, 0.3) for _ in range(count)]
    low = [chance.gauss(0, 3) for _ in range(count)]

    def function(masks: list[int]) -> list[float]:
        found = []
        for mask in masks:
            kept = {index for index in range(count) if mask >> index & 1}
            whole = any(rule <= kept for rule in rules)
            weights = high if whole else low
            found.append((0.0 if whole else -70.0) + sum(weights[index] for index in kept))
        return found

    return SetValue(function, count)


@pytest.mark.parametrize("rules", [[{3}], [{3}, {9}], [{2, 5}, {11}]])
def test_two_sided_scores_are_followed_to_the_letter(rules: list[set[int]]) -> None:
    for seed in range(3):
        value = two_sided(16, rules, seed)
        found = guided_surrogate(value, probes=96, margin=LOG_MARGIN + 3, seed=seed)
        assert value.num_probes == found.num_probes == 96
        assert found.surrogate is not None and found.surrogate.complete
        assert set(map(frozenset, found.surrogate.rules)) == set(map(frozenset, rules))
        fresh = two_sided(16, rules, seed)
        assert linear_datamodeling_score(fresh, found, seed=99) > 0.97
        # The removals reach what the rules keep up, which no order by average effect promises.
        count = len(rules)
        assert comprehensiveness(fresh, found.removals, count) > 40
        linear = linear_surrogate(two_sided(16, rules, seed), ablations=96, seed=seed)
        assert linear_datamodeling_score(fresh, found, seed=7) > linear_datamodeling_score(
            fresh, linear, seed=7
        )


def test_few_sources_are_asked_in_full_and_effects_are_banzhaf_values() -> None:
    planted = PlantedAnswer(5, [{0}, {1, 2}])
    engine = planted.engine()
    found = guided_surrogate(engine, planted.predicate, probes=64)
    assert engine.num_probes == 32
    exact = banzhaf_values(planted.engine(), planted.predicate)
    assert found.values == pytest.approx(exact.values, abs=0.02)
    assert found.full == pytest.approx(1, abs=0.02)
    assert found.removals is not None and found.ranking[0] == found.removals[0] == 0
    order = ", ".join(f"source {index}" for index in found.removals)
    assert str(found).splitlines()[-2:] == [
        f"  removed in this order, most is lost: {order}",
        "  the score is kept with source 0 or with source 1 + source 2",
    ]


def test_a_flat_score_has_no_effects() -> None:
    found = guided_surrogate(SetValue(lambda masks: [2.0] * len(masks), 9), probes=32)
    assert found.surrogate is not None and found.surrogate.rules == ((),)
    assert found.values == (0.0,) * 9 and sorted(found.removals or ()) == list(range(9))


def test_the_same_seed_gives_the_same_surrogate() -> None:
    one, other = (guided_surrogate(two_sided(20, [{1}], 4), probes=40, seed=3) for _ in range(2))
    assert one == other


def test_what_is_returned_predicts_as_well_as_what_was_fitted() -> None:
    """The sum of its values, which alone used to come back, ranks fresh subsets far worse."""
    value = two_sided(16, [{2, 5}, {11}], 0)
    (found,), _ = attributions(value, None, ["guided"], samples=96, seed=0)
    assert found == guided_surrogate(value, probes=96, margin=LOG_MARGIN, seed=0)
    fresh = two_sided(16, [{2, 5}, {11}], 0)
    returned = linear_datamodeling_score(fresh, found, samples=512, seed=7)
    summed = linear_datamodeling_score(
        fresh, LinearSurrogate(found.values, 0.0), samples=512, seed=7
    )
    assert returned > 0.95 > summed + 0.1
    read = Attribution.from_json(json.loads(json.dumps(found.to_json())))
    assert read == found and sorted(read.removals or ()) == list(range(16))
    assert [read.predict(mask) for mask in range(99)] == [found.predict(m) for m in range(99)]


def test_attributions_of_older_files_are_read() -> None:
    row = Attribution("Shapley (exact)", ("a", "b"), (1.0, 2.0), None, 3.0, 0.0, 4).to_json()
    del row["removals"], row["surrogate"]
    assert Attribution.from_json(row).ranking == (1, 0)
    assert Attribution.from_json(row).predict(0b11) == 3.0
    with pytest.raises(DataFormatError, match="rules"):
        Attribution.from_json({**row, "surrogate": {}})


@pytest.mark.parametrize("settings", [{"probes": 7}, {"margin": 0.0}, {"margin": -1.0}])
def test_bad_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        guided_surrogate(two_sided(4, [{1}], 0), **settings)  # type: ignore[arg-type]


def test_ridge_finds_the_weights_and_picks_a_penalty() -> None:
    random_numbers = np.random.default_rng(0)
    kept = random_numbers.integers(0, 2, size=(60, 6))
    weights = np.array([4.0, 0, -2, 0, 1, 0])
    exact = fit_ridge(kept, kept @ weights + 3)
    assert exact.weights == pytest.approx(weights, abs=0.02) and exact.bias == pytest.approx(
        3, abs=0.05
    )
    noise = random_numbers.normal(size=60)
    noisy = fit_ridge(kept, noise)  # nothing to learn: the penalty grows
    least = np.linalg.lstsq(kept - kept.mean(axis=0), noise - noise.mean(), rcond=None)[0]
    assert np.linalg.norm(noisy.weights) < 0.5 * np.linalg.norm(least)
    assert fit_ridge([[1, 0]], [5.0]).bias == 5.0

"""The Gaussian process over subsets: what it follows, what it asks, what it states."""

from __future__ import annotations

import json
import random

import pytest

from rulerag.errors import ConfigError
from rulerag.explanation.attribution.kernel import fit_kernel, kernel_surrogate
from rulerag.explanation.attribution.surrogate import linear_surrogate
from rulerag.explanation.attribution.values import Attribution, attributions, banzhaf_values
from rulerag.explanation.faithfulness.curves import comprehensiveness, linear_datamodeling_score
from rulerag.explanation.faithfulness.planted import PlantedAnswer
from rulerag.explanation.probing.values import SetValue

COUNT = 12


def additive(seed: int) -> SetValue:
    chance = random.Random(seed)
    weights = [chance.gauss(0, 1) for _ in range(COUNT)]
    return SetValue(
        lambda masks: [sum(w for i, w in enumerate(weights) if m >> i & 1) for m in masks], COUNT
    )


def either(seed: int) -> SetValue:
    """High with 2 or with 7, low without both, where nothing else counts for much."""
    chance = random.Random(seed)
    weights = [chance.gauss(0, 0.3) for _ in range(COUNT)]

    def score(mask: int) -> float:
        own = sum(w for i, w in enumerate(weights) if mask >> i & 1)
        return own - (0 if mask & (1 << 2 | 1 << 7) else 20)

    return SetValue(lambda masks: [score(mask) for mask in masks], COUNT)


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_followed_and_what_stands_in_for_each_other_better_than_by_a_sum(
    seed: int,
) -> None:
    value = additive(seed)
    found = kernel_surrogate(value, probes=48, seed=seed)
    assert value.num_probes == found.num_probes == 48
    assert linear_datamodeling_score(additive(seed), found, seed=99) > 0.95
    found = kernel_surrogate(either(seed), probes=64, seed=seed)
    linear = linear_surrogate(either(seed), ablations=64, seed=seed)
    ours, theirs = (
        linear_datamodeling_score(either(seed), one, seed=99) for one in (found, linear)
    )
    assert ours > 0.9 and ours > theirs + 0.05


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_removal_takes_what_stands_in_for_each_other_together(seed: int) -> None:
    found = kernel_surrogate(either(seed), probes=48, seed=seed)
    assert found.removals is not None and set(found.removals[:2]) == {2, 7}
    assert sorted(found.removals) == list(range(COUNT))
    assert comprehensiveness(either(seed), found.removals, 2) > 15
    assert set(found.ranking[:2]) == {2, 7}


def test_predictions_pass_through_what_was_asked_and_keep_an_order_beyond() -> None:
    value = additive(5)
    masks = [random.Random(1).getrandbits(COUNT) for _ in range(40)]
    kernel = fit_kernel(masks, value(masks).tolist(), COUNT)
    assert kernel.scores(masks) == pytest.approx(value(masks), abs=0.3)
    best = sum(1 << i for i in range(COUNT) if value([1 << i])[0] > 0)
    assert kernel(best) > max(value(masks)) - 0.3  # the scale does not end with what was seen


def test_effects_are_banzhaf_values_of_the_prediction() -> None:
    value = additive(3)
    found = kernel_surrogate(value, probes=200, seed=0)
    exact = banzhaf_values(additive(3)).values
    assert found.values == pytest.approx(exact, abs=0.3)


def test_verdicts_are_explained_and_read_again() -> None:
    planted = PlantedAnswer(COUNT, [{1, 4}])
    (found,), complete = attributions(
        planted.engine(), planted.predicate, ["kernel"], samples=64, seed=1
    )
    assert complete and set(found.ranking[:2]) == {1, 4} and found.num_probes == 64
    again = Attribution.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found and again.predict(0b10010) == found.predict(0b10010)
    assert "kernel surrogate, 64 probes" in str(found)
    assert found.predict(0b10010) > 0.5 > found.predict(0b10000)


def test_a_flat_score_few_sources_and_too_few_probes() -> None:
    flat = kernel_surrogate(SetValue(lambda masks: [-3.0] * len(masks), 5), probes=20)
    assert flat.values == pytest.approx([0.0] * 5) and flat.full == pytest.approx(-3.0)
    small = SetValue(lambda masks: [float(mask) for mask in masks], 2)
    assert kernel_surrogate(small, probes=64).num_probes == 4
    with pytest.raises(ConfigError, match="expected 4 or more, found 3"):
        kernel_surrogate(small, probes=3)

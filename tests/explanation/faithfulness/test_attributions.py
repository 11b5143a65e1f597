"""Scores of attributions, on subsets that no explainer asked; and the planted answers of tests."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy.stats import spearmanr

from rulerag.errors import ConfigError
from rulerag.explanation.attribution import Attribution, shapley_values
from rulerag.explanation.faithfulness import (
    comprehensiveness,
    linear_datamodeling_score,
    sufficiency,
    unasked_subsets,
)
from rulerag.explanation.probing import SetValue, valued
from tests.fakes import brute_force
from tests.planted import PlantedAnswer


def additive(*weights: float) -> SetValue:
    return SetValue(
        lambda masks: [sum(w for i, w in enumerate(weights) if m >> i & 1) for m in masks],
        len(weights),
    )


def attribution(*values: float) -> Attribution:
    return Attribution("given", tuple(map(str, values)), values, None, 0.0, None, 0)


def test_what_the_score_loses_without_and_with_the_first_sources() -> None:
    value = additive(3.0, 1.0, 2.0)
    ranking = shapley_values(value).ranking
    assert [comprehensiveness(value, ranking, count) for count in (1, 2, 3)] == [3, 5, 6]
    assert [sufficiency(value, ranking, count) for count in (1, 2, 3)] == [3, 1, 0]


def test_the_true_weights_rank_random_subsets_as_the_score_does() -> None:
    weights = [0.5, -1.0, 2.0, 0.0, 0.25]
    for predicted, score in ((1.0, 1), (-1.0, -1), (0.0, 0)):
        given = attribution(*(predicted * weight for weight in weights))
        assert linear_datamodeling_score(additive(*weights), given) == pytest.approx(score)
    assert linear_datamodeling_score(additive(*[0.0] * 5), attribution(*[0.0] * 5)) == 1


@pytest.mark.parametrize(("count", "left"), [(6, 32), (20, 40)])
def test_predictions_are_tried_on_subsets_that_were_not_asked(count: int, left: int) -> None:
    seen, asked = list[int](), set(range(0, 64, 2))

    def score(masks: list[int]) -> list[float]:
        seen.extend(masks)
        return [float(mask % 7) for mask in masks]

    linear_datamodeling_score(
        SetValue(score, count), attribution(*[1.0] * count), samples=40, asked=asked
    )
    assert len(seen) == len(set(seen)) == left and not asked & set(seen) and max(seen) < 1 << count
    assert seen == unasked_subsets(count, 40, asked=asked)


def test_what_was_learned_by_heart_is_worth_nothing_on_others() -> None:
    table = [random.Random(mask).random() for mask in range(1 << 10)]
    value = SetValue(lambda masks: [table[mask] for mask in masks], 10)
    known = set(random.Random(0).sample(range(1 << 10), 500))

    def learned(mask: int) -> float:
        return table[mask] if mask in known else 0.5

    assert linear_datamodeling_score(value, learned, samples=400) > 0.3
    assert linear_datamodeling_score(value, learned, samples=400, asked=known) == 0
    for wrong in ({"asked": {0, 1, 2}}, {"samples": 1}):
        with pytest.raises(ConfigError, match=f"key '{next(iter(wrong))}'"):
            linear_datamodeling_score(additive(1.0, 2.0), attribution(1.0, 2.0), **wrong)  # type: ignore[arg-type]


def test_ties_are_ranked_as_scipy_does() -> None:
    planted = PlantedAnswer(8, [{0, 1}, {2}])
    value = valued(planted.engine(), planted.predicate)
    given = attribution(1.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    masks = range(256)
    expected = spearmanr([given.predict(mask) for mask in masks], value(masks)).statistic
    scores = [linear_datamodeling_score(value, given, samples=256, seed=s) for s in range(20)]
    assert np.mean(scores) == pytest.approx(expected, abs=0.03)


# --- the planted answers that explainers are tried on ------------------------------------------


@pytest.mark.parametrize("clauses", [[{0, 1}, {2}], [{0}, {0, 1}], [set()], [], [{0, 1}, {1, 2}]])
def test_the_minimal_rules_are_those_of_a_brute_force(clauses: list[set[int]]) -> None:
    planted = PlantedAnswer(4, clauses)
    assert planted.minimal() == brute_force(4, planted.says_yes, "retention")[1]
    silent = brute_force(4, lambda mask: not planted.says_yes(mask), "omission")[1]
    assert planted.minimal("omission") == silent


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_validity_of_a_rule_is_its_share_of_subsets(noise: float) -> None:
    planted = PlantedAnswer(12, [{0, 1}, ({2, 3}, {4}), {1, 5}], noise=noise, seed=3)
    for sources in ((), (0,), (0, 1), (2, 3), (2, 3, 4), (4, 5)):
        kept = sum(1 << source for source in sources)
        held = [planted.says_yes(mask) for mask in range(1 << 12) if kept & ~mask == 0]
        tolerance = 0.05 if noise else 1e-12
        assert planted.validity(sources) == pytest.approx(np.mean(held), abs=tolerance)

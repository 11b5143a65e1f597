from __future__ import annotations

import random

import numpy as np
import pytest

from rulerag.errors import ConfigError
from rulerag.explanation.attribution.values import Attribution, shapley_values
from rulerag.explanation.faithfulness.curves import (
    comprehensiveness,
    deletion_curve,
    insertion_curve,
    linear_datamodeling_score,
    rule_scores,
    sufficiency,
)
from rulerag.explanation.faithfulness.planted import PlantedAnswer
from rulerag.explanation.probing.values import SetValue, valued


def additive(weights: list[float]) -> SetValue:
    return SetValue(
        lambda masks: [sum(w for i, w in enumerate(weights) if m >> i & 1) for m in masks],
        len(weights),
    )


def attribution(values: list[float]) -> Attribution:
    names = tuple(map(str, range(len(values))))
    return Attribution("given", names, tuple(values), None, 0.0, None, 0)


def test_drop_and_curves_of_an_additive_score() -> None:
    value = additive([3.0, 1.0, 2.0])
    ranking = shapley_values(value).ranking
    assert ranking == (0, 2, 1)
    assert comprehensiveness(value, ranking, 1) == 3 and comprehensiveness(value, ranking, 2) == 5
    assert sufficiency(value, ranking, 1) == 3 and sufficiency(value, ranking, 3) == 0
    assert deletion_curve(value, ranking).tolist() == [6, 3, 1, 0]
    assert insertion_curve(value, ranking).tolist() == [0, 3, 5, 6]
    worst = ranking[::-1]
    assert deletion_curve(value, worst).mean() > deletion_curve(value, ranking).mean()
    assert insertion_curve(value, worst).mean() < insertion_curve(value, ranking).mean()


def test_the_true_weights_rank_random_subsets_as_the_score_does() -> None:
    weights = [0.5, -1.0, 2.0, 0.0, 0.25]
    value = additive(weights)
    assert linear_datamodeling_score(value, attribution(weights)) == pytest.approx(1)
    opposite = attribution([-w for w in weights])
    assert linear_datamodeling_score(value, opposite) == pytest.approx(-1)
    assert linear_datamodeling_score(value, attribution([0.0] * 5)) == 0
    assert linear_datamodeling_score(additive([0.0] * 5), attribution([0.0] * 5)) == 1
    with pytest.raises(ConfigError, match="key 'samples'"):
        linear_datamodeling_score(value, opposite, samples=1)


def test_predictions_are_tried_on_subsets_that_were_not_asked() -> None:
    seen: list[int] = []

    def function(masks: list[int]) -> list[float]:
        seen.extend(masks)
        return [float(mask % 7) for mask in masks]

    for count in (6, 20):
        asked = set(range(0, 64, 2))
        seen.clear()
        value = SetValue(function, count)
        linear_datamodeling_score(value, attribution([1.0] * count), samples=40, asked=asked)
        assert len(seen) == len(set(seen)) == (32 if count == 6 else 40)
        assert not asked & set(seen) and max(seen) < 1 << count
    # What was learned by heart is worth nothing on others.
    table = [random.Random(mask).random() for mask in range(1 << 10)]
    value = SetValue(lambda masks: [table[mask] for mask in masks], 10)
    known = set(random.Random(0).sample(range(1 << 10), 500))

    def learned(mask: int) -> float:
        return table[mask] if mask in known else 0.5

    assert linear_datamodeling_score(value, learned, samples=400) > 0.3
    assert linear_datamodeling_score(value, learned, samples=400, asked=known) == 0
    with pytest.raises(ConfigError, match="1 of 4 subsets were not asked"):
        linear_datamodeling_score(additive([1.0, 2.0]), attribution([1.0, 2.0]), asked={0, 1, 2})


def test_ties_are_ranked_as_scipy_does() -> None:
    stats = pytest.importorskip("scipy.stats")
    planted = PlantedAnswer(8, [{0, 1}, {2}])
    value = valued(planted.engine(), planted.predicate)
    given = attribution([1.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    masks = range(256)
    predicted = [sum(v for i, v in enumerate(given.values) if m >> i & 1) for m in masks]
    expected = stats.spearmanr(predicted, value(masks)).statistic
    found = [linear_datamodeling_score(value, given, samples=256, seed=s) for s in range(20)]
    assert np.mean(found) == pytest.approx(expected, abs=0.03)


def test_scores_of_rules() -> None:
    found = rule_scores([{1}, {2}, {3}], [{2}, {3}, {4}, {5}])
    assert (found.precision, found.recall) == (2 / 3, 1 / 2)
    assert found.f1 == pytest.approx(4 / 7)
    assert rule_scores([], []).f1 == 1 and rule_scores([], [{1}]).f1 == 0
    assert rule_scores([{1}], []).recall == 1 and rule_scores([{1}], [{2}]).f1 == 0
    rules = rule_scores([{1, 2}, {3}], [[2, 1], [4]])
    assert rules.precision == rules.recall == 0.5

"""Learning merge weights: a planted preference is found, and a generated world gets better."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rulerag.assembly.presets import preset
from rulerag.composition.config import Config
from rulerag.errors import EmptyDataError
from rulerag.retrieval.guided.merging.learned import FEATURES, MergeWeights
from rulerag.ruleqa.dataset import RuleQADataset
from training.merging import START, Example, fit, learn_merge_weights, main, recall_at


def planted(name: str, number: int = 200) -> list[Example]:
    """Five candidates of two hits each; those of the right one have more of one feature."""
    random = np.random.default_rng(0)
    examples = []
    for _ in range(number):
        features = random.normal(size=(10, len(FEATURES))) / 4
        candidate = np.repeat(np.arange(5), 2)
        right = np.arange(5) == random.integers(5)
        features[right[candidate], list(FEATURES).index(name)] += 1
        examples.append(Example(features, candidate, right))
    return examples


def test_a_planted_preference_is_found() -> None:
    examples = planted("age")
    start = MergeWeights(START).vector
    assert recall_at(examples, start, 1) < 0.4
    weights = fit(examples[:100])
    assert recall_at(examples[100:], weights, 1) > 0.8
    assert np.abs(weights).argmax() == list(FEATURES).index("age")
    assert np.array_equal(weights, fit(examples[:100]))


def test_nothing_to_learn_from_is_told() -> None:
    examples = [one._replace(right=np.zeros(5, dtype=bool)) for one in planted("age", 3)]
    with pytest.raises(EmptyDataError, match="no query has an answer"):
        fit(examples)


def test_a_world_is_merged_better(
    world_dataset: RuleQADataset,
    world_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = Config(preset(str(world_folder), rules="guided").to_dict())
    weights = learn_merge_weights(config, world_dataset)
    about = weights.about
    assert about["queries"] == 40 and about["dataset"] == world_dataset.name
    assert about["recall@10 at the start"] <= about["candidates_hold_an_answer"] <= 1
    assert about["recall@10 cross-validated"] >= about["recall@10 at the start"] - 0.1
    out = tmp_path / "weights.json"
    options = ["--dataset", str(world_folder), "--out", str(out), "--quiet"]
    assert main(["bm25-guided__symbolic", *options]) == 0
    assert "40 queries" in capsys.readouterr().out
    assert MergeWeights.load(out).about["queries"] == 40
    assert main(["bm25-pooled__symbolic", *options]) == 0
    assert MergeWeights.load(out).weights["plain"] == 0.0  # there is no other search
    assert main(["bm25__symbolic", *options]) == 2
    assert "guided" in capsys.readouterr().err

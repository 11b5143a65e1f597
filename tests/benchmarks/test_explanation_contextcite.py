"""The comparison with context-cite: the package itself, on the reader's own prompts and tokens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import explanation_contextcite as comparison
from benchmarks.explanation_contextcite_cases import ContextCite, Question, questions
from rulerag.generation.huggingface import HuggingFaceGenerator

pytest.importorskip("context_cite")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reader() -> HuggingFaceGenerator:
    return HuggingFaceGenerator(device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def question(reader: HuggingFaceGenerator) -> Question:
    (found,) = questions(reader, 1, num_facts=1500, seed=3)
    return found


def test_questions_are_answered_right_and_hold_their_truth(
    reader: HuggingFaceGenerator, question: Question
) -> None:
    assert len(question.request.documents) == 8 and question.truth
    assert reader.generate([question.request])[0].text in question.request.query.answers
    engine = question.engine(2)
    engine.probe([question.scores.full, 0])
    with pytest.raises(comparison.ProbeBudgetError):
        engine.probe([1])


def test_the_package_sees_what_we_see(reader: HuggingFaceGenerator, question: Question) -> None:
    peer = ContextCite(reader)
    weights, apart = peer.attributions(question, [16, 32])
    assert apart < 1e-3
    # What is cut out of a long run is what a run of that length gives.
    alone, _ = peer.attributions(question, [16])
    assert np.allclose(weights[16], alone[16], atol=0.01)  # single precision, other batches
    assert not np.allclose(weights[16], weights[32], atol=0.1)
    found = comparison.EXPLAINERS[comparison.OURS](question, 32, 0)
    assert found is not None and found.calls <= 32
    best = set(np.argsort(weights[32])[::-1][:1].tolist())
    assert best == set(found.ranking[:1])


def test_the_widest_gap_names_the_sources() -> None:
    assert comparison.named_by_gap([1.0, 40.0, 39.0, 0.5]) == {1, 2}
    assert comparison.named_by_gap([3.0]) == {0}
    assert comparison.named_by_gap([1.0, 1.0]) == {0}


def test_the_committed_table_is_of_the_committed_figures() -> None:
    folder = ROOT / "benchmarks" / "results" / "explanations"
    result = json.loads((folder / "contextcite.json").read_text(encoding="utf-8"))
    assert comparison.table(result) == (folder / "contextcite.md").read_text(encoding="utf-8")
    assert result["apart"] < 0.01
    rows = {(row["budget"], row["explainer"]): row for row in result["rows"]}
    for budget in comparison.BUDGETS:
        peer, ours = rows[budget, comparison.PEER], rows[budget, comparison.OURS]
        assert peer["questions"] == ours["questions"] == result["questions"]
        assert ours["calls"] <= budget

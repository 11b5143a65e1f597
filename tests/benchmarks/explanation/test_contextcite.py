"""The comparison with context-cite: the package itself, on the reader's own prompts and tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.explanation import contextcite as comparison
from benchmarks.explanation.contextcite_cases import ContextCite, Question, questions
from rulerag.explanation.attribution.surrogate import fit_lasso
from rulerag.explanation.attribution.values import attributions
from rulerag.explanation.faithfulness.curves import linear_datamodeling_score
from rulerag.explanation.report.explain import explain_answer
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.types import Answer, ScoredDocument

pytest.importorskip("context_cite")
ROOT = Path(__file__).resolve().parents[3]


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
    asked: set[int] = set()
    engine = question.engine(2, asked)
    engine.probe([question.scores.full, 0, 0])
    assert asked == {question.scores.full, 0}
    with pytest.raises(comparison.ProbeBudgetError):
        engine.probe([1])


def test_the_package_sees_what_we_see(reader: HuggingFaceGenerator, question: Question) -> None:
    peer = ContextCite(reader)
    cited, apart = peer.attributions(question, [16, 32])
    assert apart < 1e-3
    # What is cut out of a long run is what a run of that length gives.
    alone, _ = peer.attributions(question, [16])
    assert np.allclose(cited[16].weights, alone[16].weights, atol=0.01)  # other batches
    assert not np.allclose(cited[16].weights, cited[32].weights, atol=0.1)
    # A repeated ablation is no call: the package gets as many distinct ones as ours.
    assert {calls: len(one.asked) for calls, one in cited.items()} == {16: 16, 32: 32}
    found = comparison.EXPLAINERS[comparison.OURS](question, 32, 0)
    assert found is not None and len(found.asked) <= 32
    best = set(np.argsort(cited[32].weights)[::-1][:1].tolist())
    assert best == set(found.ranking[:1])


def test_the_package_explains_the_logit_of_the_probability_a_token(
    reader: HuggingFaceGenerator, question: Question
) -> None:
    """What ContextCite's estimator is, and that our linear surrogate is another one."""
    cited, _ = ContextCite(reader).attributions(question, [32])
    kept = np.array([[mask >> i & 1 for i in range(8)] for mask in cited[32].masks])
    logs = question.scores(cited[32].masks)
    prompt, _ = reader.encode([question.request])[0]
    tokens = len(reader.encode_completion(prompt.text, question.response))
    logits = (logs - np.log1p(-np.exp(logs))) / tokens
    weights = np.array(fit_lasso(kept, logits, 0.01).weights) * tokens
    assert np.allclose(cited[32].weights, weights, atol=0.05)
    (ours,), _ = attributions(question.engine(32, set()), None, ["linear"], samples=32)
    assert ours.method == "linear surrogate"
    assert not np.allclose(ours.values, cited[32].weights, atol=1)


def test_what_is_measured_is_what_explain_returns(
    reader: HuggingFaceGenerator, question: Question
) -> None:
    """The same numbers from the command's own function as from the benchmark's."""
    documents = tuple(
        ScoredDocument(document, 1.0, place)
        for place, document in enumerate(question.request.documents, start=1)
    )
    completion = reader.generate([question.request])[0]
    request = question.request
    answer = Answer(request.query, completion, documents, request.rules)
    told = explain_answer(
        answer, reader, attribution=["guided"], value="log-probability", samples=32, seed=3
    )
    (returned,) = told.attributions
    measured = comparison.EXPLAINERS[comparison.OURS](question, 32, 3)
    assert measured is not None and len(measured.asked) == returned.num_probes == 32
    assert measured.ranking == returned.ranking and measured.removals == returned.removals
    assert measured.named == comparison.named_by_gap(returned.values)
    masks = range(256)
    predicted = [[one.predict(mask) for mask in masks] for one in (measured, returned)]
    assert np.allclose(*predicted, atol=0.01)  # single precision, other batches
    scores = [
        linear_datamodeling_score(question.scores, one.predict, seed=9, asked=measured.asked)
        for one in (measured, returned)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=0.01) and scores[0] > 0.6


def test_predictions_are_tried_on_subsets_that_nobody_asked(question: Question) -> None:
    found = comparison.explained(question, 64, 0)
    seen = frozenset[int]().union(*(one.asked for one in found.values()))
    tried: list[int] = []

    def predict(mask: int) -> float:
        tried.append(mask)
        return float(mask)

    ours = replace(found[comparison.OURS], predict=predict)
    assert "lds" in comparison.scores(question, ours, seen, 1)
    assert tried and not seen & set(tried)
    nearly = frozenset(range(250))
    assert "lds" not in comparison.scores(question, ours, nearly, 1)


def test_every_budget_has_its_lds_from_the_same_questions() -> None:
    collected = {
        (32, "one"): {0: {"lds": 0.5, "recall": 1.0}, 1: {"lds": 0.75, "recall": 0.0}},
        (64, "one"): {0: {"recall": 1.0}, 1: {"lds": 0.25, "recall": 0.0}},
        (64, "other"): {1: {"lds": 1.0, "recall": 0.0}},
    }
    comparison.keep_comparable(collected)
    assert collected[32, "one"] == {0: {"recall": 1.0}, 1: {"lds": 0.75, "recall": 0.0}}
    assert collected[64, "other"] == {1: {"lds": 1.0, "recall": 0.0}}


def test_p_values_are_corrected_for_the_whole_table() -> None:
    rows: list[dict[str, Any]] = [
        {"p_values": {"lds": 0.02, "recall": 0.5}},
        {},
        {"p_values": {"lds": 0.001}},
    ]
    assert comparison.correct(rows) == 3
    assert rows[0]["p_corrected"] == pytest.approx({"lds": 0.04, "recall": 0.5})
    assert rows[2]["p_corrected"] == pytest.approx({"lds": 0.003})


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
        assert ours["lds_questions"] == peer["lds_questions"] >= result["questions"] / 2
        assert ours["calls"] <= budget and peer["calls"] <= budget
        # Marks go by the corrected p-values.
        assert set(ours["p_corrected"]) == set(comparison.MEASURES)
        assert all(ours["p_corrected"][key] >= p for key, p in ours["p_values"].items())

"""The speed benchmark of reading: it compares answers, and its figures are complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.speed.generation import check_equal, measure, requests, ruleqa_requests, subsets
from rulerag.errors import GenerationError

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("kind", ["rule-guided", "few-shot"])
def test_both_ways_answer_the_same(kind: str) -> None:
    figures = measure(kind, requests(6), sample=2, max_new_tokens=4, width=32, layers=1)
    assert figures["queries"] == 6 and figures["compared"] == 2
    assert figures["times_faster"] > 0
    assert figures["distinct_answers"] > 1


def test_subsets_keep_the_order_of_the_documents() -> None:
    (request,) = requests(1)
    made = subsets(request, 3)
    assert len(made) == 8
    assert [d.id for d in made[5].documents] == ["d0-0", "d0-2"]
    figures = measure("subsets", requests(1), sample=4, max_new_tokens=2, width=32, layers=1)
    assert figures["queries"] == 256


def test_answers_that_differ_are_an_error() -> None:
    check_equal(["a", "b"], ["a", "b"])
    with pytest.raises(GenerationError, match="2 of 3 answers differ"):
        check_equal(["a", "b", "c"], ["a", "c", "b"])


def test_requests_of_a_built_dataset_hold_documents_and_rules(tmp_path: Path) -> None:
    from rulerag.ruleqa.builder import RuleQASettings, build
    from rulerag.synthetic.world import World

    settings = RuleQASettings(num_queries=20, miner="tlogic", min_support=5, min_confidence=0.1)
    build("ruleqa-i", World.generate(4000, seed=3).graph, settings=settings).save(tmp_path)
    made = ruleqa_requests(tmp_path, 5)
    assert len(made) == 5
    assert all(request.documents and request.rules for request in made)

"""The cost of exact explanations: the same answers either way, and nothing asked twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.speed.__main__ import BENCHMARKS
from benchmarks.speed.explanation import DOCUMENTS, TARGET, main, requests

ROOT = Path(__file__).resolve().parents[3]


def test_questions_have_so_many_documents_with_the_support_among_them() -> None:
    asked = requests(3, num_facts=1000)
    assert len(asked) == 3
    for request in asked:
        assert len({document.id for document in request.documents}) == DOCUMENTS


@pytest.mark.slow  # it reads every subset three times
def test_one_question_is_measured_with_equal_answers(tmp_path: Path) -> None:
    result = main(tmp_path, number=1, documents=5)
    assert (result["probes"], result["rerun_probes"]) == (2**5, 0)
    assert result["ratio"] > 1.5  # the figures that count come from a machine that is quiet
    assert json.loads((tmp_path / "explanation.json").read_text()) == result
    assert BENCHMARKS["explanation"] == "benchmarks.speed.explanation"


def test_the_committed_figures_reach_the_target() -> None:
    stored = json.loads((ROOT / "benchmarks/results/speed/explanation.json").read_text())
    assert stored["ratio"] >= TARGET and stored["rerun_probes"] == 0

"""TREC runs: exact, and ids that the format cannot carry."""

from __future__ import annotations

import math
from pathlib import Path

import ir_measures
import pytest

from rulerag.errors import DataFormatError
from rulerag.retrieval.base.runs import write_run
from rulerag.types import Document, ScoredDocument

DOCUMENTS = [Document(f"d{i}", f"text {i}") for i in range(4)]
SCORES = [0.1 + 0.2, 1 / 3, 1 / 3, -1e-300]
RESULTS = {
    "q2": [
        ScoredDocument(d, s, r) for r, (d, s) in enumerate(zip(DOCUMENTS, SCORES, strict=True), 1)
    ],
    "q1": [ScoredDocument(DOCUMENTS[3], 7, 1)],
}


@pytest.mark.parametrize("name", ["run.trec", "run.trec.gz"])
def test_another_tool_reads_every_score_exactly(tmp_path: Path, name: str) -> None:
    assert write_run(tmp_path / name, RESULTS, "toy") == 5
    run = [tuple(entry) for entry in ir_measures.read_trec_run(str(tmp_path / name))]
    assert run == [*(("q2", f"d{i}", SCORES[i]) for i in range(4)), ("q1", "d3", 7.0)]


def test_six_columns(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"q1": RESULTS["q1"], "none": []}, "toy")
    assert (tmp_path / "run").read_text() == "q1 Q0 d3 1 7.0 toy\n"


@pytest.mark.parametrize(
    ("query", "document", "tag"),
    [("q 1", "d", "t"), ("q", "d\u00a01", "t"), ("q", "d", ""), ("", "d", "t")],
)
def test_ids_that_the_format_cannot_carry(
    tmp_path: Path, query: str, document: str, tag: str
) -> None:
    results = {query: [ScoredDocument(Document(document, "text"), math.pi, 1)]}
    with pytest.raises(DataFormatError, match="white space"):
        write_run(tmp_path / "run", results, tag)
    assert list(tmp_path.iterdir()) == []

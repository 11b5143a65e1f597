"""TREC runs: there and back, and every kind of bad line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from rulerag.errors import DataError, DataFormatError, UnknownNameError
from rulerag.retrieval.base.runs import RunEntry, attach_documents, read_run, write_run
from rulerag.types import Document, RuleHit, ScoredDocument

DOCUMENTS = [Document(f"d{i}", f"text {i}") for i in range(4)]
SCORES = [0.1 + 0.2, 1 / 3, 1 / 3, -1e-300]
RESULTS = {
    "q2": [
        ScoredDocument(d, s, r) for r, (d, s) in enumerate(zip(DOCUMENTS, SCORES, strict=True), 1)
    ],
    "q1": [ScoredDocument(DOCUMENTS[3], 7, 1)],
}


@pytest.mark.parametrize("name", ["run.trec", "run.trec.gz"])
def test_there_and_back_exactly(tmp_path: Path, name: str) -> None:
    assert write_run(tmp_path / name, RESULTS, "toy") == 5
    run = read_run(tmp_path / name)
    assert list(run) == ["q2", "q1"]
    assert run["q2"] == [RunEntry(f"d{i}", i + 1, SCORES[i]) for i in range(4)]
    again = attach_documents(run, DOCUMENTS)
    assert again["q1"] == [ScoredDocument(DOCUMENTS[3], 7.0, 1, (RuleHit(None, 1, 7.0),))]


def test_six_columns(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"q1": RESULTS["q1"], "none": []}, "toy")
    assert (tmp_path / "run").read_text() == "q1 Q0 d3 1 7.0 toy\n"


def test_entries_follow_the_ranks_not_the_lines(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q Q0 b 2 1.0 x\r\n\nr Q0 b 1 5 x\nq\tQ0\ta\t1\t1.0\tx\n")
    assert read_run(tmp_path / "run") == {
        "q": [RunEntry("a", 1, 1.0), RunEntry("b", 2, 1.0)],
        "r": [RunEntry("b", 1, 5.0)],
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q Q0 d 1 1.0", "no line of a TREC run"),
        ("q Q0 d 1 1.0 tag more", "no line of a TREC run.*tag more"),
        ("q Q0 d one 1.0 tag", "d one 1.0"),
        ("q Q0 d 1 high tag", "d 1 high"),
        ("q Q0 d 1 nan tag", "d 1 nan"),
        ("q Q0 d -1 1.0 tag", "d -1"),
        ("q Q0 a 2 1.0 tag", "document 'a' twice"),
        ("q Q0 d 1 1.0 tag", "rank 1 twice"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "run.trec"
    path.write_text(f"q Q0 a 1 2.0 tag\n{line}\n")
    with pytest.raises(DataFormatError, match=message) as caught:
        read_run(path)
    assert (caught.value.path, caught.value.line) == (path, 2)


def test_missing_files_and_documents(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_run(tmp_path / "none")
    with pytest.raises(UnknownNameError, match="'d9'"):
        attach_documents({"q": [RunEntry("d9", 1, 1.0)]}, DOCUMENTS)


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

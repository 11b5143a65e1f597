"""One stage alone: retrieval, then reading from what it saved, resumed by identity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.stages.records import RunRecord, requests_from_rows, run_reading, run_retrieval
from benchmarks.stages.search_results import SearchResults
from rulerag import BM25Retriever, SymbolicReader
from rulerag.io import read_json, write_json
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, Query

RULE = Rule(Atom("Ally", "?x", "?y"), (Atom("Meet", "?x", "?y"),))


@pytest.fixture
def dataset() -> RuleQADataset:
    names = ("Oman", "Peru", "Mali")
    corpus = [
        Document(f"d{n}", f"Iran Meet {name}.", (Fact("Iran", "Meet", name),))
        for n, name in enumerate(names)
    ]
    queries = [Query("q", "Iran Meet Oman ?", "Iran", "Ally", answers=("Oman",))]
    return RuleQADataset(corpus=corpus, queries={"test": queries}, qrels={"test": {"q": {"d0": 1}}})


def test_reading_goes_on_from_a_saved_retrieval(dataset: RuleQADataset, tmp_path: Path) -> None:
    queries = dataset.queries["test"]
    opened = []

    def open_retriever() -> BM25Retriever:
        opened.append(1)
        return BM25Retriever(dataset.corpus)

    found = RunRecord(tmp_path / "bm25-0.5", "one")
    options: dict[str, Any] = {"about": {"row": "bm25"}, "isolate": False}
    made = run_retrieval(found, open_retriever, dataset, queries, **options)
    assert made["row"] == "bm25" and made["metrics"]["answer_recall@1"] == 1
    assert run_retrieval(found, open_retriever, dataset, queries, **options) == made
    assert len(opened) == 1, "a finished run is not made again"

    rows = SearchResults.load(found.file(".npz")).best[:, :2].tolist()
    reader = SymbolicReader()
    read = RunRecord(tmp_path / "answers", "one")
    answers = run_reading(
        read,
        lambda: requests_from_rows(queries, rows, [[RULE]], dataset.corpus),
        reader.generate,
        dataset,
        about={},
        places=[0],
    )
    assert answers["answers"] == ["Oman"] and answers["metrics"]["supported"] == 1
    assert answers["metrics"]["in_documents"] == 1


def test_another_identity_is_run_again_and_a_missing_measure_only_measured(
    dataset: RuleQADataset, tmp_path: Path
) -> None:
    queries = dataset.queries["test"]

    def no_search() -> BM25Retriever:
        raise AssertionError("nothing is searched again")

    one, other = (RunRecord(tmp_path / "bm25", name) for name in ("one", "other"))
    options: dict[str, Any] = {"about": {}, "isolate": False}
    made = run_retrieval(one, lambda: BM25Retriever(dataset.corpus), dataset, queries, **options)
    assert other.finished() is None and other.known() == {}
    write_json(one.file(".json"), {**made, "metrics": {"recall@10": 1.0}})
    again = run_retrieval(one, no_search, dataset, queries, **options)
    assert again["metrics"] == made["metrics"] and read_json(one.file(".json")) == again

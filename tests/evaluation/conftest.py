"""A small dataset with judgements and a pipeline of real parts, shared by the evaluation tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.pipeline import RuleRAGPipeline
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.types import Document, Fact, Query

PLACES = ("Bath", "Ely", "York", "Hull")


@pytest.fixture(scope="session")
def dataset() -> RuleQADataset:
    """Forty people who live somewhere; every query asks where one of them lives."""
    documents, queries, qrels = [], [], {}
    for number in range(40):
        person, place = f"Person {number}", PLACES[number % 4]
        facts = (Fact(person, "lives_in", place),)
        documents.append(Document(f"d{number}", f"{person} lives in {place}.", facts))
        # Every fifth query asks for a place that no document names.
        answer = "Rome" if number % 5 == 0 else place
        text = f"where does {person} live ?"
        queries.append(Query(f"q{number}", text, person, "lives_in", answers=(answer,)))
        qrels[f"q{number}"] = {f"d{number}": 1}
    return RuleQADataset(
        corpus=documents,
        queries={"test": queries},
        qrels={"test": qrels},
        query_sets={"balanced": {query.id for query in queries[:10]}},
        info=DatasetInfo("people"),
    )


@pytest.fixture
def make_pipeline(dataset: RuleQADataset) -> Callable[[], RuleRAGPipeline]:
    """A function that builds BM25 and the symbolic reader over the dataset."""
    return lambda: RuleRAGPipeline(BM25Retriever(dataset.corpus), SymbolicReader(), top_k=3)

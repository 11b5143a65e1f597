"""The components of LangChain, in chains of the real package."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest

import rulerag
from rulerag import BM25Retriever, Document, Query
from rulerag.errors import ConfigError, ExplanationError, UnknownNameError
from rulerag.integrations import System

pytest.importorskip("langchain_core")

from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

from rulerag.explanation.any_answer import Why
from rulerag.integrations.langchain import RuleRAGRetriever, RuleRAGRunnable


def test_a_dataset_folder_in_two_lines(folder: Path, query: Query) -> None:
    chain = RuleRAGRunnable(folder, top_k=4)
    found = chain.invoke(query.text)
    assert isinstance(chain, Runnable) and found["input"] == query.text and found["answer"]
    first = found["context"][0]
    assert first.id == first.metadata["id"] and first.metadata["rules"][0] in found["rules"]
    assert chain.invoke({"question": query.text}) == found
    assert asyncio.run(chain.ainvoke(query.text)) == found
    assert chain.batch([query.text, query.text]) == [found, found]


def test_the_explanation_is_that_of_the_pipeline(system: System, query: Query) -> None:
    ours = rulerag.explain(system.pipeline, query)
    why = rulerag.explain(RuleRAGRunnable(system), query.text)
    assert why.text == ours.text and len(why.documents) == 4
    assert [one.text for one in why.documents] == [one.text for one in ours.documents]
    (claim,), (wanted,) = why.claims, ours.claims
    assert claim.sources and not claim.unsupported
    assert set(claim.retention) == set(wanted.retention)
    assert set(claim.omission) == set(wanted.omission)
    rules = {rule for one in why.documents for rule in one.rules}
    flow = why.picture("flow")
    assert rules and rules <= {row[2] for row in flow.rows if row[1] == "found by"}
    first = why.documents[claim.sources[0]].called
    assert (first, "the claim rests on it", claim.text) in flow.rows
    assert Why.from_json(why.to_json()).documents == why.documents
    assert "calls of the model" not in str(why), "the reader is none that LangChain counts"


def test_a_retriever_of_ours_in_a_chain_of_theirs() -> None:
    texts = ["Lyon is a capital city.", "Paris is the capital of France.", "Bonn was one."]
    retriever = RuleRAGRetriever(BM25Retriever([Document(f"d{n}", t) for n, t in enumerate(texts)]))
    assert isinstance(retriever, BaseRetriever)

    def reader(given: dict[str, Any]) -> str:
        known = any("Paris" in one.page_content for one in given["context"])
        return "It is Paris." if known else "I don't know."

    chain = {"context": retriever, "question": RunnablePassthrough()} | RunnableLambda(reader)
    why = rulerag.explain(chain, "What is the capital of France?")
    (claim,) = why.claims
    assert [why.documents[index].id for index in claim.sources] == ["d1"]


def test_questions_that_name_nothing(system: System) -> None:
    chain = RuleRAGRunnable(system)
    with pytest.raises(UnknownNameError, match="no known name"):
        chain.invoke("Who is it?")
    with pytest.raises(ConfigError, match="no question in a int"):
        chain.invoke(3)
    with pytest.raises(ExplanationError, match="UnknownNameError"):
        rulerag.explain(chain, "Who is it?")


def test_the_classes_are_found_by_their_names() -> None:
    assert pickle.loads(pickle.dumps(RuleRAGRetriever)) is RuleRAGRetriever
    with pytest.raises(ImportError, match="Unknown"):
        from rulerag.integrations.langchain import Unknown  # noqa: F401

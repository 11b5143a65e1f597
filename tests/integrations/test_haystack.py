"""The components of Haystack, in pipelines of the real package."""

from __future__ import annotations

from pathlib import Path

import pytest

import rulerag
from rulerag import Query
from rulerag.errors import ExplanationError, UnknownNameError
from rulerag.integrations import System

pytest.importorskip("haystack")

from haystack import Document, Pipeline

from rulerag.integrations.haystack import RuleRAGReader, RuleRAGRetriever


def connected(retriever: object, reader: object) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    pipeline.add_component("reader", reader)
    pipeline.connect("retriever.documents", "reader.documents")
    return pipeline


def asked(pipeline: Pipeline, text: str) -> str:
    given = {"retriever": {"query": text}, "reader": {"query": text}}
    (answer,) = pipeline.run(given)["reader"]["answers"]
    return str(answer.data)


def test_retriever_and_reader(system: System, query: Query) -> None:
    documents = RuleRAGRetriever(system).run(query.text)["documents"]
    assert [one.meta["rank"] for one in documents] == [1, 2, 3, 4]
    assert documents[0].id == documents[0].meta["id"]
    assert documents[0].score == documents[0].meta["score"]
    assert len(RuleRAGRetriever(system).run(query.text, top_k=2)["documents"]) == 2
    (answer,) = RuleRAGReader(system).run(query.text, documents)["answers"]
    assert answer.data and answer.documents == documents
    assert documents[0].meta["rules"][0] in answer.meta["rules"]
    (nothing,) = RuleRAGReader(system).run(query.text, [Document(content="Other.")])["answers"]
    assert nothing.data == "", "no facts, so the reader abstains"


def test_the_explanation_is_that_of_the_pipeline(system: System, query: Query) -> None:
    ours = rulerag.explain(system.pipeline, query)
    why = rulerag.explain(connected(RuleRAGRetriever(system), RuleRAGReader(system)), query.text)
    (claim,), (wanted,) = why.claims, ours.claims
    assert why.text == ours.text and claim.sources
    assert set(claim.retention) == set(wanted.retention)
    assert set(claim.omission) == set(wanted.omission)


def test_a_pipeline_of_paths_is_written_and_read(folder: Path, query: Query) -> None:
    pipeline = connected(RuleRAGRetriever(folder, top_k=4), RuleRAGReader(folder, rules="guided"))
    module = "rulerag.integrations.haystack"
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=[module])
    assert again.to_dict() == pipeline.to_dict()
    assert asked(again, query.text) == asked(pipeline, query.text) != ""


def test_questions_that_name_nothing(system: System) -> None:
    with pytest.raises(UnknownNameError, match="no known name"):
        RuleRAGRetriever(system).run("Who is it?")
    pipeline = connected(RuleRAGRetriever(system), RuleRAGReader(system))
    with pytest.raises(ExplanationError, match="no known name"):
        rulerag.explain(pipeline, "Who is it?")

"""The components of LlamaIndex, with the real package."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import rulerag
from rulerag import Query
from rulerag.errors import ConfigError, UnknownNameError
from rulerag.integrations import System

pytest.importorskip("llama_index.core")

from llama_index.core import get_response_synthesizer
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from rulerag.integrations.llama_index import RuleRAGQueryEngine, RuleRAGRetriever


def test_a_dataset_folder_in_two_lines(folder: Path, query: Query) -> None:
    engine = RuleRAGQueryEngine(folder, top_k=4)
    response = engine.query(query.text)
    assert response.response and response.metadata["rules"]
    first = response.source_nodes[0]
    assert first.node.node_id == first.node.metadata["id"]
    assert first.score == first.node.metadata["score"]
    assert first.node.get_content(MetadataMode.LLM) == first.node.get_content(), (
        "prompts stay clean"
    )
    assert asyncio.run(engine.aquery(query.text)).response == response.response


def test_the_explanation_is_that_of_the_pipeline(system: System, query: Query) -> None:
    ours = rulerag.explain(system.pipeline, query)
    why = rulerag.explain(RuleRAGQueryEngine(system), query.text)
    (claim,), (wanted,) = why.claims, ours.claims
    assert why.text == ours.text and claim.sources
    assert set(claim.retention) == set(wanted.retention)
    assert set(claim.omission) == set(wanted.omission)
    assert why.explained.empty == "" and "Empty Response" not in str(why)


def test_a_retriever_of_ours_in_an_engine_of_theirs(system: System, query: Query) -> None:
    synthesizer = get_response_synthesizer(llm=MockLLM())  # answers with its whole prompt
    engine = RetrieverQueryEngine(RuleRAGRetriever(system), synthesizer)
    nodes = engine.query(query.text).source_nodes
    assert [one.node.node_id for one in nodes] == [one.id for one, _ in system.search(query.text)]


def test_nodes_of_another_retriever_are_read(system: System, query: Query) -> None:
    engine, bundle = RuleRAGQueryEngine(system), QueryBundle(query.text)
    plain = [NodeWithScore(node=TextNode(text="Nothing of this."), score=1.0)]
    assert engine.synthesize(bundle, plain).response == "", "no facts, so the reader abstains"
    assert asyncio.run(engine.asynthesize(bundle, engine.retrieve(bundle))).response


def test_questions_that_name_nothing(system: System) -> None:
    with pytest.raises(UnknownNameError, match="no known name"):
        RuleRAGRetriever(system).retrieve("Who is it?")
    with pytest.raises(ConfigError, match="does not answer"):
        RuleRAGQueryEngine(system.retriever).query("Who is it?")

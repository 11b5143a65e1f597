"""LlamaIndex: query engines for the contracts, and what holds for these alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rulerag
from rulerag import Query
from rulerag.errors import ConfigError
from rulerag.integrations import System
from tests.integrations.systems import CONTEXTS, QUESTION, Case, reply

pytest.importorskip("llama_index.core")

from llama_index.core import get_response_synthesizer
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from rulerag.integrations.llama_index import RuleRAGQueryEngine, RuleRAGRetriever


class Shelf(BaseRetriever):
    """Gives every node, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.searches: list[str] = []

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.searches.append(query_bundle.query_str)
        return [
            NodeWithScore(node=TextNode(text=text, metadata={"file_name": f"T{n}"}), score=1.0)
            for n, text in enumerate(CONTEXTS)
        ]


class Reader(CustomLLM):
    """Answers by what stands in its prompt."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=reply(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        yield self.complete(prompt)


def case(kind: str) -> Case:
    mode = "simple_summarize" if kind == "failing" else kind
    shelf, synthesizer = Shelf(), get_response_synthesizer(llm=Reader(), response_mode=mode)
    engine = RetrieverQueryEngine(shelf, response_synthesizer=synthesizer)
    question = "no key" if kind == "failing" else QUESTION
    sentence = 'LlamaIndex answers "Empty Response" without asking'
    return Case(engine, question, sentence, lambda: str(engine.query(question)), shelf.searches)


def without_documents() -> Iterator[tuple[Any, str]]:
    class Whole(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            return "It is Paris."

    yield Whole(), "Whole does not retrieve and synthesize apart"


def ours(system: System) -> Any:
    return RuleRAGQueryEngine(system)


def search(system: System, text: str) -> Any:
    return RuleRAGRetriever(system).retrieve(text)


# --- ours ----


def test_a_dataset_folder_in_two_lines(folder: Path, query: Query) -> None:
    engine = RuleRAGQueryEngine(folder, top_k=4)
    response = engine.query(query.text)
    first = response.source_nodes[0]
    assert response.response and first.node.metadata["rules"][0] in response.metadata["rules"]
    assert first.node.node_id == first.node.metadata["id"]
    assert first.score == first.node.metadata["score"]
    shown = first.node.get_content(MetadataMode.LLM)
    assert shown == first.node.get_content(), "prompts stay clean"
    assert asyncio.run(engine.aquery(query.text)).response == response.response
    assert rulerag.explain(engine, query.text).explanation.empty == "", "our reader is asked"
    theirs = rulerag.explain(case("compact").chain, QUESTION)
    assert theirs.explanation.empty == "Empty Response" and not theirs.claims[0].unsupported


def test_a_retriever_of_ours_in_an_engine_of_theirs(system: System, query: Query) -> None:
    engine = RetrieverQueryEngine(RuleRAGRetriever(system), get_response_synthesizer(llm=Reader()))
    nodes = engine.query(query.text).source_nodes
    assert [one.node.node_id for one in nodes] == [one.id for one, _ in system.search(query.text)]


def test_nodes_of_another_retriever_are_read(system: System, query: Query) -> None:
    engine, bundle = RuleRAGQueryEngine(system), QueryBundle(query.text)
    plain = [NodeWithScore(node=TextNode(text="Nothing of this."), score=1.0)]
    assert engine.synthesize(bundle, plain).response == "", "no facts, so the reader abstains"
    assert asyncio.run(engine.asynthesize(bundle, engine.retrieve(bundle))).response
    with pytest.raises(ConfigError, match="does not answer"):
        RuleRAGQueryEngine(system.retriever).query("Who is it?")

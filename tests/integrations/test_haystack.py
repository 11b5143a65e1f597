"""Haystack: pipelines for the contracts, and what holds for these alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rulerag
from rulerag import Query
from rulerag.integrations import System
from tests.integrations.systems import CONTEXTS, QUESTION, Case, reply

pytest.importorskip("haystack")

from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.rankers import LostInTheMiddleRanker

from rulerag.integrations.haystack import RuleRAGReader, RuleRAGRetriever

TEMPLATE = "{% for d in documents %}{{ d.content }}\n{% endfor %}Question: {{ query }}"


@component
class Shelf:
    """Gives every document, and counts."""

    def __init__(self) -> None:
        self.searches: list[Any] = []

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int = 9) -> dict[str, Any]:
        self.searches.append(query)
        found = [Document(content=t, meta={"title": f"T{n}"}) for n, t in enumerate(CONTEXTS)]
        return {"documents": found[:top_k]}


@component
class Reader:
    """Answers by what stands in its prompt."""

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        return {"replies": [reply(prompt)]}


def connected(links: list[tuple[str, str]], **components: Any) -> Pipeline:
    pipeline = Pipeline()
    for name, one in components.items():
        pipeline.add_component(name, one)
    for link in links:
        pipeline.connect(*link)
    return pipeline


def case(kind: str) -> Case:
    parts: dict[str, Any] = {"retriever": Shelf()}
    links = []
    if kind == "ranker":
        parts["ranker"] = LostInTheMiddleRanker()
        links.append(("retriever.documents", "ranker.documents"))
    last, searches = [*parts][-1], parts["retriever"].searches if kind != "ranker" else []
    links += [(f"{last}.documents", "builder.documents"), ("builder.prompt", "reader.prompt")]
    builder = PromptBuilder(TEMPLATE, required_variables="*")
    pipeline = connected(links, **parts, builder=builder, reader=Reader())
    question = "no key" if kind == "failing" else QUESTION

    def run() -> str:
        return pipeline.run({"query": question})["reader"]["replies"][0]

    return Case(pipeline, question, f"'{last}' was run once", run, searches)


def without_documents() -> Iterator[tuple[Any, str]]:
    yield connected([], reader=Reader()), "no component of the pipeline hands on documents"


def ours(system: System) -> Any:
    reader, link = RuleRAGReader(system), ("retriever.documents", "reader.documents")
    return connected([link], retriever=RuleRAGRetriever(system), reader=reader)


def search(system: System, text: str) -> Any:
    return RuleRAGRetriever(system).run(text)


def test_inputs_of_ones_own() -> None:
    inputs = {"retriever": {"query": QUESTION, "top_k": 2}, "builder": {"query": QUESTION}}
    why = rulerag.explain(case("retriever").chain, inputs)
    assert len(why.documents) == 2 and why.explanation.question == QUESTION


# --- ours ----


def test_retriever_and_reader(system: System, query: Query) -> None:
    documents = search(system, query.text)["documents"]
    assert [one.meta["rank"] for one in documents] == [1, 2, 3, 4]
    assert documents[0].id == documents[0].meta["id"]
    assert documents[0].score == documents[0].meta["score"]
    assert len(RuleRAGRetriever(system).run(query.text, top_k=2)["documents"]) == 2
    (answer,) = RuleRAGReader(system).run(query.text, documents)["answers"]
    assert answer.data and answer.documents == documents
    assert documents[0].meta["rules"][0] in answer.meta["rules"]
    (nothing,) = RuleRAGReader(system).run(query.text, [Document(content="Other.")])["answers"]
    assert nothing.data == "", "no facts, so the reader abstains"


def test_a_pipeline_of_paths_is_written_and_read(folder: Path, query: Query) -> None:
    parts = {"retriever": RuleRAGRetriever(folder, top_k=4)}
    parts |= {"reader": RuleRAGReader(folder, rules="guided")}
    pipeline = connected([("retriever.documents", "reader.documents")], **parts)
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["rulerag.integrations.haystack"])
    assert again.to_dict() == pipeline.to_dict()
    answers = [
        one.run({"query": query.text})["reader"]["answers"][0].data for one in (pipeline, again)
    ]
    assert answers[0] == answers[1] != ""

"""Pipelines of Haystack, the real package."""

from __future__ import annotations

from typing import Any

import pytest

import rulerag
from rulerag.errors import ConfigError

pytest.importorskip("haystack")

from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

QUESTION = "What is the capital of France?"
TEXTS = ["Lyon is a capital city.", "Paris is the capital of France.", "Bonn was a capital."]
TEMPLATE = "{% for d in documents %}{{ d.content }}\n{% endfor %}Question: {{ query }}"


@component
class Reader:
    """Answers by what stands in its prompt."""

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        return {
            "replies": ["It is Paris." if "Paris is the capital" in prompt else "I don't know."]
        }


@component
class Ranker:
    """Turns the order round."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {"documents": documents[::-1]}


def made(*, ranked: bool) -> Pipeline:
    store = InMemoryDocumentStore()
    store.write_documents(
        [Document(content=t, meta={"title": f"T{n}"}) for n, t in enumerate(TEXTS)]
    )
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store))
    pipeline.add_component("builder", PromptBuilder(TEMPLATE, required_variables="*"))
    pipeline.add_component("reader", Reader())
    source = "retriever"
    if ranked:
        pipeline.add_component("ranker", Ranker())
        pipeline.connect("retriever.documents", "ranker.documents")
        source = "ranker"
    pipeline.connect(f"{source}.documents", "builder.documents")
    pipeline.connect("builder.prompt", "reader.prompt")
    return pipeline


@pytest.mark.parametrize("ranked", [False, True])
def test_a_pipeline_in_three_lines(ranked: bool) -> None:
    pipeline = made(ranked=ranked)
    why = rulerag.explain(pipeline, QUESTION)
    (claim,) = why.claims
    (source,) = claim.sources
    assert why.text == "It is Paris." and why.documents[source].text == TEXTS[1]
    assert why.documents[source].title == "T1" and len(why.documents) == 3
    assert f"'{'ranker' if ranked else 'retriever'}' was run once" in str(why)
    again = pipeline.run({"retriever": {"query": QUESTION}, "builder": {"query": QUESTION}})
    assert again["reader"]["replies"] == ["It is Paris."], "left as it was"


def test_parts_of_documents_are_replayed_in_the_place_of_the_whole() -> None:
    for removal in ("delete", "replace"):
        why = rulerag.explain(made(ranked=True), QUESTION, level="span", removal=removal)
        (source,) = why.claims[0].sources
        assert why.documents[source].text == "Paris is the capital of"
        assert ("is neutral text" in str(why).splitlines()[-1]) == (removal == "replace")


def test_inputs_of_ones_own_and_pipelines_without_documents() -> None:
    inputs = {"retriever": {"query": QUESTION, "top_k": 2}, "builder": {"query": QUESTION}}
    why = rulerag.explain(made(ranked=False), inputs)
    assert len(why.documents) == 2 and why.explained.question == QUESTION
    bare = Pipeline()
    bare.add_component("reader", Reader())
    with pytest.raises(ConfigError, match="no component of the pipeline hands on documents"):
        rulerag.explain(bare, QUESTION)

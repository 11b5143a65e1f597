"""Query engines of LlamaIndex, the real package."""

from __future__ import annotations

from typing import Any

import pytest

import rulerag
from rulerag.errors import ConfigError

pytest.importorskip("llama_index.core")

from llama_index.core import get_response_synthesizer
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

QUESTION = "What is the capital of France?"
TEXTS = ["Lyon is a city.", "Paris is the capital of France.", "Bonn was a capital."]


class Shelf(BaseRetriever):
    """Gives every node, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.asked += 1
        nodes = [TextNode(text=t, metadata={"file_name": f"{n}.md"}) for n, t in enumerate(TEXTS)]
        return [NodeWithScore(node=node, score=1.0) for node in nodes]


class Reader(CustomLLM):
    """Answers by what stands in its prompt."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        found = any(text in prompt for text in ("Paris is the capital", "It is Paris."))
        return CompletionResponse(text="It is Paris." if found else "I don't know.")

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        yield self.complete(prompt)


@pytest.mark.parametrize("mode", ["compact", "refine", "simple_summarize"])
def test_a_query_engine_in_three_lines(mode: str) -> None:
    shelf = Shelf()
    synthesizer = get_response_synthesizer(llm=Reader(), response_mode=mode)
    engine = RetrieverQueryEngine(shelf, response_synthesizer=synthesizer)
    why = rulerag.explain(engine, QUESTION)
    assert why.text == "It is Paris." and why.claims[0].sources == (1,) and shelf.asked == 1
    assert why.documents[1].title == "1.md" and why.documents[1].text == TEXTS[1]
    assert why.explained.empty == "Empty Response", "LlamaIndex asks no model without nodes"
    assert "Empty Response" in str(why).splitlines()[-1] and not why.claims[0].unsupported


def test_parts_of_nodes_stand_in_the_place_of_the_whole() -> None:
    engine = RetrieverQueryEngine(Shelf(), response_synthesizer=get_response_synthesizer(Reader()))
    for removal in ("delete", "replace"):
        why = rulerag.explain(engine, QUESTION, level="span", removal=removal)
        (source,) = why.claims[0].sources
        assert why.documents[source].text == "Paris is the capital of"
        assert ("is neutral text" in str(why).splitlines()[-1]) == (removal == "replace")


def test_an_engine_that_does_not_retrieve_apart_is_named() -> None:
    class Whole(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            return "It is Paris."

    with pytest.raises(ConfigError, match="pass them"):
        rulerag.explain(Whole(), QUESTION)

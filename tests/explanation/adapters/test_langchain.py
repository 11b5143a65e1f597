"""Chains of LangChain and LangGraph, the real packages: retrieved once, generated again."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

import rulerag
from rulerag.errors import ConfigError, ExplanationError

pytest.importorskip("langchain_core")

from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.language_models.llms import LLM
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

QUESTION = "What is the capital of France?"
TEXTS = ["Lyon is a city.", "Paris is the capital of France.", "Bonn was a capital."]


class Shelf(BaseRetriever):
    """Gives every document, and counts."""

    asked: list[str]

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        self.asked.append(query)
        return [Document(text, metadata={"title": f"T{n}"}) for n, text in enumerate(TEXTS)]


class Reader(LLM):
    """Answers by what stands in its prompt."""

    @property
    def _llm_type(self) -> str:
        return "reader"

    def _call(self, prompt: str, *_: Any, **__: Any) -> str:
        return "It is Paris." if "Paris is the capital" in prompt else "I don't know."


def joined(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


PROMPT = ChatPromptTemplate.from_template("{context}\nQuestion: {question}")


def test_a_runnable_in_three_lines() -> None:
    shelf = Shelf(asked=[])
    chain = {"context": shelf | joined, "question": RunnablePassthrough()} | PROMPT | Reader()
    why = rulerag.explain(chain, QUESTION)
    assert why.text == "It is Paris." and why.claims[0].sources == (1,)
    assert [one.title for one in why.documents] == ["T0", "T1", "T2"]
    assert shelf.asked == [QUESTION], "retrieved once"
    assert "a probe makes one call of the model" in str(why).splitlines()[-1]
    assert chain.invoke(QUESTION) == "It is Paris." and len(shelf.asked) == 2, "left as it was"


def test_parts_of_documents_are_replayed_in_the_place_of_the_whole() -> None:
    shelf = Shelf(asked=[])
    chain = {"context": shelf | joined, "question": RunnablePassthrough()} | PROMPT | Reader()
    for removal in ("delete", "replace"):
        why = rulerag.explain(chain, QUESTION, level="span", removal=removal)
        (source,) = why.claims[0].sources
        assert why.documents[source].text == "Paris is the capital of"
        assert ("is neutral text" in str(why).splitlines()[-1]) == (removal == "replace")
    assert len(shelf.asked) == 2, "once an explanation"


def test_several_retrievers_and_a_chain_that_takes_a_mapping() -> None:
    class Other(Shelf):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            self.asked.append(query)
            return [Document("Paris is the capital of France, too.")]

    first, second = Shelf(asked=[]), Other(asked=[])

    def both(given: dict[str, str]) -> str:
        found = [*first.invoke(given["input"]), *second.invoke(given["input"].lower())]
        return joined(found)

    chain = RunnablePassthrough.assign(context=RunnableLambda(both)) | (
        lambda given: {"answer": Reader().invoke(given["context"])}
    )
    why = rulerag.explain(chain, {"input": QUESTION})
    assert set(why.claims[0].retention) == {frozenset({1}), frozenset({3})}
    assert len(first.asked) == len(second.asked) == 1


def test_a_retrieval_chain_and_messages() -> None:
    classic = pytest.importorskip("langchain_classic.chains")
    from langchain_classic.chains.combine_documents import create_stuff_documents_chain

    prompt = ChatPromptTemplate.from_template("{context}\n{input}")
    combine = create_stuff_documents_chain(Reader(), prompt)
    chain = classic.create_retrieval_chain(Shelf(asked=[]), combine)
    assert rulerag.explain(chain, {"input": QUESTION}).claims[0].sources == (1,)
    speaking = GenericFakeChatModel(messages=iter(["It is Paris."] * 99))
    fixed = {"context": Shelf(asked=[]) | joined, "question": RunnablePassthrough()}
    why = rulerag.explain(fixed | PROMPT | speaking, QUESTION)
    assert why.text == "It is Paris." and why.claims[0].unsupported


def test_two_explanations_at_once_do_not_see_each_other() -> None:
    chain = {"context": Shelf(asked=[]) | joined, "question": RunnablePassthrough()} | PROMPT
    chain = chain | Reader()

    async def both() -> list[Any]:
        return await asyncio.gather(
            *(asyncio.to_thread(rulerag.explain, chain, QUESTION) for _ in range(2))
        )

    assert [why.claims[0].sources for why in asyncio.run(both())] == [(1,), (1,)]
    assert BaseRetriever.invoke.__module__.startswith("langchain_core")


def test_chains_that_cannot_be_frozen_are_named() -> None:
    with pytest.raises(ConfigError, match=r"called no retriever.*rulerag\.explain\(lambda"):
        rulerag.explain(PROMPT | Reader(), {"context": "", "question": QUESTION})

    def broken(_: Any) -> str:
        raise ValueError("no key")

    with pytest.raises(ExplanationError, match="the chain failed with ValueError: no key"):
        rulerag.explain(Shelf(asked=[]) | RunnableLambda(broken), QUESTION)
    with pytest.raises(ConfigError, match="function is no chain that is known"):
        rulerag.explain(lambda question: "x", QUESTION)


class State(TypedDict, total=False):
    question: str
    documents: list[Any]
    answer: str


@pytest.mark.parametrize("with_retriever", [True, False])
def test_a_graph(with_retriever: bool) -> None:
    graphs = pytest.importorskip("langgraph.graph")
    from langgraph.checkpoint.memory import InMemorySaver

    shelf, searched = Shelf(asked=[]), []

    def retrieve(state: State) -> State:
        searched.append(state["question"])
        if with_retriever:
            return {"documents": shelf.invoke(state["question"])}
        return {"documents": [Document(text) for text in TEXTS]}

    def generate(state: State) -> State:
        return {"answer": Reader().invoke(joined(state["documents"]))}

    made = graphs.StateGraph(State)
    made.add_node("retrieve", retrieve)
    made.add_node("generate", generate)
    made.add_edge(graphs.START, "retrieve")
    made.add_edge("retrieve", "generate")
    made.add_edge("generate", graphs.END)
    graph = made.compile(checkpointer=InMemorySaver())
    parts = rulerag.explain(graph, {"question": QUESTION}, level="span", removal="replace")
    assert parts.documents[parts.claims[0].sources[0]].text == "Paris is the capital of"
    shelf.asked.clear()
    searched.clear()
    why = rulerag.explain(made.compile(checkpointer=InMemorySaver()), {"question": QUESTION})
    assert why.claims[0].sources == (1,) and why.text == "It is Paris."
    if with_retriever:
        assert len(shelf.asked) == 1
    else:
        assert len(searched) == 1 and "behind its node 'retrieve'" in str(why)
        with pytest.raises(ConfigError, match="needs a checkpointer"):
            rulerag.explain(made.compile(), {"question": QUESTION})

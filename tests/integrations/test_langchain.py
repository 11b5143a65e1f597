"""LangChain and LangGraph: chains for the contracts, and what holds for these alone."""

from __future__ import annotations

import asyncio
import operator
import pickle
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

import rulerag
from rulerag import BM25Retriever, Document as OurDocument, Query
from rulerag.errors import ConfigError
from rulerag.explanation.explaining import Why
from rulerag.integrations import System
from tests.integrations.systems import CONTEXTS, QUESTION, Case, reply

pytest.importorskip("langchain_core")

from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.language_models.llms import LLM
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from rulerag.integrations.langchain import RuleRAGRetriever, RuleRAGRunnable


class Shelf(BaseRetriever):
    """Gives every document, and counts."""

    texts: list[str] = CONTEXTS
    searches: list[str] = []  # noqa: RUF012 - pydantic copies it

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        self.searches.append(query)
        return [Document(text, metadata={"title": f"T{n}"}) for n, text in enumerate(self.texts)]


class Reader(LLM):
    """Answers by what stands in its prompt."""

    _llm_type = "reader"

    def _call(self, prompt: str, *_: Any, **__: Any) -> str:
        return reply(prompt)


def joined(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


def over(retriever: Any) -> Any:
    """What a prompt holds."""
    prompt = ChatPromptTemplate.from_template("{context}\nQuestion: {question}")
    return {"context": retriever | joined, "question": RunnablePassthrough()} | prompt


class State(TypedDict, total=False):
    question: str
    documents: list[Any]
    notes: Annotated[list[str], operator.add]
    answer: str


def graph(shelf: Shelf, kind: str, **kept: Any) -> Any:
    """A graph whose node asks a retriever of LangChain, or for ``state`` searches by itself."""
    graphs = pytest.importorskip("langgraph.graph")

    def retrieve(state: State) -> State:
        search = shelf._get_relevant_documents if kind == "state" else shelf.invoke
        return {"documents": search(state["question"]), "notes": ["found"]}

    def generate(state: State) -> State:
        assert state["notes"] == ["found"], "written once, also in what is run again"
        return {"answer": Reader().invoke(joined(state["documents"]))}

    made = graphs.StateGraph(State).add_sequence([retrieve, generate])
    return made.add_edge(graphs.START, "retrieve").compile(**kept)


def case(kind: str) -> Case:
    shelf = Shelf()
    sentence = "retriever was run once and what it found is frozen; a probe makes one call of"
    if kind in ("chain", "failing"):
        chain, given = over(shelf) | Reader(), "no key" if kind == "failing" else QUESTION
        return Case(chain, given, sentence, lambda: chain.invoke(given), shelf.searches)
    memory = pytest.importorskip("langgraph.checkpoint.memory").InMemorySaver()
    chain = graph(shelf, kind, checkpointer=memory)

    def run() -> str:
        thread = {"configurable": {"thread_id": uuid.uuid4().hex}}
        return chain.invoke({"question": QUESTION}, thread)["answer"]

    sentence = "behind its node 'retrieve'" if kind == "state" else sentence
    return Case(chain, QUESTION, sentence, run, shelf.searches)


def without_documents() -> Iterator[tuple[Any, str]]:
    yield RunnablePassthrough() | Reader(), "called no retriever"
    yield graph(Shelf(), "state"), "needs a checkpointer"
    memory = pytest.importorskip("langgraph.checkpoint.memory").InMemorySaver()
    yield graph(Shelf(texts=[]), "state", checkpointer=memory), "no state key holds documents"


def ours(system: System) -> Any:
    return RuleRAGRunnable(system)


def search(system: System, text: str) -> Any:
    return RuleRAGRetriever(system).invoke(text)


def test_several_retrievers_and_queries_that_are_worded_otherwise() -> None:
    first, second = Shelf(), Shelf(texts=["Paris is the capital of France, too."])
    numbers = iter(range(999))

    def both(given: dict[str, str]) -> str:
        found = [asyncio.run(first.ainvoke(f"{given['input']} Really?"))[:1]]
        found += [first.invoke(given["input"]), second.invoke(f"{next(numbers)}")]
        return joined([one for result in found for one in result])

    chain = RunnablePassthrough.assign(context=RunnableLambda(both)) | (
        lambda given: {"answer": Reader().invoke(given["context"])}
    )
    why = rulerag.explain(chain, {"input": QUESTION})
    found = [[why.documents[n].text for n in one] for one in why.claims[0].retention]
    assert sorted(found) == [second.texts, CONTEXTS[1:2]]
    assert len(first.searches) == 2 and len(second.searches) == 1
    assert BaseRetriever.invoke.__module__.startswith("langchain_core"), "left as it was"


def test_a_retrieval_chain_and_messages() -> None:
    classic = pytest.importorskip("langchain_classic.chains")
    from langchain_classic.chains.combine_documents import create_stuff_documents_chain

    prompt = ChatPromptTemplate.from_template("{context}\n{input}")
    combine = create_stuff_documents_chain(Reader(), prompt)
    chain = classic.create_retrieval_chain(Shelf(), combine)
    assert rulerag.explain(chain, {"input": QUESTION}).claims[0].sources == (1,)
    speaking = GenericFakeChatModel(messages=iter(["It is Paris."] * 99))
    why = rulerag.explain(over(Shelf()) | speaking, QUESTION)
    assert why.text == "It is Paris." and why.claims[0].unsupported


# --- ours ----


def test_a_dataset_folder_in_two_lines(folder: Path, query: Query) -> None:
    chain = RuleRAGRunnable(folder, top_k=4)
    found = chain.invoke(query.text)
    assert found["input"] == query.text and found["answer"] and len(found["context"]) == 4
    first = found["context"][0]
    assert first.id == first.metadata["id"] and first.metadata["rules"][0] in found["rules"]
    others = chain.batch([query.text, {"question": query.text}])
    assert [*others, asyncio.run(chain.ainvoke(query.text))] == [found] * 3
    with pytest.raises(ConfigError, match="no question in a int"):
        chain.invoke(3)
    why = rulerag.explain(chain, query.text)
    assert Why.from_json(why.to_json()).documents == why.documents


def test_a_retriever_of_ours_in_a_chain_of_theirs() -> None:
    corpus = [OurDocument(f"d{n}", text) for n, text in enumerate(CONTEXTS)]
    why = rulerag.explain(over(RuleRAGRetriever(BM25Retriever(corpus))) | Reader(), QUESTION)
    assert [why.documents[index].id for index in why.claims[0].sources] == ["d1"]
    assert pickle.loads(pickle.dumps(RuleRAGRetriever)) is RuleRAGRetriever

"""LangChain and LangGraph: our retriever and pipeline as Runnables, and Runnables explained.

``RuleRAGRetriever`` stands wherever LangChain takes a retriever; ``RuleRAGRunnable`` is the whole
pipeline. Any Runnable whose retriever is one of LangChain can be explained by
``rulerag.explain(chain, question)``, and any graph that keeps its documents in its state.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from rulerag.errors import ConfigError, needs_package
from rulerag.explanation import (
    QUESTION_KEYS,
    FrozenChain,
    Retrieved,
    answer_text,
    no_retriever,
    question_text,
)
from rulerag.integrations.system import System, open_system

with needs_package("langchain-core", "langchain"):
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import Runnable, RunnableConfig


# --- ours as components ----


class RuleRAGRetriever(BaseRetriever):
    """A retriever of LangChain over a dataset folder, a pipeline or a retriever of rulerag.

    Its documents hold in their metadata what :func:`rulerag.integrations.system.metadata_of` says:
    id, score, rank, the texts of the rules that found them, and facts.

    Args:
        of: see :func:`rulerag.integrations.open_system`.
        options: ``question``, ``top_k`` and the settings of a folder, likewise.

    Attributes:
        system: what is asked.

    Raises:
        UnknownNameError: at ``invoke``, the dataset knows no entity and relation that make up
            the question.
    """

    system: System

    def __init__(self, of: Any, **options: Any) -> None:
        super().__init__(system=open_system(of, **options))  # type: ignore[call-arg]

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [
            Document(document.text, id=document.id, metadata=metadata)
            for document, metadata in self.system.search(query)
        ]


class RuleRAGRunnable(Runnable[Any, dict[str, Any]]):
    """The pipeline as a Runnable: a question in, its answer with the evidence out.

    It takes a text, or a mapping with ``input``, ``question``, ``query`` or ``text``, and returns
    what LangChain's retrieval chains return: ``input``, ``context`` (the documents) and ``answer``
    (empty where the pipeline abstains); besides ``rules``, the texts of the guiding rules that
    the reader saw. The documents come from its ``retriever``, a ``RuleRAGRetriever``.

    Args:
        of: see :func:`rulerag.integrations.open_system`; not a bare retriever.
        options: ``question``, ``top_k`` and the settings of a folder, likewise.

    Raises:
        ConfigError: at ``invoke``, there is no question in what is given.
        UnknownNameError: at ``invoke``, the dataset knows no entity and relation that make up
            the question.
    """

    def __init__(self, of: Any, **options: Any) -> None:
        self.system = open_system(of, **options)
        self.retriever = RuleRAGRetriever(self.system)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        """Answer one question."""
        return self._call_with_config(self._answer, input, config, run_type="chain")

    def _answer(self, inputs: Any, run_manager: Any, config: RunnableConfig) -> dict[str, Any]:
        text = question_text(inputs)
        if text is None:
            raise ConfigError(
                f"found no question in a {type(inputs).__name__}",
                key="input",
                hint=f"a text, or a mapping with {' or '.join(map(repr, QUESTION_KEYS))}",
            )
        documents = self.retriever.invoke(text, config)
        answer = self.system.answer(text, [(one.page_content, one.metadata) for one in documents])
        rules = [rule.text for rule in answer.rules]
        return {"input": text, "context": documents, "answer": answer.text, "rules": rules}


# --- theirs explained ----

_RETRIEVED = "retrieved", "retrieved_documents"
_DOCUMENT_KEYS = "documents", "docs", "context", *_RETRIEVED, "sources", "chunks"


class ModelCalls(BaseCallbackHandler):
    """Counts calls of language models."""

    number = 0

    def on_llm_start(self, *_: Any, **__: Any) -> None:
        """One more."""
        self.number += 1

    on_chat_model_start = on_llm_start


def freeze(chain: Any, question: Any) -> FrozenChain:
    """Run a Runnable once; see :func:`rulerag.explanation.chains.freeze`.

    Where it calls retrievers of LangChain these are frozen. Otherwise it has to be a graph of
    LangGraph whose state holds the documents under a usual key, and which has a checkpointer:
    probes then begin behind the node that wrote them.
    """
    inputs, first, calls = _input(chain, question), Retrieval(), ModelCalls()
    config = _config(calls)
    with first.active():
        output = chain.invoke(inputs, config)

    def answer(_: str, documents: list[Retrieved]) -> Any:
        present = {id(one.original): one.document for one in documents}
        with Retrieval(first.results, present).active():
            return answer_text(chain.invoke(inputs, _config()))

    results = first.results.values()
    documents = {id(one): Retrieved(one, one) for result in results for one in result}
    frozen = FrozenChain(
        answer,
        question_text(question) or str(question),
        tuple(documents.values()),
        answer_text(output),
        frozen="The retriever was run once and what it found is frozen",
        empty="the chain is asked with an empty context",
        model_calls=calls.number,
    )
    return frozen if first.results else _frozen_state(chain, config, frozen)


def _config(*callbacks: BaseCallbackHandler) -> RunnableConfig:
    """A run of its own: a graph keeps its states by this id."""
    return {"configurable": {"thread_id": uuid4().hex}, "callbacks": list(callbacks)}


def _input(chain: Any, question: Any) -> Any:
    """What a chain takes: the question itself, or in the key that it wants."""
    if not isinstance(question, str):
        return question
    try:
        schema: Mapping[str, Any] = chain.get_input_jsonschema()
    except Exception:  # noqa: BLE001 - not every chain can say what it takes
        return question
    keys = list(schema.get("properties", {})) if schema.get("type") == "object" else []
    keys = [key for key in QUESTION_KEYS if key in keys] or (keys if len(keys) == 1 else [])
    return {keys[0]: question} if keys else question


@dataclass
class Retrieval:
    """What retrievers return in one run of a chain: recorded, or replayed from such a run.

    Args:
        results: documents by retriever and query.
        present: what is replayed, by the identity of the documents that were recorded; None to
            record.
    """

    results: dict[tuple[int, str], list[Any]] = field(default_factory=dict)
    present: Mapping[int, Any] | None = None

    def replay(self, retriever: BaseRetriever, query: object) -> list[Any] | None:
        """What a retriever returns of the documents that are present; None where it has to search.

        A query that was worded otherwise, by a model that rephrases questions, gets what the same
        retriever returned, where it was asked once.
        """
        results = {key[1]: one for key, one in self.results.items() if key[0] == id(retriever)}
        only = next(iter(results.values())) if len(results) == 1 else None
        result = results.get(repr(query), only)
        if self.present is None or result is None:
            return None
        return [self.present[id(one)] for one in result if id(one) in self.present]

    def record(self, retriever: BaseRetriever, query: object, result: list[Any]) -> list[Any]:
        """Note what a retriever returned where nothing is replayed."""
        if self.present is None:
            self.results[id(retriever), repr(query)] = result
        return result

    @contextmanager
    def active(self) -> Iterator[None]:
        """Retrievers look here in this thread or task."""
        token = _RETRIEVAL.set(self)
        _intercept(+1)
        try:
            yield
        finally:
            _intercept(-1)
            _RETRIEVAL.reset(token)


_RETRIEVAL: ContextVar[Retrieval] = ContextVar("rulerag_retrieval")
_LOCK, _ACTIVE = threading.Lock(), 0
_METHODS = BaseRetriever.invoke, BaseRetriever.ainvoke


def _intercept(change: int) -> None:
    """The methods of retrievers are others as long as anything is active in any thread."""
    global _ACTIVE, _METHODS
    with _LOCK:
        if not _ACTIVE:
            _METHODS = BaseRetriever.invoke, BaseRetriever.ainvoke
        _ACTIVE += change
        methods = (_invoke, _ainvoke) if _ACTIVE else _METHODS
        BaseRetriever.invoke, BaseRetriever.ainvoke = methods  # type: ignore[method-assign]


def _invoke(self: BaseRetriever, input: str, *args: Any, **kwargs: Any) -> list[Any]:
    retrieval = _RETRIEVAL.get(Retrieval())
    result = retrieval.replay(self, input)
    if result is None:
        result = retrieval.record(self, input, _METHODS[0](self, input, *args, **kwargs))
    return result


async def _ainvoke(self: BaseRetriever, input: str, *args: Any, **kwargs: Any) -> list[Any]:
    retrieval = _RETRIEVAL.get(Retrieval())
    result = retrieval.replay(self, input)
    if result is None:
        result = retrieval.record(self, input, await _METHODS[1](self, input, *args, **kwargs))
    return result


def _frozen_state(graph: Any, config: RunnableConfig, frozen: FrozenChain) -> FrozenChain:
    """A graph that goes on from the state in which its documents are."""
    if not hasattr(graph, "get_state_history"):
        raise no_retriever("the chain called no retriever of LangChain")
    if not graph.checkpointer:
        raise no_retriever("a graph that calls no retriever of LangChain needs a checkpointer")
    results = (
        (snapshot, task.name, task.result, key)
        for snapshot in reversed([*graph.get_state_history(config)])
        for task in snapshot.tasks
        for key in _DOCUMENT_KEYS
        if isinstance(task.result, Mapping) and isinstance(task.result.get(key), list | tuple)
    )
    place = next((one for one in results if one[2][one[3]]), None)
    if place is None:
        raise no_retriever("the graph calls no retriever, and no state key holds documents")
    snapshot, node, result, key = place

    def answer(_: str, documents: list[Any]) -> Any:
        config = graph.update_state(snapshot.config, {**result, key: list(documents)}, node)
        return answer_text(graph.invoke(None, config))

    return replace(
        frozen,
        answer=answer,
        documents=tuple(result[key]),
        frozen=f"The graph was run once; probes begin behind its node {node!r}",
        empty=f"the nodes behind it get an empty {key!r}",
    )

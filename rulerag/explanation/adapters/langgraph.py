"""Compiled graphs of LangGraph: retrievers inside the nodes, or documents in the state."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from rulerag.explanation.adapters.frozen import (
    FrozenChain,
    Recording,
    asked,
    during,
    failed,
    no_retriever,
)
from rulerag.explanation.adapters.langchain import input_of, intercepted, model_calls, text_of

_KEYS = ("documents", "docs", "context", "retrieved", "retrieved_documents", "sources", "chunks")


def freeze(graph: Any, question: Any) -> FrozenChain:
    """Run a graph once; see :func:`rulerag.explanation.adapters.freeze`.

    Where its nodes call retrievers of LangChain these are frozen. Otherwise the state has to hold
    the documents under a usual key, and the graph has to have a checkpointer: probes then begin
    behind the node that wrote them.
    """
    recording, counter = Recording([]), model_calls()
    given = input_of(graph, question)
    steps: list[tuple[str, Mapping[str, Any]]] = []
    with intercepted(), during((recording, None)):
        try:
            for update in graph.stream(given, _config(counter), stream_mode="updates"):
                steps += [(n, one) for n, one in update.items() if isinstance(one, Mapping)]
        except Exception as error:
            raise failed("the graph", error) from error
    state = dict(given) if isinstance(given, Mapping) else {}
    for _, one in steps:
        state |= one
    common = {"question": asked(question), "text": text_of(state), "calls": counter.number or None}
    if recording.calls:

        def answer(_: str, documents: list[Any]) -> Any:
            with intercepted(), during((recording, documents)):
                return text_of(graph.invoke(given, _config()))

        return FrozenChain(
            answer,
            documents=recording.documents,
            frozen="The retriever in the graph was run once and what it found is frozen",
            empty="the nodes behind it get an empty list",
            by_identity=True,
            **common,
        )
    place = next(
        (
            (number, key)
            for number, (_, one) in enumerate(steps)
            for key in _KEYS
            if isinstance(one.get(key), list | tuple) and one[key]
        ),
        None,
    )
    if place is None:
        raise no_retriever("the graph calls no retriever, and no state key holds documents")
    if not getattr(graph, "checkpointer", None):
        raise no_retriever("a graph whose state holds the documents needs a checkpointer")
    number, key = place
    node, before = steps[number][0], dict(given) if isinstance(given, Mapping) else {}
    for _, one in steps[: number + 1]:
        before |= one

    def resumed(_: str, documents: list[Any]) -> Any:
        config = _config()
        graph.update_state(config, {**before, key: list(documents)}, as_node=node)
        return text_of(graph.invoke(None, config))

    return FrozenChain(
        resumed,
        documents=tuple(steps[number][1][key]),
        frozen=f"The graph was run once; probes begin behind its node {node!r}",
        empty=f"the nodes behind it get an empty {key!r}",
        **common,
    )


def _config(*callbacks: Any) -> dict[str, Any]:
    """A thread of its own for every run."""
    return {"configurable": {"thread_id": uuid.uuid4().hex}, "callbacks": list(callbacks)}

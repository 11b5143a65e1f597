"""Runnables of LangChain: their retrievers answer from one recorded run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from rulerag.explanation.adapters.frozen import (
    MODE,
    FrozenChain,
    Recording,
    asked,
    during,
    failed,
    no_retriever,
)

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever

_NAMES = ("input", "question", "query", "text")


def freeze(chain: Any, question: Any) -> FrozenChain:
    """Run a Runnable once; see :func:`rulerag.explanation.adapters.freeze`."""
    recording, counter = Recording([]), model_calls()
    given = input_of(chain, question)
    with intercepted(), during((recording, None)):
        try:
            said = chain.invoke(given, config={"callbacks": [counter]})
        except Exception as error:
            raise failed("the chain", error) from error
    if not recording.calls:
        raise no_retriever("the chain called no retriever of LangChain")

    def answer(_: str, documents: list[Any]) -> Any:
        with intercepted(), during((recording, documents)):
            return text_of(chain.invoke(given))

    return FrozenChain(
        answer,
        asked(question),
        recording.documents,
        text_of(said),
        frozen="The retriever was run once and what it found is frozen",
        empty="the chain is asked with an empty context",
        calls=counter.number or None,  # what is no model of LangChain cannot be counted
        by_identity=True,
    )


def input_of(chain: Any, question: Any) -> Any:
    """What a chain takes: the question itself, or in the key that it wants."""
    if not isinstance(question, str):
        return question
    try:
        schema: Mapping[str, Any] = chain.get_input_jsonschema()
    except Exception:  # noqa: BLE001 - not every chain can say what it takes
        return question
    keys = list(schema.get("properties", {}))
    if schema.get("type") != "object" or not keys:
        return question
    wanted = next((name for name in _NAMES if name in keys), None)
    return question if wanted is None and len(keys) > 1 else {wanted or keys[0]: question}


def text_of(said: Any) -> Any:
    """The answer in what a chain returns."""
    if isinstance(said, Mapping):
        names = ("answer", "result", "output", "generation", "response", "text")
        found = next((said[name] for name in names if name in said), None)
        if found is None and said.get("messages"):
            found = said["messages"][-1]
        return said if found is None else text_of(found)
    content = getattr(said, "content", said)
    if isinstance(content, list):  # blocks of a message
        parts = (one.get("text", "") if isinstance(one, Mapping) else one for one in content)
        return "".join(map(str, parts))
    return content


def model_calls() -> Any:
    """A callback that counts calls of language models in ``number``."""
    return _counter()()


@cache
def _counter() -> Any:
    from langchain_core.callbacks import BaseCallbackHandler

    class ModelCalls(BaseCallbackHandler):
        """Counts calls of language models."""

        number = 0

        def on_llm_start(self, *_: Any, **__: Any) -> None:
            """One more."""
            self.number += 1

        def on_chat_model_start(self, *_: Any, **__: Any) -> None:
            """One more."""
            self.number += 1

    return ModelCalls


_lock = threading.Lock()
_users = 0
_own: dict[str, Callable[..., Any]] = {}


@contextmanager
def intercepted() -> Iterator[None]:
    """Retrievers look whether something is frozen for the thread or task that asks them."""
    from langchain_core.retrievers import BaseRetriever

    global _users
    with _lock:
        _users += 1
        if _users == 1:
            _own.update(invoke=BaseRetriever.invoke, ainvoke=BaseRetriever.ainvoke)
            BaseRetriever.invoke = _invoke  # type: ignore[method-assign]
            BaseRetriever.ainvoke = _ainvoke  # type: ignore[method-assign]
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                BaseRetriever.invoke = _own["invoke"]  # type: ignore[method-assign]
                BaseRetriever.ainvoke = _own["ainvoke"]  # type: ignore[method-assign]


def _invoke(self: BaseRetriever, input: str, *args: Any, **kwargs: Any) -> Any:
    found = _frozen(self, input)
    if found is None:
        found = _own["invoke"](self, input, *args, **kwargs)
        _record(self, input, found)
    return found


async def _ainvoke(self: BaseRetriever, input: str, *args: Any, **kwargs: Any) -> Any:
    found = _frozen(self, input)
    if found is None:
        found = await _own["ainvoke"](self, input, *args, **kwargs)
        _record(self, input, found)
    return found


def _frozen(retriever: BaseRetriever, query: str) -> list[Any] | None:
    mode = MODE.get()
    if mode is None or mode[1] is None:
        return None
    return mode[0].replay((id(retriever), query), mode[1])


def _record(retriever: BaseRetriever, query: str, found: list[Any]) -> None:
    mode = MODE.get()
    if mode is not None and mode[1] is None:
        mode[0].add((id(retriever), query), found)

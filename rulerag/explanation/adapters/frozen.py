"""A chain whose retrieval is frozen: what every adapter makes of one, and which adapter fits."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from rulerag.errors import ConfigError, ExplanationError

_ADAPTERS: Sequence[tuple[str, str, str]] = (
    # where the class comes from, what it is called, the adapter
    ("rulerag.pipeline", "RuleRAGPipeline", "pipeline"),
    ("rulerag.explanation.", "Trace", "trace"),
    ("langgraph.", "Pregel", "langgraph"),
    ("langchain_core.", "Runnable", "langchain"),
    ("llama_index.", "BaseQueryEngine", "llama_index"),
    ("haystack.", "PipelineBase", "haystack"),
)


class Changed(NamedTuple):
    """A document with another text, and what it was made of.

    Args:
        original: one of the documents of a chain.
        document: what stands in its place.
    """

    original: Any
    document: Any


def by_original(kept: Sequence[Any]) -> dict[int, Any]:
    """The documents kept, changed or not, by the identity of the originals."""
    pairs = (one if isinstance(one, Changed) else Changed(one, one) for one in kept)
    return {id(original): document for original, document in pairs}


@dataclass(frozen=True)
class FrozenChain:
    """A chain after one run.

    Args:
        answer: a function of the question and some of the documents, sync or async.
        question: what was asked, in words.
        documents: what its retriever found, as the framework has them.
        text: what it answered.
        frozen: what is not run again, in words.
        empty: what a run without documents means, in words.
        calls: calls of a language model in one run; None where they cannot be counted.
        workers: how many runs may stand beside each other.
        by_identity: ``answer`` knows documents by their identity; one with another text has to
            come as :class:`Changed`.
    """

    answer: Callable[[str, list[Any]], Any]
    question: str
    documents: tuple[Any, ...]
    text: str
    frozen: str
    empty: str
    calls: int | None = None
    workers: int = 64
    by_identity: bool = False

    @property
    def told(self) -> str:
        """What was frozen, what a probe costs and what no document means, in one sentence."""
        cost = "" if self.calls is None else f"; a probe makes {_calls(self.calls)} of the model"
        return f"{self.frozen}{cost}; without documents {self.empty}."


def freeze(chain: Any, question: Any) -> FrozenChain:
    """Run a chain once, and keep what it retrieved.

    Args:
        chain: of LangChain, LangGraph, LlamaIndex, Haystack or rulerag.
        question: a text, or the chain's own input.

    Raises:
        ConfigError: no adapter knows the chain, or its retriever cannot be found.
        ExplanationError: it failed.
    """
    for home, name, adapter in _ADAPTERS:
        for kind in type(chain).__mro__:
            if kind.__name__ == name and f"{kind.__module__}.".startswith(home):
                module = importlib.import_module(f"rulerag.explanation.adapters.{adapter}")
                made: FrozenChain = module.freeze(chain, question)
                return made
    raise no_retriever(f"{type(chain).__name__} is no chain that is known")


def no_retriever(what: str) -> ConfigError:
    """That documents have to be given, and how."""
    return ConfigError(
        what,
        key="documents",
        hint="pass them: rulerag.explain(lambda question, documents: …, question, documents)",
    )


def failed(what: str, error: Exception) -> ExplanationError:
    """That a chain did not run."""
    return ExplanationError(
        f"{what} failed with {type(error).__name__}: {error}",
        hint="nothing was explained: it has to answer once",
    )


def asked(question: Any, names: Sequence[str] = ("input", "question", "query", "text")) -> str:
    """The question in words, of a text or of a chain's input."""
    if isinstance(question, str):
        return question
    if isinstance(question, Mapping):
        found = (question.get(name) for name in names)
        text = next((one for one in found if isinstance(one, str)), None)
        if text is not None:
            return text
    return str(question)


@dataclass
class Recording:
    """What retrievers found in one run, call by call."""

    calls: list[tuple[object, list[Any]]]

    def add(self, key: object, documents: Sequence[Any]) -> None:
        """Keep what one call found."""
        self.calls.append((key, list(documents)))

    @property
    def documents(self) -> tuple[Any, ...]:
        """All of them, each once, in the order of the calls."""
        found = {id(one): one for _, documents in self.calls for one in documents}
        return tuple(found.values())

    def replay(self, key: object, kept: Sequence[Any]) -> list[Any] | None:
        """What a call finds among the documents kept; None where there was no such call.

        A call that was worded otherwise, by a model that rephrases questions, gets what the same
        retriever found, where it was asked once.
        """
        wanted = by_original(kept)
        found = [documents for known, documents in self.calls if known == key]
        if not found:
            who = key[0] if isinstance(key, tuple) else key
            found = [d for known, d in self.calls if isinstance(known, tuple) and known[0] == who]
            if len(found) != 1:
                return None
        return [wanted[id(one)] for one in found[0] if id(one) in wanted]


Mode = tuple[Recording, Sequence[Any] | None]
"""A recording, and the documents kept; None while it is made."""

MODE: ContextVar[Mode | None] = ContextVar("rulerag_frozen", default=None)


class during(AbstractContextManager[None]):
    """In this thread or task retrievers record, or replay what is kept."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        self._token = MODE.set(self._mode)

    def __exit__(self, *_: object) -> None:
        MODE.reset(self._token)


def _calls(number: int) -> str:
    return "one call" if number == 1 else f"{number} calls"

"""Chains of other frameworks: run once, then only what lies behind their retrievers is run again.

The table of chains is one of plug-ins: it names functions of the layer above, one module a
framework in :mod:`rulerag.integrations`. A module is imported when a chain of its framework is
there, so that none of the frameworks has to be installed.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulerag.errors import ConfigError, ExplanationError

_FREEZERS: Mapping[tuple[str, str], str] = {
    # the package and the name of a class: the function that freezes its chains
    ("rulerag", "Trace"): "rulerag.integrations.openinference:freeze",
    ("langchain_core", "Runnable"): "rulerag.integrations.langchain:freeze",
    ("llama_index", "BaseQueryEngine"): "rulerag.integrations.llama_index:freeze",
    ("haystack", "PipelineBase"): "rulerag.integrations.haystack:freeze",
}

QUESTION_KEYS = ("input", "question", "query", "text")
"""What the question is called in the inputs of chains."""


@dataclass(frozen=True)
class Retrieved:
    """A document of a chain whose answer function has to know it again, also with another text.

    Args:
        original: what the retriever returned.
        document: the same, or what stands in its place.
    """

    original: Any
    document: Any


@dataclass(frozen=True)
class FrozenChain:
    """A chain after one run.

    Args:
        answer: a function of the question and some of the documents, sync or async.
        question: what was asked, in words.
        documents: what its retriever returned, as the framework has them or :class:`Retrieved`.
        text: what it answered.
        frozen: what is not run again, in words.
        empty: what a run without documents means, in words.
        model_calls: calls of a language model in one run; 0 where they cannot be counted.
        workers: how many runs may stand beside each other.
    """

    answer: Callable[[str, list[Any]], Any]
    question: str
    documents: tuple[Any, ...]
    text: str
    frozen: str
    empty: str
    model_calls: int = 0
    workers: int = 64

    @property
    def description(self) -> str:
        """What was frozen, what a probe costs and what no document means, in one sentence."""
        number = "one call" if self.model_calls == 1 else f"{self.model_calls} calls"
        cost = f"; a probe makes {number} of the model" if self.model_calls else ""
        return f"{self.frozen}{cost}; without documents {self.empty}."


def freeze(chain: Any, question: Any) -> FrozenChain:
    """Run a chain once, and keep what it retrieved.

    Args:
        chain: of LangChain, LangGraph, LlamaIndex or Haystack, or a logged run.
        question: a text, or the chain's own input.

    Raises:
        ConfigError: the chain is of no known kind, or its retriever cannot be found.
        ExplanationError: it failed.
    """
    kinds = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(chain).__mro__)
    function = next((_FREEZERS[kind] for kind in kinds if kind in _FREEZERS), None)
    if function is None:
        raise no_retriever(f"{type(chain).__name__} is no chain that is known")
    freezer: Callable[[Any, Any], FrozenChain] = pkgutil.resolve_name(function)
    try:
        return freezer(chain, question)
    except ConfigError:
        raise
    except Exception as error:
        raise ExplanationError(
            f"{type(chain).__name__} failed with {type(error).__name__}: {error}",
            hint="nothing was explained: it has to answer once",
        ) from error


# --- what the frameworks share ----


def no_retriever(what: str) -> ConfigError:
    """That documents have to be given, and how."""
    return ConfigError(
        what,
        key="documents",
        hint="pass them: rulerag.explain(lambda question, documents: …, question, documents)",
    )


def question_text(question: Any, keys: Sequence[str] = QUESTION_KEYS) -> str | None:
    """The question in words, of a text or of a chain's input; None where it holds none."""
    if isinstance(question, Mapping):
        values = (question.get(key) for key in keys)
        return next((one for one in values if isinstance(one, str)), None)
    return question if isinstance(question, str) else None

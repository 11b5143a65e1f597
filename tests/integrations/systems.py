"""Systems whose workings are known: functions for the metrics, and cases for every framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

QUESTION = "What is the capital of France?"
CONTEXTS = [
    "Lyon is a city in France.",
    "Paris is the capital of France.",
    "The Seine flows through the capital.",
]
REASON = (
    "2 of 3 claims rest on retrieved documents. “The capital is Paris” rests on “Paris is the "
    "capital of France.” [2]. “It lies on the Seine” rests on “The Seine flows through the "
    "capital.” [3]. “It has 2 million inhabitants” rests on no document: it is said without any of "
    "them, too (known to the model, or made up)."
)


class Case(NamedTuple):
    """A chain that finds CONTEXTS, titled T0 to T2, and answers by what stands in its prompt.

    Args:
        chain: of some framework.
        question: as the chain takes it.
        sentence: a part of what explanations say was frozen.
        run: asks the chain itself.
        searches: grows with every run of its retriever.
    """

    chain: Any
    question: Any
    sentence: str
    run: Callable[[], str]
    searches: list[Any]


def reply(prompt: str) -> str:
    """What a model says to a prompt."""
    if "no key" in prompt:
        raise ValueError("no key")
    known = "Paris is the capital" in prompt or "It is Paris." in prompt
    return "It is Paris." if known else "I don't know."


def partly(_: str, documents: list[str]) -> str:
    """Two claims by documents, one by heart."""
    text = " ".join(documents)
    said = ["The capital is Paris."] if "Paris" in text else []
    said += ["It lies on the Seine."] if "Seine" in text else []
    return " ".join([*said, "It has 2 million inhabitants."])

"""Prompts of the chain-of-thought baselines, and sentences of a thought. The wording is ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "THOUGHT_CASES",
    "ThoughtCase",
    "answer_prompt",
    "ask_prompt",
    "read_prompt",
    "sentences",
    "think_prompt",
]

# A full stop that ends a sentence: not one after an initial, as in J. R.
_END = re.compile(r"(?<=[.!?])(?<!\b[A-Z]\.)\s+")


@dataclass(frozen=True, slots=True)
class ThoughtCase:
    """One solved case.

    Args:
        query: the question.
        thought: sentences that lead to the answer.
        answer: the answer.
        asked: for the first sentence, the question that checks it.
    """

    query: str
    thought: str
    answer: str
    asked: str


THOUGHT_CASES: tuple[ThoughtCase, ...] = (
    ThoughtCase(
        "Time 2014-03-20 what does Norland Make a visit ?",
        "Norland Express intent to meet Sudavia. Who wants to meet makes a visit.",
        "Sudavia",
        "Time 2014-03-20 what does Norland Express intent to meet ?",
    ),
    ThoughtCase(
        "Time 2014-06-01 what does Ostra Police Accuse ?",
        "Ostra Police Arrest Ivo Marek. Who is arrested is accused.",
        "Ivo Marek",
        "Time 2014-06-01 what does Ostra Police Arrest ?",
    ),
    ThoughtCase(
        "Time 2014-09-10 what does Velmora Provide economic aid ?",
        "Velmora Sign formal agreement Ostra. An agreement leads to aid.",
        "Ostra",
        "Time 2014-09-10 what does Velmora Sign formal agreement ?",
    ),
)
"""Three cases about invented places (3-shot, as in RuleRAG, section 4.1)."""

_THINK = (
    "Each query asks for the missing object of a fact. Think in one line about the facts that lead "
    "to it, then give the missing object only.\n"
)
_ASK = "Write the query that checks a statement.\n"
_READ = "Read the documents and complete the answer with the missing object only.\n"


def think_prompt(query: str, thought: str = "") -> str:
    """Cases, the query, and the beginning of a thought to go on with.

    Args:
        query: the question.
        thought: what was thought so far; may be empty.
    """
    blocks = [_THINK]
    blocks += [
        f"Query: {case.query}\nThought: {case.thought}\nAnswer: {case.answer}.\n"
        for case in THOUGHT_CASES
    ]
    return "\n".join([*blocks, f"Query: {query}\nThought: {thought}".rstrip()])


def answer_prompt(query: str, thought: str) -> str:
    """Cases, the query and a whole thought; the answer follows."""
    return f"{think_prompt(query, thought)}\nAnswer:"


def ask_prompt(query: str, sentence: str) -> str:
    """A statement of a thought; the query that checks it follows."""
    blocks = [_ASK]
    for case in THOUGHT_CASES:
        first = sentences(case.thought)[0]
        blocks.append(f"Query: {case.query}\nStatement: {first}\nCheck: {case.asked}\n")
    return "\n".join([*blocks, f"Query: {query}\nStatement: {sentence}\nCheck:"])


def read_prompt(documents: Sequence[str], question: str) -> str:
    """Documents and a checking query; its answer follows."""
    found = "\n".join(["Retrieved documents:", *documents])
    return f"{_READ}\n{found}\n\nQuery: {question}\nAnswer:"


def sentences(thought: str) -> list[str]:
    """The sentences of a thought, each with its full stop."""
    parts = [part.strip() for part in _END.split(thought)]
    return [part if part[-1] in ".!?" else part + "." for part in parts if part]

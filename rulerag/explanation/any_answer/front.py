"""The front door: explain any function that answers a question from documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rulerag.errors import ConfigError
from rulerag.explanation.adapters import freeze
from rulerag.explanation.any_answer.asking import AskedFunction
from rulerag.explanation.any_answer.reading import reader_of
from rulerag.explanation.any_answer.session import Judging, Options, Session
from rulerag.explanation.any_answer.why import Why
from rulerag.explanation.levels import Context

_JUDGING = ("predicate", "entailment", "judge")


def explain(
    answer: Any,
    question: Any,
    documents: Sequence[Any] | None = None,
    *,
    text: str | None = None,
    budget: int | None = 500,
    max_seconds: float | None = None,
    workers: int = 8,
    **options: Any,
) -> Why:
    """Why an answer came out: the documents that each of its claims rests on.

    The function is asked again with parts of the documents. Up to six documents every subset is
    asked (64 calls); with more, minimal sets are searched for and tested on random subsets, some
    70 to 170 calls for one to ten decisive documents.

    Args:
        answer: any ``def answer(question, documents) -> str``, sync or async; or a LangChain
            Runnable, a LlamaIndex query engine, a Haystack pipeline; or a generator of rulerag.
        question: what is asked; for a chain its own input, too.
        documents: strings, dicts with a text, or objects of a framework; for a chain None, and
            they are what its retriever finds.
        text: the answer to explain, where it was given before; asked for when None.
        budget: calls at most; None for no limit.
        max_seconds: stop after so many seconds with what is certain.
        workers: how many calls run at once.
        options: ``predicate`` (a condition on outputs in place of claims), ``entailment`` and
            ``judge`` (what decides where words do not), ``validity``, ``confidence``, ``seed``,
            ``repeats`` (of the whole prompt, to know the noise), ``whole`` (the answer as one
            claim), ``hurry`` (use every worker, also for what may turn out useless), ``each`` (with
            many documents show each set by itself, some 60 calls a set), ``subsets`` (what a
            guarantee counts the same: ``by-size`` short and long contexts, ``uniform`` every
            combination), ``price`` (for a million tokens of prompts and of answers: what was spent
            is said), ``batched`` (the function
            takes a list of lists of documents and returns a list of answers), ``level`` (what is
            kept or removed as one: ``group``, ``document``, ``section``, ``sentence``, ``span``),
            ``removal`` (``delete``, or ``replace`` by neutral text, ``neutral``).

    Returns:
        What prints itself; ``why.claims[0].sources``; ``why.deepen()`` goes on.

    Raises:
        ConfigError: an argument is wrong.
        ExplanationError: the function fails on the whole prompt.
    """
    made = started(answer, question, documents, text=text, workers=workers, **options)
    return made.deepen(budget, max_seconds=max_seconds)


def started(
    answer: Any,
    question: Any,
    documents: Sequence[Any] | None = None,
    *,
    text: str | None = None,
    workers: int = 8,
    **options: Any,
) -> Why:
    """An explanation that has asked nothing yet: for :meth:`Why.stream` and :meth:`Why.deepen`.

    Arguments as those of :func:`explain`.
    """
    told, by_identity = "", False
    if documents is None:
        chain = freeze(answer, question)
        if options.get("removal") == "replace":
            chain = replace(chain, empty="each of them is neutral text")
        answer, question, documents = chain.answer, chain.question, chain.documents
        text = text or chain.text or None
        workers, told = min(workers, chain.workers), chain.told
        by_identity = chain.by_identity
    batched, about = bool(options.pop("batched", False)), dict[str, str]()
    judging = Judging(**{name: options.pop(name) for name in _JUDGING if name in options})
    known = set(Options.__dataclass_fields__)
    if unknown := sorted(set(options) - known):
        raise ConfigError(
            f"unknown: {', '.join(unknown)}",
            key="options",
            hint=", ".join(sorted({*known, *_JUDGING, "batched"})),
        )
    chosen = Options(**options)
    context = Context(
        documents,
        level=chosen.level,
        removal=chosen.removal,
        neutral=chosen.neutral,
        by_identity=by_identity,
    )
    if callable(getattr(answer, "generate", None)) and not callable(answer):
        reader = reader_of(answer, question, documents)
        answer, batched, about = reader.answer, reader.batched, dict(reader.about)
        workers = min(workers, reader.workers or workers)
    asked = AskedFunction(answer, question, context, workers=workers, batched=batched)
    session = Session(asked, chosen, judging, given=text, frozen=told)
    session.about = about
    return Why(session.explained(), session)

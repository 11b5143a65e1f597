"""Explain any function, chain, generator or answer that rests on documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rulerag.errors import ConfigError, ExplanationError
from rulerag.explanation.chains import freeze
from rulerag.explanation.explaining.records import trace_rules
from rulerag.explanation.explaining.regions import explain_by_regions
from rulerag.explanation.explaining.run import EventHook, ExplanationRun, Judging, Origin
from rulerag.explanation.explaining.settings import ExplainSettings
from rulerag.explanation.explaining.why import Why
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.probing import (
    AnswerCache,
    AnswerFunction,
    CachedGenerator,
    Predicate,
    ProbeEngine,
    VotingGenerator,
    answer_function_of,
    matches_answer,
    refuse_without_scores,
    response_engine,
)
from rulerag.explanation.units import Context
from rulerag.kg.grounding import statement_lines
from rulerag.protocols import Generator
from rulerag.types import Answer, GenerationRequest, Query


def explain(
    answer: Any,
    question: Any = None,
    documents: Sequence[Any] | None = None,
    settings: ExplainSettings | None = None,
    *,
    on_event: EventHook | None = None,
    **options: Any,
) -> Why:
    """Why an answer came out: the documents that each of its claims rests on.

    What answers is asked again with parts of the documents. Up to six documents every subset is
    asked (64 calls); with more, minimal sets are searched for and tested on random subsets, some
    70 to 170 calls for one to ten decisive documents.

    Args:
        answer: any ``def answer(question, documents) -> str``, sync or async; a LangChain Runnable,
            a LlamaIndex query engine, a Haystack pipeline or a pipeline of rulerag; a generator of
            rulerag; a probe engine; an answer function with its question and documents; or an
            :class:`~rulerag.types.Answer`, with ``generator``.
        question: what is asked; for a chain its own input, too. Nothing for an ``Answer``.
        documents: strings, dicts with a text, or objects of a framework; for a chain None, and
            they are what its retriever finds.
        settings: how it is explained; the defaults when None.
        on_event: called with an :class:`Event` whenever something becomes known.
        options: single settings by name, in place of ``settings``
            (:class:`~rulerag.explanation.explaining.ExplainSettings`: ``budget``, ``max_seconds``,
            ``level``, ``exact``, ``validity``, ``each``, …), and what is no setting: ``text`` (the
            answer to explain, where it was given before), ``generator`` (of an ``Answer``),
            ``predicate`` (a condition on outputs in place of claims), ``entailment`` and ``judge``
            (what decides where words do not), ``cache`` (keeps a generator's answers), ``batched``
            (the function takes a list of lists of documents and returns a list of answers).

    Returns:
        What prints itself; ``why.claims[0].sources``; ``why.deepen()`` goes on.

    Raises:
        ConfigError: an argument is wrong.
        ExplanationError: the function fails on the whole prompt.
        DroppedDocumentsError: a generator's prompt does not hold every document.
        SamplingError: a generator answers by chance.
    """
    return prepare(answer, question, documents, settings, **options).proceed(on_event)


def prepare(
    answer: Any,
    question: Any = None,
    documents: Sequence[Any] | None = None,
    settings: ExplainSettings | None = None,
    *,
    text: str | None = None,
    generator: Generator | None = None,
    predicate: Predicate | None = None,
    entailment: Any = None,
    judge: Any = None,
    cache: AnswerCache | None = None,
    batched: bool = False,
    **options: Any,
) -> Why:
    """An explanation that has asked nothing yet: for :meth:`Why.stream` and :meth:`Why.deepen`.

    Arguments as those of :func:`explain`; one by regions is made at once.
    """
    settings = ExplainSettings.joined(settings, options)
    judging, origin = Judging(predicate, entailment, judge), Origin(text=text)
    if documents is None and _is_pipeline(answer):
        query = question if isinstance(question, Query) else Query("question", str(question))
        generator = answer.generator if generator is None else generator
        (answer,) = answer.answer([query])
    if isinstance(answer, AnswerFunction):
        return _begun(answer, settings, judging, origin)
    if isinstance(answer, Answer):
        return _of_answer(answer, generator, settings, judging, cache)
    if isinstance(answer, ProbeEngine):
        answer, documents, batched = _of_engine(answer)
        question = question or ""
    elif documents is None:
        chain = freeze(answer, question)
        if settings.removal == "replace":
            chain = replace(chain, empty="each of them is neutral text")
        answer, question, documents = chain.answer, chain.question, chain.documents
        origin = Origin(text=text or chain.text or None, chain=chain.description)
        workers = min(settings.workers, chain.workers)
        settings = ExplainSettings.joined(settings, {"workers": workers})
    if callable(getattr(answer, "generate", None)) and not callable(answer):
        request = GenerationRequest(Query("question", question))
        return _of_generator(answer, request, documents, settings, judging, origin, cache)
    if cache is not None:
        what = "a function has no fingerprint by which its answers could be found again"
        raise ConfigError(what, key="cache", hint="leave it out, or give a generator")
    if settings.value != "verdict":
        refuse_without_scores(answer)
    context = _context(documents, settings)
    workers = settings.workers
    function = AnswerFunction(answer, question, context, workers=workers, batched=batched)
    return _begun(function, settings, judging, origin)


def explain_answer(
    answer: Answer, generator: Generator, settings: ExplainSettings | None = None, **options: Any
) -> Why:
    """:func:`explain` of an answer of a pipeline: what its generator says without some documents.

    Query and guiding rules stay as they were; documents keep their order. The answer is one claim:
    what has to come is the same answer, but for case, punctuation and articles, unless there is a
    ``predicate``.

    Args:
        answer: what to explain, with its documents and rules.
        generator: what gave the answer.
        settings: how it is explained; the defaults when None.
        options: as those of :func:`explain`.

    Raises:
        ExplanationError: the answer rests on no document, or the generator failed.
    """
    return explain(answer, settings=settings, generator=generator, **options)


def _of_answer(
    answer: Answer,
    generator: Generator | None,
    settings: ExplainSettings,
    judging: Judging,
    cache: AnswerCache | None,
) -> Why:
    if generator is None:
        raise ConfigError(
            "an answer is explained by what gave it", key="generator", hint="generator=…"
        )
    if not any(scored.document.text.strip() for scored in answer.documents):
        raise ExplanationError(
            f"the answer to query {answer.query.id!r} rests on no document",
            hint="there is nothing to keep or remove; explain an answer with documents",
        )
    if judging.predicate is None and not settings.whole:
        judging = replace(judging, predicate=matches_answer(answer.text).test)
    rules = trace_rules(answer)
    statements = statement_lines(
        answer.stated,
        answer.query,
        answer.text,
        {one.document.id: f"[{n}]" for n, one in enumerate(answer.documents, start=1)},
        {rule.id: rule.alias for rule in rules},
    )
    origin = Origin(
        text=answer.text,
        own=True,
        provenance={
            "query_id": answer.query.id,
            "accepted": tuple(answer.query.answers),
            "rules": rules,
            "statements": tuple(statements),
        },
        settings={"fingerprints": dict(answer.fingerprints)},
    )
    return _of_generator(
        generator, answer.request(), answer.documents, settings, judging, origin, cache
    )


def _of_generator(
    generator: Generator,
    request: GenerationRequest,
    documents: Sequence[Any] | None,
    settings: ExplainSettings,
    judging: Judging,
    origin: Origin,
    cache: AnswerCache | None,
) -> Why:
    if settings.value != "verdict":
        refuse_without_scores(generator)
    order = getattr(getattr(generator, "template", None), "order", "")
    about = {"generator": generator.fingerprint, **({"order": order} if order else {})}
    origin = replace(
        origin,
        # A vote over tries may change.
        deterministic=not isinstance(generator, VotingGenerator),
        settings={**about, **origin.settings},
    )
    if settings.explainer == "regions":
        return Why(
            explain_by_regions(
                generator, request, documents or (), settings, judging, origin, cache
            )
        )
    context = _context(documents or (), settings)
    if settings.value != "verdict":
        origin = replace(
            origin, scoring=lambda: response_engine(generator, request, context, cache=cache)
        )
    cached = generator if cache is None else CachedGenerator(generator, cache)
    function = answer_function_of(cached, request, context, workers=settings.workers)
    if callable(server := getattr(generator, "server", None)):
        second = generator if cache is None else CachedGenerator(generator, cache, time=2)
        again = answer_function_of(second, request, context, workers=settings.workers)
        origin = replace(origin, again=again, settings={**origin.settings, "server": server()})
    return _begun(function, settings, judging, origin)


def _begun(
    function: AnswerFunction, settings: ExplainSettings, judging: Judging, origin: Origin
) -> Why:
    if settings.explainer == "regions":
        raise ConfigError(
            "regions are masked in the documents of a generator",
            key="explainer",
            hint="give a generator of rulerag, or explain by rules",
        )
    run = ExplanationRun(function, settings, judging, origin)
    return Why(run.explanation(), run)


def _context(documents: Sequence[Any] | None, settings: ExplainSettings) -> Context:
    return Context(
        documents or (), level=settings.level, removal=settings.removal, neutral=settings.neutral
    )


def _is_pipeline(answer: Any) -> bool:
    """Whether this is a pipeline of rulerag, which lies on a layer above."""
    return any(
        kind.__name__ == "RuleRAGPipeline" and kind.__module__.startswith("rulerag.")
        for kind in type(answer).__mro__
    )


def _of_engine(engine: ProbeEngine) -> tuple[Any, list[dict[str, Any]], bool]:
    """A probe engine as a function of documents, which stand for its sources."""
    texts = engine.texts or engine.names
    documents = [
        {"text": text or name, "title": name, "source": place}
        for place, (text, name) in enumerate(zip(texts, engine.names, strict=True))
    ]

    def many(_: str, lists: Sequence[Sequence[dict[str, Any]]]) -> list[str]:
        return engine.probe([mask_of(one["source"] for one in kept) for kept in lists])

    return many, documents, True

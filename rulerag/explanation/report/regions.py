"""An answer explained by the parts of the text that are enough for it, and what every record says.

References:
    Fragkathoulas and Chlapanis 2024 (SETN, doi 10.1145/3688671.3688775), sections 3.4 to 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rulerag.errors import ExplanationError, ProbeBudgetError
from rulerag.explanation.attribution import (
    MaskedRegions,
    RegionExplanation,
    search_regions,
    whole,
)
from rulerag.explanation.probing import (
    AnswerCache,
    CachedGenerator,
    Predicate,
    ProbeEngine,
    VotingGenerator,
    matches_answer,
    named,
    of_short_answers,
    partition,
    refuse_another_answer,
    self_explaining,
)
from rulerag.explanation.records import trace_documents, trace_rules
from rulerag.explanation.report.narrative import AnswerExplanation
from rulerag.explanation.report.progress import Progress
from rulerag.explanation.wording import shortened
from rulerag.kg.grounding import statement_lines
from rulerag.protocols import Generator
from rulerag.text import normalize_answer
from rulerag.types import Answer, SelfExplanation


def explain_by_regions(
    answer: Answer,
    generator: Generator,
    sizes: tuple[int, int, int | None],
    *,
    predicate: Predicate | None = None,
    cache: AnswerCache | None = None,
    progress: Progress | None = None,
) -> AnswerExplanation:
    """The sufficient regions of an answer's documents and the words that they need.

    Where the generator explains itself (template ``self-explanation``), the keywords that it names
    are compared with those words. At most ``1 + parts + parts * groups`` requests.

    Args:
        answer: what to explain, with its documents.
        generator: what gave the answer.
        sizes: parts, groups in each, and how many requests may be asked.
        predicate: what must hold; by default the output matches the answer.
        cache: where answers are kept.
        progress: what counts the requests.

    Raises:
        ExplanationError: the answer has no documents, or they hold no word.
        PredicateError: the predicate raised.
        SamplingError: the generator answers by chance.
        DroppedDocumentsError: its prompt does not hold every document.
    """
    refuse_without_documents(answer)
    parts, groups, most = sizes
    request = answer.request()
    cut = MaskedRegions(request.documents, parts, groups)
    template = getattr(generator, "template", None)
    read: Callable[[str], SelfExplanation] | None = getattr(template, "explained", None)
    holds = predicate or matches_answer(answer.text)
    asked = generator
    if read is not None:
        asked, holds = self_explaining(generator), of_short_answers(holds, read)
    asked = asked if cache is None else CachedGenerator(asked, cache)
    engine = ProbeEngine.from_generator(asked, request, cut, max_probes=most)
    if progress is not None:
        engine.on_batch = progress.add
    said: str | None = None
    regions: RegionExplanation
    try:
        said = engine.probe([whole(cut)])[0]
        if not isinstance(generator, VotingGenerator):
            refuse_change(answer, generator, read(said).answer if read else said)
        regions = search_regions(engine, cut, holds, parts=parts, groups=groups)
    except ProbeBudgetError as error:
        partial = error.partial
        known = isinstance(partial, RegionExplanation)
        regions = partial if known else RegionExplanation((), parts, groups, 0, False)  # type: ignore[assignment]
    fit = None
    if read is not None and said is not None:
        fit = regions.fit(read(said).keywords, request.documents)
        said = read(said).answer
    claim, counterclaim = claims_of(answer, predicate)
    return AnswerExplanation(
        **traced(answer),
        claim=claim,
        counterclaim=counterclaim,
        sources=tuple(source.name for source in partition(request.documents)),
        together=(),
        retained=(),
        omitted=(),
        full_output=said,
        empty_output=None,
        num_probes=engine.num_probes,
        seconds=engine.seconds,
        complete=regions.complete,
        settings={"fingerprints": dict(answer.fingerprints)},
        regions=regions,
        keywords=fit,
    )


def traced(answer: Answer) -> dict[str, Any]:
    """What a record says of an answer however it is explained: question, rules, documents."""
    rules = trace_rules(answer)
    documents = trace_documents(answer, rules)
    stated = statement_lines(
        answer.stated,
        answer.query,
        answer.text,
        {document.id: document.alias for document in documents},
        {rule.id: rule.alias for rule in rules},
    )
    return {
        "query_id": answer.query.id,
        "query": answer.query.text,
        "answer": answer.text,
        "answers": answer.query.answers,
        "rules": rules,
        "documents": documents,
        "statements": tuple(stated),
    }


def claims_of(answer: Answer, predicate: Predicate | None) -> tuple[str, str]:
    """What is explained and its opposite, as clauses."""
    if predicate is not None:
        return str(named(predicate)), str(~named(predicate))
    if answer.text.strip():
        return f"the answer {shortened(answer.text, 80)} stands", "it goes"
    return "the generator gives no answer", "it gives one"


def refuse_without_documents(answer: Answer) -> None:
    """Refuse an answer that rests on no document.

    Raises:
        ExplanationError: it does.
    """
    if not answer.documents:
        raise ExplanationError(
            f"the answer to query {answer.query.id!r} rests on no document",
            hint="there is nothing to keep or remove; explain an answer with documents",
        )


def refuse_change(answer: Answer, generator: Generator, second: str) -> None:
    """Refuse a generator that says something else each time it is asked the same.

    Only where it did not repeat the answer is it asked a third time: one that then says the same
    again has its reasons, such as another build since.

    Args:
        answer: what it said first.
        generator: what is asked.
        second: what it said then.

    Raises:
        SamplingError: the third answer differs from the second.
    """
    if normalize_answer(second) != normalize_answer(answer.text):
        third = generator.generate([answer.request()])[0].text
        refuse_another_answer(second, third)

"""Why this answer: the rules that guided it, what each found, and what keeps or removes it.

The joined-up trace of one answer. Guiding rules lead to documents, documents to the answer; the
minimal retention and omission rules say which of the documents decide it, and so which of the
guiding rules did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError
from rulerag.explanation.miners import MAX_EXACT_SOURCES, DualMiner, Predicate, RuleHook
from rulerag.explanation.narrative import REST, AnswerExplanation, Names
from rulerag.explanation.predicates import OutputPredicate, describe, matches_answer, negate
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.results import SourceRules
from rulerag.explanation.sources import Source, group, partition
from rulerag.explanation.trace import trace_documents, trace_rules
from rulerag.explanation.wording import shortened
from rulerag.text import contains_answer
from rulerag.types import Answer

if TYPE_CHECKING:
    from rulerag.protocols import Generator

__all__ = ["REST", "AnswerExplanation", "explain_answer"]


def explain_answer(
    answer: Answer,
    generator: Generator,
    *,
    predicate: Predicate | None = None,
    omission_predicate: Predicate | None = None,
    max_sources: int = 10,
    max_probes: int | None = None,
    progress: bool = False,
    on_rule: RuleHook | None = None,
) -> AnswerExplanation:
    """Explain one answer by asking its generator again with parts of the evidence removed.

    Query and guiding rules stay as they were; documents keep their order. With more documents
    than ``max_sources``, those that hold the answer's text and then the best-ranked ones get a
    source of their own, and all the others together are one more, kept or removed as one.

    Args:
        answer: what to explain, with its documents and rules.
        generator: what gave the answer.
        predicate: the condition of the retention rules; by default the output matches the answer.
        omission_predicate: the condition of the omission rules; the opposite by default.
        max_sources: the most sources, from 2 to 20; up to two to this power probes.
        max_probes: stop after so many probes with what is certain by then.
        progress: show a progress bar.
        on_rule: called with each minimal rule as soon as it is certain.

    Raises:
        ConfigError: ``max_sources`` is out of range.
        ExplanationError: the answer has no documents, one stands twice, or the generator failed.
        PredicateError: a predicate raised.
    """
    if not 2 <= max_sources <= MAX_EXACT_SOURCES:
        raise ConfigError(
            f"expected a number from 2 to {MAX_EXACT_SOURCES}, found {max_sources}",
            key="max_sources",
        )
    if not answer.documents:
        raise ExplanationError(
            f"the answer to query {answer.query.id!r} rests on no document",
            hint="there is nothing to keep or remove; explain an answer with documents",
        )
    sources, together = _choose_sources(answer, max_sources)
    engine = ProbeEngine.from_generator(generator, answer.request(), sources, max_probes=max_probes)
    retention = predicate or matches_answer(answer.text)
    omission = omission_predicate or negate(retention)
    miner = DualMiner(progress=progress)
    try:
        found = miner.mine(engine, retention=retention, omission=omission, on_rule=on_rule)
    except ProbeBudgetError as error:
        if not isinstance(error.partial, tuple):
            raise
        found = error.partial
    claim, counterclaim = _claims(answer.text, predicate, omission_predicate)
    rules = trace_rules(answer)
    return AnswerExplanation(
        query_id=answer.query.id,
        query=answer.query.text,
        answer=answer.text,
        claim=claim,
        counterclaim=counterclaim,
        rules=rules,
        documents=trace_documents(answer, rules),
        sources=engine.names,
        together=together,
        retention=_names(found[0]),
        omission=_names(found[1]),
        full_output=_known(engine, (1 << engine.num_sources) - 1),
        empty_output=_known(engine, 0),
        num_probes=engine.num_probes,
        seconds=engine.seconds,
        complete=all(part.complete for part in found),
    )


def _choose_sources(answer: Answer, most: int) -> tuple[list[Source], tuple[str, ...]]:
    """The sources, and the names of the documents that share one."""
    documents = answer.request().documents
    units = partition(documents)
    if len(units) <= most:
        return list(units), ()
    by_merit = sorted(
        range(len(units)),
        key=lambda place: (
            not contains_answer(documents[place].text, [answer.text]),
            answer.documents[place].rank,
        ),
    )
    own = sorted(by_merit[: most - 1])
    rest = sorted(by_merit[most - 1 :])
    together = tuple(units[place].name for place in rest)
    return [*(units[p] for p in own), group((units[p] for p in rest), REST)], together


def _claims(
    answer: str, predicate: Predicate | None, omission_predicate: Predicate | None
) -> tuple[str, str]:
    """The conditions of the retention and of the omission rules as clauses."""
    if predicate is not None:
        claim, counterclaim = _clause(predicate), _clause(negate(predicate))
    elif answer.strip():
        claim, counterclaim = f"the answer {shortened(answer, 80)} stands", "it goes"
    else:
        claim, counterclaim = "the generator gives no answer", "it gives one"
    if omission_predicate is not None:
        counterclaim = _clause(omission_predicate)
    return claim, counterclaim


def _clause(predicate: Predicate) -> str:
    words = describe(predicate)
    return words if isinstance(predicate, OutputPredicate) else f"{words} holds"


def _names(rules: SourceRules) -> Names:
    return tuple(rule.names for rule in rules.rules)


def _known(engine: ProbeEngine, mask: int) -> str | None:
    code = int(engine.known_codes([mask])[0])
    return engine.outputs[code] if code >= 0 else None

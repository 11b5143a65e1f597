"""Why this answer: the rules that guided it, what each found, and what keeps or removes it.

The joined-up trace of one answer. Guiding rules lead to documents, documents to the answer; the
minimal retention and omission rules say which of the documents decide it, and so which of the
guiding rules did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError
from rulerag.explanation.approximate import CertifiedMiner
from rulerag.explanation.cache import AnswerCache, CachedGenerator
from rulerag.explanation.certificates import CertifiedRule, CertifiedRules
from rulerag.explanation.details import attributions, check_methods, counterfactual_sets
from rulerag.explanation.duality import Duality, check_duality
from rulerag.explanation.group_views import GroupView, check_grouping, view_groups
from rulerag.explanation.grouping import shown_rules
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.log_probability import check_value, response_engine
from rulerag.explanation.miners import MAX_EXACT_SOURCES, DualMiner, Predicate, RuleHook
from rulerag.explanation.narrative import REST, AnswerExplanation
from rulerag.explanation.predicates import OutputPredicate, describe, matches_answer, negate
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.results import SourceRule
from rulerag.explanation.shown import CERTIFIED, EXACT, ShownRule
from rulerag.explanation.sources import Source, group, partition
from rulerag.explanation.trace import trace_documents, trace_rules
from rulerag.explanation.votes import refuse_sampled_answer
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
    unit: str = "document",
    max_sources: int = 10,
    validity: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    subsets: str = "uniform",
    max_probes: int | None = None,
    cache: AnswerCache | None = None,
    progress: bool = False,
    on_rule: Callable[[SourceRule | CertifiedRule], None] | None = None,
    attribution: Sequence[str] = (),
    samples: int | None = None,
    value: str = "verdict",
    counterfactuals: bool = False,
    group_by: str | None = None,
) -> AnswerExplanation:
    """Explain one answer by asking its generator again with parts of the evidence removed.

    Query and guiding rules stay as they were; documents keep their order. With more documents
    than ``max_sources``, those that hold the answer's text and then the best-ranked ones get a
    source of their own, and all the others together are one more, kept or removed as one. With a
    ``validity`` every document has a source of its own, however many there are, and rules are
    tested on random subsets instead of on all of them.

    Args:
        answer: what to explain, with its documents and rules.
        generator: what gave the answer.
        predicate: the condition of the retention rules; by default the output matches the answer.
        omission_predicate: the condition of the omission rules; the opposite by default.
        unit: what is kept or removed: ``document``, ``sentence`` or ``word``. A document that
            loses a part loses its facts, so that parts are for generators that read the text.
        max_sources: the most sources, from 2 to 20; up to two to this power probes.
        validity: the share of subsets for which a rule has to hold, below 1; exact rules, from
            every subset, when None.
        confidence: with a validity, the probability that every bound stated is true, at least.
        seed: of the random subsets, with a validity or in attribution.
        subsets: with a validity, how random subsets are drawn: ``uniform`` or ``by-size``, as
            :class:`~rulerag.explanation.approximate.CertifiedMiner` explains.
        max_probes: stop after so many probes with what is certain by then.
        cache: where answers are kept; what stands there is not asked again.
        progress: show a progress bar.
        on_rule: called with each minimal rule as soon as it is certain, or with its certificate
            as soon as it is tested; whether smaller ones fall below is tested after that.
        attribution: methods that tell what each source counts; see
            :data:`~rulerag.explanation.details.ATTRIBUTIONS`.
        samples: how many random orders or subsets these ask; see
            :func:`~rulerag.explanation.details.attributions`.
        value: what these explain: the ``verdict`` of the predicate, 1 or 0, or the
            ``log-probability`` of what the generator wrote, from one that scores texts.
        counterfactuals: tell the smallest removals that make the predicate fail too, and the
            smallest subsets that keep it.
        group_by: tell the rules over groups too, and inside the groups that matter: ``rule`` takes
            what one mined rule found together, ``document`` the parts of a document. No source
            is left in ``the rest`` there.

    Raises:
        ConfigError: an argument is out of range, a method unknown, or the generator scores no
            texts.
        ExplanationError: the answer has no documents, one stands twice, or the generator failed.
        OutputError: the cache cannot be written.
        PredicateError: a predicate raised.
        SamplingError: the generator answers by chance.
        DroppedDocumentsError: the generator's prompt does not hold every document.
    """
    _check(answer, max_sources, validity, subsets)
    check_methods(attribution, samples)
    check_value(value, generator, attribution)
    check_grouping(group_by, unit)
    sources, together = _choose_sources(answer, unit, max_sources if validity is None else None)
    asked: Generator = generator if cache is None else CachedGenerator(generator, cache)
    engine = ProbeEngine.from_generator(asked, answer.request(), sources, max_probes=max_probes)
    refuse_sampled_answer(engine, answer, generator)
    retention = predicate or matches_answer(answer.text)
    omission = omission_predicate or negate(retention)
    settings: dict[str, Any] = {"seed": seed}
    if validity is None:
        found = _mine_exactly(engine, retention, omission, progress, on_rule)
    else:
        settings |= {"validity": validity, "confidence": confidence, "subsets": subsets}
        found = _mine_certified(engine, retention, omission, settings, progress, on_rule)
    found = found._replace(
        retained=_with_outputs(engine, found.retained, "retention"),
        omitted=_with_outputs(engine, found.omitted, "omission"),
    )
    opposite = describe(omission) == describe(negate(retention))
    budget = _Budget(max_probes, [engine])
    if value == "verdict" or not attribution:
        values, enough = attributions(engine, retention, attribution, samples=samples, seed=seed)
    else:
        scored = budget.engine(
            lambda left: response_engine(
                generator, answer.request(), sources, cache=cache, max_probes=left
            )
        )
        values, enough = attributions(scored, None, attribution, samples=samples, seed=seed)
        values = tuple(replace(one, method=f"{one.method}, {value}") for one in values)
    sets, enough_too = counterfactual_sets(engine, retention) if counterfactuals else ((), True)
    views: tuple[GroupView, ...] = ()
    if group_by is not None:
        units = partition(answer.request().documents, unit)
        finer = engine
        if together:
            finer = budget.engine(
                lambda left: ProbeEngine.from_generator(
                    asked, answer.request(), units, max_probes=left
                )
            )
        try:
            views = view_groups(finer, answer, units, group_by, retention, omission, seed=seed)
        except ProbeBudgetError:
            enough = False
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
        retained=found.retained,
        omitted=found.omitted,
        full_output=_known(engine, (1 << engine.num_sources) - 1),
        empty_output=_known(engine, 0),
        num_probes=sum(one.num_probes for one in budget.engines),
        seconds=sum(one.seconds for one in budget.engines),
        complete=found.complete and enough and enough_too,
        answers=answer.query.answers,
        settings={
            "unit": unit,
            "max_sources": max_sources if validity is None else None,
            "max_probes": max_probes,
            **settings,
            "fingerprints": dict(answer.fingerprints),
        },
        duality=found.duality(engine.names) if opposite else None,
        attributions=values,
        counterfactuals=sets,
        group_views=views,
    )


class _Budget:
    """One probe budget for several engines, each made with what those before it left."""

    def __init__(self, most: int | None, engines: list[ProbeEngine]) -> None:
        self.most = most
        self.engines = engines

    def engine(self, make: Callable[[int | None], ProbeEngine]) -> ProbeEngine:
        """One more engine."""
        used = sum(engine.num_probes for engine in self.engines)
        self.engines.append(make(None if self.most is None else max(0, self.most - used)))
        return self.engines[-1]


class _Found(NamedTuple):
    """The minimal rules of both kinds, and whether there is no other."""

    retained: tuple[ShownRule, ...]
    omitted: tuple[ShownRule, ...]
    complete: bool

    def duality(self, sources: Sequence[str]) -> Duality | None:
        """How both kinds fit, where every rule was found and shown to hold."""
        rules = (*self.retained, *self.omitted)
        if self.complete and all(r.certificate.kind in (EXACT, CERTIFIED) for r in rules):
            kept, removed = ([r.names for r in part] for part in (self.retained, self.omitted))
            return check_duality(kept, removed, sources)
        return None


def _mine_exactly(
    engine: ProbeEngine,
    retention: Predicate,
    omission: Predicate,
    progress: bool,
    on_rule: RuleHook | None,
) -> _Found:
    miner = DualMiner(progress=progress)
    try:
        found = miner.mine(engine, retention=retention, omission=omission, on_rule=on_rule)
    except ProbeBudgetError as error:
        if not isinstance(error.partial, tuple):
            raise
        found = error.partial
    retained, omitted = map(shown_rules, found)
    return _Found(retained, omitted, all(part.complete for part in found))


def _mine_certified(
    engine: ProbeEngine,
    retention: Predicate,
    omission: Predicate,
    settings: dict[str, Any],
    progress: bool,
    on_rule: Callable[[CertifiedRule], None] | None,
) -> _Found:
    # Each kind gets half of the risk, so that what is said of both is true together.
    confidence = settings["confidence"]
    settings = {**settings, "confidence": 1 - (1 - confidence) / 2}
    parts: list[CertifiedRules] = []
    for kind, predicate in (("retention", retention), ("omission", omission)):
        miner = CertifiedMiner(kind, progress=progress, **settings)
        try:
            part = miner.mine(engine, predicate, on_rule=on_rule)
        except ProbeBudgetError as error:
            if not isinstance(error.partial, CertifiedRules):
                raise
            part = error.partial
        parts.append(part)
    retained, omitted = (
        tuple(
            replace(rule, certificate=replace(rule.certificate, confidence=confidence))
            for rule in shown_rules(part)
        )
        for part in parts
    )
    return _Found(retained, omitted, all(part.complete for part in parts))


def _with_outputs(
    engine: ProbeEngine, rules: Sequence[ShownRule], kind: str
) -> tuple[ShownRule, ...]:
    """The rules with what the generator says on each; omissions not asked yet are asked now."""
    place = {name: index for index, name in enumerate(engine.names)}
    full = (1 << engine.num_sources) - 1
    told = []
    for rule in rules:
        mask = mask_of(place[name] for name in rule.names)
        if kind == "omission":
            mask = full ^ mask
            with suppress(ProbeBudgetError):
                engine.probe_codes([mask])
        told.append(replace(rule, output=_known(engine, mask)))
    return tuple(told)


def _check(answer: Answer, max_sources: int, validity: float | None, subsets: str) -> None:
    if not 2 <= max_sources <= MAX_EXACT_SOURCES:
        raise ConfigError(
            f"expected a number from 2 to {MAX_EXACT_SOURCES}, found {max_sources}",
            key="max_sources",
            hint="with a validity every source is told apart",
        )
    if validity is None and subsets != "uniform":
        raise ConfigError(
            "no random subsets are drawn for exact rules",
            key="subsets",
            hint="give a validity, 0.95 for example",
        )
    if not answer.documents:
        raise ExplanationError(
            f"the answer to query {answer.query.id!r} rests on no document",
            hint="there is nothing to keep or remove; explain an answer with documents",
        )


def _choose_sources(
    answer: Answer, unit: str, most: int | None
) -> tuple[list[Source], tuple[str, ...]]:
    """The sources, and the names of those that share one."""
    documents = answer.request().documents
    units = partition(documents, unit)
    if most is None or len(units) <= most:
        return list(units), ()
    by_merit = sorted(
        range(len(units)),
        key=lambda place: (
            not contains_answer(units[place].text, [answer.text]),
            answer.documents[units[place].pieces[0].document].rank,
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


def _known(engine: ProbeEngine, mask: int) -> str | None:
    code = int(engine.known_codes([mask])[0])
    return engine.outputs[code] if code >= 0 else None

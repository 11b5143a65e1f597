"""Why this answer: the rules that guided it, what each found, and what keeps or removes it.

The joined-up trace of one answer. Guiding rules lead to documents, documents to the answer; the
minimal retention and omission rules say which of the documents decide it, and so which of the
guiding rules did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar, cast

from pydantic import Field, model_validator

from rulerag.composition import Settings
from rulerag.errors import ConfigError, ProbeBudgetError
from rulerag.explanation.attribution import (
    Attribution,
    attributions,
    check_methods,
    counterfactual_sets,
)
from rulerag.explanation.lattice import full_mask, mask_of
from rulerag.explanation.probing import (
    AnswerCache,
    CachedGenerator,
    Predicate,
    ProbeEngine,
    Source,
    VotingGenerator,
    check_value,
    group,
    matches_answer,
    named,
    partition,
    response_engine,
)
from rulerag.explanation.records import (
    CertifiedRules,
    NamedRule,
    RuleHook,
    SourceRules,
)
from rulerag.explanation.report.narrative import REST, AnswerExplanation
from rulerag.explanation.report.progress import Progress
from rulerag.explanation.report.regions import (
    claims_of,
    explain_by_regions,
    refuse_change,
    refuse_without_documents,
    traced,
)
from rulerag.explanation.source_rules import (
    MAX_EXACT_SOURCES,
    CertifiedMiner,
    Duality,
    DualMiner,
    GroupView,
    check_duality,
    view_groups,
)
from rulerag.protocols import Generator
from rulerag.text import contains_answer
from rulerag.types import Answer

T = TypeVar("T")

_RULES = ("unit", "max_sources", "validity", "attribution", "value", "counterfactuals", "group_by")
"""The settings of explanations by rules that say nothing about regions."""


class ExplainSettings(Settings):
    """How an answer is explained; the description of a field says what it is.

    A document that loses a part loses its facts, so that the units ``sentence`` and ``word``, and
    the explainer ``regions``, are for generators that read the text. Rules are exact, from every
    subset, unless there is a ``validity`` below 1, the fraction of subsets for which a rule has to
    hold; then ``confidence`` is the probability that every bound stated is true, at least, and
    ``subsets`` says how random subsets are drawn
    (:class:`~rulerag.explanation.source_rules.CertifiedMiner`). With ``group_by`` rules are found
    over groups too, and inside the groups that matter; no source is left in ``the rest`` there.

    Raises:
        ConfigError: a setting is unknown, out of range, or does not go with another one.
    """

    explainer: Literal["rules", "regions"] = Field(
        "rules",
        description="what is looked for: rules (sets of sources), or regions (parts of the text "
        "that are enough, and words that they need)",
    )
    parts: int = Field(3, ge=1, description="of regions: parts of the text, equally long")
    groups: int = Field(5, ge=1, description="of regions: groups of words in a part, masked by _")
    unit: Literal["document", "sentence", "word"] = Field(
        "document", description="what is kept or removed: document, sentence or word"
    )
    max_sources: int = Field(
        10,
        ge=2,
        le=MAX_EXACT_SOURCES,
        description="sources told apart; up to two to this power probes",
    )
    validity: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="certify rules on random subsets to this share, for many sources",
    )
    confidence: float = Field(
        0.95,
        gt=0,
        lt=1,
        description="with a validity, the probability that all bounds stated are true, at least",
    )
    subsets: Literal["uniform", "by-size"] = Field(
        "uniform",
        description="with a validity, random subsets: uniform (nearly all keep half of the "
        "documents), or by-size (how many are kept is drawn first)",
    )
    seed: int = Field(0, description="of random subsets and orders")
    max_probes: int | None = Field(
        None, ge=0, description="stop after so many probes with what is certain"
    )
    attribution: tuple[str, ...] = Field((), description="what each source counts, by name")
    samples: int | None = Field(
        None, ge=4, description="random orders or subsets that attribution asks"
    )
    value: Literal["verdict", "log-probability"] = Field(
        "verdict",
        description="what attribution explains: verdict, or log-probability of the response",
    )
    counterfactuals: bool = Field(
        False, description="the smallest removals that change the answer, too"
    )
    group_by: Literal["document", "rule"] | None = Field(
        None, description="explain groups first, then inside: rule (what it found), or document"
    )

    @model_validator(mode="after")
    def _fit_each_other(self) -> ExplainSettings:
        check_methods(self.attribution)
        compared = [name for name in self.attribution if name.startswith("similarity")]
        if compared and self.value != "verdict":
            what = f"{compared[0]} compares texts, which have no {self.value}"
            raise ConfigError(what, key="value", hint="explain verdicts")
        other = _RULES if self.explainer == "regions" else ("parts", "groups")
        for key in other:
            if getattr(self, key) != type(self).model_fields[key].default:
                what = f"does not go with the explainer {self.explainer!r}"
                raise ConfigError(what, key=key, hint="leave one of them out")
        if self.validity is None and self.subsets != "uniform":
            what = "no random subsets are drawn for exact rules"
            raise ConfigError(what, key="subsets", hint="give a validity, 0.95 for example")
        if self.group_by == self.unit == "document":
            hint = "cut them up with the unit sentence or word, or group by rule"
            raise ConfigError("each document is a source already", key="group_by", hint=hint)
        return self

    def most_probes(self) -> int | None:
        """How many subsets one answer takes at most; None where no number of them is certain."""
        if self.validity is not None or self.group_by is not None:
            return self.max_probes
        every = (1 << self.max_sources) * (1 if self.value == "verdict" else 2)
        if self.explainer == "regions":
            every = 1 + self.parts * (1 + self.groups)
        return every if self.max_probes is None else min(every, self.max_probes)

    def recorded(self) -> dict[str, Any]:
        """What the record of an explanation says about how its rules were found."""
        if self.explainer == "regions":
            return {k: getattr(self, k) for k in ("explainer", "parts", "groups", "max_probes")}
        keys = ["unit", "max_sources", "max_probes", "seed"]
        if self.validity is None:
            return {key: getattr(self, key) for key in keys}
        keys += ["validity", "confidence", "subsets"]
        return {key: getattr(self, key) for key in keys} | {"max_sources": None}


def explain_answer(
    answer: Answer,
    generator: Generator,
    settings: ExplainSettings | None = None,
    *,
    predicate: Predicate | None = None,
    omission_predicate: Predicate | None = None,
    cache: AnswerCache | None = None,
    on_rule: RuleHook | None = None,
    progress: Progress | bool = False,
    **options: Any,
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
        settings: how; the defaults when None.
        predicate: the condition of the retention rules; by default the output matches the answer.
        omission_predicate: the condition of the omission rules; the opposite by default.
        cache: where answers are kept; what stands there is not asked again.
        on_rule: called with each minimal rule as soon as it is certain, or with its certificate
            as soon as it is tested; whether smaller ones fall below is tested after that.
        progress: what counts the probes and says their cost; True for one of this answer alone.
        options: single settings by name, instead of ``settings``.

    Raises:
        ConfigError: a setting is wrong, or the generator scores no texts.
        ExplanationError: the answer has no documents, one stands twice, or the generator failed.
        OutputError: the cache cannot be written.
        PredicateError: a predicate raised.
        SamplingError: the generator answers by chance.
        DroppedDocumentsError: the generator's prompt does not hold every document.
    """
    settings = ExplainSettings(**{**dict(settings or ()), **options})
    check_value(settings.value, generator, settings.attribution)
    conditions = (predicate, omission_predicate)
    own = Progress(1, settings.most_probes()) if progress is True else None
    counter = own if isinstance(progress, bool) else progress
    with own or nullcontext():
        if settings.explainer == "regions":
            sizes = settings.parts, settings.groups, settings.max_probes
            found = explain_by_regions(
                answer, generator, sizes, predicate=predicate, cache=cache, progress=counter
            )
            return replace(found, settings={**settings.recorded(), **found.settings})
        return _Explained(answer, generator, settings, conditions, cache, on_rule, counter).record()


@dataclass
class _Explained:
    """One answer on its way to a record: the engines asked, and what they found."""

    answer: Answer
    generator: Generator
    settings: ExplainSettings
    conditions: tuple[Predicate | None, Predicate | None]
    cache: AnswerCache | None
    on_rule: RuleHook | None
    progress: Progress | None

    def __post_init__(self) -> None:
        answer, generator, cache = self.answer, self.generator, self.cache
        refuse_without_documents(answer)
        self.engines: list[ProbeEngine] = []
        self.asked: Generator = generator if cache is None else CachedGenerator(generator, cache)
        self.units = partition(answer.request().documents, self.settings.unit)
        self.sources, self.together = self._choose_sources()
        self.engine = self._engine(ProbeEngine.from_generator, self.asked, self.sources)
        self._refuse_sampled_answer()
        kept, removed = self.conditions
        self.retention = kept or matches_answer(answer.text)
        self.omission = removed or ~named(self.retention)
        claim, counterclaim = claims_of(answer, kept)
        self.claims = claim, str(named(self.omission)) if removed else counterclaim

    def _engine(
        self, make: Callable[..., ProbeEngine], generator: Generator, sources: Sequence[Source]
    ) -> ProbeEngine:
        """One more engine, with what those before it left of the probe budget."""
        most = self.settings.max_probes
        left = None if most is None else max(0, most - sum(e.num_probes for e in self.engines))
        engine = make(generator, self.answer.request(), sources, max_probes=left)
        if self.progress is not None:
            engine.on_batch = self.progress.add
        self.engines.append(engine)
        return engine

    def _choose_sources(self) -> tuple[list[Source], tuple[str, ...]]:
        """The sources, and the names of those that share one."""
        units, most = self.units, self.settings.max_sources
        if self.settings.validity is not None or len(units) <= most:
            return list(units), ()
        ranked = sorted(
            range(len(units)),
            key=lambda place: (
                not contains_answer(units[place].text, [self.answer.text]),
                self.answer.documents[units[place].pieces[0].document].rank,
            ),
        )
        own = [units[place] for place in sorted(ranked[: most - 1])]
        rest = [units[place] for place in sorted(ranked[most - 1 :])]
        return [*own, group(rest, REST)], tuple(unit.name for unit in rest)

    def _refuse_sampled_answer(self) -> None:
        """Refuse a generator that does not say so but answers by chance.

        The probe that keeps every source, which each explanation needs, asks what the answer came
        from. Only where it says something else is the generator asked a third time: one that then
        says the same again has its reasons, such as another build since; one that changes again is
        refused. A vote over tries may change and is not compared.

        Raises:
            SamplingError: the generator answers the same request otherwise each time.
        """
        if isinstance(self.generator, VotingGenerator) or self.engine.max_probes == 0:
            return
        second = self.engine.probe([range(self.engine.num_sources)])[0]
        refuse_change(self.answer, self.generator, second)

    def record(self) -> AnswerExplanation:
        """Find everything that the settings want."""
        answer, engine = self.answer, self.engine
        retained, omitted, complete = self._mine()
        values, enough = self._attributions()
        wanted = self.settings.counterfactuals
        sets, searched = counterfactual_sets(engine, self.retention) if wanted else ((), True)
        views = self._group_views()
        return AnswerExplanation(
            **traced(self.answer),
            claim=self.claims[0],
            counterclaim=self.claims[1],
            sources=engine.names,
            together=self.together,
            retained=retained,
            omitted=omitted,
            full_output=_known(engine, full_mask(engine.num_sources)),
            empty_output=_known(engine, 0),
            num_probes=sum(one.num_probes for one in self.engines),
            seconds=sum(one.seconds for one in self.engines),
            complete=complete and enough and searched and views is not None,
            settings={**self.settings.recorded(), "fingerprints": dict(answer.fingerprints)},
            duality=self._duality(retained, omitted) if complete else None,
            attributions=values,
            counterfactuals=sets,
            group_views=views or (),
        )

    def _mine(self) -> tuple[tuple[NamedRule, ...], tuple[NamedRule, ...], bool]:
        """The minimal rules of both kinds, as the generator speaks on each; whether all of them."""
        kinds = {"retention": self.retention, "omission": self.omission}
        validity, confidence = self.settings.validity, 1.0
        parts: Sequence[SourceRules]
        if validity is None:
            parts = _finished(lambda: DualMiner().mine(self.engine, **kinds, on_rule=self.on_rule))
        else:
            confidence = self.settings.confidence
            parts = [_finished(partial(self._certified, *one)) for one in kinds.items()]
        retained, omitted = (self._named(part, confidence) for part in parts)
        return retained, omitted, all(part.complete for part in parts)

    def _duality(
        self, retained: tuple[NamedRule, ...], omitted: tuple[NamedRule, ...]
    ) -> Duality | None:
        """How both kinds fit, where each rule was shown and the conditions are opposites."""
        kinds = {rule.certificate.kind for rule in (*retained, *omitted)}
        opposite = str(named(self.omission)) == str(~named(self.retention))
        if not opposite or not kinds <= {"exact", "certified"}:
            return None
        kept, removed = ([rule.names for rule in part] for part in (retained, omitted))
        return check_duality(kept, removed, self.engine.names)

    def _certified(self, kind: str, predicate: Predicate) -> CertifiedRules:
        settings = self.settings
        miner = CertifiedMiner(
            kind,
            validity=settings.validity or 0.0,
            # Each kind gets half of the risk, so that what is said of both is true together.
            confidence=1 - (1 - settings.confidence) / 2,
            seed=settings.seed,
            subsets=settings.subsets,
        )
        return miner.mine(self.engine, predicate, on_rule=self.on_rule)

    def _named(self, rules: SourceRules, confidence: float) -> tuple[NamedRule, ...]:
        """The rules with what the generator says on each; omissions not asked yet are asked now."""
        full = full_mask(self.engine.num_sources)
        named = []
        for rule in rules.rules:
            mask = mask_of(rule.sources)
            if rule.kind == "omission":
                mask = full ^ mask
                with suppress(ProbeBudgetError):
                    self.engine.probe_codes([mask])
            certificate = replace(rule.certificate, confidence=confidence)
            named.append(NamedRule(rule.names, certificate, _known(self.engine, mask)))
        return tuple(named)

    def _attributions(self) -> tuple[tuple[Attribution, ...], bool]:
        """The values of the sources, and whether the probe budget sufficed."""
        methods, value = self.settings.attribution, self.settings.value
        chosen: dict[str, Any] = {"samples": self.settings.samples, "seed": self.settings.seed}
        if value == "verdict" or not methods:
            return attributions(self.engine, self.retention, methods, **chosen)

        def scored(*request: Any, max_probes: int | None) -> ProbeEngine:
            return response_engine(*request, cache=self.cache, max_probes=max_probes)

        engine = self._engine(scored, self.generator, self.sources)
        values, enough = attributions(engine, None, methods, **chosen)
        return tuple(replace(one, method=f"{one.method}, {value}") for one in values), enough

    def _group_views(self) -> tuple[GroupView, ...] | None:
        """The rules over groups where they are wanted; None where the probe budget ran out."""
        by = self.settings.group_by
        if by is None:
            return ()
        engine = self.engine
        if self.together:
            engine = self._engine(ProbeEngine.from_generator, self.asked, self.units)
        conditions, seed = (self.retention, self.omission), self.settings.seed
        try:
            return view_groups(engine, self.answer, self.units, by, conditions, seed=seed)
        except ProbeBudgetError:
            return None


def _finished(mine: Callable[[], T]) -> T:
    """What a miner finds, or what is certain where the probe budget ended its search."""
    try:
        return mine()
    except ProbeBudgetError as error:
        return cast(T, error.partial)


def _known(engine: ProbeEngine, mask: int) -> str | None:
    code = int(engine.known_codes([mask])[0])
    return engine.outputs[code] if code >= 0 else None

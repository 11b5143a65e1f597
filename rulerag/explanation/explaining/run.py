"""One answer on its way to an explanation: what was asked, what is known, and where to go on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from rulerag.errors import ExplanationError, ProbeBudgetError, SamplingError
from rulerag.explanation.attribution import Attribution, attributions
from rulerag.explanation.claims import Claim, SameClaim, is_refusal, split_claims
from rulerag.explanation.explaining.records import ExplainedClaim, Explanation
from rulerag.explanation.explaining.settings import ExplainSettings
from rulerag.explanation.explaining.text import notes_of
from rulerag.explanation.lattice import full_mask, kept_indices, mask_of
from rulerag.explanation.probing import (
    CHARACTERS_A_TOKEN,
    AnswerFunction,
    Predicate,
    PredicateValues,
    ProbeEngine,
    refuse_another_answer,
)
from rulerag.explanation.records import DocumentSet, Spoiler
from rulerag.explanation.search import (
    ClaimSets,
    RandomSubsets,
    SampledSearch,
    exact_sets,
    first_prefixes,
)
from rulerag.explanation.units import LEVELS, opened
from rulerag.text import normalize_answer
from rulerag.views import Picture, lattice_picture


@dataclass(frozen=True)
class Judging:
    """What decides whether an output makes a claim.

    Args:
        predicate: a condition of the user's own, in place of claims.
        entailment: an encoder for what words leave open.
        judge: a model for what words leave open.
    """

    predicate: Predicate | None = None
    entailment: Any = None
    judge: Any = None


@dataclass(frozen=True)
class Origin:
    """Where an answer comes from, beyond a function and documents.

    Args:
        text: the answer to explain, where it is known already.
        chain: for a chain, what is not run again, what a probe costs, and what no document means.
        deterministic: an answer that changes when the whole prompt is asked again is an error.
        own: a pipeline of rulerag gave it.
        scoring: makes an engine of log-probabilities of the response, where that can be had.
        again: asks anew what was answered before, of a server whose answers may vary.
        provenance: what else the record says: query, accepted answers, mined rules, statements.
        settings: what else the record says of what was asked.
    """

    text: str | None = None
    chain: str = ""
    deterministic: bool = False
    own: bool = False
    scoring: Callable[[], ProbeEngine] | None = None
    again: AnswerFunction | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """Something that became known while an answer is explained.

    Args:
        kind: ``calls`` (some were made), ``answer``, ``set``, ``spoiler``, ``claim`` (nothing more
            is looked for) or ``end``.
        run: the explanation so far.
        claim: the place of the claim; None for the whole answer.
    """

    kind: str
    run: ExplanationRun
    claim: int | None = None

    @property
    def explanation(self) -> Explanation:
        """Everything that is known now."""
        return self.run.explanation()


EventHook = Callable[[Event], object]


@dataclass
class _Progress:
    """A claim, what decides whether an output makes it, and what is known of it."""

    claim: Claim
    makes: Predicate
    sets: ClaimSets | None = None
    attributions: tuple[Attribution, ...] = ()


class ExplanationRun:
    """Explains one answer as far as it is allowed to, and can go on.

    Args:
        function: the answer function with question and documents.
        settings: how it is explained.
        judging: what decides.
        origin: where the answer comes from.

    Attributes:
        failure: what the answer function failed with, where that ended the last run early.
    """

    def __init__(
        self,
        function: AnswerFunction,
        settings: ExplainSettings,
        judging: Judging,
        origin: Origin,
    ) -> None:
        self.function, self.settings, self.origin = function, settings, origin
        self.engine = ProbeEngine.from_answer_function(
            function, on_batch=lambda: self._on_event(Event("calls", self))
        )
        self.failure: ExplanationError | None = None
        self._judging, self._text = judging, origin.text
        self._full, self._places = full_mask(function.num_sources), function.context.places
        self._exact = settings.exact_up_to(own=origin.own)
        self._width = function.workers if settings.hurry else 1
        self._draws = RandomSubsets(
            function.num_sources,
            settings.validity,
            settings.confidence,
            settings.seed,
            settings.subsets,
        )
        self._claims: list[_Progress] = []
        self._scoring: ProbeEngine | None = None
        self._ended = ""
        self._on_event: EventHook = lambda event: None

    @property
    def calls(self) -> int | None:
        """How many calls the settings allow."""
        return self.settings.calls(self.function.num_sources, own=self.origin.own)

    @property
    def full_output(self) -> str | None:
        """What was answered to the whole prompt; None where it was not asked."""
        return self.engine.output(self._full)

    def cancel(self) -> None:
        """Stop asking, with what is certain so far; from any thread."""
        self.function.cancel()

    def run(
        self,
        budget: int | None = None,
        max_seconds: float | None = None,
        on_event: EventHook | None = None,
    ) -> Explanation:
        """Go on until everything is found, or until the budget or the time is up.

        Args:
            budget: so many further calls.
            max_seconds: so many further seconds.
            on_event: called with what becomes known.

        Raises:
            ExplanationError: the answer function failed on the whole prompt.
            PredicateError: what decides about outputs failed.
            SamplingError: a generator answers by chance.
        """
        self.function.reopen(max_seconds)
        self.engine.allow(budget)
        self._on_event = on_event or (lambda event: None)
        self._ended, self.failure = "", None
        try:
            self._begin()
            self._on_event(Event("answer", self))
            for place, one in enumerate(self._claims):
                if one.sets is None or not one.sets.complete:
                    self._explain(place, one)
                self._attribute(one)
                self._on_event(Event("claim", self, place))
        except SamplingError:
            raise
        except (ProbeBudgetError, ExplanationError) as error:
            if self._text is None:
                raise
            self._ended = error.message
            self.failure = None if isinstance(error, ProbeBudgetError) else error
        finally:
            if budget is not None and self._ended.startswith("the budget of"):
                calls = "one call" if budget == 1 else f"{budget:,} calls"
                self._ended = f"the budget of {calls} is used up"
            self._on_event = lambda event: None
        return self.explanation()

    def settled(self, ended: str) -> Explanation:
        """What is certain by what was answered so far; asks nothing.

        Args:
            ended: what ended the search, in words.
        """
        with suppress(ProbeBudgetError):  # the whole prompt was not answered
            self.run(budget=0)
        self._ended = ended
        return self.explanation()

    def finer(self, places: Sequence[int], level: str | None) -> ExplanationRun:
        """The same answer with some of its documents cut into parts; asks nothing yet.

        Args:
            places: of what is cut.
            level: how fine; for each the next that has parts when None.

        Raises:
            ConfigError: there is no such level, or nothing to cut.
        """
        context = self.function.context
        units = opened(context.units, places, context.whole, level)
        finest = max((unit.level for unit in units), key=LEVELS.index)
        # Other subsets than those that led here.
        changed = {"seed": self.settings.seed + 1, "level": finest}
        settings = ExplainSettings.joined(self.settings, changed)
        again = self.origin.again and self.origin.again.finer(context.finer(units))
        origin = replace(self.origin, text=self._text, again=again)
        return ExplanationRun(
            self.function.finer(context.finer(units)), settings, self._judging, origin
        )

    def explain_claim(self, claim: Claim) -> ExplainedClaim:
        """What any part of the answer rests on."""
        self.function.reopen(None)
        self.engine.allow(None)
        one = _Progress(claim, self._predicate(claim.text))
        for _ in self._search(one):
            pass
        return self._explained_claim(one)

    def makes(self, place: int, output: str) -> bool:
        """Whether an output makes the claim at a place."""
        return bool(self._claims[place].makes(output))

    def attribution(
        self, place: int, method: str, samples: int | None, budget: int | None
    ) -> Attribution:
        """A number for each document with a text: how much it counts for one claim.

        Args:
            place: of the claim.
            method: the name of an explainer.
            samples: of the explainer.
            budget: so many further calls.
        """
        self.function.reopen(None)
        self.engine.allow(budget)
        values, enough = attributions(
            self.engine,
            self._claims[place].makes,
            [method],
            samples=samples,
            seed=self.settings.seed,
        )
        if not enough or not values:
            raise ProbeBudgetError(
                f"{method!r} needs more calls than {budget}", hint="budget=None, or fewer samples"
            )
        return values[0]

    def lattice(self, place: int) -> Picture:
        """What is known of the subsets for one claim, drawn; asks nothing."""
        outputs, one = self.engine.answered(), self._claims[place]
        masks = list(outputs)
        values = PredicateValues(one.makes, self.engine.outputs)
        made = values(self.engine.known_codes(masks)).tolist()
        sets = one.sets or ClaimSets()
        return lattice_picture(
            [self.function.context.passages[place].called for place in self._places],
            dict(zip(masks, made, strict=True)),
            [mask_of(one) for one in sets.retention],
            outputs=outputs,
            title=f"Which documents are enough for “{one.claim.text}”",
        )

    # --- asking ----

    def _begin(self) -> None:
        """Ask the whole prompt, as often as wanted, and none; random subsets fill free places."""
        engine, function, later = self.engine, self.function, list[int]()
        if function.num_sources > self._exact and not self.settings.each:
            later = [mask for mask in self._draws.round(0) if mask not in (self._full, 0)]
        repeats = self.settings.repeats or (1 if self.origin.deterministic else 2)
        missing, left = max(0, repeats - 1 - len(function.repeats)), engine.left
        if missing and (left is None or left - 2 >= missing):
            function.repeat(missing)
            engine.allow(None if left is None else left - missing)
        else:
            missing = 0
        free = max(0, function.workers - missing - 2)
        if later and free and self.settings.hurry:
            later = [*first_prefixes(function.num_sources, free + 1), *later]
        if function.num_sources or not function.context.passages:
            engine.probe([self._full, 0], list(dict.fromkeys(later))[:free])
        if self._text is None:
            self._text = engine.probe([self._full])[0]
        elif self.origin.deterministic:
            refuse_chance(function, self.full_output, self._text)
        if not self._claims:
            self._make_claims(self._text)

    def _make_claims(self, text: str) -> None:
        left = len(text) - len(text.lstrip())
        whole = Claim(text.strip(), left, left + len(text.strip()))
        cut = self._judging.predicate is None and not self.settings.whole and not is_refusal(text)
        claims = (split_claims(text) if cut else [whole]) or [whole]
        self._claims = [_Progress(claim, self._predicate(claim.text)) for claim in claims]

    def _predicate(self, claim: str) -> Predicate:
        own = self._judging
        if own.predicate is not None:
            return own.predicate
        texts = [passage.text for passage in self.function.context.whole]
        return SameClaim(claim, self.function.question, texts, own.entailment, own.judge)

    def _search(self, one: _Progress) -> Iterator[str]:
        """Find what a claim rests on; says what became known as soon as it stands there."""
        if self.function.num_sources <= self._exact:
            one.sets = exact_sets(self.engine, one.makes)
            return
        each, width = self.settings.each, self._width
        search = SampledSearch(self.engine, one.makes, self._draws, each=each, width=width)
        for kind in search.run():
            one.sets = search.sets()
            yield kind
        one.sets = search.sets()

    def _explain(self, place: int, one: _Progress) -> None:
        before = one.sets
        for kind in self._search(one):
            self._on_event(Event(kind, self, place))
        now = one.sets
        self._ended = self._ended or (now.ended if now else "")
        if before and before.retention and now and not (now.complete or now.retention):
            one.sets = before
        elif now and now.complete and self.origin.again and self.settings.repeats != 1:
            one.sets = self._asked_twice(now, one.makes, self.origin.again)

    def _asked_twice(self, sets: ClaimSets, makes: Predicate, again: AnswerFunction) -> ClaimSets:
        """The sets with the noise of their deciding subsets, as far as the budget lasts.

        A server in half precision may answer one prompt in two ways, by what else it answers then.
        """
        again.reopen(None)

        def asked(one: DocumentSet, whole: int) -> DocumentSet:
            mask = mask_of(one)
            subsets = [whole ^ mask, *(whole ^ mask ^ (1 << source) for source in one)]
            subsets = [subset for subset in subsets if self.engine.output(subset) is not None]
            left = self.engine.left
            if left is not None and left < len(subsets):
                return one
            outputs = again(kept_indices(subsets, self.function.num_sources))
            self.engine.allow(None if left is None else left - len(subsets))
            pairs = zip(self.engine.probe(subsets), outputs, strict=True)
            differed = sum(bool(makes(first)) != bool(makes(then)) for first, then in pairs)
            noise = replace(one.certificate, repeated=len(subsets), disagreed=differed)
            return DocumentSet(tuple(one), noise, one.output)

        return replace(
            sets,
            retention=tuple(asked(one, 0) for one in sets.retention),
            omission=tuple(asked(one, self._full) for one in sets.omission),
        )

    def _attribute(self, one: _Progress) -> None:
        """The numbers that are wanted beside the sets."""
        settings, methods = self.settings, self.settings.attribution
        if len(one.attributions) == len(methods):
            return
        chosen: dict[str, Any] = {"samples": settings.samples, "seed": settings.seed}
        if settings.value == "verdict":
            values, enough = attributions(self.engine, one.makes, methods, **chosen)
        else:
            values, enough = self._of_log_probability(methods, chosen)
            values = tuple(replace(v, method=f"{v.method}, {settings.value}") for v in values)
        one.attributions = values
        if not enough:
            self._ended = self._ended or "the budget did not last for every attribution"

    def _of_log_probability(
        self, methods: Sequence[str], chosen: Mapping[str, Any]
    ) -> tuple[tuple[Attribution, ...], bool]:
        """Values of the log-probability; what is scored for them counts against the budget."""
        if self._scoring is None:
            assert self.origin.scoring is not None  # noqa: S101 - checked before the first call
            self._scoring = self.origin.scoring()
        left, before = self.engine.left, self._scoring.num_probes
        self._scoring.allow(left)
        values = attributions(self._scoring, None, methods, **chosen)
        if left is not None:
            self.engine.allow(left - (self._scoring.num_probes - before))
        return values

    # --- what is known ----

    def explanation(self) -> Explanation:
        """Everything that is known so far."""
        claims = tuple(map(self._explained_claim, self._claims))
        function, price = self.function, self.settings.price
        scored = self._scoring
        characters = function.prompt_characters, function.answer_characters
        tokens = [number // CHARACTERS_A_TOKEN for number in characters]
        made = Explanation(
            question=function.question,
            text=self._text or "",
            documents=function.context.passages,
            claims=claims,
            empty=self.engine.output(0),
            num_calls=function.calls
            + (scored.num_probes if scored else 0)
            + (self.origin.again.calls if self.origin.again else 0),
            seconds=self.engine.seconds + (scored.seconds if scored else 0.0),
            complete=all(claim.complete for claim in claims) and not self._ended,
            repeats=tuple(function.repeats),
            tokens=sum(tokens),
            money=None if price is None else sum(map(operator.mul, tokens, price)) / 1e6,
            chain=self.origin.chain,
            settings={**self.settings.record, **self.origin.settings},
            **self.origin.provenance,
        )
        return replace(made, notes=tuple(notes_of(made, self._outputs(), self._ended)))

    def _outputs(self) -> list[str]:
        """What was answered to the whole prompt, each time."""
        return [one for one in (self.full_output, *self.function.repeats) if one is not None]

    def _explained_claim(self, one: _Progress) -> ExplainedClaim:
        claim, predicate = one.claim, one.makes
        known, outputs = one.sets or ClaimSets(complete=False), self._outputs()
        own = self._judging.predicate is not None
        return ExplainedClaim(
            claim.text,
            claim.start,
            claim.end,
            condition=str(predicate) if own and hasattr(predicate, "holds") else "",
            refusal=is_refusal(claim.text),
            retention=tuple(map(self._placed, known.retention)),
            omission=tuple(map(self._placed, known.omission)),
            spoilers=tuple(
                Spoiler(self._at(one.documents), self._at(one.enough), one.output)
                for one in known.spoilers
            ),
            stable=sum(map(bool, map(predicate, outputs))) / len(outputs) if outputs else 1.0,
            complete=known.complete,
            attributions=one.attributions,
            steps=getattr(predicate, "steps", {}),
        )

    def _placed(self, one: DocumentSet) -> DocumentSet:
        return DocumentSet(self._at(tuple(one)), one.certificate, one.output)

    def _at(self, sources: Sequence[int]) -> tuple[int, ...]:
        """The places of sources among all documents."""
        return tuple(sorted(self._places[index] for index in sources))


def refuse_chance(
    function: AnswerFunction,
    second: str | None,
    text: str,
    read: Callable[[str], str] = lambda output: output,
) -> None:
    """Refuse a generator that says something else each time it is asked the same.

    Only where it did not repeat its answer is it asked once more: one that then says the same again
    has its reasons, such as another build since.

    Args:
        function: asks it with all documents.
        second: what it said then; None where it was not function.
        text: what it said first.
        read: the answer in what it says.

    Raises:
        SamplingError: the third answer differs from the second.
    """
    if second is None or normalize_answer(read(second)) == normalize_answer(text):
        return
    if not function.repeats:
        function.repeat(1)
        function([])
    refuse_another_answer(read(second), read(function.repeats[-1]))

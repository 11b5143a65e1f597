"""One answer on its way to an explanation: what was asked, what is known, and where to go on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError, did_you_mean
from rulerag.explanation.any_answer.asking import CHARACTERS_A_TOKEN, AskedFunction
from rulerag.explanation.any_answer.records import (
    DocumentSet,
    Explained,
    ExplainedClaim,
    Moment,
    Spoiler,
)
from rulerag.explanation.any_answer.search import (
    MOST_EXACT,
    Found,
    Growth,
    SharedDraws,
    search_claim,
)
from rulerag.explanation.attribution import Attribution, attributions, rule_surrogate
from rulerag.explanation.claims import Claim, SameClaim, is_refusal, split_claims
from rulerag.explanation.lattice import full_mask, mask_of
from rulerag.explanation.levels import LEVELS, NEUTRAL, Priors, expected_weights, opened, scores_of
from rulerag.explanation.probing import Predicate, PredicateValues, ProbeEngine
from rulerag.explanation.records import SUBSETS
from rulerag.explanation.source_rules import CoarseToFine
from rulerag.explanation.views import Picture, lattice_picture
from rulerag.explanation.wording import in_words, listing

_MOST_NAMED = 12


@dataclass(frozen=True)
class Options:
    """How an answer is explained.

    Args:
        validity: the share of subsets that the sets found have to predict, with many documents.
        confidence: the probability that this is true of a claim, at least.
        seed: of random subsets.
        repeats: how often the whole prompt is asked, to know the noise.
        whole: explain the answer as a whole instead of claim by claim.
        hurry: ask with every free worker, also what may turn out to be of no use.
        each: with many documents, show each set by itself instead of what all of them predict;
            takes some 60 calls for each set.
        subsets: what a guarantee counts the same, with many documents: ``by-size`` every number of
            documents that is kept, ``uniform`` every combination (nearly all keep about half).
        price: for a million tokens of prompts, and of answers: what was spent is said.
        level: what is kept or removed as one: ``group`` (documents of one origin, or neighbours),
            ``document``, ``section``, ``sentence`` or ``span``.
        removal: ``delete``, or ``replace`` by neutral text of about the same length, so that
            every document keeps its position.
        neutral: the neutral text.

    Raises:
        ConfigError: a value is out of range.
    """

    validity: float = 0.95
    confidence: float = 0.95
    seed: int = 0
    repeats: int = 2
    whole: bool = False
    hurry: bool = False
    each: bool = False
    subsets: str = "by-size"
    price: tuple[float, float] | None = None
    level: str = "document"
    removal: str = "delete"
    neutral: str = NEUTRAL

    def __post_init__(self) -> None:
        for name in ("validity", "confidence"):
            if not 0 < getattr(self, name) < 1:
                raise ConfigError(f"{getattr(self, name)!r} is not between 0 and 1", key=name)
        if self.subsets not in SUBSETS:
            hint = did_you_mean(str(self.subsets), SUBSETS)
            raise ConfigError(f"{self.subsets!r} is no way to draw", key="subsets", hint=hint)
        if self.repeats < 1:
            raise ConfigError(f"{self.repeats!r} is below 1", key="repeats")
        if self.price is not None and min(self.price) < 0:
            raise ConfigError(f"{self.price!r} is below 0", key="price")


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
class Event:
    """Something that became known while an answer is explained.

    Args:
        kind: ``answer``, ``set``, ``spoiler``, ``claim`` (nothing more is looked for) or ``end``.
        explained: everything that is known by then.
        claim: the place of the claim; None for the whole answer.
    """

    kind: str
    explained: Explained
    claim: int | None = None


Tell = Callable[[Event], object]


class Session:
    """Explains one answer as far as it is allowed to, and can go on.

    Args:
        asked: the answer function with question and documents.
        options: how it is explained.
        judging: what decides.
        given: the answer to explain, where it is known already.
        frozen: for a chain, what is not run again, what a probe costs, and what no document means.
        expected: places of what probably decides; it is looked into first.

    Attributes:
        about: what else the record says of what was asked.
        failure: what the answer function failed with, where that ended the last run early.
    """

    def __init__(
        self,
        asked: AskedFunction,
        options: Options,
        judging: Judging,
        *,
        given: str | None = None,
        frozen: str = "",
        expected: Sequence[int] = (),
    ) -> None:
        self.asked, self.options, self._judging = asked, options, judging
        self._passages, self._text, self._frozen = asked.context.passages, given, frozen
        texts = [self._passages[place].text for place in asked.context.places]
        self.engine = ProbeEngine(asked, asked.num_sources, texts=texts)
        self.engine.together = asked.workers
        self._width = asked.workers if options.hurry else 1
        self._full = full_mask(asked.num_sources)
        self._places = asked.context.places
        self._priors = self._known_before(expected)
        self._claims: list[Claim] = []
        self._predicates: list[Predicate] = []
        self._found: list[Found | None] = []
        self._draws = SharedDraws(
            asked.num_sources,
            options.validity,
            options.confidence,
            options.seed,
            options.each,
            options.subsets,
        )
        self._growth = Growth(lambda: asked.calls)
        self._ended = ""
        self.about: dict[str, str] = {}
        self.failure: ExplanationError | None = None

    def cancel(self) -> None:
        """Stop asking, with what is certain so far; from any thread."""
        self.asked.cancel()

    def run(
        self,
        budget: int | None = None,
        max_seconds: float | None = None,
        tell: Tell | None = None,
    ) -> Explained:
        """Go on until everything is found, or until the budget or the time is up.

        Args:
            budget: so many further calls.
            max_seconds: so many further seconds.
            tell: called with what becomes known.

        Raises:
            ExplanationError: the answer function failed on the whole prompt.
            PredicateError: what decides about outputs failed.
        """
        self.asked.reopen(max_seconds)
        self.engine.max_probes = None if budget is None else self.engine.num_probes + budget
        told: Tell = tell or (lambda event: None)
        self._ended, self.failure = "", None
        try:
            self._begin()
            told(Event("answer", self.explained()))
            for place, found in enumerate(self._found):
                if found is None or not found.complete:
                    self._explain(place, told)
                told(Event("claim", self.explained(), place))
        except (ProbeBudgetError, ExplanationError) as error:
            if self._text is None:
                raise
            self._ended = error.message
            self.failure = None if isinstance(error, ProbeBudgetError) else error
        finally:
            if budget is not None and self._ended.startswith("the budget of"):
                calls = "one call" if budget == 1 else f"{budget:,} calls"
                self._ended = f"the budget of {calls} is used up"
            self.engine.besides = ()  # what else is asked of it has no use for these
        return self.explained()

    def settled(self, ended: str) -> Explained:
        """What is certain by what was answered so far; asks nothing.

        Args:
            ended: what ended the search, in words.
        """
        with suppress(ProbeBudgetError):  # the whole prompt was not answered
            self.run(budget=0)
        self._ended = ended
        return self.explained()

    def finer(self, places: Sequence[int], level: str | None) -> Session:
        """The same answer with some of its documents cut into parts; asks nothing yet.

        Args:
            places: of what is cut.
            level: how fine; for each the next that has parts when None.

        Raises:
            ConfigError: there is no such level, or nothing to cut.
        """
        context, chosen = self.asked.context, set(places)
        units = opened(context.units, places, context.whole, level)
        whole = {unit.passage.label for n, unit in enumerate(context.units) if n not in chosen}
        expected = [n for n, unit in enumerate(units) if unit.passage.label not in whole]
        finest = max((unit.level for unit in units), key=LEVELS.index)
        # Other subsets than those that led here.
        options = replace(self.options, seed=self.options.seed + 1, level=finest)
        asked = self.asked.finer(context.finer(units))
        made = Session(
            asked,
            options,
            self._judging,
            given=self._text,
            frozen=self._frozen,
            expected=expected,
        )
        made.about = self.about
        return made

    def explain_claim(self, claim: Claim) -> ExplainedClaim:
        """What any part of the answer rests on."""
        self.asked.reopen(None)
        self.engine.max_probes = None
        predicate = self._predicate(claim.text)
        found = search_claim(
            self.engine, predicate, self._draws, width=self._width, order=self._order(claim)
        )
        return self._explained_claim(claim, predicate, found)

    def attribution(
        self, place: int, method: str, samples: int | None, budget: int | None
    ) -> Attribution:
        """A number for each document with a text: how much it counts for one claim.

        Args:
            place: of the claim.
            method: ``rules`` (of the sets found; asks nothing) or the name of an explainer.
            samples: of the explainer.
            budget: so many further calls.
        """
        names = [self._passages[place].label for place in self._places]
        if method == "rules":
            found = self._found[place] or Found()
            return rule_surrogate(found.retention, names)
        self.asked.reopen(None)
        self.engine.max_probes = None if budget is None else self.engine.num_probes + budget
        values, enough = attributions(
            self.engine, self._predicates[place], [method], samples=samples, seed=self.options.seed
        )
        if not enough or not values:
            raise ProbeBudgetError(
                f"{method!r} needs more calls than {budget}", hint="budget=None, or fewer samples"
            )
        return replace(values[0], names=tuple(names))

    def lattice(self, place: int) -> Picture:
        """What is known of the subsets for one claim, drawn; asks nothing."""
        outputs = self.engine.answered()
        masks = list(outputs)
        values = PredicateValues(self._predicates[place], self.engine.outputs)
        made = values(self.engine.known_codes(masks)).tolist()
        found = self._found[place] or Found()
        return lattice_picture(
            [self._passages[place].called for place in self._places],
            dict(zip(masks, made, strict=True)),
            [mask_of(one) for one in found.retention],
            outputs=outputs,
            title=f"Which documents are enough for “{self._claims[place].text}”",
        )

    def _begin(self) -> None:
        """Ask the whole prompt, as often as wanted, and none; random subsets fill free places."""
        engine, asked = self.engine, self.asked
        if asked.num_sources > MOST_EXACT and not self.options.each:
            engine.besides = self._draws.round(0)
        missing = max(0, self.options.repeats - 1 - len(asked.repeated))
        left = None if engine.max_probes is None else engine.max_probes - engine.num_probes - 2
        if missing and (left is None or left >= missing):
            asked.wanted_repeats = missing
            if engine.max_probes is not None:
                engine.max_probes -= missing
        free = max(0, asked.workers - asked.wanted_repeats - 2)
        if engine.besides and free and self.options.hurry:
            engine.besides = [*self._first_splits(free + 1), *engine.besides]
        engine.together = 2 + free
        if asked.num_sources or not self._passages:
            engine.probe([self._full, 0])
        engine.together = asked.workers
        if self._text is None:
            self._text = engine.probe([self._full])[0]
        if not self._claims:
            self._make_claims(self._text)

    def _first_splits(self, width: int) -> list[int]:
        """What the search asks first, unless the answer's words tell it to begin elsewhere."""
        if self._text is not None and not self._claims:
            self._make_claims(self._text)
        claim = self._claims[0] if self._claims else Claim("", 0, 0)
        order = self._order(claim)
        return order.first(self.asked.num_sources, width) if order else []

    def _make_claims(self, text: str) -> None:
        whole = Claim(text.strip(), *_span(text))
        cut = self._judging.predicate is None and not self.options.whole and not is_refusal(text)
        self._claims = (split_claims(text) if cut else [whole]) or [whole]
        self._predicates = [self._predicate(claim.text) for claim in self._claims]
        self._found = [None] * len(self._claims)

    def _predicate(self, claim: str) -> Predicate:
        own = self._judging
        if own.predicate is not None:
            return own.predicate
        texts = [passage.text for passage in self.asked.context.whole]
        return SameClaim(claim, self.asked.question, texts, own.entailment, own.judge)

    def _explain(self, place: int, told: Tell) -> None:
        def changed(kind: str, found: Found) -> None:
            self._found[place] = found
            told(Event(kind, self.explained(), place))

        predicate = self._predicates[place]
        self._growth.claim = place
        known = self._found[place]
        found = search_claim(
            self.engine,
            predicate,
            self._draws,
            width=self._width,
            order=self._order(self._claims[place]),
            on_change=changed,
            growth=self._growth,
        )
        self._found[place] = found
        self._ended = self._ended or found.stopped
        if not found.complete and known is not None and known.retention and not found.retention:
            self._found[place] = known

    def _known_before(self, expected: Sequence[int]) -> Priors:
        """What scores and a coarser explanation say of each source."""
        context, signs = self.asked.context, list[list[float]]()
        sources = [context.units[place] for place in self._places]
        if scores := scores_of(context.documents):
            signs.append([max(scores[n] for n, _, _ in unit.spans) for unit in sources])
        chosen = set(expected)
        signs.append([float(place in chosen) for place in self._places])
        texts = [unit.passage.text for unit in sources]

        def learned(claim: str) -> list[float]:
            return expected_weights(self.asked.question, claim, texts, signs[0] if scores else None)

        return Priors(texts, signs, learned)

    def _order(self, claim: Claim) -> CoarseToFine | None:
        """What is tried first for one claim among many documents."""
        if self.asked.num_sources <= MOST_EXACT:
            return None
        inside = [self.asked.context.units[place].inside for place in self._places]
        groups = [
            [(*path[:depth], *([n] if len(path) < depth else [])) for n, path in enumerate(inside)]
            for depth in range(1, 1 + max(map(len, inside)))
        ]
        return CoarseToFine(groups, self._priors.weights(claim.text))

    def explained(self) -> Explained:
        """Everything that is known so far."""
        claims = tuple(
            self._explained_claim(claim, predicate, found)
            for claim, predicate, found in zip(
                self._claims, self._predicates, self._found, strict=True
            )
        )
        price, asked = self.options.price, self.asked
        tokens = [number // CHARACTERS_A_TOKEN for number in (asked.read, asked.written)]
        return Explained(
            question=self.asked.question,
            text=self._text or "",
            documents=self._passages,
            claims=claims,
            empty=self._said(0),
            num_calls=self.asked.calls,
            seconds=self.engine.seconds,
            complete=all(claim.complete for claim in claims) and not self._ended,
            notes=tuple(self._notes(claims)),
            again=tuple(asked.repeated),
            tokens=sum(tokens),
            money=None if price is None else sum(map(operator.mul, tokens, price)) / 1e6,
            frozen=self._frozen,
            settings={**asdict(self.options), "workers": asked.workers, **self.about},
            growth=tuple(map(self._placed_moment, sorted(self._growth.moments, key=_calls))),
        )

    def _explained_claim(
        self, claim: Claim, predicate: Predicate, found: Found | None
    ) -> ExplainedClaim:
        known = found or Found(complete=False)
        said = [one for one in (self._said(self._full), *self.asked.repeated) if one is not None]
        stable = sum(map(bool, map(predicate, said))) / len(said) if said else 1.0
        return ExplainedClaim(
            claim.text,
            claim.start,
            claim.end,
            refusal=is_refusal(claim.text),
            retention=tuple(map(self._placed, known.retention)),
            omission=tuple(map(self._placed, known.omission)),
            spoilers=tuple(
                Spoiler(self._at(one.documents), self._at(one.enough), one.output)
                for one in known.spoilers
            ),
            stable=stable,
            complete=known.complete,
            steps=getattr(predicate, "steps", {}),
        )

    def _placed(self, one: DocumentSet) -> DocumentSet:
        return DocumentSet(self._at(tuple(one)), one.certificate, one.output)

    def _placed_moment(self, one: Moment) -> Moment:
        if one.documents is None:
            return one
        return replace(one, documents=self._at(one.documents))

    def _at(self, sources: Sequence[int]) -> tuple[int, ...]:
        """The places of sources among all documents."""
        return tuple(sorted(self._places[index] for index in sources))

    def _said(self, mask: int) -> str | None:
        code = int(self.engine.known_codes([mask])[0])
        return self.engine.outputs[code] if code >= 0 else None

    def _notes(self, claims: Sequence[ExplainedClaim]) -> list[str]:
        """What has to be known before anything else is believed."""
        notes = []
        shaky = [one for one in claims if one.stable < 1]
        times = len(self.asked.repeated) + (self._said(self._full) is not None)
        asked = {1: "once", 2: "twice"}.get(times, f"{in_words(times)} times")
        if shaky:
            came = round(min(one.stable for one in shaky) * times)
            often = {0: "not once", 1: "only once", 2: "only twice"}
            seen = often.get(came, f"only {in_words(came)} times")
            what = f"this claim came {seen}"
            if len(claims) > 1:
                what = f"{in_words(len(shaky))} of the {in_words(len(claims))} claims did not come "
                what += f"every time, one of them {seen}"
            notes.append(
                f"The answers vary: asked {asked} with all documents, {what}. Nothing that follows "
                "is more certain than that."
            )
        elif len({self._said(self._full), *self.asked.repeated} - {None}) > 1:
            notes.append(
                f"The wording varies: asked {asked} with all documents, every claim came each time."
            )
        empty = [p.label for p in self._passages if not p.text.strip()]
        if empty:
            others = [f"{len(empty) - _MOST_NAMED} others"] if len(empty) > _MOST_NAMED else []
            named = listing([*empty[:_MOST_NAMED], *others])
            many = len(empty) > 1
            what = (
                f"Documents {named} are empty and were"
                if many
                else f"Document {named} is empty and was"
            )
            notes.append(f"{what} not looked at.")
        if not self._passages:
            notes.append("There is no document to keep or remove.")
        if self._ended:
            notes.append(f"Stopped early: {self._ended}.")
        return notes


_calls = operator.attrgetter("calls")


def _span(text: str) -> tuple[int, int]:
    left = len(text) - len(text.lstrip())
    return left, left + len(text.strip())

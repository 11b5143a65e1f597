"""Which documents a claim rests on: every subset for a few documents, a search and tests for more.

All claims share one engine, so that a subset is asked once for all of them. With many documents
the minimal sets that are enough are looked for as if a claim, once made, were made with more
documents too. Then one pool of random subsets, the same for all claims, tests what the sets found
predict: no wrong prediction among 63 shows that at most one subset in twenty is predicted wrongly,
whatever the answer function is like. A wrong prediction shows where to go on: a set that was
missed, or a document that speaks against the claim (a spoiler). Or each set is tested by itself, on
random subsets that hold it, until bets against it are lost or won. How many documents a random
subset keeps is drawn first, each number as likely: a real context may be short or long, and what
goes wrong in long ones alone would hardly ever meet a uniform subset.

References:
    Rorseth et al. 2025 (arXiv:2510.22689): retention and omission rules, Algorithm 2.
    Liffiton et al. 2016 (Constraints 21): MARCO, both borders from unexplored seeds.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rulerag.errors import ProbeBudgetError
from rulerag.explanation.any_answer.records import DocumentSet, Moment, Spoiler
from rulerag.explanation.lattice import full_mask, indices_of, mask_of, minimal_transversals
from rulerag.explanation.probing import (
    OutputPredicate,
    Predicate,
    PredicateValues,
    ProbeEngine,
)
from rulerag.explanation.records import Certificate
from rulerag.explanation.source_rules import (
    BorderSearch,
    CoarseToFine,
    DualMiner,
    RuleOracle,
    ShareBets,
    by_size,
    lower_bound,
    random_superset,
    samples_needed,
    shown_together,
    shrink,
)

MOST_EXACT = 6
"""Up to so many documents every subset is asked: a search and its tests would ask as many."""

_MAX_SIZE, _MAX_SEARCH = 10, 1000
_RISKS = (0.8, 0.1, 0.05, 0.03, 0.02)
"""How the risk is divided among the rounds of tests."""
_MOST_SETS, _FIRST_DRAWS = 64, 5
_STEP = 0.02
"""A guaranteed share is recorded where it differs by so much from the one before."""


@dataclass
class Found:
    """What a search knows about one claim.

    Args:
        retention: minimal sets that are enough.
        omission: minimal sets without which it is gone.
        spoilers: what speaks against it.
        complete: whether the search came to its end.
        stopped: what ended it before, in words.
    """

    retention: tuple[DocumentSet, ...] = ()
    omission: tuple[DocumentSet, ...] = ()
    spoilers: tuple[Spoiler, ...] = ()
    complete: bool = True
    stopped: str = ""


@dataclass
class SharedDraws:
    """Random subsets of the documents, the same ones for every claim, round by round.

    Args:
        num_sources: how many documents there are.
        validity: the share of subsets that has to be predicted right.
        confidence: the probability that such a statement about one claim is true, at least.
        seed: of the draws.
        each: every set is shown by itself; else what all sets of a claim predict together.
        subsets: ``by-size`` (how many documents are kept is drawn uniformly, then which) or
            ``uniform`` (every subset as likely, so that nearly all keep half of the documents).
    """

    num_sources: int
    validity: float
    confidence: float
    seed: int
    each: bool = False
    subsets: str = "by-size"
    _rounds: list[list[int]] = field(default_factory=list, repr=False)

    def round(self, number: int) -> list[int]:
        """The subsets of one round, as masks."""
        while len(self._rounds) <= number:
            rng = random.Random(f"{self.seed}-{len(self._rounds)}")
            count = samples_needed(self.validity, self.risk(len(self._rounds)))
            self._rounds.append([self.superset(0, rng) for _ in range(count)])
        return self._rounds[number]

    def superset(self, mask: int, rng: random.Random) -> int:
        """A random set with the documents of ``mask``."""
        return random_superset(mask, self.num_sources, self.subsets, rng)

    def shared(self, size: int, rng: random.Random) -> int:
        """A random set for every set of ``size`` documents that it happens to hold.

        For those it is drawn like a :meth:`superset` of theirs. One that keeps ``k`` of the ``n``
        documents holds a certain one with the probability ``k / n``, so that a weight of ``1 / k``
        lets every number of others come as often.
        """
        if self.subsets == "uniform":
            return self.superset(0, rng)
        sizes = range(size, self.num_sources + 1)
        (kept,) = rng.choices(sizes, [1 / self._holding(size, one) for one in sizes])
        return mask_of(rng.sample(range(self.num_sources), kept))

    def draws_a_hit(self, size: int) -> float:
        """How many :meth:`shared` sets there are for one that holds a certain set of ``size``."""
        if self.subsets == "uniform":
            return 1 << size
        sizes = range(size, self.num_sources + 1)
        return sum(1 / self._holding(size, one) for one in sizes) / len(sizes)

    def _holding(self, size: int, kept: int) -> float:
        """The probability that a random set of ``kept`` documents holds one set of ``size``."""
        return math.comb(kept, size) / math.comb(self.num_sources, size)

    def risk(self, number: int) -> float:
        """The risk of one round."""
        return (1 - self.confidence) * _RISKS[number]


@dataclass
class Growth:
    """What became certain when.

    Args:
        calls: how many calls were made by now.

    Attributes:
        claim: the place of the claim that is looked at.
        moments: what became certain, with places of sources in place of documents.
    """

    calls: Callable[[], int] = lambda: 0
    claim: int = 0
    moments: list[Moment] = field(default_factory=list)

    def add(
        self,
        kind: Any,
        documents: Iterable[int] | None = None,
        share: float | None = None,
        calls: int | None = None,
    ) -> None:
        """Keep a moment, but none that was known: a search that goes on begins anew."""
        claim = None if kind == "tried" else self.claim
        about = None if documents is None else tuple(documents)
        same = [
            one.share
            for one in self.moments
            if (one.kind, one.claim, one.documents) == (kind, claim, about)
        ]
        if not same or same[-1] != share:
            at = self.calls() if calls is None else calls
            self.moments.append(Moment(at, kind, claim, about, share))


def search_claim(
    engine: ProbeEngine,
    predicate: Predicate,
    draws: SharedDraws,
    *,
    width: int = 1,
    order: CoarseToFine | None = None,
    on_change: Callable[[str, Found], object] | None = None,
    growth: Growth | None = None,
) -> Found:
    """Find what one claim rests on.

    Args:
        engine: answers for subsets of the documents.
        predicate: whether an output makes the claim.
        draws: the subsets of the tests.
        width: how many subsets the search may ask at once without a need for all of them.
        order: what is tried first among many documents; it changes no result that was shown.
        on_change: called with ``set`` or ``spoiler`` and what is known by then.
        growth: keeps what became certain when.

    Raises:
        PredicateError: the predicate failed.
        ExplanationError: the answer function failed.
    """
    told = on_change or (lambda kind, found: None)
    growth = growth or Growth()
    if engine.num_sources <= MOST_EXACT:
        return _exact(engine, predicate, growth)
    search = _SampledSearch(
        engine, predicate, draws, (told, growth), width, order or CoarseToFine()
    )
    engine.on_batch = search.look
    try:
        search.run()
    except ProbeBudgetError as error:
        search.stopped = error.message
    finally:
        engine.on_batch = None
    return search.found()


def _exact(engine: ProbeEngine, predicate: Predicate, growth: Growth) -> Found:
    many = getattr(predicate, "many", None)
    made = OutputPredicate(predicate, "the claim is made", "the claim is not made", many)
    full, stopped = full_mask(engine.num_sources), ""

    def look(*_: object) -> None:
        growth.add("tried", share=engine.num_probes / (full + 1))

    look()
    engine.on_batch = look
    try:
        kept, removed = DualMiner().mine(engine, retention=made, omission=~made)
    except ProbeBudgetError as error:
        kept, removed = error.partial  # type: ignore[misc]
        stopped = error.message.partition(";")[0]
    finally:
        engine.on_batch = None
    for rule in kept.rules:
        growth.add("set", rule.sources)
    retention = [
        DocumentSet(rule.sources, rule.certificate, _said(engine, mask_of(rule.sources)))
        for rule in kept.rules
    ]
    omission = [
        DocumentSet(rule.sources, rule.certificate, _said(engine, full ^ mask_of(rule.sources)))
        for rule in removed.rules
    ]
    spoilers: tuple[Spoiler, ...] = ()
    if not stopped:
        try:
            spoilers = _spoilers_of_lattice(engine, made, retention)
        except ProbeBudgetError as error:  # the sets are certain all the same
            stopped = error.message
    return Found(tuple(retention), tuple(omission), spoilers, not stopped, stopped)


def _spoilers_of_lattice(
    engine: ProbeEngine, predicate: Predicate, retention: Sequence[DocumentSet]
) -> tuple[Spoiler, ...]:
    """Minimal (S, T) such that S is enough where T is lacking, and not with it."""
    count, full = engine.num_sources, full_mask(engine.num_sources)
    masks = list(range(1 << count))
    codes = engine.probe_codes(masks)
    values = PredicateValues(predicate, engine.outputs)(codes).tolist()
    valid = [mask_of(one) for one in retention]
    found: list[tuple[int, int]] = []
    for enough in sorted(masks, key=int.bit_count):
        if not values[enough] or any(rule & ~enough == 0 for rule in valid):
            continue  # fails, or is enough whatever else is there
        for other in indices_of(full ^ enough):
            bit = 1 << other
            smaller = any(one & ~enough == 0 and against == bit for one, against in found)
            if not values[enough | bit] and not smaller:
                found.append((enough, bit))
    return tuple(
        Spoiler(indices_of(bit), indices_of(enough), _said(engine, enough | bit) or "")
        for enough, bit in found
    )


def _said(engine: ProbeEngine, mask: int) -> str | None:
    code = int(engine.known_codes([mask])[0])
    return engine.outputs[code] if code >= 0 else None


class _SampledSearch:
    """One claim over many documents: sets found, tests passed, spoilers met."""

    def __init__(
        self,
        engine: ProbeEngine,
        predicate: Predicate,
        draws: SharedDraws,
        told: tuple[Callable[[str, Found], object], Growth],
        width: int,
        order: CoarseToFine,
    ) -> None:
        self._engine, self._draws, self._order = engine, draws, order
        self._told, self._growth = told
        self._when: dict[int, int] = {}
        self._known: list[tuple[int, list[int]]] = []
        self._oracle = RuleOracle("retention", engine, predicate)
        self._border = BorderSearch(
            self._oracle,
            max_size=_MAX_SIZE,
            max_probes=_MAX_SEARCH,
            seed=draws.seed,
            width=width,
            on_found=self._met,
            shrink=order,
        )
        self._spoilers: list[tuple[int, int, str]] = []
        self._certificate = Certificate("untested", draws.validity, draws.confidence, draws.subsets)
        self.stopped = ""
        self._bets: dict[int, ShareBets] = {}
        self._tried: dict[int, list[tuple[int, bool]]] = {}
        self._failed: dict[int, int] = {}
        self._shown, self._refuted = set[int](), set[int]()

    def run(self) -> None:
        """Search and test, until the tests find no wrong prediction."""
        if self._draws.each:
            self._run_each()
            if self._border.complete and not self._spoilers:
                return
        self._run_together()
        if self._draws.each:  # what random subsets showed besides
            self._run_each()

    def _run_together(self) -> None:
        """Search, and test what all sets predict, until no prediction is wrong."""
        for number in range(len(_RISKS)):
            masks = self._draws.round(number)
            self._begin(masks)
            self._engine.besides = masks
            self._border.max_probes = self._room(masks)
            self._border.run()
            values = self._oracle.hold(masks)
            wrong = [
                mask
                for mask, value in zip(masks, values, strict=True)
                if self._predicted(mask) != value
            ]
            self._certificate = self._tested(masks, wrong, self._draws.risk(number))
            self._tell_growth(masks, values, self._draws.risk(number))
            if not self._border.exhausted and self._border.max_probes < _MAX_SEARCH:
                self.stopped = "the budget was kept for the tests; there may be more sets"
            if self._certificate.kind == "certified" or not self._learn(wrong):
                return

    def _met(self) -> None:
        """A set was found."""
        found = list(self._border.found)
        for mask in found:
            self._growth.add("set", indices_of(mask))
        self._known.append((self._growth.calls(), found))
        self._told("set", self.found())

    def _begin(self, masks: Sequence[int]) -> None:
        """Look out for the answers to the subsets of a round."""
        self._when = dict.fromkeys(masks, -1)
        self._known = [(self._growth.calls(), list(self._border.found))] * bool(self._border.found)
        self.look()

    def look(self, *_: object) -> None:
        """Note which subsets of the round were answered by now."""
        waiting = [mask for mask, calls in self._when.items() if calls < 0]
        codes = self._engine.known_codes(waiting).tolist() if waiting else []
        now = self._growth.calls()
        self._when |= {m: now for m, code in zip(waiting, codes, strict=True) if code >= 0}

    def _tell_growth(self, masks: Sequence[int], values: Sequence[bool], risk: float) -> None:
        """What the sets known at each call were guaranteed to predict by the answers until then.

        A draw counts once it and all before it are answered. When that is does not depend on what
        was answered, so that each of these bounds is true by itself with the confidence of the
        round; the last one is the certificate's.
        """
        self.look()
        known = self._known or [(self._growth.calls(), [])]
        # In the order drawn, since the search asks small and nearly full ones for itself, earlier.
        when = itertools.accumulate((self._when[mask] for mask in masks), max)
        answered = list(zip(when, masks, values, strict=True))
        moments = {calls for calls, _, _ in answered} | {calls for calls, _ in known}
        before = -1.0
        for now in sorted(calls for calls in moments if calls >= known[0][0]):
            found = [sets for calls, sets in known if calls <= now][-1]
            seen = [(mask, held) for calls, mask, held in answered if calls <= now]
            right = sum(self._predicted(mask, found) == held for mask, held in seen)
            share = lower_bound(right, len(seen), risk)
            if abs(share - before) >= _STEP and now < self._growth.calls():
                self._growth.add("together", share=share, calls=now)
                before = share
        self._growth.add("together", share=self._certificate.bound or 0.0)

    def _room(self, masks: Sequence[int]) -> int:
        """How many subsets the search may ask, so that the budget lasts for the tests."""
        engine, border = self._engine, self._border
        if engine.max_probes is None:
            return _MAX_SEARCH
        tests = int((engine.known_codes(masks) < 0).sum())
        # A search for one set is not broken off.
        left = engine.max_probes - engine.num_probes - tests - 2 * engine.num_sources.bit_length()
        return min(_MAX_SEARCH, border.num_probes + left) if left > 0 else _MAX_SEARCH

    def _run_each(self) -> None:
        """Search, and show each set by itself; what falls shows where to search again."""
        for _ in _RISKS:
            self._border.run()
            waiting = [r for r in self._border.found if r not in self._shown | self._refuted]
            if not waiting:
                return
            self._bet(waiting)

    def _bet(self, rules: Sequence[int]) -> None:
        """Draw subsets that hold a set until it is shown, or falls, or takes too many."""
        draws, risk = self._draws, 1 - self._draws.confidence
        # What was drawn for the same sets before must not count twice.
        begun = sum(len(self._tried.get(rule, ())) for rule in rules)
        rng = random.Random(f"{draws.seed}-{sorted(rules)}-{begun}")
        most, size = 4 * samples_needed(draws.validity, risk), _FIRST_DRAWS
        waiting = list(rules)
        while waiting:
            batch: list[tuple[int, int]] = []
            for width in sorted({rule.bit_count() for rule in waiting}):
                alike = [rule for rule in waiting if rule.bit_count() == width]
                hits = draws.draws_a_hit(width)
                if len(alike) > hits:  # one draw serves all that it holds
                    masks = [draws.shared(width, rng) for _ in range(math.ceil(size * hits))]
                    batch += [(r, mask) for mask in masks for r in alike if r & ~mask == 0]
                else:
                    batch += [(r, draws.superset(r, rng)) for r in alike for _ in range(size)]
            values = self._oracle.hold([mask for _, mask in batch])
            for (rule, mask), held in zip(batch, values, strict=True):
                self._bets[rule] = self._bets.get(rule, ShareBets()).after(held)
                self._tried.setdefault(rule, []).append((mask, held))
                if not held:
                    self._failed.setdefault(rule, mask)
            family = list(self._bets)
            wealth = [self._bets[rule].against_less(draws.validity) for rule in family]
            fallen = dict(zip(family, shown_together(wealth, risk), strict=True))
            for rule in list(waiting):
                bets = self._bets.get(rule, ShareBets())
                refuted = bets.against_more(draws.validity) >= 1 / risk
                if fallen.get(rule):
                    self._shown.add(rule)
                elif refuted:
                    self._refuted.add(rule)
                    self._learn_spoiler(self._failed[rule])
                share = bets.lower(risk)
                self._growth.add("alone", indices_of(rule), share)
                if fallen.get(rule) or refuted or bets.successes + bets.failures >= most:
                    waiting.remove(rule)
            size = min(2 * size, most)
            nearest = max((self._bets[r].successes for r in waiting if r in self._bets), default=0)
            left = samples_needed(draws.validity, 0.95 * risk) - nearest
            if left > 0:
                size = min(size, left)

    def _by_itself(self, rule: int) -> Certificate:
        """What the draws that hold a set show of it."""
        draws = self._draws
        untested = Certificate("untested", draws.validity, draws.confidence, draws.subsets)
        if rule not in self._bets:
            return untested
        bets, (kept, values) = self._bets[rule], zip(*self._tried[rule], strict=True)
        return replace(
            untested,
            kind="certified" if rule in self._shown else "tested",
            samples=bets.successes + bets.failures,
            successes=bets.successes,
            bound=bets.lower(1 - draws.confidence),
            sizes=by_size(rule, draws.num_sources, kept, values),
        )

    def _predicted(self, mask: int, found: Sequence[int] | None = None) -> bool:
        if any(rule & ~mask == 0 for rule in (self._border.found if found is None else found)):
            return True
        return any(self._enough(rule, mask) for rule, _, _ in self._spoilers)

    def _tested(self, masks: Sequence[int], wrong: Sequence[int], risk: float) -> Certificate:
        validity, samples, failures = self._draws.validity, len(masks), len(wrong)
        bound = validity if not failures else lower_bound(samples - failures, samples, risk)
        kind = "certified" if bound >= validity else "tested"
        return Certificate(
            kind,  # type: ignore[arg-type]
            validity,
            self._draws.confidence,
            self._draws.subsets,
            samples=samples,
            successes=samples - failures,
            bound=bound,
            sizes=by_size(0, self._draws.num_sources, masks, [mask not in wrong for mask in masks]),
        )

    def _learn(self, wrong: Sequence[int]) -> bool:
        """Whether wrong predictions showed sets or spoilers that were not known."""
        learned = False
        for mask in sorted(wrong, key=int.bit_count)[:3]:
            held = self._oracle.holds(mask)
            if self._predicted(mask) == held:
                continue  # explained by now
            learned |= self._learn_set(mask) if held else self._learn_spoiler(mask)
        return learned

    def _learn_set(self, mask: int) -> bool:
        oracle = self._oracle
        found = self._order(
            indices_of(mask),
            oracle.hold,
            oracle.refuted,
            max_size=_MAX_SIZE,
            width=self._border.width,
        )
        if found is None or found in self._border.found:
            return False
        self._border.found = [one for one in self._border.found if found & ~one]
        self._border.found.append(found)
        return True

    def _learn_spoiler(self, mask: int) -> bool:
        """A set was enough so far, and is not with all of ``mask``: what takes it away?

        A few documents that do so by themselves, once they are added to the set. Where more than
        a few have to come together, the set stays, and its tests say on what size it fails.
        """
        rules = [one for one in self._border.found if one & ~mask == 0]
        rules += dict.fromkeys(e for e, _, _ in self._spoilers if self._enough(e, mask))
        learned = False
        for rule in rules:

            def fails(added: Sequence[int], rule: int = rule) -> list[bool]:
                return [not held for held in self._oracle.hold([rule | one for one in added])]

            others = indices_of(mask & ~rule)
            against = shrink(others, fails, max_size=_MAX_SIZE, width=self._border.width)
            if against and not self._oracle.holds(rule | against):
                if rule in self._border.found:
                    self._border.found.remove(rule)
                said = _said(self._engine, rule | against) or ""
                self._spoilers.append((rule, against, said))
                self._growth.add("against", indices_of(against))
                self._told("spoiler", self.found())
                learned = True
        return learned

    def _enough(self, rule: int, mask: int) -> bool:
        """Whether a set is there, and nothing in full that is known to take it away."""
        against = (t for e, t, _ in self._spoilers if e == rule)
        return rule & ~mask == 0 and all(one & ~mask for one in against)

    def found(self) -> Found:
        """What is known so far."""
        engine, certificate = self._engine, self._certificate
        masks = sorted(self._border.found, key=lambda one: (one.bit_count(), indices_of(one)))
        retention = [
            DocumentSet(
                indices_of(mask),
                self._by_itself(mask) if self._draws.each else certificate,
                _said(engine, mask),
            )
            for mask in masks
        ]
        full = full_mask(engine.num_sources)
        omission = []
        if masks and 0 not in masks and not self._spoilers:
            for number, gone in enumerate(minimal_transversals(masks)):
                if number == _MOST_SETS:
                    break
                if not (self._border.exhausted or self._oracle.refuted(full ^ gone)):
                    continue  # another set, not known yet, may be enough without these
                said = _said(engine, full ^ gone)
                # Until no set is missing, the claim may be made without these, by another one.
                if (said is None and not self._border.complete) or (
                    said is not None and self._oracle.holds(full ^ gone)
                ):
                    continue
                omission.append(DocumentSet(indices_of(gone), certificate, said))
        spoilers = [Spoiler(indices_of(t), indices_of(e), said) for e, t, said in self._spoilers]
        certain = not self.stopped and certificate.kind == "certified"
        if self._draws.each:
            certain = not self.stopped and all(mask in self._shown for mask in masks)
        return Found(tuple(retention), tuple(omission), tuple(spoilers), certain, self.stopped)

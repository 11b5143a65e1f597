"""Which sources a claim rests on: every subset for a few sources, a search and tests for more.

With many sources the minimal sets that are enough are looked for as if a claim, once made, were
made with more sources too. Then one pool of random subsets, the same for all claims, tests what the
sets found predict: no wrong prediction among 60 shows that at most one subset in twenty is
predicted wrongly, whatever the answer function is like. A wrong prediction shows where to go on: a
set that was missed, or a source that speaks against the claim (a spoiler). Or each set is tested by
itself, on random subsets that hold it, until bets against it are lost or won. How many sources a
random subset keeps is drawn first, each number as likely: a real context may be short or long, and
what goes wrong in long ones alone would hardly ever meet a uniform subset.

References:
    Rorseth et al. 2025 (arXiv:2510.22689): retention and omission rules, Algorithm 2.
    Liffiton et al. 2016 (Constraints 21): MARCO, both borders from unexplored seeds.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rulerag.composition import check_choice
from rulerag.errors import ConfigError, ProbeBudgetError
from rulerag.explanation.lattice import full_mask, indices_of, mask_of, minimal_transversals
from rulerag.explanation.probing import OutputPredicate, Predicate, PredicateValues, ProbeEngine
from rulerag.explanation.records import (
    SUBSETS,
    Certificate,
    CertifiedRules,
    DocumentSet,
    Spoiler,
    check_kind,
)
from rulerag.explanation.search.border import BorderSearch, RuleOracle
from rulerag.explanation.search.exact import DualMiner
from rulerag.explanation.search.sampling import (
    ROUND_RISKS,
    RandomSubsets,
    ShareBets,
    by_size,
    lower_bound,
    samples_needed,
    shown_together,
)

_MAX_SIZE, _MAX_SEARCH = 10, 1000
_MOST_SETS, _FIRST_DRAWS = 64, 5
_MOST_SPOILER_TABLE = 12
"""Up to so many sources spoilers are read off the table of all subsets."""


@dataclass(frozen=True)
class ClaimSets:
    """What is known of the sources that one claim rests on.

    Args:
        retention: minimal sets that are enough.
        omission: minimal sets without which it is gone.
        spoilers: what speaks against it.
        complete: whether the search came to its end.
        ended: what ended it before, in words.
    """

    retention: tuple[DocumentSet, ...] = ()
    omission: tuple[DocumentSet, ...] = ()
    spoilers: tuple[Spoiler, ...] = ()
    complete: bool = True
    ended: str = ""


def exact_sets(engine: ProbeEngine, predicate: Predicate) -> ClaimSets:
    """Both kinds of minimal sets, and what speaks against them, from every subset.

    Args:
        engine: answers for subsets of the sources.
        predicate: whether an output makes the claim.

    Raises:
        ExplanationError: there are too many sources, or the answer function failed.
        PredicateError: the predicate failed.
    """
    many = getattr(predicate, "many", None)
    made = OutputPredicate(predicate, "the claim is made", "the claim is not made", many)
    enough, needed = DualMiner().mine(engine, retention=made, omission=~made)
    full, ended = full_mask(engine.num_sources), enough.ended or needed.ended
    retention, omission = (
        tuple(
            DocumentSet(
                rule.sources,
                rule.certificate,
                engine.output(mask_of(rule.sources) ^ (full if rules.kind == "omission" else 0)),
            )
            for rule in rules.rules
        )
        for rules in (enough, needed)
    )
    spoilers: tuple[Spoiler, ...] = ()
    if not ended:
        try:
            spoilers = _spoilers_of_lattice(engine, made, enough.minimal_masks)
        except ProbeBudgetError as error:  # the sets are certain all the same
            ended = error.message
    return ClaimSets(retention, omission, spoilers, not ended, ended)


def _spoilers_of_lattice(
    engine: ProbeEngine, predicate: Predicate, enough: Sequence[int]
) -> tuple[Spoiler, ...]:
    """Minimal (S, T) such that S is enough where T is lacking, and not with it."""
    count = engine.num_sources
    if count > _MOST_SPOILER_TABLE:
        return ()
    masks = np.arange(1 << count)
    values = PredicateValues(predicate, engine.outputs)(engine.probe_codes(masks))
    covered = np.zeros(masks.size, dtype=np.bool_)
    for rule in enough:
        covered |= masks & rule == rule
    hits: list[tuple[int, int]] = []
    # Sets that hold, and are not enough whatever else is there.
    for one in sorted(masks[values & ~covered].tolist(), key=int.bit_count):
        for other in indices_of(full_mask(count) ^ one):
            bit = 1 << other
            smaller = any(s & ~one == 0 and against == bit for s, against in hits)
            if not values[one | bit] and not smaller:
                hits.append((one, bit))
    return tuple(
        Spoiler(indices_of(bit), indices_of(one), engine.output(one | bit) or "")
        for one, bit in hits
    )


class SampledSearch:
    """The minimal sets of one claim over many sources, found by a search and certified by tests.

    Args:
        engine: answers for subsets of the sources.
        predicate: whether an output makes the claim.
        draws: the subsets of the tests.
        kind: ``retention`` (sets that are enough) or ``omission`` (sets without which it is gone).
        each: every set is shown by itself; else what all sets of the claim predict together.
        width: how many subsets the search may ask at once without a need for all of them.

    Attributes:
        ended: what ended the search early, in words.
    """

    def __init__(
        self,
        engine: ProbeEngine,
        predicate: Predicate,
        draws: RandomSubsets,
        *,
        kind: str = "retention",
        each: bool = False,
        width: int = 1,
    ) -> None:
        self._engine, self._draws, self._each = engine, draws, each
        self._oracle = RuleOracle(kind, engine, predicate)
        self._border = BorderSearch(self._oracle, _MAX_SIZE, _MAX_SEARCH, draws.seed, width)
        self._spoilers: list[tuple[int, int, str]] = []
        self._together = draws.untested
        self.ended = ""
        self._bets: dict[int, ShareBets] = {}
        self._tried: dict[int, list[tuple[int, bool]]] = {}
        self._shown, self._refuted = set[int](), set[int]()

    def run(self) -> Iterator[str]:
        """Search and test, until the tests find no wrong prediction or the budget runs out.

        Yields:
            ``set`` where a set was found and ``spoiler`` where one was; :meth:`sets` says which.

        Raises:
            PredicateError: the predicate failed.
            ExplanationError: the answer function failed.
        """
        try:
            if self._each:
                yield from self._run_each()
                if self._border.complete and not self._spoilers:
                    return
            yield from self._run_together()
            if self._each:  # what random subsets showed besides
                yield from self._run_each()
        except ProbeBudgetError as error:
            self.ended = error.message

    # --- what all sets predict ----

    def _run_together(self) -> Iterator[str]:
        """Search, and test what all sets predict, until no prediction is wrong."""
        for number in range(len(ROUND_RISKS)):
            masks = self._draws.round(number)
            room = self._room(masks)
            for _ in self._border.search(room, masks):
                yield "set"
            values = self._oracle.hold(masks)
            wrong = [
                m for m, value in zip(masks, values, strict=True) if self._predicted(m) != value
            ]
            self._together = self._tested(masks, wrong, self._draws.risk(number))
            if not self._border.exhausted and room < _MAX_SEARCH:
                self.ended = "the budget was kept for the tests; there may be more sets"
            if self._together.kind == "certified":
                return
            learned = yield from self._learn(wrong)
            if not learned:
                return

    def _room(self, masks: Sequence[int]) -> int:
        """How many subsets the search may ask, so that the budget lasts for the tests."""
        engine = self._engine
        if engine.left is None:
            return _MAX_SEARCH
        tests = int((engine.known_codes([self._oracle.kept(m) for m in masks]) < 0).sum())
        # A search for one set is not broken off.
        left = engine.left - tests - 2 * engine.num_sources.bit_length()
        return min(_MAX_SEARCH, self._border.num_probes + left) if left > 0 else _MAX_SEARCH

    def _predicted(self, mask: int) -> bool:
        if any(rule & ~mask == 0 for rule in self._border.minimal):
            return True
        return any(self._enough(rule, mask) for rule, _, _ in self._spoilers)

    def _enough(self, rule: int, mask: int) -> bool:
        """Whether a set is there, and nothing in full that is known to take it away."""
        against = (t for e, t, _ in self._spoilers if e == rule)
        return rule & ~mask == 0 and all(one & ~mask for one in against)

    def _tested(self, masks: Sequence[int], wrong: Sequence[int], risk: float) -> Certificate:
        samples, failures = len(masks), len(wrong)
        validity = self._draws.validity
        bound = validity if not failures else lower_bound(samples - failures, samples, risk)
        kept = [self._oracle.kept(mask) for mask in masks]
        return replace(
            self._draws.untested,
            kind="certified" if bound >= validity else "tested",
            samples=samples,
            successes=samples - failures,
            bound=bound,
            sizes=by_size(0, self._draws.num_sources, kept, [m not in wrong for m in masks]),
        )

    def _learn(self, wrong: Sequence[int]) -> Generator[str, None, bool]:
        """Look for what wrong predictions show; returns whether that was not known."""
        learned = False
        for mask in sorted(wrong, key=int.bit_count)[:3]:
            holds = self._oracle.holds(mask)
            if self._predicted(mask) == holds:
                continue  # explained by now
            if holds:
                minimal = self._border.minimise(mask)
                learned |= minimal is not None and self._border.add(minimal)
            elif self._learn_spoiler(mask):
                learned = True
                yield "spoiler"
        return learned

    def _learn_spoiler(self, mask: int) -> bool:
        """A set was enough so far, and is not with all of ``mask``: what takes it away?

        A few sources that do so by themselves, once they are added to the set. Where more than a
        few have to come together, the set stays, and its tests say on what size it fails.
        """
        rules = [one for one in self._border.minimal if one & ~mask == 0]
        rules += dict.fromkeys(e for e, _, _ in self._spoilers if self._enough(e, mask))
        learned = False
        for rule in rules:
            against = self._border.spoilers(rule, mask)
            if against and not self._oracle.holds(rule | against):
                self._border.remove(rule)
                self._spoilers.append((rule, against, self._oracle.output(rule | against) or ""))
                learned = True
        return learned

    # --- what each set shows by itself ----

    def _run_each(self) -> Iterator[str]:
        """Search, and show each set by itself; what falls shows where to search again."""
        for _ in ROUND_RISKS:
            for _ in self._border.search():
                yield "set"
            open_sets = [r for r in self._border.minimal if r not in self._shown | self._refuted]
            if not open_sets:
                return
            spoilers = len(self._spoilers)
            self._bet(open_sets)
            if len(self._spoilers) > spoilers:
                yield "spoiler"

    def _bet(self, rules: Sequence[int]) -> None:
        """Draw subsets that hold a set until it is shown, or falls, or takes too many."""
        draws, risk = self._draws, 1 - self._draws.confidence
        # What was drawn for the same sets before must not count twice.
        begun = sum(len(self._tried.get(rule, ())) for rule in rules)
        rng = random.Random(f"{draws.seed}-{sorted(rules)}-{begun}")
        most, size = 4 * samples_needed(draws.validity, risk), _FIRST_DRAWS
        waiting = list(rules)
        while waiting:
            self._draw(waiting, size, rng)
            family = list(self._bets)
            wealth = [self._bets[rule].against_less(draws.validity) for rule in family]
            shown = dict(zip(family, shown_together(wealth, risk), strict=True))
            for rule in list(waiting):
                bets = self._bets.get(rule, ShareBets())
                refuted = bets.against_more(draws.validity) >= 1 / risk
                if shown.get(rule):
                    self._shown.add(rule)
                elif refuted:
                    self._refuted.add(rule)
                    self._learn_spoiler(next(m for m, holds in self._tried[rule] if not holds))
                if shown.get(rule) or refuted or bets.successes + bets.failures >= most:
                    waiting.remove(rule)
            size = min(2 * size, most)
            nearest = max((self._bets[r].successes for r in waiting if r in self._bets), default=0)
            left = samples_needed(draws.validity, 0.95 * risk) - nearest
            if left > 0:
                size = min(size, left)

    def _draw(self, rules: Sequence[int], size: int, rng: random.Random) -> None:
        """Ask about so many random subsets for each set, and bet on what came."""
        batch: list[tuple[int, int]] = []
        for count, group in itertools.groupby(sorted(rules, key=int.bit_count), int.bit_count):
            alike = list(group)
            hits = self._draws.draws_a_hit(count)
            if len(alike) > hits:  # one draw serves all that it holds
                masks = [self._draws.shared(count, rng) for _ in range(math.ceil(size * hits))]
                batch += [(r, mask) for mask in masks for r in alike if r & ~mask == 0]
            else:
                batch += [(r, self._draws.superset(r, rng)) for r in alike for _ in range(size)]
        values = self._oracle.hold([mask for _, mask in batch])
        for (rule, mask), holds in zip(batch, values, strict=True):
            self._bets[rule] = self._bets.get(rule, ShareBets()).after(holds)
            self._tried.setdefault(rule, []).append((mask, holds))

    # --- results ----

    @property
    def minimal(self) -> list[int]:
        """The minimal sets found so far as masks, smallest first."""
        return sorted(self._border.minimal, key=lambda one: (one.bit_count(), indices_of(one)))

    @property
    def num_probes(self) -> int:
        """How many distinct subsets were needed."""
        return self._oracle.num_probes

    @property
    def exhaustive(self) -> bool:
        """Whether every set without one of those found lies inside one that was seen to fail."""
        return self._border.complete

    @property
    def complete(self) -> bool:
        """Whether the sets were shown, and the search came to its end."""
        if self._each:
            return not self.ended and all(mask in self._shown for mask in self._border.minimal)
        return not self.ended and self._together.kind == "certified"

    def certificate(self, rule: int) -> Certificate:
        """What was shown about one of the sets."""
        if not self._each:
            return self._together
        draws = self._draws
        if rule not in self._bets:
            return draws.untested
        bets, (masks, values) = self._bets[rule], zip(*self._tried[rule], strict=True)
        kept = [self._oracle.kept(mask) for mask in masks]
        # True together: where a bound is too high, the mean wealth against the true shares is
        # 1 / risk or more, as where a set is certified wrongly.
        risk = (1 - draws.confidence) / len(self._bets)
        shown = rule in self._shown
        return replace(
            draws.untested,
            kind="certified" if shown else "tested",
            samples=bets.successes + bets.failures,
            successes=bets.successes,
            bound=draws.validity if shown else bets.lower(risk),
            sizes=by_size(rule, draws.num_sources, kept, values),
        )

    def sets(self) -> ClaimSets:
        """What is known so far of retention sets, and of the omission sets that follow."""
        oracle, minimal = self._oracle, self.minimal
        retention = [
            DocumentSet(indices_of(mask), self.certificate(mask), oracle.output(mask))
            for mask in minimal
        ]
        omission = []
        if minimal and 0 not in minimal and not self._spoilers:
            for gone in itertools.islice(minimal_transversals(minimal), _MOST_SETS):
                rest = oracle.full ^ gone
                if not (self._border.exhausted or oracle.refuted(rest)):
                    continue  # another set, not known yet, may be enough without these
                output = oracle.output(rest)
                # Until no set is missing, the claim may be made without these, by another one.
                if (output is None and not self._border.complete) or (
                    output is not None and oracle.holds(rest)
                ):
                    continue
                omission.append(DocumentSet(indices_of(gone), self._together, output))
        spoilers = [
            Spoiler(indices_of(against), indices_of(enough), answer)
            for enough, against, answer in self._spoilers
        ]
        return ClaimSets(
            tuple(retention), tuple(omission), tuple(spoilers), self.complete, self.ended
        )


class CertifiedMiner:
    """Finds the minimal rules of one kind among many sources, each with a statistical guarantee.

    The search of :func:`rulerag.explain`, for an engine and one kind of rule: rules are found as if
    the predicate were monotone, by bisection, some ``size * log2(sources)`` probes for each, until
    every subset without a whole rule lies inside one that fails, or 1,000 probes are used; rules of
    more than 10 sources are not looked for. Each is then tested on random subsets of those that it
    speaks of, by bets that may stop after every draw; what falls shows the search where to go on.
    All bounds of a result are true together with the confidence.

    Args:
        kind: ``retention`` (the predicate holds whenever these sources are kept) or ``omission``
            (whenever they are removed).
        validity: the share of subsets for which a rule has to hold, between 0 and 1. Exact rules,
            a share of 1, need every subset: ``MonoMiner``.
        confidence: the probability that every bound stated is true, at least.
        seed: of the random subsets.
        subsets: how they are drawn, and so what every share is about: ``by-size`` (how many of the
            other sources are kept is drawn uniformly, then which) or ``uniform`` (every subset of
            the others equally likely, so that nearly all keep about half of them).

    Raises:
        ConfigError: an argument is out of range.

    References:
        Rorseth et al. 2025 (arXiv:2510.22689), section 6: rules that hold with a minimum
        confidence are named as future work.
    """

    def __init__(
        self,
        kind: str,
        *,
        validity: float = 0.95,
        confidence: float = 0.95,
        seed: int = 0,
        subsets: str = "by-size",
    ) -> None:
        self.kind = check_kind(kind)
        for key, value in (("validity", validity), ("confidence", confidence)):
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1:
                hint = "exact rules need every subset: MonoMiner" if value == 1 else None
                what = f"expected a number between 0 and 1, both excluded, found {value!r}"
                raise ConfigError(what, key=key, hint=hint)
        check_choice("subsets", subsets, SUBSETS)
        self.validity, self.confidence = float(validity), float(confidence)
        self.seed, self.subsets = seed, subsets

    def mine(self, engine: ProbeEngine, predicate: Predicate) -> CertifiedRules:
        """Find the rules and test them.

        Args:
            engine: answers for subsets of the sources; what it knows already is not asked again.
            predicate: whether an output meets the condition; called once per distinct output.

        Returns:
            The rules, not ``complete`` where the engine's budget ran out.

        Raises:
            PredicateError: the predicate raised or did not return a Boolean.
        """
        draws = RandomSubsets(
            engine.num_sources, self.validity, self.confidence, self.seed, self.subsets
        )
        search = SampledSearch(engine, predicate, draws, kind=self.kind, each=True)
        for _ in search.run():
            pass
        return CertifiedRules(
            self.kind,
            engine.names,
            tuple(search.minimal),
            search.num_probes,
            search.complete and search.exhaustive,
            search.ended,
            {mask: search.certificate(mask) for mask in search.minimal},
        )

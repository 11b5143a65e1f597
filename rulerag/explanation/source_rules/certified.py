"""Rules for many sources: found under an assumption, then shown to hold by random tests.

With 50 sources no one can ask every subset. The search assumes that the predicate is monotone and
needs a few probes for each rule; each rule found is then tested on fresh random subsets, which
proves a share of subsets for which it holds, whatever the predicate is like.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from rulerag.errors import ConfigError, ProbeBudgetError, did_you_mean
from rulerag.explanation.lattice import indices_of
from rulerag.explanation.probing import Predicate, ProbeEngine, stopped
from rulerag.explanation.records import (
    SUBSETS,
    Certificate,
    CertifiedRules,
    Minimality,
    RuleHook,
    Smaller,
    SourceRule,
    check_kind,
)
from rulerag.explanation.source_rules.certification import Certifier, RuleTest, check_level
from rulerag.explanation.source_rules.monotone_search import BorderSearch, RuleOracle

_MAX_SIZE, _MAX_SEARCH_PROBES, _MAX_ROUNDS = 10, 1000, 5
"""Larger rules are not looked for; further ones not after so many probes, nor refuted ones searched
anew more often."""

_RESERVE = 0.015
"""The part of the risk kept for rules found after a refutation, half of what is left each time."""

_MINIMALITY = 0.01
"""The part of the risk that the ceilings of smaller rules share."""

_MOST_EXAMPLES = 3


class CertifiedMiner:
    """Finds the minimal rules of one kind among many sources, each with a statistical guarantee.

    First the rules are searched for as if the predicate were monotone: by bisection, some
    ``size * log2(sources)`` probes for each, until every subset without a whole rule lies inside
    one that fails, or 1,000 probes are used; rules of more than 10 sources are not looked for.
    Then each rule is tested on random subsets of those that it speaks of, each equally likely.
    Without a failure, ``log(risk) / log(validity)`` of them are enough: 59 for the defaults and one
    rule. With failures four times as many are drawn and the bound is the exact binomial one. A rule
    that is shown to hold too seldom is refuted: what its counterexamples lack shows the search
    where to go on, and the rules found then are tested in turn, five times at most. Last, the rules
    with one source fewer than a certified one are tried, to show that they fall below the validity:
    that is what makes a rule minimal here. The risk is divided among the rules and the smaller
    ones, so that all bounds and ceilings of a result are true together.

    Args:
        kind: ``retention`` (the predicate holds whenever these sources are kept) or ``omission``
            (whenever they are removed).
        validity: the share of subsets for which a rule has to hold, between 0 and 1. Exact rules,
            a share of 1, need every subset: ``MonoMiner``.
        confidence: the probability that every bound stated is true, at least.
        seed: of the random subsets.
        subsets: how they are drawn, and so what every share is about: ``uniform`` (every subset
            of the other sources equally likely, so that nearly all keep about half of them) or
            ``by-size`` (how many of the others are kept is drawn uniformly, then which).

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
        subsets: str = "uniform",
    ) -> None:
        self.kind = check_kind(kind)
        self.validity = check_level("validity", validity)
        self.confidence = check_level("confidence", confidence)
        self.seed = seed
        if subsets not in SUBSETS:
            hint = did_you_mean(str(subsets), SUBSETS)
            raise ConfigError(f"subsets are not drawn {subsets!r}", key="subsets", hint=hint)
        self.subsets = subsets

    def mine(
        self, engine: ProbeEngine, predicate: Predicate, *, on_rule: RuleHook | None = None
    ) -> CertifiedRules:
        """Find the rules and test them.

        Args:
            engine: answers for subsets of the sources; what it knows already is not asked again.
            predicate: whether an output meets the condition; called once per distinct output.
            on_rule: called with each rule as soon as its test is over.

        Raises:
            PredicateError: the predicate raised or did not return a Boolean.
            ProbeBudgetError: the engine's budget ran out; ``partial`` holds the rules found, those
                tested with what was shown.
        """
        run = _CertifiedSearch(
            self, RuleOracle(self.kind, engine, predicate), engine.names, on_rule
        )
        try:
            run.search_and_test()
        except ProbeBudgetError as error:
            found = run.result(finished=False)
            state = f"{len(found)} rules found, {len(found.certificates)} of them tested"
            raise stopped(error, state, found) from None
        return run.result(finished=True)


@dataclass
class _CertifiedSearch:
    """One call of ``mine``: the rules found, and the evidence for each."""

    miner: CertifiedMiner
    oracle: RuleOracle
    names: tuple[str, ...]
    on_rule: RuleHook | None

    def __post_init__(self) -> None:
        miner, oracle = self.miner, self.oracle
        self._untested = Certificate("untested", miner.validity, miner.confidence, miner.subsets)
        rng = random.Random(miner.seed)
        self._certifier = Certifier(oracle, miner.validity, rng, miner.subsets)
        self._search = BorderSearch(
            oracle,
            review=self._certifier.without_redundant,
            max_size=_MAX_SIZE,
            max_probes=_MAX_SEARCH_PROBES,
            seed=rng.getrandbits(32),
        )
        self._tests: dict[int, RuleTest] = {}
        self._smaller: dict[int, RuleTest] = {}

    def search_and_test(self) -> None:
        """Search, test what was found, and search again where a test refuted a rule."""
        for number in range(_MAX_ROUNDS):
            self._search.run()
            waiting = [mask for mask in self._search.found if mask not in self._tests]
            if not waiting:
                break
            risk = (1 - self.miner.confidence) * (
                1 - _RESERVE - _MINIMALITY if number == 0 else _RESERVE * 0.5**number
            )
            self._test(waiting, risk / len(waiting), last=number + 1 == _MAX_ROUNDS)
        self._look_at_smaller()

    def _test(self, masks: list[int], risk: float, *, last: bool) -> None:
        for test in self._certifier.first_stage(masks, risk):
            mask = test.mask
            if mask not in self._search.found:
                continue  # a simpler rule took its place
            if test.failing:
                if not last and (self._simplify(mask) or self._refute(test)):
                    continue
                test = self._certifier.second_stage(mask, risk)
                if not last and self._refute(test):
                    continue
            self._tests[mask] = test
            if self.on_rule is not None:
                certificate = self._certificate(mask)
                self.on_rule(SourceRule.of(self.miner.kind, mask, self.names, certificate))

    def _refute(self, test: RuleTest) -> bool:
        """Take out a rule that holds too seldom, when the search can go on from its failures."""
        seldom = test.ceiling < self.miner.validity
        if seldom and self._certifier.explain_failures(test):
            self._search.found.remove(test.mask)
            return True
        return False

    def _simplify(self, mask: int) -> bool:
        """Put a simpler rule in the place of one that an outlier made too large."""
        simpler = self._certifier.without_redundant(mask)
        if simpler == mask:
            return False
        self._search.replace(mask, simpler)
        self._tests = {m: e for m, e in self._tests.items() if m in self._search.found}
        return True

    def _look_at_smaller(self) -> None:
        """Try the rules that lack one source of a certified one."""
        masks = {
            mask ^ 1 << index
            for mask, test in self._tests.items()
            if test.bound >= self.miner.validity
            for index in indices_of(mask)
        }
        if masks:
            risk = (1 - self.miner.confidence) * _MINIMALITY / len(masks)
            self._smaller = self._certifier.smaller(sorted(masks), risk)

    def result(self, *, finished: bool) -> CertifiedRules:
        """Everything that was shown so far."""
        found = sorted(self._search.found, key=lambda m: (m.bit_count(), indices_of(m)))
        return CertifiedRules(
            self.miner.kind,
            self.names,
            tuple(found),
            self.oracle.num_probes,
            complete=finished and self._search.complete,
            certificates={m: self._certificate(m) for m in found if m in self._tests},
            untested=self._untested,
            isolated=len(self._search.isolated),
            num_search_probes=self._search.num_probes,
            finished=finished,
        )

    def _certificate(self, mask: int) -> Certificate:
        """What was shown about a rule that was tested."""
        test = self._tests[mask]
        reaches = test.bound >= self.miner.validity
        smaller = {
            index: self._smaller[mask ^ 1 << index]
            for index in indices_of(mask)
            if mask ^ 1 << index in self._smaller
        }
        minimality: Minimality = "untested"
        if reaches and len(smaller) == mask.bit_count():
            below = all(one.ceiling < self.miner.validity for one in smaller.values())
            minimality = "shown" if below else "not shown"
        return replace(
            self._untested,
            kind="exact" if test.exact else "certified" if reaches else "tested",
            samples=test.samples,
            successes=test.successes,
            bound=test.bound,
            minimality=minimality,
            smaller=tuple(
                Smaller(self.names[index], one.samples, one.successes, one.ceiling)
                for index, one in smaller.items()
            ),
            counterexamples=self._counterexamples(mask) if test.failing else (),
            sizes=test.sizes,
        )

    def _counterexamples(self, mask: int) -> tuple[tuple[str, ...], ...]:
        """Some subsets seen on which a rule failed, by the sources removed, the fewest first."""
        kept = [self.oracle.kept(one) for one in self.oracle.failing if mask & ~one == 0]
        removed = sorted((self.oracle.full ^ one for one in kept), key=int.bit_count)[
            :_MOST_EXAMPLES
        ]
        return tuple(tuple(self.names[index] for index in indices_of(one)) for one in removed)

"""Rules for many sources: found under an assumption, then shown to hold by random tests.

With 50 sources no one can ask every subset. The search assumes that the predicate is monotone and
needs a few probes for each rule; each rule found is then tested on fresh random subsets, which
proves a share of subsets for which it holds, whatever the predicate is like.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tqdm import tqdm

from rulerag.errors import ConfigError, ProbeBudgetError, did_you_mean
from rulerag.explanation.borders import BorderSearch
from rulerag.explanation.bounds import check_level
from rulerag.explanation.certificates import CertifiedRule, CertifiedRules
from rulerag.explanation.certification import Certifier, Evidence
from rulerag.explanation.judging import Predicate
from rulerag.explanation.lattice import indices_of
from rulerag.explanation.oracle import RuleOracle
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.results import source_rule
from rulerag.explanation.shown import (
    CERTIFIED,
    EXACT,
    NOT_SHOWN,
    SHOWN,
    SUBSETS,
    TESTED,
    UNTESTED,
    Certificate,
    Smaller,
)

__all__ = ["CertifiedMiner"]

_RESERVE = 0.015
"""The part of the risk kept for rules found after a refutation, half of what is left each time."""

_MINIMALITY = 0.01
"""The part of the risk that the ceilings of smaller rules share."""

_SHOWN = 3


class CertifiedMiner:
    """Finds the minimal rules of one kind among many sources, each with a statistical guarantee.

    First the rules are searched for as if the predicate were monotone: by bisection, some
    ``size * log2(sources)`` probes for each, until every subset without a whole rule lies inside
    one that fails. Then each rule is tested on random subsets of those that it speaks of, each
    equally likely. Without a failure, ``log(risk) / log(validity)`` of them are enough: 59 for the
    defaults and one rule. With failures four times as many are drawn and the bound is the exact
    binomial one. A rule that is shown to hold too seldom is refuted: what its counterexamples lack
    tells the search where to go on, and the rules found then are tested in turn. Last, the rules
    with one source fewer than a certified one are tried, to show that they fall below the
    validity: that is what makes a rule minimal here. The risk is divided among the rules and the
    smaller ones, so that all bounds and ceilings of a result are true together.

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
        relaxed: leave out of a rule each source without which it still holds for most subsets, so
            that rules are as small as ``validity`` allows; otherwise a rule is as small as it can
            be while no counterexample is known. Each rule is then tested on four times as many
            subsets in any case, since failures are expected.
        max_size: rules with more sources are not looked for.
        max_search_probes: stop looking for further rules after so many probes.
        max_rounds: how many times rules are tested and refuted ones searched anew.
        progress: show a progress bar of probes.

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
        relaxed: bool = False,
        max_size: int = 10,
        max_search_probes: int = 1000,
        max_rounds: int = 5,
        progress: bool = False,
    ) -> None:
        source_rule(kind, 0, ())  # refuses an unknown kind
        self.kind = kind
        self.validity = check_level("validity", validity)
        self.confidence = check_level("confidence", confidence)
        self.seed = seed
        if subsets not in SUBSETS:
            raise ConfigError(
                f"subsets are not drawn {subsets!r}",
                key="subsets",
                hint=did_you_mean(str(subsets), SUBSETS),
            )
        self.subsets = subsets
        self.relaxed = relaxed
        self.max_size = _at_least_one("max_size", max_size)
        self.max_search_probes = _at_least_one("max_search_probes", max_search_probes)
        self.max_rounds = _at_least_one("max_rounds", max_rounds)
        self.progress = progress

    def mine(
        self,
        engine: ProbeEngine,
        predicate: Predicate,
        *,
        on_rule: Callable[[CertifiedRule], None] | None = None,
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
        with tqdm(desc="probing", unit=" subsets", disable=not self.progress, leave=False) as bar:
            oracle = RuleOracle(self.kind, engine, predicate, report=bar.update)
            run = _Run(self, oracle, engine.names, on_rule)
            try:
                run.search_and_test()
            except ProbeBudgetError as error:
                raise ProbeBudgetError(
                    f"{error.message}; {run.progress_words()}",
                    partial=run.result(finished=False),
                    hint=error.hint,
                ) from None
        return run.result(finished=True)


class _Run:
    """One call of ``mine``: the rules found, and the evidence for each."""

    def __init__(
        self,
        miner: CertifiedMiner,
        oracle: RuleOracle,
        names: tuple[str, ...],
        on_rule: Callable[[CertifiedRule], None] | None,
    ) -> None:
        self._miner = miner
        self._oracle = oracle
        self._names = names
        self._on_rule = on_rule
        self._chance = random.Random(miner.seed)
        self._certifier = Certifier(
            oracle,
            miner.validity,
            self._chance,
            subsets=miner.subsets,
            early_stop=not miner.relaxed,
        )
        self._search = BorderSearch(
            oracle,
            review=self._certifier.without_needless,
            max_size=miner.max_size,
            max_probes=miner.max_search_probes,
            seed=self._chance.getrandbits(32),
        )
        self._evidence: dict[int, Evidence] = {}
        self._refuted: dict[int, Evidence] = {}
        self._smaller: dict[int, Evidence] = {}

    def search_and_test(self) -> None:
        """Search, test what was found, and search again where a test refuted a rule."""
        for number in range(self._miner.max_rounds):
            self._search.run()
            if self._miner.relaxed:
                self._relax()
            waiting = [mask for mask in self._search.found if mask not in self._evidence]
            if not waiting:
                break
            risk = (1 - self._miner.confidence) * (
                1 - _RESERVE - _MINIMALITY if number == 0 else _RESERVE * 0.5**number
            )
            last = number + 1 == self._miner.max_rounds
            self._test(waiting, risk / len(waiting), last=last)
        self._look_at_smaller()

    def _relax(self) -> None:
        for mask in [m for m in self._search.found if m not in self._evidence]:
            if mask in self._search.found:
                self._simplify(mask)

    def _test(self, masks: list[int], risk: float, *, last: bool) -> None:
        for evidence in self._certifier.first_stage(masks, risk):
            mask = evidence.mask
            if mask not in self._search.found:
                continue  # a simpler rule took its place
            if evidence.failing:
                if not last and self._simplify(mask):
                    continue
                if not last and self._refute(evidence):
                    continue
                evidence = self._certifier.second_stage(mask, risk)
                if not last and self._refute(evidence):
                    continue
            self._evidence[mask] = evidence
            if self._on_rule is not None:
                self._on_rule(self._rule(mask))

    def _refute(self, evidence: Evidence) -> bool:
        """Take out a rule that holds too seldom, when the search can go on from its failures."""
        if evidence.ceiling >= self._miner.validity:
            return False
        if not self._certifier.explain_failures(evidence):
            return False
        self._search.found.remove(evidence.mask)
        self._refuted[evidence.mask] = evidence
        return True

    def _simplify(self, mask: int) -> bool:
        """Put a simpler rule in the place of one that a stray output made too large."""
        simpler = self._certifier.without_needless(mask)
        if simpler == mask:
            return False
        self._search.replace(mask, simpler)
        self._evidence = {m: e for m, e in self._evidence.items() if m in self._search.found}
        return True

    def _look_at_smaller(self) -> None:
        """Try the rules that lack one source of a certified one."""
        masks = {
            mask ^ 1 << index
            for mask, evidence in self._evidence.items()
            if evidence.bound >= self._miner.validity
            for index in indices_of(mask)
        }
        if masks:
            risk = (1 - self._miner.confidence) * _MINIMALITY / len(masks)
            self._smaller = self._certifier.smaller(sorted(masks), risk)

    def progress_words(self) -> str:
        """What stands so far."""
        return f"{len(self._search.found)} rules found, {len(self._evidence)} of them tested"

    def result(self, *, finished: bool) -> CertifiedRules:
        """Everything that was shown so far."""
        ordered = sorted(self._search.found, key=lambda m: (m.bit_count(), indices_of(m)))
        return CertifiedRules(
            kind=self._miner.kind,
            source_names=self._names,
            rules=tuple(self._rule(mask) for mask in ordered),
            validity=self._miner.validity,
            confidence=self._miner.confidence,
            subsets=self._miner.subsets,
            complete=finished and self._search.complete,
            refuted=frozenset(frozenset(indices_of(mask)) for mask in self._refuted),
            isolated=len(self._search.isolated),
            num_probes=self._oracle.num_probes,
            num_search_probes=self._search.num_probes,
            finished=finished,
        )

    def _rule(self, mask: int) -> CertifiedRule:
        rule = source_rule(self._miner.kind, mask, self._names)
        evidence = self._evidence.get(mask)
        asked = Certificate(
            UNTESTED,
            validity=self._miner.validity,
            confidence=self._miner.confidence,
            subsets=self._miner.subsets,
        )
        if evidence is None:
            return CertifiedRule(rule, asked)
        reaches = evidence.bound >= self._miner.validity
        smaller = {index: self._smaller.get(mask ^ 1 << index) for index in indices_of(mask)}
        certificate = replace(
            asked,
            kind=EXACT if evidence.exact else CERTIFIED if reaches else TESTED,
            samples=evidence.samples,
            successes=evidence.samples - len(evidence.failing),
            bound=evidence.bound,
            minimality=self._minimality(list(smaller.values())) if reaches else UNTESTED,
            smaller=tuple(
                Smaller(
                    self._names[index], one.samples, one.samples - len(one.failing), one.ceiling
                )
                for index, one in smaller.items()
                if one is not None
            ),
            counterexamples=self._counterexamples(mask) if evidence.failing else (),
        )
        return CertifiedRule(rule, certificate)

    def _minimality(self, smaller: list[Evidence | None]) -> str:
        """Whether every rule with one source fewer was shown to fall below the validity."""
        if None in smaller:
            return UNTESTED
        below = (one is not None and one.ceiling < self._miner.validity for one in smaller)
        return SHOWN if all(below) else NOT_SHOWN

    def _counterexamples(self, mask: int) -> tuple[tuple[str, ...], ...]:
        """Some subsets seen on which a rule failed, by the sources removed, the fewest first."""
        kept = [self._oracle.kept(one) for one in self._oracle.failing if mask & ~one == 0]
        removed = sorted((self._oracle.full ^ one for one in kept), key=int.bit_count)
        return tuple(
            tuple(self._names[index] for index in indices_of(one)) for one in removed[:_SHOWN]
        )


def _at_least_one(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"expected a whole number from 1, found {value!r}", key=name)
    return value

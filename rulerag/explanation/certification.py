"""Testing rules on random subsets: evidence for a rule, and what to do about a counterexample."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import bdtr

from rulerag.explanation.borders import shrink
from rulerag.explanation.bounds import (
    lower_bound,
    samples_needed,
    staged_lower_bound,
    upper_bound,
)
from rulerag.explanation.lattice import indices_of
from rulerag.explanation.oracle import RuleOracle

__all__ = ["Certifier", "Evidence"]

STAGES = 4
"""A rule with a failure among its first draws is tested on so many times as many in all."""

_CURES = 6
"""A counterexample that more than so many sources would cure is a hole, not a missing source."""

_TRIES = 3
_DROP_BATCH, _DROP_RISK = 5, 0.02


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the test of one rule showed.

    Args:
        mask: the sources of the rule.
        samples: how many sets of sources with the rule's own among them were drawn.
        failing: those for which the condition failed, as often as they were drawn.
        bound: the share of such sets for which it holds, at least.
        ceiling: the same share, at most.
        exact: every such set was looked at.
    """

    mask: int
    samples: int
    failing: tuple[int, ...]
    bound: float
    ceiling: float
    exact: bool


class Certifier:
    """Tests rules on fresh random sets that hold their sources.

    Args:
        oracle: the condition.
        validity: the share for which a rule has to hold.
        chance: where the random sets come from.
        early_stop: stop after a first stage without a failure. It spends nearly all of the risk
            on that outcome; without it a rule with some failures is shown to hold more often.
    """

    def __init__(
        self,
        oracle: RuleOracle,
        validity: float,
        chance: random.Random,
        *,
        early_stop: bool = True,
    ) -> None:
        self._oracle = oracle
        self._early_stop = early_stop
        self._validity = validity
        self._chance = chance
        self._drawn: dict[int, list[int]] = {}
        # A source may go when the rest holds for so many sets without it, but for a few.
        self._enough = math.ceil(1 / (1 - validity))
        self._forgiven = next(
            count
            for count in range(self._enough + 1)
            if bdtr(count, self._enough, 1 - validity) >= 1 - _DROP_RISK
        )

    def first_stage(self, masks: Sequence[int], risk: float) -> list[Evidence]:
        """Test rules on as many sets as a rule without a failure needs, all in one batch.

        Without an early stop, on the planned total at once.

        Args:
            masks: the rules.
            risk: the probability that a bound of one rule is wrong, at most.
        """
        count = samples_needed(self._validity, risk)
        for mask in masks:
            total = count if self._early_stop else STAGES * count
            self._drawn[mask] = self._supersets(mask, count, total)
        self._oracle.hold([drawn for mask in masks for drawn in self._drawn[mask]])
        return [self._evidence(mask, count, risk) for mask in masks]

    def second_stage(self, mask: int, risk: float) -> Evidence:
        """Go on with a rule that failed in the first stage, up to the planned total."""
        count = samples_needed(self._validity, risk)
        drawn = self._drawn[mask]
        if not self._is_whole(mask, count):
            drawn += [self._superset(mask) for _ in range(STAGES * count - len(drawn))]
            self._oracle.hold(drawn)
        return self._evidence(mask, count, risk)

    def without_needless(self, mask: int) -> int:
        """The rule without sources that only a stray failure brought into it.

        A source goes when the rest of the rule holds for nearly all of some random sets without
        that source. A source that is needed shows itself within a few sets.
        """
        for index in indices_of(mask):
            source = 1 << index
            failures, drawn = 0, 0
            while failures <= self._forgiven and drawn < self._enough:
                sets = [self._superset(mask ^ source) & ~source for _ in range(_DROP_BATCH)]
                failures += self._oracle.hold(sets).count(False)
                drawn += _DROP_BATCH
            if failures <= self._forgiven:
                mask ^= source
        return mask

    def explain_failures(self, evidence: Evidence) -> bool:
        """Grow counterexamples as far as they fail; whether one then lacks a few sources only.

        The condition fails for the grown set, so that any larger rule needs one of the sources
        that the set lacks: the search knows where to go on. A counterexample that nearly any
        further source would cure is a hole that no larger rule can avoid.
        """
        explained = False
        for failing in dict.fromkeys(evidence.failing[:_TRIES]):
            lacking = list(indices_of(self._oracle.full ^ failing))
            self._chance.shuffle(lacking)
            cure = shrink(
                lacking,
                lambda removed: not self._oracle.holds(self._oracle.full ^ removed),
                max_size=_CURES,
            )
            explained = explained or cure is not None
        return explained

    def _evidence(self, mask: int, count: int, risk: float) -> Evidence:
        drawn = self._drawn[mask]
        failing = tuple(m for m, ok in zip(drawn, self._oracle.hold(drawn), strict=True) if not ok)
        samples, successes = len(drawn), len(drawn) - len(failing)
        if self._is_whole(mask, count):
            share = successes / samples
            return Evidence(mask, samples, failing, share, share, True)
        if not self._early_stop or (failing and samples == count):
            bound = lower_bound(successes, STAGES * count, risk)
        elif failing:
            bound = staged_lower_bound(count, STAGES * count, len(failing), risk)
        else:
            bound = self._validity  # the draws are as many as this takes, rounded up
        return Evidence(mask, samples, failing, bound, upper_bound(successes, samples, risk), False)

    def _is_whole(self, mask: int, count: int) -> bool:
        """Whether a rule speaks of so few sets that all of them are looked at."""
        return 1 << (self._oracle.full ^ mask).bit_count() <= STAGES * count

    def _supersets(self, mask: int, count: int, total: int) -> list[int]:
        if not self._is_whole(mask, count):
            return [self._superset(mask) for _ in range(total)]
        free = self._oracle.full ^ mask
        sets, part = [], free
        while True:  # every subset of the free sources, downwards
            sets.append(mask | part)
            if part == 0:
                return sets
            part = (part - 1) & free

    def _superset(self, mask: int) -> int:
        """A random set with the sources of ``mask``, each such set equally likely."""
        return mask | self._chance.getrandbits(max(1, self._oracle.num_sources)) & self._oracle.full

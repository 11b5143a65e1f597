"""Testing rules on random subsets: exact binomial bounds, and what to do about a counterexample.

References:
    Clopper and Pearson 1934 (Biometrika 26, 404-413): exact limits from the binomial law.
    Jennison and Turnbull 2000 (Group Sequential Methods), section 8.5: the same limits after an
    early stop, with the outcomes of a plan ordered by the stage at which they end.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from scipy.special import bdtr, betaincinv

from rulerag.errors import ConfigError
from rulerag.explanation.lattice import indices_of
from rulerag.explanation.records import OfSize
from rulerag.explanation.source_rules.draws import by_size, random_superset
from rulerag.explanation.source_rules.monotone_search import RuleOracle, shrink

_STAGES = 4
"""A rule with a failure among its first draws is tested on so many times as many in all."""

_MOST_REPAIRS = 6
"""A counterexample that more than so many sources would repair is an outlier."""

_TRIES, _HALVINGS = 3, 60
_DROP_BATCH, _DROP_RISK = 5, 0.02


def check_level(name: str, value: float) -> float:
    """The value when it is a share strictly between 0 and 1.

    Raises:
        ConfigError: it is not.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1:
        hint = "exact rules need every subset: MonoMiner" if value == 1 else None
        what = f"expected a number between 0 and 1, both excluded, found {value!r}"
        raise ConfigError(what, key=name, hint=hint)
    return float(value)


def samples_needed(validity: float, risk: float) -> int:
    """How many draws without one failure show a share of at least ``validity``.

    With a share below ``validity`` so many successes in a row are rarer than ``risk``: 59 for a
    validity of 0.95 and a risk of 0.05.
    """
    return max(1, math.ceil(math.log(risk) / math.log(validity)))


def lower_bound(successes: int, samples: int, risk: float) -> float:
    """The Clopper-Pearson lower limit of a share; it is above the truth with at most ``risk``."""
    return float(betaincinv(successes, samples - successes + 1, risk)) if successes else 0.0


def upper_bound(successes: int, samples: int, risk: float) -> float:
    """The Clopper-Pearson upper limit of a share; it is below the truth with at most ``risk``."""
    failures = samples - successes
    return float(betaincinv(successes + 1, failures, 1 - risk)) if failures else 1.0


def staged_lower_bound(first: int, total: int, failures: int, risk: float) -> float:
    """The lower limit of a share when the plan stops early after a clean first stage.

    The plan: draw ``first`` times; without a failure stop, otherwise go on to ``total`` draws.
    Outcomes are ordered as clean first stage, then by ``failures``, fewest first. The limit is the
    share under which an outcome at least as good has the probability ``risk``, so that stopping
    early costs nothing of the confidence, and a clean first stage proves ``risk ** (1 / first)``,
    what a plan of one stage proves.

    Args:
        first: draws of the first stage.
        total: draws of both stages.
        failures: how many of all draws failed; 0 stands for a clean first stage.
        risk: the probability that the limit is above the truth, at most.
    """
    if failures == 0:
        return float(risk ** (1 / first))
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        clean = middle**first
        few = bdtr(failures, total, 1 - middle)
        few_after_clean = clean * bdtr(min(failures, total - first), total - first, 1 - middle)
        if clean + few - few_after_clean < risk:
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True, slots=True)
class RuleTest:
    """What the test of one rule showed.

    Args:
        mask: the sources of the rule.
        samples: how many sets of sources with the rule's own among them were drawn.
        failing: those for which the condition failed, as often as they were drawn.
        bound: the share of such sets for which it holds, at least.
        ceiling: the same share, at most.
        exact: every such set was looked at.
        sizes: the sets drawn, by how many of the other sources they keep.
    """

    mask: int
    samples: int
    failing: tuple[int, ...]
    bound: float
    ceiling: float
    exact: bool
    sizes: tuple[OfSize, ...] = ()

    @property
    def successes(self) -> int:
        """For how many of the sets drawn the condition held."""
        return self.samples - len(self.failing)

    def unclear(self, validity: float) -> bool:
        """Whether a rule holds too seldom so far, and that is not shown yet."""
        return not self.exact and self.ceiling >= validity > self.successes / self.samples


class Certifier:
    """Tests rules on fresh random sets that hold their sources.

    Args:
        oracle: the condition.
        validity: the share for which a rule has to hold.
        rng: where the random sets come from.
        subsets: ``uniform`` (each such set equally likely, so that nearly all hold about half of
            the other sources) or ``by-size`` (how many of the others it holds is drawn uniformly,
            then which, so that small and large sets count as much as middling ones). Every share
            and bound is about the sets drawn so.
    """

    def __init__(
        self, oracle: RuleOracle, validity: float, rng: random.Random, subsets: str
    ) -> None:
        self._oracle = oracle
        self._subsets = subsets
        self._validity = validity
        self._rng = rng
        self._drawn: dict[int, list[int]] = {}
        # A source may go when the rest holds for so many sets without it, but for a few.
        self._enough = math.ceil(1 / (1 - validity))
        self._tolerated = next(
            count
            for count in range(self._enough + 1)
            if bdtr(count, self._enough, 1 - validity) >= 1 - _DROP_RISK
        )

    def first_stage(self, masks: Sequence[int], risk: float) -> list[RuleTest]:
        """Test rules on as many sets as a rule without a failure needs, all in one batch.

        Args:
            masks: the rules.
            risk: the probability that a bound of one rule is wrong, at most.
        """
        count = samples_needed(self._validity, risk)
        self._drawn |= {mask: self._supersets(mask, count, count) for mask in masks}
        self._oracle.hold([drawn for mask in masks for drawn in self._drawn[mask]])
        return [self._tested(mask, count, risk) for mask in masks]

    def second_stage(self, mask: int, risk: float) -> RuleTest:
        """Go on with a rule that failed in the first stage, up to the planned total."""
        count = samples_needed(self._validity, risk)
        drawn = self._drawn[mask]
        if not self._is_whole(mask, count):
            drawn += [self._superset(mask) for _ in range(_STAGES * count - len(drawn))]
            self._oracle.hold(drawn)
        return self._tested(mask, count, risk)

    def smaller(self, masks: Sequence[int], risk: float) -> dict[int, RuleTest]:
        """What holds for rules that lack a source of one that was certified.

        A few draws show that nearly any of them falls below the validity. The others are drawn on,
        twice as often each time, until that is shown, until they hold as often as a valid rule,
        or up to the plan of a rule. Each look has half of the risk that those before it left.

        Args:
            masks: the smaller rules.
            risk: the probability that a ceiling of one of them is wrong, at most.
        """
        count = samples_needed(self._validity, risk)
        risk /= 2
        # So many draws show that a rule falls below which holds for two thirds of them.
        few = range(4, _STAGES * count)
        enough = (n for n in few if upper_bound(math.ceil(2 * n / 3), n, risk) < self._validity)
        size = next(enough, _STAGES * count)
        drawn = {mask: self._supersets(mask, count, size) for mask in dict.fromkeys(masks)}
        found: dict[int, RuleTest] = {}
        waiting = list(drawn)
        while waiting:
            self._oracle.hold([one for mask in waiting for one in drawn[mask]])
            found |= {mask: self._evaluated(mask, drawn[mask], count, risk) for mask in waiting}
            size, risk = 2 * size, risk / 2
            unclear = (m for m in waiting if found[m].unclear(self._validity))
            waiting = list(unclear) if size <= _STAGES * count else []
            for mask in waiting:
                drawn[mask] += [self._superset(mask) for _ in range(size - len(drawn[mask]))]
        return found

    def without_redundant(self, mask: int) -> int:
        """The rule without sources that only an outlier brought into it.

        A source goes when the rest of the rule holds for nearly all of some random sets without
        that source. A source that is needed shows itself within a few sets.
        """
        for index in indices_of(mask):
            source = 1 << index
            failures, drawn = 0, 0
            while failures <= self._tolerated and drawn < self._enough:
                sets = [self._superset(mask ^ source) & ~source for _ in range(_DROP_BATCH)]
                failures += self._oracle.hold(sets).count(False)
                drawn += _DROP_BATCH
            if failures <= self._tolerated:
                mask ^= source
        return mask

    def explain_failures(self, evidence: RuleTest) -> bool:
        """Grow counterexamples as far as they fail; whether one then lacks a few sources only.

        The condition fails for the grown set, so that any larger rule needs one of the sources
        that the set lacks: the search knows where to go on. A counterexample that nearly any
        further source would repair is an outlier that no larger rule can avoid.
        """
        repairs = []
        for failing in dict.fromkeys(evidence.failing[:_TRIES]):
            lacking = list(indices_of(self._oracle.full ^ failing))
            self._rng.shuffle(lacking)
            repairs.append(shrink(lacking, self._fail_without, max_size=_MOST_REPAIRS))
        return any(repair is not None for repair in repairs)

    def _fail_without(self, removed: Sequence[int]) -> list[bool]:
        kept = [self._oracle.full ^ mask for mask in removed]
        return [not holds for holds in self._oracle.hold(kept)]

    def _tested(self, mask: int, count: int, risk: float) -> RuleTest:
        evaluated = self._evaluated(mask, self._drawn[mask], count, risk)
        if evaluated.exact:
            return evaluated
        failures = len(evaluated.failing)
        if failures and evaluated.samples == count:
            bound = lower_bound(count - failures, _STAGES * count, risk)
        elif failures:
            bound = staged_lower_bound(count, _STAGES * count, failures, risk)
        else:
            bound = self._validity  # the draws are as many as this takes, rounded up
        oracle, drawn = self._oracle, self._drawn[mask]
        kept = [oracle.kept(one) for one in drawn]
        sizes = by_size(mask, oracle.num_sources, kept, oracle.hold(drawn))
        return replace(evaluated, bound=bound, sizes=sizes)

    def _evaluated(self, mask: int, drawn: Sequence[int], count: int, risk: float) -> RuleTest:
        """The evidence of some draws with a ceiling, and no bound yet unless it is exact."""
        values = self._oracle.hold(drawn)
        failing = tuple(one for one, ok in zip(drawn, values, strict=True) if not ok)
        samples = len(drawn)
        if self._is_whole(mask, count):
            share = self._weight(mask, [one for one, ok in zip(drawn, values, strict=True) if ok])
            return RuleTest(mask, samples, failing, share, share, True)
        ceiling = upper_bound(samples - len(failing), samples, risk)
        return RuleTest(mask, samples, failing, 0.0, ceiling, False)

    def _weight(self, mask: int, sets: Sequence[int]) -> float:
        """The probability to draw one of some distinct sets with the sources of ``mask``."""
        free = (self._oracle.full ^ mask).bit_count()
        if self._subsets == "uniform":
            return len(sets) / (1 << free)
        sizes = Counter((one ^ mask).bit_count() for one in sets)
        # Fractions, since a share of 1 must be 1.
        parts = (Fraction(number, math.comb(free, size)) for size, number in sizes.items())
        return float(sum(parts, Fraction()) / (free + 1))

    def _is_whole(self, mask: int, count: int) -> bool:
        """Whether a rule speaks of so few sets that all of them are looked at."""
        return 1 << (self._oracle.full ^ mask).bit_count() <= _STAGES * count

    def _supersets(self, mask: int, count: int, total: int) -> list[int]:
        if not self._is_whole(mask, count):
            return [self._superset(mask) for _ in range(total)]
        free = self._oracle.full ^ mask
        sets, part = [mask | free], free
        while part:  # every subset of the free sources, downwards
            part = (part - 1) & free
            sets.append(mask | part)
        return sets

    def _superset(self, mask: int) -> int:
        """A random set with the sources of ``mask``."""
        return random_superset(mask, self._oracle.num_sources, self._subsets, self._rng)

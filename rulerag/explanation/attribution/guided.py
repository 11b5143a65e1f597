"""A surrogate that knows the rules: linear where a minimal rule is whole, and linear where none is.

One linear function cannot follow a score that stands as long as either of two documents does, or
that falls by as much for one lost fact as for ten. So the minimal retention rules of the score are
searched for first, by bisection and within half of the probes. They split the subsets in two, and
each side gets a linear function of its own. The rest of the probes goes to random subsets, and to
the removals that the surrogate expects to cost most, which are tried before they are stated.

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729): one linear function for all subsets, and
    the measures that this one is made for: top-k drop and linear datamodeling score.
    Golub, Heath, Wahba 1979 (Technometrics 21): the penalty by leave-one-out residuals.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np

from rulerag.composition import register
from rulerag.errors import ConfigError, ProbeBudgetError
from rulerag.explanation.attribution.surrogate import fit_ridge
from rulerag.explanation.attribution.values import Attribution, LinearSurrogate, SplitSurrogate
from rulerag.explanation.lattice import (
    indices_of,
    mask_of,
    minimal_transversals,
    random_masks,
)
from rulerag.explanation.probing import Probed, ProbeEngine, Score, SetValue, valued
from rulerag.explanation.source_rules import BorderSearch, RuleOracle

LOG_MARGIN = math.log(10)
"""The margin for log-probabilities: a tenth of the full set's probability, from where ContextCite's
display counts a source as one that matters."""

_SEARCH, _REMOVALS = 0.5, 0.25  # of the probes
_TRIED, _MAX_SIZE, _SAMPLES, _TRANSVERSALS = 4, 10, 512, 200


@register("explainer", "guided")
def explain_by_guided_surrogate(
    engine: Probed, score: Score | None, *, samples: int | None = None, seed: int = 0
) -> Attribution:
    """:func:`guided_surrogate` of 64 subsets by default; numbers are taken as log-probabilities."""
    margin = LOG_MARGIN if score is None else None
    probes = max(8, samples or 64)
    return guided_surrogate(engine, score, probes=probes, margin=margin, seed=seed)


def guided_surrogate(
    engine: Probed,
    score: Score | None = None,
    *,
    probes: int = 64,
    margin: float | None = None,
    seed: int = 0,
) -> Attribution:
    """Find the rules of a score, then fit a linear function on each side of them.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        probes: how many distinct subsets to ask, at most.
        margin: a subset keeps the score when it loses less than this against the full set;
            ``LOG_MARGIN`` suits log-probabilities. By default half of what is lost when every
            source is removed.
        seed: of the random subsets.

    Returns:
        What each source adds to the prediction for a random subset of the others (its Banzhaf
        value, over 512 random subsets with ten sources and more), in the unit of the score; the
        prediction itself with the rules that it is split by (``surrogate``); and the sources in
        the order in which removing them costs most (``removals``).

    Raises:
        ConfigError: fewer than 8 probes, or a margin that is not above 0.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's own budget ran out.
    """
    if probes < 8:
        raise ConfigError(f"expected 8 or more, found {probes}", key="probes")
    if margin is not None and not margin > 0:
        raise ConfigError(f"expected a number above 0, found {margin}", key="margin")
    return _GuidedFit(valued(engine, score), probes, random.Random(seed)).result(margin)


class _GuidedFit:
    """The probes of one surrogate, and what is fitted to them."""

    def __init__(self, value: SetValue, probes: int, rng: random.Random) -> None:
        self._value = value
        self._count = value.num_sources
        self._limit = min(probes, 1 << self._count)
        self._probes = probes
        self._rng = rng
        self._known = value.known

    def result(self, margin: float | None) -> Attribution:
        full, empty = self._value([self._value.full, 0]).tolist()
        loss = max((full - empty) / 2, 0.0) if margin is None else margin
        rules, complete = self._search(full - loss)
        self._draw(self._limit - int(_REMOVALS * self._probes))
        removals = self._remove(self._fitted(rules, complete))
        self._draw(self._limit)
        predict = self._fitted(rules, complete)
        names, effects, probes = self._value.names, self._effects(predict), len(self._known)
        numbers = (effects, None, predict(self._value.full), predict(0), probes, removals, predict)
        return Attribution("guided surrogate", names, *numbers)

    def _search(self, threshold: float) -> tuple[list[int], bool]:
        """The minimal sets whose score reaches the threshold, and whether they are all."""

        def outputs(kept: list[tuple[int, ...]]) -> list[str]:
            return [repr(value) for value in self._value([mask_of(one) for one in kept]).tolist()]

        allowed = int(_SEARCH * self._limit)
        engine = ProbeEngine.from_function(outputs, num_sources=self._count, max_probes=allowed)
        oracle = RuleOracle("retention", engine, lambda text: float(text) >= threshold)
        seed = self._rng.getrandbits(32)
        search = BorderSearch(oracle, max_size=_MAX_SIZE, max_probes=allowed, seed=seed)
        with suppress(ProbeBudgetError):
            search.run()
        return search.found, search.complete

    def _draw(self, target: int) -> None:
        """Ask random subsets, each source kept with the probability one half, up to a total."""
        wanted = max(0, target - len(self._known))
        self._value(random_masks(self._count, wanted, self._rng, self._known, listed=12))

    def _fitted(self, rules: Sequence[int], complete: bool) -> SplitSurrogate:
        """The prediction: a linear function with, and one without, a whole rule."""
        nothing = LinearSurrogate((0.0,) * self._count, 0.0)
        sets = tuple(indices_of(mask) for mask in sorted(rules))
        split = SplitSurrogate(sets, nothing, nothing, complete)
        sides: dict[bool, list[int]] = {True: [], False: []}
        for mask in self._known:
            sides[split.holds(mask)].append(mask)
        above, below = (self._fit(sides[side] or sides[not side]) for side in (True, False))
        return replace(split, above=above, below=below)

    def _fit(self, masks: Sequence[int]) -> LinearSurrogate:
        kept = [[mask >> i & 1 for i in range(self._count)] for mask in masks]
        return fit_ridge(kept, [self._known[mask] for mask in masks])

    def _remove(self, predict: SplitSurrogate) -> tuple[int, ...]:
        """The sources in the order of their cost: the likeliest removals are tried, in batches.

        A smallest set that leaves no rule whole comes first: where each of several documents is
        enough, no single removal shows what the removal of all of them costs.
        """
        order: list[int] = []
        current = self._value.full
        breaking = self._breaking(predict)
        while current:
            choice = indices_of(current & breaking) or indices_of(current)
            without = {index: current ^ 1 << index for index in choice}
            expected = {index: predict(mask) for index, mask in without.items()}
            likely = sorted(choice, key=expected.__getitem__)[:_TRIED]  # of equals the first
            new = [without[i] for i in likely if without[i] not in self._known]
            tried = new[: self._limit - len(self._known)] if len(choice) > 1 else []
            self._value(tried)
            seen = {i: self._known[m] for i, m in without.items() if m in self._known}
            if len(tried) < len(new):  # no probe is left: what is not known is predicted
                seen = {**expected, **seen}
            order.append(min(seen or choice, key=lambda i, s=seen: (s.get(i, 0.0), i)))
            current = without[order[-1]]
        return tuple(order)

    def _breaking(self, predict: SplitSurrogate) -> int:
        """The smallest set that meets every rule; of several, the one that costs most."""
        rules = predict.masks
        if not rules or 0 in rules:
            return 0
        sets = list(itertools.islice(minimal_transversals(rules), _TRANSVERSALS))
        least = min(mask.bit_count() for mask in sets)
        full = self._value.full

        def left(mask: int) -> tuple[float, int]:
            return self._known.get(full ^ mask, predict(full ^ mask)), mask

        return min((mask for mask in sets if mask.bit_count() == least), key=left)

    def _effects(self, surrogate: SplitSurrogate) -> tuple[float, ...]:
        """The mean effect of each source on the prediction for random subsets of the others."""
        count, predict = self._count, cache(surrogate)  # each subset serves several sources
        masks: Sequence[int] = range(1 << count) if 1 << count <= _SAMPLES else ()
        masks = masks or [self._rng.getrandbits(count) for _ in range(_SAMPLES)]
        return tuple(
            float(np.mean([predict(m | 1 << i) - predict(m & ~(1 << i)) for m in masks]))
            for i in range(count)
        )

"""A surrogate that knows the rules: linear where a minimal rule is whole, and linear where none is.

One linear function cannot follow a score that stands as long as either of two documents does, or
that falls by as much for one lost fact as for ten. So the minimal retention rules of the score are
searched for first, by bisection and within half of the probes. They split the subsets in two, and
each side gets a linear function of its own. The rest of the probes goes to random subsets, and to
the removals that the surrogate expects to cost most, which are tried before they are stated.

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729): one linear function for all subsets, and
    the measures that this one is made for: top-k drop and linear datamodeling score.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from rulerag.composition import check_range, register
from rulerag.errors import ConfigError, ProbeBudgetError
from rulerag.explanation.attribution.surrogates import (
    LinearSurrogate,
    SplitSurrogate,
    SubsetSample,
    fit_ridge,
)
from rulerag.explanation.attribution.values import Attribution, fitted_attribution
from rulerag.explanation.lattice import bits, indices_of, mask_of, minimal_transversals
from rulerag.explanation.probing import Probed, ProbeEngine, Score, valued
from rulerag.explanation.search import BorderSearch, RuleOracle

LOG_MARGIN = math.log(10)
"""The margin for log-probabilities: a tenth of the full set's probability, from where ContextCite's
display counts a source as one that matters."""

_SEARCH, _REMOVALS = 0.5, 0.25  # of the probes
_CANDIDATES, _MAX_SIZE, _TRANSVERSALS = 4, 10, 200


@register("explainer", "guided")
def guided_surrogate(
    engine: Probed,
    score: Score | None = None,
    *,
    samples: int = 64,
    margin: float | None = None,
    seed: int = 0,
) -> Attribution:
    """The minimal rules of a score, and a linear function fitted to each side of them.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        samples: how many distinct subsets to ask, at most.
        margin: a subset keeps the score when it loses less than this against the full set. By
            default half of what is lost when every source is removed, and ``LOG_MARGIN`` where
            outputs are numbers, which are taken as log-probabilities.
        seed: of the random subsets.

    Returns:
        What each source adds to the prediction for a random subset of the others (its Banzhaf
        value, over 512 random subsets with ten sources and more), in the unit of the score; the
        prediction itself with the rules that it is split by (``surrogate``); and the sources in
        the order in which removing them costs most (``removals``).

    Raises:
        ConfigError: fewer than 4 subsets, or a margin that is not above 0.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's own budget ran out.
    """
    check_range("samples", samples, 4)
    if margin is not None and not margin > 0:
        raise ConfigError(f"expected a number above 0, found {margin}", key="margin")
    if margin is None and score is None:
        margin = LOG_MARGIN
    return _GuidedSample(valued(engine, score), samples, seed).attribution(margin)


class _GuidedSample(SubsetSample):
    """The subsets asked, and the rules and removals among them."""

    def attribution(self, margin: float | None) -> Attribution:
        full, empty = self.value([self.value.full, 0]).tolist()
        loss = max((full - empty) / 2, 0.0) if margin is None else margin
        rules, complete = self._search(full - loss)
        self.draw(self.limit - int(_REMOVALS * self.probes))
        removals = self._removals(self._fitted(rules, complete))
        self.draw(self.limit)
        predict = self._fitted(rules, complete)
        return fitted_attribution("guided surrogate", self, predict, removals)

    def _search(self, threshold: float) -> tuple[list[int], bool]:
        """The minimal sets whose score reaches the threshold, and whether they are all."""

        def outputs(subsets: list[tuple[int, ...]]) -> list[str]:
            return [repr(score) for score in self.value(map(mask_of, subsets)).tolist()]

        allowed = int(_SEARCH * self.limit)
        engine = ProbeEngine.from_function(outputs, num_sources=self.count, max_probes=allowed)
        oracle = RuleOracle("retention", engine, lambda text: float(text) >= threshold)
        seed = self.rng.getrandbits(32)
        search = BorderSearch(oracle, max_size=_MAX_SIZE, max_probes=allowed, seed=seed)
        with suppress(ProbeBudgetError):
            for _ in search.search():
                pass
        return search.minimal, search.complete

    def _fitted(self, rules: Sequence[int], complete: bool) -> SplitSurrogate:
        """The prediction: a linear function with, and one without, a whole rule."""
        nothing = LinearSurrogate((0.0,) * self.count, 0.0)
        sets = tuple(indices_of(mask) for mask in sorted(rules))
        split = SplitSurrogate(sets, nothing, nothing, complete)
        sides: dict[bool, list[int]] = {True: [], False: []}
        for mask in self.scores:
            sides[split.holds(mask)].append(mask)
        above, below = (self._ridge(sides[side] or sides[not side]) for side in (True, False))
        return replace(split, above=above, below=below)

    def _ridge(self, masks: Sequence[int]) -> LinearSurrogate:
        return fit_ridge(bits(masks, self.count), [self.scores[mask] for mask in masks])

    def _removals(self, predict: SplitSurrogate) -> tuple[int, ...]:
        """The sources in the order of their cost: the likeliest removals are tried, in batches.

        A smallest set that leaves no rule whole comes first: where each of several documents is
        enough, no single removal shows what the removal of all of them costs.
        """
        order: list[int] = []
        current = self.value.full
        breaking = self._breaking(predict)
        while current:
            choice = indices_of(current & breaking) or indices_of(current)
            without = {index: current ^ 1 << index for index in choice}
            expected = dict(zip(choice, predict.scores(list(without.values())), strict=True))
            likely = sorted(choice, key=expected.__getitem__)[:_CANDIDATES]  # of equals the first
            new = [without[i] for i in likely if without[i] not in self.scores]
            asked = new[: self.limit - len(self.scores)] if len(choice) > 1 else []
            self.value(asked)
            scores = {i: self.scores[m] for i, m in without.items() if m in self.scores}
            if len(asked) < len(new):  # no probe is left: what is not known is predicted
                scores = {**expected, **scores}
            order.append(min(scores or choice, key=lambda i, s=scores: (s.get(i, 0.0), i)))
            current = without[order[-1]]
        return tuple(order)

    def _breaking(self, predict: SplitSurrogate) -> int:
        """The smallest set that meets every rule; of several, the one that costs most."""
        rules = predict.masks
        if not rules or 0 in rules:
            return 0
        sets = list(itertools.islice(minimal_transversals(rules), _TRANSVERSALS))
        least = min(mask.bit_count() for mask in sets)
        full = self.value.full

        def rest(mask: int) -> tuple[float, int]:
            return self.scores.get(full ^ mask, predict(full ^ mask)), mask

        return min((mask for mask in sets if mask.bit_count() == least), key=rest)

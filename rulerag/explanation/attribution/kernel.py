"""A Gaussian process over the subsets: near ones score alike, and each source counts as it does.

A linear function cannot follow a score that stands as long as one of several documents does. Here
the scores of two subsets are correlated by a factor for each source that only one of them keeps;
the factors are fitted, so that sources that do nothing drop out and few probes are enough, and
with more of them sources that work together, or stand in for each other, show by themselves. Few
probes, or a score that adds up, make it all but linear. Scores are modelled by their normal scores,
the quantiles of their ranks, so that a few that fall out of line, such as a log-probability without
any source, do not bend the rest. One probe in eight goes to the removals that are expected to
cost most, which are tried before they are stated.
"""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.composition import check_range, register
from rulerag.explanation.attribution.surrogates import KernelSurrogate, SubsetSample, fit_kernel
from rulerag.explanation.attribution.values import Attribution, fitted_attribution
from rulerag.explanation.lattice import indices_of
from rulerag.explanation.probing import Probed, Score, valued

_REMOVALS = 0.125  # of the probes
_CANDIDATES, _BEAM = 4, 16


@register("explainer", "kernel")
def kernel_surrogate(
    engine: Probed, score: Score | None = None, *, samples: int = 64, seed: int = 0
) -> Attribution:
    """A Gaussian process fitted to the scores of random subsets.

    Args:
        engine: answers or numbers for subsets of the sources.
        score: a number for an output; None where outputs are numbers.
        samples: how many distinct subsets to ask, at most.
        seed: of the random subsets.

    Returns:
        What each source adds to the prediction for a random subset of the others (its Banzhaf
        value, over 512 random subsets with ten sources and more), in the unit of the score; the
        prediction itself (``kernel``); and the sources in the order in which removing them costs
        most (``removals``).

    Raises:
        ConfigError: fewer than 4 subsets.
        PredicateError: the score raised or is not finite.
        ProbeBudgetError: the engine's own budget ran out.
    """
    check_range("samples", samples, 4)
    return _KernelSample(valued(engine, score), samples, seed).attribution()


class _KernelSample(SubsetSample):
    """The subsets asked, and the removals among them."""

    def attribution(self) -> Attribution:
        self.value([self.value.full])
        removals = int(_REMOVALS * self.limit)
        self.draw(self.limit - removals)
        self._ask_removals(removals)
        self.draw(self.limit)
        kernel = self._fitted()
        return fitted_attribution("kernel surrogate", self, kernel, self._order(kernel))

    def _fitted(self) -> KernelSurrogate:
        return fit_kernel(tuple(self.scores), list(self.scores.values()), self.count)

    def _ask_removals(self, allowed: int) -> None:
        """Ask what is expected along the best order of removal, until all of it is known."""
        while allowed > 0:
            left, path = self.value.full, []
            for index in self._order(self._fitted()):
                left ^= 1 << index
                path.append(left)
            new = [mask for mask in path if mask not in self.scores][: min(_CANDIDATES, allowed)]
            if not new:
                return
            self.value(new)
            allowed -= len(new)

    def _order(self, kernel: KernelSurrogate) -> tuple[int, ...]:
        """The order of removal with the least area under the deletion curve, by a beam search.

        Of several documents that each are enough, no single removal shows what the removal of all
        of them costs: the best order is not the greedy one.
        """
        beam: dict[int, tuple[float, tuple[int, ...]]] = {self.value.full: (0.0, ())}
        for _ in range(self.count):
            following: dict[int, tuple[float, tuple[int, ...]]] = {}
            steps = [(mask, i) for mask in beam for i in indices_of(mask)]
            scores = self._expected(kernel, [mask ^ 1 << i for mask, i in steps])
            for (mask, index), score in zip(steps, scores, strict=True):
                area, order = beam[mask]
                state = (area + score, (*order, index))
                left = mask ^ 1 << index
                following[left] = min(following.get(left, state), state)
            best = sorted(following.items(), key=lambda item: item[1])
            beam = dict(best[:_BEAM])
        return beam[0][1]

    def _expected(self, kernel: KernelSurrogate, masks: Sequence[int]) -> list[float]:
        """The scores of some subsets, known or predicted."""
        predicted = kernel.scores(masks).tolist() if masks else []
        return [self.scores.get(m, one) for m, one in zip(masks, predicted, strict=True)]

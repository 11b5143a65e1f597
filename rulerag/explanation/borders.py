"""The border between the sets for which a condition holds and those for which it fails.

The search assumes that the condition, once it holds for a set, holds for every larger one. Under
that assumption it finds every minimal set that holds and proves that there is no other: each set
without one of them lies inside a set that was seen to fail. Where the assumption is wrong, that
proof stands all the same, since a set inside a failing one is the source of no valid rule; what
has to be shown otherwise is that the sets found are valid.

References:
    Gunopulos, Khardon, Mannila, Toivonen 1997 (PODS): dualise and advance.
    Liffiton et al. 2016 (Constraints 21, 223-250): MARCO, seeds from the unexplored part, shrunk.
    Junker 2004 (AAAI): QuickXplain, the elements of a minimal set by bisection.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from rulerag.explanation.lattice import indices_of, iter_minimal_transversals, mask_of
from rulerag.explanation.oracle import RuleOracle

__all__ = ["BorderSearch", "shrink"]

_RETRIES = 2
_LARGEST_BATCH = 256
_NEIGHBOURS, _AWAY = 12, 0.1


class BorderSearch:
    """Finds the minimal sets that hold, and failing sets that leave no room for another.

    While the outputs fit the assumption nothing is asked twice over. Once one does not, as happens
    with stray outputs, every set found is reviewed and seeds that hold by themselves are left.

    Args:
        oracle: the condition.
        review: takes from a set the sources that only a stray output brought into it.
        max_size: sets with more sources are not looked for.
        max_probes: stop looking after so many subsets in all.
        seed: of the order in which a search that went astray is tried again.
    """

    def __init__(
        self,
        oracle: RuleOracle,
        *,
        review: Callable[[int], int] = lambda mask: mask,
        max_size: int,
        max_probes: int,
        seed: int,
    ) -> None:
        self.oracle = oracle
        self.found: list[int] = []  # the minimal sets
        self.isolated: list[int] = []  # sets that hold, with no small one inside
        self.exhausted = False
        self.num_probes = 0
        self._review = review
        self._reviewed: set[int] = set()
        self._max_size = max_size
        self._max_probes = max_probes
        self._chance = random.Random(seed)

    @property
    def complete(self) -> bool:
        """Whether each set without one of those found lies inside a set that fails."""
        return self.exhausted and not self.isolated

    def run(self) -> None:
        """Search on until nothing is left to explore, or ``max_probes`` are used.

        Call it again after sets were taken out of ``found``.

        Raises:
            ProbeBudgetError: the engine's budget ran out.
        """
        self.exhausted = False
        before = self.oracle.num_probes - self.num_probes
        try:
            self._explore(before + self._max_probes)
        finally:
            self.num_probes = self.oracle.num_probes - before

    def replace(self, mask: int, simpler: int) -> None:
        """Put a smaller set in the place of one, and of all others that it makes needless."""
        self.found.remove(mask)
        if not any(other & ~simpler == 0 for other in self.found):
            self.found = [other for other in self.found if simpler & ~other]
            self.found.append(simpler)

    def _explore(self, limit: int) -> None:
        batch = 1
        while self.oracle.num_probes < limit:
            seeds = self._unexplored(batch)
            if not seeds:
                self.exhausted = True
                return
            verdicts = self.oracle.hold(seeds)
            held = [seed for seed, holds in zip(seeds, verdicts, strict=True) if holds]
            if held:
                self._minimise(held[0])
            # Seeds that fail come in long rows at the end, when every rule is known.
            batch = 1 if held else min(2 * batch, _LARGEST_BATCH)

    def _unexplored(self, most: int) -> list[int]:
        """Some largest sets about which nothing is known: no found set inside, none around."""
        seeds: list[int] = []
        for hitting in iter_minimal_transversals(self.found):
            seed = self.oracle.full ^ hitting
            if not self.oracle.refuted(seed) and seed not in self.isolated:
                seeds.append(seed)
                if len(seeds) == most:
                    break
        return seeds

    def _minimise(self, seed: int) -> None:
        """Add a minimal set inside ``seed``, which holds."""
        elements = list(indices_of(seed))
        for _ in range(1 + _RETRIES):
            if not self.oracle.orderly and self._is_isolated(seed):
                break
            found = shrink(
                elements, self.oracle.holds, self.oracle.refuted, max_size=self._max_size
            )
            if found is not None:
                self._add(found)
                return
            # A single output that should not have held leads every later step astray.
            self._chance.shuffle(elements)
        self.isolated.append(seed)

    def _add(self, mask: int) -> None:
        """Add a minimal set; where two differ in one source only, look at what they share."""
        for other in self.found:
            shared = mask & other
            if shared and (mask ^ shared).bit_count() == 1 == (other ^ shared).bit_count():
                self.oracle.holds(shared)  # fails, as known already, or the outputs do not fit
        self.found.append(mask)
        if not self.oracle.orderly:
            for member in [found for found in self.found if found not in self._reviewed]:
                simpler = self._review(member) if member in self.found else member
                self._reviewed |= {member, simpler}
                if simpler != member:
                    self.replace(member, simpler)

    def _is_isolated(self, seed: int) -> bool:
        """Whether hardly any set near ``seed`` holds: it hangs on no small set inside."""
        near = []
        for _ in range(_NEIGHBOURS):
            gone = [index for index in indices_of(seed) if self._chance.random() < _AWAY]
            near.append(seed & ~mask_of(gone))
        return self.oracle.hold(near).count(True) < 2


def shrink(
    elements: Sequence[int],
    holds: Callable[[int], bool],
    fails: Callable[[int], bool] = lambda mask: False,
    *,
    max_size: int | None = None,
) -> int | None:
    """A minimal set of ``elements`` for which a monotone condition holds.

    The last element of the shortest prefix that holds belongs to the set; it is then kept, and the
    prefix before it searched in the same way. Each bisection halves the probability, not the
    range: elements are expected as often as those found so far, so that few among many cost
    ``log2`` of the range each and a dense set about one question an element.

    Args:
        elements: source indices; the condition holds for all of them together.
        holds: whether it holds for a mask.
        fails: whether it is known already to fail for a mask; asks nothing.
        max_size: give up beyond so many sources.

    Returns:
        The mask, or None when it was given up.
    """
    prefixes = [0]
    for index in elements:
        prefixes.append(prefixes[-1] | 1 << index)
    kept, size, scanned, length = 0, 0, 0, len(elements)
    while True:
        density = min(0.9, (size + 1) / (scanned + len(elements) + 1))
        low = _last(length, lambda count, kept=kept: fails(kept | prefixes[count]))  # type: ignore[misc]
        high = length
        while high - low > 1:
            middle = _split(low, high, length, density)
            if holds(kept | prefixes[middle]):
                high = middle
            else:
                low = middle
        if high == 0:
            return kept
        if max_size is not None and size == max_size:
            return None
        kept |= 1 << elements[high - 1]
        size, scanned, length = size + 1, scanned + length - high + 1, high - 1


def _last(length: int, fails: Callable[[int], bool]) -> int:
    """The largest count below ``length`` that fails, -1 for none; failing is downward closed."""
    low, high = -1, length
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            low = middle
        else:
            high = middle
    return low


def _split(low: int, high: int, length: int, density: float) -> int:
    """The count between ``low`` and ``high`` that halves the probability of where to end.

    Ending at most at ``count`` means that no element from there to ``length`` belongs to the set,
    which has the probability ``(1 - density) ** (length - count)``.
    """
    stay = math.log1p(-density)
    below = math.exp(stay * (length - low)) if low >= 0 else 0.0
    middle = (below + math.exp(stay * (length - high))) / 2
    count = length - round(math.log(middle) / stay) if middle > 0 else (low + high) // 2
    return min(max(count, low + 1), high - 1)

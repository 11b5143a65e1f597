"""The border between the sets for which a condition holds and those for which it fails.

The search assumes that the condition, once it holds for a set, holds for every larger one. Under
that assumption it finds every minimal set that holds and proves that there is no other: each set
without one of them lies inside a set that was seen to fail. Where the assumption is wrong, that
proof stands all the same, since a set inside a failing one is the source of no valid rule; what
has to be shown otherwise is that the sets found are valid
(:mod:`~rulerag.explanation.search.sampling`).

A set is the sources that a rule speaks of: for a retention rule those kept, for an omission rule
those removed. Either way a rule is valid when the condition holds for the set and for everything
larger, so that searches need not know which kind they look for.

References:
    Gunopulos, Khardon, Mannila, Toivonen 1997 (PODS): dualise and advance.
    Liffiton et al. 2016 (Constraints 21, 223-250): MARCO, seeds from the unexplored part, shrunk.
    Junker 2004 (AAAI): QuickXplain, the elements of a minimal set by bisection.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from rulerag.explanation.lattice import full_mask, indices_of, mask_of, minimal_transversals
from rulerag.explanation.probing import Predicate, PredicateValues, ProbeEngine
from rulerag.explanation.records import check_kind

_RETRIES, _LARGEST_BATCH = 2, 256
_NEIGHBOURS, _AWAY = 12, 0.1


class RuleOracle:
    """A predicate over an engine as a condition on the sources of a rule; remembers its values.

    Args:
        kind: ``retention`` or ``omission``.
        engine: answers for subsets of the sources.
        predicate: whether an output meets the condition.

    Attributes:
        failing: the sets for which the condition failed.
        holding: the sets for which it held.
        monotone: whether no set was seen to hold inside one that was seen to fail.

    Raises:
        ConfigError: the kind is unknown.
    """

    def __init__(self, kind: str, engine: ProbeEngine, predicate: Predicate) -> None:
        self.kind = check_kind(kind)
        self.num_sources = engine.num_sources
        self.full = full_mask(engine.num_sources)
        self.failing: list[int] = []
        self.holding: list[int] = []
        self.monotone = True
        self._engine = engine
        self._values = PredicateValues(predicate, engine.outputs)
        self._known: dict[int, bool] = {}

    @property
    def num_probes(self) -> int:
        """How many distinct subsets were needed so far."""
        return len(self._known)

    def kept(self, mask: int) -> int:
        """The subset of the sources to keep for a set; the other way round it is the same."""
        return mask if self.kind == "retention" else self.full ^ mask

    def holds(self, mask: int) -> bool:
        """Whether the condition holds for one set."""
        known = self._known.get(mask)
        return self.hold([mask])[0] if known is None else known

    def hold(self, masks: Sequence[int], later: Sequence[int] = ()) -> list[bool]:
        """Whether the condition holds for each set; unknown ones are asked in one batch.

        Args:
            masks: the sets.
            later: sets that will be wanted later; asked where they take no time of their own.

        Raises:
            ProbeBudgetError: the engine's budget ran out; what was asked is remembered.
            PredicateError: the predicate raised or did not return a Boolean.
        """
        new = [mask for mask in dict.fromkeys(masks) if mask not in self._known]
        if new:
            subsets = [self.kept(mask) for mask in new]
            try:
                self._engine.probe_codes(subsets, [self.kept(mask) for mask in later])
            finally:
                self._remember(new, subsets)
        return [self._known[mask] for mask in masks]

    def output(self, mask: int) -> str | None:
        """What was answered for a set; None where it was not asked."""
        code = int(self._engine.known_codes([self.kept(mask)])[0])
        return self._engine.outputs[code] if code >= 0 else None

    def refuted(self, mask: int) -> bool:
        """Whether the condition was seen to fail for the set itself or for a larger one.

        Then no rule on the set is valid; this needs no assumption.
        """
        return any(mask & ~larger == 0 for larger in self.failing)

    def confirmed(self, mask: int) -> bool:
        """Whether the condition is known to hold for exactly this set; asks nothing."""
        if mask not in self._known:
            subset = self.kept(mask)
            if self._engine.known_codes([subset])[0] >= 0:  # asked for something else
                self._remember([mask], [subset])
        return self._known.get(mask, False)

    def _remember(self, masks: Sequence[int], subsets: Sequence[int]) -> None:
        codes = self._engine.known_codes(subsets)
        known = codes >= 0
        answered = [mask for mask, one in zip(masks, known.tolist(), strict=True) if one]
        for mask, value in zip(answered, self._values(codes[known]).tolist(), strict=True):
            self._known[mask] = value
            if self.monotone:
                inside = (smaller & ~mask == 0 for smaller in self.holding)
                self.monotone = not (self.refuted(mask) if value else any(inside))
            (self.holding if value else self.failing).append(mask)


@dataclass(eq=False)
class BorderSearch:
    """Finds the minimal sets that hold, and failing sets that leave no room for another.

    While the outputs fit the assumption nothing is asked twice over. Once one does not, as happens
    with outliers, seeds that hold by themselves are left.

    Args:
        oracle: the condition.
        max_size: sets with more sources are not looked for.
        max_probes: stop looking after so many subsets in all.
        seed: of the order in which a search that went astray is tried again.
        width: how many subsets may be asked at once without a need for all of them: seeds, and
            places to split at. More of them make fewer rounds and more questions.

    Attributes:
        minimal: the minimal sets found so far.
        isolated: sets that hold, with no small one inside.
        exhausted: whether nothing is left to explore.
        num_probes: how many subsets the search asked.
    """

    oracle: RuleOracle
    max_size: int
    max_probes: int
    seed: int
    width: int = 1
    minimal: list[int] = field(default_factory=list, init=False)
    isolated: list[int] = field(default_factory=list, init=False)
    exhausted: bool = field(default=False, init=False)
    num_probes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    @property
    def complete(self) -> bool:
        """Whether each set without one of those found lies inside a set that fails."""
        return self.exhausted and not self.isolated

    def search(self, max_probes: int | None = None, later: Sequence[int] = ()) -> Iterator[int]:
        """Search on until nothing is left to explore, or the probes are used up.

        Begin it again after sets were added or taken out.

        Args:
            max_probes: of the search in all; its own limit when None.
            later: sets that will be wanted later; asked where they take no time of their own.

        Yields:
            Each minimal set as it is found.

        Raises:
            ProbeBudgetError: the engine's budget ran out.
        """
        self.exhausted = False
        allowed = self.max_probes if max_probes is None else max_probes
        before, batch = self.oracle.num_probes - self.num_probes, self.width
        try:
            while self.oracle.num_probes < before + allowed and not self.exhausted:
                seeds = self._unexplored(batch)
                self.exhausted = not seeds
                values = self.oracle.hold(seeds, later)
                held = [seed for seed, holds in zip(seeds, values, strict=True) if holds]
                if held:
                    minimal = self.minimise(held[0], later)
                    if minimal is None:
                        self.isolated.append(held[0])
                    else:
                        self._compare(minimal)
                        self.minimal.append(minimal)
                        yield minimal
                # Seeds that fail come in long rows at the end, when every rule is known.
                batch = self.width if held else min(2 * batch, _LARGEST_BATCH)
        finally:
            self.num_probes = self.oracle.num_probes - before

    def add(self, mask: int) -> bool:
        """Add a set that was found otherwise, in place of larger ones; false where it is known."""
        if mask in self.minimal:
            return False
        self.minimal = [other for other in self.minimal if mask & ~other]
        self.minimal.append(mask)
        return True

    def remove(self, mask: int) -> None:
        """Take out a set that is not valid."""
        if mask in self.minimal:
            self.minimal.remove(mask)

    def minimise(self, seed: int, later: Sequence[int] = ()) -> int | None:
        """A minimal set inside ``seed``, which holds; None where no small one is found."""
        elements, oracle = list(indices_of(seed)), self.oracle
        for _ in range(1 + _RETRIES):
            if not oracle.monotone and self._is_isolated(seed):
                break
            minimal = shrink(
                elements,
                partial(oracle.hold, later=later),
                refuted=oracle.refuted,
                # What was asked beforehand helps in a hurry, as long as outputs fit the assumption.
                confirmed=oracle.confirmed if self.width > 1 and oracle.monotone else _never,
                max_size=self.max_size,
                width=self.width,
            )
            if minimal is not None:
                return minimal
            # A single output that should not have held leads every later step astray.
            self._rng.shuffle(elements)
        return None

    def spoilers(self, rule: int, mask: int) -> int | None:
        """A minimal part of ``mask`` with which a set fails that holds alone; None beyond a few."""

        def fail(parts: Sequence[int]) -> list[bool]:
            return [not holds for holds in self.oracle.hold([rule | part for part in parts])]

        others = indices_of(mask & ~rule)
        return shrink(others, fail, max_size=self.max_size, width=self.width)

    def _unexplored(self, most: int) -> list[int]:
        """Some largest sets about which nothing is known: no found set inside, none around."""
        seeds = (self.oracle.full ^ hitting for hitting in minimal_transversals(self.minimal))
        new = (s for s in seeds if not self.oracle.refuted(s) and s not in self.isolated)
        return list(itertools.islice(new, most))

    def _compare(self, mask: int) -> None:
        """Where two sets differ in one source only, look at what they share."""
        for other in self.minimal:
            shared = mask & other
            if shared and (mask ^ shared).bit_count() == 1 == (other ^ shared).bit_count():
                self.oracle.holds(shared)  # fails, as known already, or the outputs do not fit

    def _is_isolated(self, seed: int) -> bool:
        """Whether hardly any set near ``seed`` holds: it hangs on no small set inside."""
        near = []
        for _ in range(_NEIGHBOURS):
            gone = [index for index in indices_of(seed) if self._rng.random() < _AWAY]
            near.append(seed & ~mask_of(gone))
        return self.oracle.hold(near).count(True) < 2


def _never(mask: int) -> bool:
    """Nothing is known beforehand."""
    return False


def shrink(
    elements: Sequence[int],
    hold: Callable[[Sequence[int]], list[bool]],
    *,
    refuted: Callable[[int], bool] = _never,
    confirmed: Callable[[int], bool] = _never,
    max_size: int | None = None,
    width: int = 1,
) -> int | None:
    """A minimal set of some sources for which a monotone condition holds.

    The last source of the shortest prefix that holds belongs to the set; it is then kept, and the
    prefix before it searched in the same way. Each split halves the probability, not the range:
    sources are expected as often as those found so far, so that few among many cost ``log2`` of
    the range each and a dense set about one question a source.

    Args:
        elements: source indices; the condition holds for all of them together.
        hold: whether the condition holds for each of some sets, given as masks; asks.
        refuted: whether it is known to fail for a set, or for a larger one; asks nothing.
        confirmed: whether it is known to hold for exactly this set; asks nothing.
        max_size: give up beyond so many sources.
        width: how many places are split at in one question, which divides the probability by one
            more than that. Where few are left, it is asked in the same question whether the set is
            complete with each.

    Returns:
        The mask, or None when it was given up.
    """
    bits = [1 << index for index in elements]
    prefixes = list(itertools.accumulate(bits, operator.or_, initial=0))
    kept, scanned, length = 0, 0, len(bits)

    def may_hold(count: int) -> bool:
        return not refuted(kept | prefixes[count])

    while True:
        density = min(0.9, (kept.bit_count() + 1) / (scanned + len(bits) + 1))
        # The largest prefix that is known to fail, -1 for none: failing is downward closed.
        high = next((n for n in range(length) if confirmed(kept | prefixes[n])), length)
        low = bisect.bisect_left(range(high), True, key=may_hold) - 1
        while high - low > 1:
            places = _splits(low, high, length, density, width)
            complete = [kept | bits[end - 1] for end in range(max(low + 1, 1), high + 1)]
            besides = complete if len(places) + len(complete) <= width else []
            values = hold([*(kept | prefixes[place] for place in places), *besides])
            for place, holds in zip(places, values, strict=False):
                if holds:
                    high = place
                    break
                low = place
        if high == 0:
            return kept
        if kept.bit_count() == max_size:
            return None
        kept |= bits[high - 1]
        scanned, length = scanned + length - high + 1, high - 1


def first_prefixes(count: int, width: int) -> list[int]:
    """The masks that :func:`shrink` asks first of so many sources, to ask them beforehand."""
    places = _splits(-1, count, count, min(0.9, 1 / (count + 1)), width)
    return [full_mask(place) for place in places]


def _splits(low: int, high: int, length: int, density: float, width: int) -> list[int]:
    """Counts between ``low`` and ``high`` that cut the probability where to end into equal parts.

    Ending at most at ``count`` means that no source from there to ``length`` belongs to the set,
    which has the probability ``(1 - density)`` to the power of their number.
    """
    if low < 0 and 1 < width < high:  # to end before the first source is one place, not many
        return [0, *_splits(0, high, length, density, width - 1)]
    stay = math.log1p(-density)
    below = math.exp(stay * (length - low)) if low >= 0 else 0.0
    above = math.exp(stay * (length - high))
    places = []
    for part in range(1, width + 1):
        level = below + (above - below) * part / (width + 1)
        count = math.ceil(length - math.log(level) / stay - 0.5) if level > 0 else (low + high) // 2
        places.append(min(max(count, low + 1), high - 1))
    return sorted(set(places))

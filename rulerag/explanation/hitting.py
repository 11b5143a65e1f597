"""Smallest changes of many sources, from the rules: minimal hitting sets, each tried on the model.

A rule that holds whenever its sources are kept is broken only where one of them is removed. So a
removal that changes the answer meets every such rule, and the smallest that do are the smallest
hitting sets of the rules. Each is tried; one that changes nothing shows that a rule is missing,
which is then mined from the sources that it leaves. The number of probes grows with the rules, not
with the subsets, and what miners asked before is known.

References:
    Reiter 1987 (Artificial Intelligence 32, 57-95): diagnoses as hitting sets of conflicts.
    Gunopulos, Khardon, Mannila, Toivonen 1997 (PODS): dualise and advance.
    Moreno-Centeno, Karp 2013 (Operations Research 61, 453-468): the implicit hitting set problem.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from rulerag.explanation.borders import BorderSearch, shrink
from rulerag.explanation.lattice import indices_of, minimal_elements
from rulerag.explanation.oracle import RuleOracle

__all__ = ["RuleChanges", "smallest_hitting_sets"]

_BATCH = 64
_MOST_PROBES = 1000
_MOST_SETS = 100
_MOST_STEPS = 100_000


class RuleChanges:
    """The smallest removals and the smallest sufficient subsets that the rules lead to.

    Args:
        oracle: of retention rules.
        max_size: changes of more sources are not looked for.

    Attributes:
        found: the changes found so far, as masks of sources removed or kept; each was tried.
        complete: whether every smallest change that the rules lead to was found.
    """

    def __init__(self, oracle: RuleOracle, max_size: int) -> None:
        self.oracle = oracle
        self.max_size = max_size
        self.found: list[int] = []
        self.complete = False

    def subsets(self) -> None:
        """Find the smallest rules: what they keep is enough.

        Raises:
            ProbeBudgetError: the budget ran out; the rules found until then are in ``found``.
        """
        # The search of the miner for many sources: what that one asked the engine knows.
        search = BorderSearch(
            self.oracle, max_size=self.oracle.num_sources, max_probes=_MOST_PROBES, seed=0
        )
        try:
            search.run()
            self.complete = search.complete
        finally:
            small = [mask for mask in search.found if mask.bit_count() <= self.max_size]
            least = min((mask.bit_count() for mask in small), default=0)
            self.found = [mask for mask in small if mask.bit_count() == least]

    def removals(self) -> None:
        """Find the smallest sets that meet every rule, and without which the condition fails.

        Raises:
            ProbeBudgetError: the budget ran out; what was found until then is in ``found``.
        """
        edges: list[int] = []
        last = self.oracle.num_probes + _MOST_PROBES
        tried: set[int] = set()
        while self.oracle.num_probes < last and len(self.found) < _MOST_SETS:
            candidates, all_of_them = self._candidates(edges, tried)
            if not candidates:
                self.complete = all_of_them
                break
            kept = [self.oracle.full ^ mask for mask in candidates]
            for mask, rest, holds in zip(candidates, kept, self.oracle.hold(kept), strict=True):
                tried.add(mask)
                if not holds:
                    self.found.append(mask)
                elif all(edge & mask for edge in edges):
                    edges.append(self._missing_rule(rest))
        if not self.found:
            self._single_sources()

    def _candidates(self, edges: Sequence[int], tried: set[int]) -> tuple[list[int], bool]:
        """Some smallest hitting sets not tried yet, and whether the rest of them were tried."""
        most = self.found[0].bit_count() if self.found else self.max_size
        try:
            new = (m for m in smallest_hitting_sets(edges, most) if m not in tried)
            # One at a time until all rules are known: each shows which one is missing.
            return list(itertools.islice(new, _BATCH if self.found else 1)), True
        except _TooManyError:
            rough = _greedy(edges)
            fits = rough.bit_count() <= most and rough not in tried
            return [rough] if fits else [], False

    def _missing_rule(self, rest: int) -> int:
        """A minimal set of the sources left, which hold: the rule that a candidate did not meet."""
        found = shrink(indices_of(rest), self.oracle.holds, self.oracle.refuted)
        return rest if found is None else found

    def _single_sources(self) -> None:
        """Try each source alone: where no rule leads, an answer may still hang on what misleads."""
        alone = [1 << index for index in range(self.oracle.num_sources)] if self.max_size else []
        verdicts = self.oracle.hold([self.oracle.full ^ mask for mask in alone])
        self.found = [mask for mask, holds in zip(alone, verdicts, strict=True) if not holds]
        self.complete = bool(self.found)


class _TooManyError(Exception):
    """The hitting sets cannot be told in a bounded number of steps."""


def smallest_hitting_sets(edges: Sequence[int], most: int) -> Iterator[int]:
    """Every smallest mask, of at most ``most`` sources, that shares a source with each edge.

    Without an edge it is the empty mask; an empty edge is met by none.
    """
    ordered = sorted(minimal_elements(edges), key=int.bit_count)
    if ordered[:1] == [0]:
        return
    steps = itertools.count(1)
    for size in range(_disjoint(ordered), most + 1):
        found = False
        for mask in _of_size(ordered, size, 0, 0, steps):
            found = True
            yield mask
        if found:
            return


def _of_size(
    edges: Sequence[int], left: int, mask: int, barred: int, steps: Iterator[int]
) -> Iterator[int]:
    """The hitting sets that add ``left`` sources at most to ``mask``, none of them ``barred``."""
    if next(steps) > _MOST_STEPS:
        raise _TooManyError
    open_edges = [edge & ~barred for edge in edges if not edge & mask]
    if not open_edges:
        yield mask
        return
    if 0 in open_edges or _disjoint(open_edges) > left:
        return
    for index in indices_of(min(open_edges, key=int.bit_count)):
        yield from _of_size(edges, left - 1, mask | 1 << index, barred, steps)
        barred |= 1 << index  # sets with this source are told: each set is told once


def _disjoint(edges: Sequence[int]) -> int:
    """How many edges, taken in their order, share no source: no fewer sources meet them all."""
    used = count = 0
    for edge in edges:
        if not edge & used:
            used, count = used | edge, count + 1
    return count


def _greedy(edges: Sequence[int]) -> int:
    """A hitting set that holds no other, by the source that meets most edges each time."""
    mask, left = 0, list(edges)
    while left:
        sources = {index for edge in left for index in indices_of(edge)}
        best = max(sorted(sources), key=lambda index: sum(edge >> index & 1 for edge in left))
        mask |= 1 << best
        left = [edge for edge in left if not edge & mask]
    for index in indices_of(mask):
        without = mask & ~(1 << index)
        if all(edge & without for edge in edges):
            mask = without
    return mask

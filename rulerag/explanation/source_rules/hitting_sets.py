"""What minimal hitting sets of rules say: the smallest changes, and whether two families fit.

A rule that holds whenever its sources are kept is broken only where one of them is removed. So a
removal that changes the answer meets every such rule, and the smallest that do are the smallest
hitting sets of the rules. Each is tried; one that changes nothing shows that a rule is missing,
which is then mined from the sources that it leaves. The number of probes grows with the rules, not
with the subsets, and what miners asked before is known.

When a predicate and its opposite are explained, a retention rule and an omission rule that share
no source contradict each other: keep the one, remove the other. And where the predicate is
monotone, each family is exactly the minimal hitting sets of the other, so that every subset keeps
a whole retention rule or removes a whole omission rule.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), section 3: retention and omission rules.
    Reiter 1987 (Artificial Intelligence 32, 57-95): diagnoses as hitting sets of conflicts.
    Fredman and Khachiyan 1996 (J. Algorithms 21): duality of monotone forms.
    Gunopulos, Khardon, Mannila, Toivonen 1997 (PODS): dualise and advance.
    Moreno-Centeno, Karp 2013 (Operations Research 61, 453-468): the implicit hitting set problem.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rulerag.explanation.lattice import (
    indices_of,
    mask_of,
    minimal_elements,
    minimal_transversals,
)
from rulerag.explanation.records import Record
from rulerag.explanation.source_rules.monotone_search import BorderSearch, RuleOracle, shrink
from rulerag.explanation.wording import listing, runs

Names = tuple[str, ...]

_BATCH, _MOST_SETS, _MOST_PROBES, _MOST_STEPS = 64, 100, 1000, 100_000


class RuleChanges:
    """The smallest removals and the smallest sufficient subsets that the rules lead to.

    Args:
        oracle: of retention rules.

    Attributes:
        found: the changes found so far, as masks of sources removed or kept; each was tried.
        complete: whether every smallest change that the rules lead to was found.
    """

    def __init__(self, oracle: RuleOracle) -> None:
        self.oracle = oracle
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
            least = min((mask.bit_count() for mask in search.found), default=0)
            self.found = [mask for mask in search.found if mask.bit_count() == least]

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
                    # A minimal set of the sources left, which hold: the rule that was not met.
                    rule = shrink(indices_of(rest), self.oracle.hold, self.oracle.refuted)
                    edges.append(rest if rule is None else rule)
        if not self.found:
            self._single_sources()

    def _candidates(self, edges: Sequence[int], tried: set[int]) -> tuple[list[int], bool]:
        """Some smallest hitting sets not tried yet, and whether the rest of them were tried."""
        most = self.found[0].bit_count() if self.found else self.oracle.num_sources
        try:
            new = (m for m in smallest_hitting_sets(edges, most) if m not in tried)
            # One at a time until all rules are known: each shows which one is missing.
            return list(itertools.islice(new, _BATCH if self.found else 1)), True
        except _TooManyError:
            rough = _greedy(edges)
            fits = rough.bit_count() <= most and rough not in tried
            return [rough] if fits else [], False

    def _single_sources(self) -> None:
        """Try each source alone: where no rule leads, an answer may still hang on what misleads."""
        alone = [1 << index for index in range(self.oracle.num_sources)]
        values = self.oracle.hold([self.oracle.full ^ mask for mask in alone])
        self.found = [mask for mask, holds in zip(alone, values, strict=True) if not holds]
        self.complete = bool(self.found)


class _TooManyError(Exception):
    """The hitting sets cannot be found in a bounded number of steps."""


def smallest_hitting_sets(edges: Sequence[int], most: int) -> Iterator[int]:
    """Every smallest mask, of at most ``most`` sources, that shares a source with each edge.

    Without an edge it is the empty mask; an empty edge is met by none.
    """
    ordered = sorted(minimal_elements(edges), key=int.bit_count)
    if ordered[:1] == [0]:
        return
    steps = itertools.count(1)
    for size in range(_disjoint(ordered), most + 1):
        sets = _of_size(ordered, size, 0, 0, steps)
        for mask in sets:
            yield mask
            yield from sets
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
        barred |= 1 << index  # sets with this source were yielded: each set comes once


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


@dataclass(frozen=True)
class Duality(Record):
    """How two families of rules of opposite predicates fit each other.

    Args:
        consistent: every omission rule shares a source with every retention rule.
        dual: each family is exactly the minimal hitting sets of the other; every subset then
            keeps a whole retention rule or removes a whole omission rule.
        disjoint: a retention and an omission rule that share no source, where there are such.
        undecided: the sources removed by a subset that falls under no rule of either family, where
            they are consistent and not dual.
    """

    consistent: bool
    dual: bool
    disjoint: tuple[Names, Names] | None = None
    undecided: Names | None = None

    def __str__(self) -> str:
        """The result in one sentence."""
        if self.disjoint is not None:
            kept, removed = (" + ".join(names) or "no source" for names in self.disjoint)
            both = f"keeping {kept} and removing {removed} go together"
            return f"The rules contradict each other: {both}, so neither holds for every subset."
        if self.dual:
            each = "each kind is the minimal hitting sets of the other"
            return f"Every subset falls under one of these rules: {each}."
        example = f"for example with {listing(runs(self.undecided or ())) or 'nothing'} removed"
        return f"Some subsets fall under no rule of either kind, {example}."


def check_duality(
    retention: Sequence[Names], omission: Sequence[Names], sources: Sequence[str]
) -> Duality:
    """Compare the minimal rules of a predicate with those of its opposite.

    Asks nothing: it looks at the rules alone, so that it says whether two families that were mined
    apart fit, and whether something is left that neither decides.

    Args:
        retention: the minimal retention rules of the predicate, as names.
        omission: the minimal omission rules of its opposite.
        sources: every name.
    """
    place = {name: index for index, name in enumerate(sources)}
    kept = [mask_of(place[name] for name in names) for names in retention]
    removed = [mask_of(place[name] for name in names) for names in omission]
    for names, rule in zip(retention, kept, strict=True):
        for others, other in zip(omission, removed, strict=True):
            if not rule & other:
                return Duality(False, False, (tuple(names), tuple(others)))
    # A set that hits every retention rule and holds no omission rule: removing it leaves no
    # retention rule whole and removes no omission rule. When there is none, each minimal hitting
    # set holds an omission rule, which hits every retention rule itself: they are the same sets, so
    # that no more hitting sets are looked at than there are omission rules.
    for hitting in minimal_transversals(kept):
        if not any(rule & ~hitting == 0 for rule in removed):
            return Duality(True, False, undecided=tuple(sources[i] for i in indices_of(hitting)))
    return Duality(True, True)

"""The smallest changes of the evidence that change the answer.

Removals that make a predicate fail, and subsets that are enough for it.
Up to 20 sources every set is looked at, the smallest first; with more the sets come from the rules
(:mod:`~rulerag.explanation.source_rules.hitting_sets`), and each one named was tried.

References:
    Rorseth et al. 2024 (RAGE, ICDE, doi 10.1109/ICDE60146.2024.00430): combination
    counterfactuals.
    Wachter, Mittelstadt, Russell 2017 (Harvard J. Law and Technology 31): counterfactuals.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from rulerag.errors import ExplanationError, ProbeBudgetError
from rulerag.explanation.lattice import full_mask, indices_of, level
from rulerag.explanation.probing import Predicate, ProbeEngine, stopped
from rulerag.explanation.records import Record
from rulerag.explanation.source_rules import MAX_EXACT_SOURCES, RuleChanges, RuleOracle
from rulerag.explanation.wording import listing

_BATCH, _MOST_LINES = 256, 20

CHANGES = ("removed", "kept")


@dataclass(frozen=True)
class Counterfactuals(Record):
    """The smallest sets of sources that change something.

    Args:
        change: ``removed`` (the predicate fails without these sources) or ``kept`` (it holds with
            these alone).
        sets: every set of the smallest size for which it does; empty when there is none.
        names: what the sources are called, in order.
        searched: the largest size that was looked at whole.
        num_probes: how many distinct subsets were needed.
        complete: false when a limit of size or a probe budget ended the search before every such
            set was found.
        from_rules: whether the sets come from rules. Each was tried all the same; that no smaller
            one does it rests on the rules, as smaller ones were not all tried.
    """

    change: str
    sets: frozenset[frozenset[int]]
    names: tuple[str, ...]
    searched: int
    num_probes: int
    complete: bool
    from_rules: bool = False

    def __str__(self) -> str:
        """The sets in words, one a line."""
        count, found_by = len(self.sets), f"{self.num_probes:,} probes"
        if self.change == "removed":
            effect = f"change{'' if count > 1 else 's'} the answer"
        else:
            effect = f"{'are' if count > 1 else 'is'} enough"
        if not self.sets:
            size = f" of at most {self.searched} sources" if not self.complete else ""
            found_by += ", as far as the mined rules lead" if self.from_rules else ""
            return f"no set{size} {effect} when {self.change} ({found_by})"
        if self.from_rules:
            found_by += "; from the mined rules: each was tried, smaller ones were not all"
        sets = f"{count} smallest set{'' if count == 1 else 's'}"
        lines = [f"{sets} that, when {self.change}, {effect} ({found_by})"]
        for one in sorted(self.sets, key=sorted)[:_MOST_LINES]:
            lines.append(f"  {listing([self.names[i] for i in sorted(one)]) or 'no source at all'}")
        if count > _MOST_LINES:
            lines.append(f"  … and {count - _MOST_LINES} more")
        if not self.complete:
            lines.append("  The search was cut short: there may be others.")
        return "\n".join(lines)


def counterfactual_sets(
    engine: ProbeEngine, predicate: Predicate
) -> tuple[tuple[Counterfactuals, ...], bool]:
    """The smallest removals that make a predicate fail and the smallest subsets that keep it.

    Returns:
        Both, or the second alone where the predicate fails with every source kept; and whether
        the probe budget sufficed.

    Raises:
        PredicateError: the predicate raised or did not return a Boolean.
    """
    found: list[Counterfactuals] = []
    complete = True
    stands = predicate(engine.probe([full_mask(engine.num_sources)])[0])
    for change in CHANGES if stands else CHANGES[1:]:
        try:
            found.append(smallest_changes(engine, predicate, change))
        except ProbeBudgetError as error:
            complete = False
            if isinstance(error.partial, Counterfactuals):
                found.append(error.partial)
    return tuple(found), complete


def smallest_changes(engine: ProbeEngine, predicate: Predicate, change: str) -> Counterfactuals:
    """The smallest sets whose removal makes a predicate fail, or that alone are enough for it.

    Up to 20 sources every size is looked at whole, so that ``k`` of ``n`` sources take ``n choose
    k`` probes.

    Args:
        engine: answers for subsets of the sources.
        predicate: whether an output meets the condition.
        change: ``removed`` or ``kept``.

    Raises:
        ExplanationError: the predicate fails with every source kept, so that no removal changes it.
        PredicateError: the predicate raised or did not return a Boolean.
        ProbeBudgetError: the budget ran out; ``partial`` says which sizes were looked at.
    """
    removed, names = change == "removed", engine.names
    oracle = RuleOracle("retention", engine, predicate)
    if removed and not oracle.holds(oracle.full):
        what = "the predicate fails with every source kept: there is nothing to change"
        hint = "give the predicate of the answer at hand, or its opposite"
        raise ExplanationError(what, hint=hint)
    if engine.num_sources > MAX_EXACT_SOURCES:
        return _from_rules(oracle, names, change)
    if removed:
        oracle = RuleOracle("omission", engine, predicate)

    def result(found: Sequence[int], searched: int, *, complete: bool) -> Counterfactuals:
        return Counterfactuals(change, _sets(found), names, searched, oracle.num_probes, complete)

    for size in range(engine.num_sources + 1):
        found: list[int] = []
        masks = level(engine.num_sources, size)
        while batch := list(itertools.islice(masks, _BATCH)):
            try:
                values = oracle.hold(batch)
            except ProbeBudgetError as error:
                reached = f"every set of fewer than {size} sources was looked at"
                raise stopped(error, reached, result(found, size - 1, complete=False)) from None
            found += [m for m, holds in zip(batch, values, strict=True) if holds != removed]
        if found:
            return result(found, size, complete=True)
    return result([], engine.num_sources, complete=True)


def _sets(masks: Sequence[int]) -> frozenset[frozenset[int]]:
    return frozenset(frozenset(indices_of(mask)) for mask in masks)


def _from_rules(oracle: RuleOracle, names: tuple[str, ...], change: str) -> Counterfactuals:
    """The sets that the rules lead to, for more sources than can be looked at whole."""
    changes = RuleChanges(oracle)

    def result() -> Counterfactuals:
        sets, done = _sets(changes.found), changes.complete
        searched = 0 if sets or change == "kept" else 1
        return Counterfactuals(change, sets, names, searched, oracle.num_probes, done, True)

    try:
        changes.removals() if change == "removed" else changes.subsets()
    except ProbeBudgetError as error:
        reached = f"{len(changes.found)} sets found until then"
        raise stopped(error, reached, result()) from None
    return result()

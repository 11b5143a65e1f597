"""Sources taken together: by document, by the mined rule that found them, then one by one inside.

A view of an engine whose sources are groups asks the engine itself, so that nothing is asked twice
on the way from groups to what they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulerag.errors import ExplanationError
from rulerag.explanation.approximate import CertifiedMiner
from rulerag.explanation.certificates import CertifiedRules
from rulerag.explanation.judging import Predicate
from rulerag.explanation.lattice import mask_of
from rulerag.explanation.miners import MAX_EXACT_SOURCES, MonoMiner
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.results import SourceRules
from rulerag.explanation.shown import Certificate, ShownRule
from rulerag.explanation.trace import document_of, trace_documents, trace_rules
from rulerag.types import Answer

__all__ = [
    "GroupedRules",
    "Groups",
    "grouped",
    "groups_by_document",
    "groups_by_rule",
    "mine_in_groups",
    "shown_rules",
]

Groups = Mapping[str, Sequence[int]]
"""What the groups are called, and the indices of their sources."""

Rules = SourceRules | CertifiedRules


def shown_rules(rules: Rules) -> tuple[ShownRule, ...]:
    """The minimal rules of a result, each with what was shown about it."""
    if isinstance(rules, CertifiedRules):
        return tuple(rule.shown for rule in rules.rules)
    count = rules.num_sources
    return tuple(
        ShownRule(rule.names, Certificate.exact(count - len(rule.sources))) for rule in rules.rules
    )


@dataclass(frozen=True)
class GroupedRules:
    """Rules over groups, and rules over what stands inside the groups that matter.

    Args:
        outer: the rules over the groups.
        inner: the rules over the sources of every group in a minimal outer rule, all other groups
            still kept or removed as one; the same as ``outer`` when no such group has two sources.
        opened: the groups that were opened.
        num_probes: how many distinct subsets of the sources were asked.
    """

    outer: Rules
    inner: Rules
    opened: tuple[str, ...]
    num_probes: int

    def __str__(self) -> str:
        """Both levels in words."""
        if not self.opened:
            return str(self.outer)
        return f"{self.outer}\nInside {', '.join(self.opened)}:\n{self.inner}"

    def to_json(self) -> dict[str, Any]:
        """Both levels as a JSON object."""
        return {
            "outer": self.outer.to_json(),
            "inner": self.inner.to_json(),
            "opened": list(self.opened),
            "num_probes": self.num_probes,
        }


def groups_by_document(names: Sequence[str]) -> dict[str, list[int]]:
    """Sentences or words of one document, by the names that ``partition`` gives: ``D2.1``."""
    return _grouped_by(names, lambda place: document_of(names[place]))


def groups_by_rule(answer: Answer) -> dict[str, list[int]]:
    """The documents of an answer by the rule that found each of them with the best rank (R1, R2 …).

    Documents that only the plain query found are the group ``query``.
    """
    traces = trace_documents(answer, trace_rules(answer))
    names = [next((rule for rule in trace.rules if rule is not None), "query") for trace in traces]
    return _grouped_by(names, lambda place: names[place])


def grouped(engine: ProbeEngine, groups: Groups) -> ProbeEngine:
    """A view of an engine whose sources are groups; it counts subsets of groups as its probes.

    Sources in no group are kept in every probe.

    Raises:
        ExplanationError: a source stands in two groups or does not exist, or a group is empty.
    """
    members = [index for group in groups.values() for index in group]
    if len(set(members)) < len(members):
        raise ExplanationError("a source stands in two groups", hint="give disjoint groups")
    if not all(groups.values()):
        raise ExplanationError("a group holds no source", hint="leave empty groups out")
    if any(not 0 <= index < engine.num_sources for index in members):
        raise ExplanationError(f"a group reaches beyond the {engine.num_sources} sources")
    masks = [mask_of(group) for group in groups.values()]
    always = mask_of(set(range(engine.num_sources)) - set(members))

    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        return engine.probe([always | _union(masks, subset) for subset in kept])

    return ProbeEngine.from_function(answer, num_sources=len(masks), names=list(groups))


def mine_in_groups(
    engine: ProbeEngine,
    groups: Groups,
    predicate: Predicate,
    *,
    kind: str = "retention",
    seed: int = 0,
    progress: bool = False,
) -> GroupedRules:
    """Find rules over groups first, then over the sources of those groups that matter.

    Up to 20 at a time are mined exactly, more by ``CertifiedMiner``.

    Args:
        engine: answers for subsets of the sources.
        groups: disjoint groups of them.
        predicate: whether an output meets the condition.
        kind: ``retention`` or ``omission``.
        seed: of random tests, where there are many.
        progress: show a progress bar.

    Raises:
        ExplanationError: the groups are not disjoint.
        PredicateError: the predicate raised or did not return a Boolean.
        ProbeBudgetError: the engine's budget ran out.
    """
    before = engine.num_probes
    mine = _miner(kind, seed, progress)
    outer = mine(grouped(engine, groups), predicate)
    needed = {index for rule in outer.minimal for index in rule}
    opened = [
        name for place, (name, of) in enumerate(groups.items()) if place in needed and len(of) > 1
    ]
    inner = outer
    if opened:
        finer: dict[str, Sequence[int]] = {}
        for name, of in groups.items():
            if name in opened:
                finer.update({engine.names[index]: [index] for index in of})
            else:
                finer[name] = of
        inner = mine(grouped(engine, finer), predicate)
    return GroupedRules(outer, inner, tuple(opened), engine.num_probes - before)


def _miner(kind: str, seed: int, progress: bool) -> Callable[[ProbeEngine, Predicate], Rules]:
    def mine(view: ProbeEngine, predicate: Predicate) -> Rules:
        if view.num_sources <= MAX_EXACT_SOURCES:
            return MonoMiner(kind, progress=progress).mine(view, predicate)
        return CertifiedMiner(kind, seed=seed, progress=progress).mine(view, predicate)

    return mine


def _union(masks: Sequence[int], subset: Sequence[int]) -> int:
    union = 0
    for index in subset:
        union |= masks[index]
    return union


def _grouped_by(names: Sequence[str], key: Callable[[int], str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for place in range(len(names)):
        groups.setdefault(key(place), []).append(place)
    return groups

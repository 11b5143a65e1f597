"""Sources taken together: by document, by the mined rule that found them, then one by one inside.

A view of an engine whose sources are groups asks the engine itself, so that nothing is asked twice
on the way from groups to what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rulerag.explanation.lattice import full_mask, mask_of
from rulerag.explanation.probing import Predicate, ProbeEngine, Source
from rulerag.explanation.records import (
    NamedRule,
    Record,
    SourceRules,
    certificates_of,
    document_of,
    evidence,
    holding,
    trace_documents,
    trace_rules,
)
from rulerag.explanation.source_rules.certified import CertifiedMiner
from rulerag.explanation.source_rules.exact import MAX_EXACT_SOURCES, MonoMiner
from rulerag.explanation.wording import listing, runs
from rulerag.types import Answer

Groups = Mapping[str, Sequence[int]]
"""What the groups are called, and the indices of their sources."""

Names = tuple[str, ...]


class GroupedRules(NamedTuple):
    """Rules over groups, and rules over what stands inside the groups that matter.

    Args:
        outer: the rules over the groups.
        inner: the rules over the sources of every group in a minimal outer rule, all other groups
            still kept or removed as one; the same as ``outer`` when no such group has two sources.
        opened: the groups that were opened.
    """

    outer: SourceRules
    inner: SourceRules
    opened: Names


@dataclass(frozen=True)
class GroupView(Record):
    """The minimal rules of one kind over groups, and inside the groups that matter.

    Args:
        by: ``document`` or ``rule``.
        kind: ``retention`` or ``omission``.
        groups: what each group holds, by its name: R1, R2 … what a mined rule found, ``query``
            what the plain query found; D1, D2 … the sentences or words of a document.
        outer_rules: the minimal rules over the groups, each with what was shown about it.
        opened: the groups that were opened, those in a minimal rule with two sources or more.
        inner_rules: the minimal rules over what they hold, likewise, the other groups kept or
            removed as one.
    """

    by: str
    kind: str
    groups: tuple[tuple[str, Names], ...]
    outer_rules: tuple[NamedRule, ...]
    opened: Names
    inner_rules: tuple[NamedRule, ...]

    @property
    def outer(self) -> tuple[Names, ...]:
        """The minimal rules over the groups, as names."""
        return tuple(rule.names for rule in self.outer_rules)

    @property
    def inner(self) -> tuple[Names, ...]:
        """The minimal rules over what the opened groups hold, as names."""
        return tuple(rule.names for rule in self.inner_rules)

    def __str__(self) -> str:
        """Both levels in words, behind what the groups hold."""
        held = "; ".join(f"{name}: {listing(runs(members))}" for name, members in self.groups)
        lines = [f"By {self.by} ({held})", f"  {self.sentence(self.outer_rules)}"]
        if self.opened:
            inside = listing(runs(self.opened))
            lines.append(f"  inside {inside}: {self.sentence(self.inner_rules)}")
        return "\n".join(lines)

    def sentence(self, rules: tuple[NamedRule, ...]) -> str:
        """One level in words."""
        kept = self.kind == "retention"
        holds, done = ("it stands", "kept") if kept else ("it goes", "removed")
        if not rules:
            return f"no {self.kind} rule"
        if rules[0].certificate.always and not rules[0].names:
            return f"{holds} whatever is kept or removed"
        open_ends = evidence(rules, ()) if kept else evidence((), rules)
        clauses = [one[:1].lower() + one[1:].rstrip(".") for one in open_ends]
        return "; ".join([holding(rules, holds, done), *clauses])

    def to_json(self) -> dict[str, Any]:
        """The view as a JSON object, its rules as names and with their certificates."""
        levels = {"outer": self.outer_rules, "inner": self.inner_rules}
        return {
            "by": self.by,
            "kind": self.kind,
            "groups": [[name, list(members)] for name, members in self.groups],
            "outer": [list(names) for names in self.outer],
            "opened": list(self.opened),
            "inner": [list(names) for names in self.inner],
            "certificates": {name: [r.to_json() for r in rules] for name, rules in levels.items()},
            "sentences": [self.sentence(rules) for rules in levels.values()],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> GroupView:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        rules = {f"{level}_rules": found for level, found in certificates_of(row).items()}
        return super().from_json({**row, **rules})


def groups_of(answer: Answer, sources: Sequence[Source], by: str) -> dict[str, list[int]]:
    """The sources of one document (D1, D2 …), or of the documents of one mined rule, together.

    A document belongs to the rule that found it with the best rank (R1, R2 …); documents that only
    the plain query found are the group ``query``.

    Args:
        answer: with the documents that the sources are of, and what found them.
        sources: parts of single documents.
        by: ``document`` or ``rule``.
    """
    names = [document_of(source.name) for source in sources]
    if by == "rule":
        traces = trace_documents(answer, trace_rules(answer))
        first = [next((rule for rule in one.rules if rule is not None), "query") for one in traces]
        names = [first[source.pieces[0].document] for source in sources]
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        groups.setdefault(name, []).append(place)
    return groups


def grouped(engine: ProbeEngine, groups: Groups) -> ProbeEngine:
    """A view of an engine whose sources are groups; it counts subsets of groups as its probes.

    Sources in no group are kept in every probe.

    Args:
        engine: answers for subsets of the sources.
        groups: disjoint groups of them, none empty.
    """
    masks = [mask_of(group) for group in groups.values()]
    always = full_mask(engine.num_sources) ^ sum(masks)

    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        # The groups are disjoint: their sum is their union.
        return engine.probe([always + sum(masks[index] for index in subset) for subset in kept])

    return ProbeEngine.from_function(answer, num_sources=len(masks), names=list(groups))


def mine_in_groups(
    engine: ProbeEngine,
    groups: Groups,
    predicate: Predicate,
    *,
    kind: str = "retention",
    seed: int = 0,
) -> GroupedRules:
    """Find rules over groups first, then over the sources of those groups that matter.

    Up to 20 at a time are mined exactly, more by ``CertifiedMiner``.

    Args:
        engine: answers for subsets of the sources.
        groups: disjoint groups of them.
        predicate: whether an output meets the condition.
        kind: ``retention`` or ``omission``.
        seed: of random tests, where there are many.

    Raises:
        PredicateError: the predicate raised or did not return a Boolean.
        ProbeBudgetError: the engine's budget ran out.
    """

    def mine(of: Groups) -> SourceRules:
        view = grouped(engine, of)
        if view.num_sources <= MAX_EXACT_SOURCES:
            return MonoMiner(kind).mine(view, predicate)
        return CertifiedMiner(kind, seed=seed).mine(view, predicate)

    outer = mine(groups)
    needed = {name for rule in outer.rules for name in rule.names}
    opened = tuple(name for name, of in groups.items() if name in needed and len(of) > 1)
    if not opened:
        return GroupedRules(outer, outer, ())
    finer: dict[str, Sequence[int]] = {}
    for name, of in groups.items():
        finer |= {engine.names[index]: [index] for index in of} if name in opened else {name: of}
    return GroupedRules(outer, mine(finer), opened)


def view_groups(
    engine: ProbeEngine,
    answer: Answer,
    sources: Sequence[Source],
    by: str,
    conditions: tuple[Predicate, Predicate],
    *,
    seed: int = 0,
) -> tuple[GroupView, ...]:
    """The minimal retention and omission rules over groups.

    Args:
        engine: answers for subsets of the sources.
        answer: with the documents that the sources are of, and what found them.
        sources: what the engine keeps and removes.
        by: ``document`` or ``rule``.
        conditions: of the retention rules and of the omission rules.
        seed: of random tests, where there are many groups.

    Raises:
        ExplanationError: the generator failed.
        PredicateError: a predicate raised.
        ProbeBudgetError: the engine's budget ran out.
    """
    groups = groups_of(answer, sources, by)
    held = tuple((name, tuple(sources[i].name for i in of)) for name, of in groups.items())
    views = []
    for kind, predicate in zip(("retention", "omission"), conditions, strict=True):
        found = mine_in_groups(engine, groups, predicate, kind=kind, seed=seed)
        named = found.outer.named, found.opened, found.inner.named
        views.append(GroupView(by, kind, held, *named))
    return tuple(views)

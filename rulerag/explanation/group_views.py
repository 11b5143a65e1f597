"""Rules over groups of sources, for an explained answer: by document, or by mined rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rulerag.errors import ConfigError, did_you_mean
from rulerag.explanation.grouping import (
    GroupedRules,
    Groups,
    groups_by_document,
    groups_by_rule,
    mine_in_groups,
    shown_rules,
)
from rulerag.explanation.judging import Predicate
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.shown import ShownRule
from rulerag.explanation.sources import Source
from rulerag.explanation.telling import evidence, holding
from rulerag.explanation.trace import expect
from rulerag.explanation.wording import listing, runs
from rulerag.types import Answer

__all__ = ["GROUPINGS", "GroupView", "check_grouping", "view_groups"]

GROUPINGS = ("document", "rule")
"""What sources can be taken together by."""

Names = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class GroupView:
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
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    outer_rules: tuple[ShownRule, ...]
    opened: tuple[str, ...]
    inner_rules: tuple[ShownRule, ...]

    @property
    def outer(self) -> Names:
        """The minimal rules over the groups, as names."""
        return tuple(rule.names for rule in self.outer_rules)

    @property
    def inner(self) -> Names:
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

    def sentence(self, rules: tuple[ShownRule, ...]) -> str:
        """One level in words."""
        holds, done = ("it stands", "kept") if self.kind == "retention" else ("it goes", "removed")
        if not rules:
            return f"no {self.kind} rule"
        if rules[0].certificate.always and not rules[0].names:
            return f"{holds} whatever is kept or removed"
        open_ends = evidence(rules, ()) if done == "kept" else evidence((), rules)
        return "; ".join([holding(rules, holds, done), *(_clause(one) for one in open_ends)])

    def to_json(self) -> dict[str, Any]:
        """The view as a JSON object."""
        return {
            "by": self.by,
            "kind": self.kind,
            "groups": [[name, list(members)] for name, members in self.groups],
            "outer": [list(names) for names in self.outer],
            "opened": list(self.opened),
            "inner": [list(names) for names in self.inner],
            "certificates": {
                "outer": [rule.to_json() for rule in self.outer_rules],
                "inner": [rule.to_json() for rule in self.inner_rules],
            },
            "sentences": [self.sentence(rules) for rules in (self.outer_rules, self.inner_rules)],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> GroupView:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        groups, shown = expect(row, "groups", list), expect(row, "certificates", Mapping)
        return cls(
            by=expect(row, "by", str),
            kind=expect(row, "kind", str),
            groups=tuple((name, tuple(members)) for name, members in groups),
            outer_rules=tuple(ShownRule.from_json(r) for r in expect(shown, "outer", list)),
            opened=tuple(expect(row, "opened", list)),
            inner_rules=tuple(ShownRule.from_json(r) for r in expect(shown, "inner", list)),
        )


def _clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def check_grouping(by: str | None, unit: str) -> None:
    """Refuse a grouping that does not exist, or that says nothing.

    Raises:
        ConfigError: the name is unknown, or documents are to be grouped by document.
    """
    if by is not None and by not in GROUPINGS:
        raise ConfigError(
            f"sources are not grouped by {by!r}", key="group", hint=did_you_mean(by, GROUPINGS)
        )
    if by == "document" and unit == "document":
        raise ConfigError(
            "each document is a source already",
            key="group",
            hint="cut them up with the unit sentence or word, or group by rule",
        )


def view_groups(
    engine: ProbeEngine,
    answer: Answer,
    sources: tuple[Source, ...],
    by: str,
    retention: Predicate,
    omission: Predicate,
    *,
    seed: int = 0,
) -> tuple[GroupView, ...]:
    """The minimal retention and omission rules over groups.

    Args:
        engine: answers for subsets of the sources.
        answer: with the documents that the sources are of, and what found them.
        sources: what the engine keeps and removes.
        by: ``document`` or ``rule``.
        retention: the condition of the retention rules.
        omission: the condition of the omission rules.
        seed: of random tests, where there are many groups.

    Raises:
        ExplanationError: the generator failed.
        PredicateError: a predicate raised.
        ProbeBudgetError: the engine's budget ran out.
    """
    groups = _groups(answer, sources, by)
    held = tuple((name, tuple(sources[i].name for i in of)) for name, of in groups.items())
    views = []
    for kind, predicate in (("retention", retention), ("omission", omission)):
        found: GroupedRules = mine_in_groups(engine, groups, predicate, kind=kind, seed=seed)
        outer, inner = (shown_rules(level) for level in (found.outer, found.inner))
        views.append(GroupView(by, kind, held, outer, found.opened, inner))
    return tuple(views)


def _groups(answer: Answer, sources: tuple[Source, ...], by: str) -> Groups:
    if by == "document":
        return groups_by_document([source.name for source in sources])
    of_document = {place: name for name, of in groups_by_rule(answer).items() for place in of}
    groups: dict[str, list[int]] = {}
    for place, source in enumerate(sources):
        groups.setdefault(of_document[source.pieces[0].document], []).append(place)
    return groups

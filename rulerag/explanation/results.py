"""What the miners of source rules return: retention and omission rules that print themselves.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 4 (retention), 5 (omission), 6 (validity)
    and 8 (minimality).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from rulerag.errors import ConfigError, did_you_mean
from rulerag.explanation.families import SubsetFamily
from rulerag.explanation.lattice import indices_of
from rulerag.explanation.tables import Masks
from rulerag.explanation.wording import condition

__all__ = ["KINDS", "OmissionRule", "RetentionRule", "SourceRule", "SourceRules", "source_rule"]

_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class SourceRule:
    """A set of sources that decides the output; a ``RetentionRule`` or an ``OmissionRule``.

    Args:
        sources: the indices of the sources.
        names: what they are called, in the order of their indices.
    """

    kind: ClassVar[str] = ""
    done: ClassVar[str] = ""

    sources: frozenset[int]
    names: tuple[str, ...]

    def __str__(self) -> str:
        """The rule in words."""
        if not self.sources:
            return "holds whichever sources are kept or removed"
        return f"holds whenever {condition([self.names], self.done)}"

    def to_json(self) -> dict[str, Any]:
        """The rule as a JSON object."""
        return {
            "kind": self.kind,
            "sources": sorted(self.sources),
            "names": list(self.names),
            "text": str(self),
        }


@dataclass(frozen=True, slots=True)
class RetentionRule(SourceRule):
    """Whenever all of ``sources`` are kept, the predicate holds, whatever else is removed."""

    kind: ClassVar[str] = "retention"
    done: ClassVar[str] = "kept"


@dataclass(frozen=True, slots=True)
class OmissionRule(SourceRule):
    """Whenever all of ``sources`` are removed, the predicate holds, whatever else is removed."""

    kind: ClassVar[str] = "omission"
    done: ClassVar[str] = "removed"


KINDS: dict[str, type[SourceRule]] = {"retention": RetentionRule, "omission": OmissionRule}


def source_rule(kind: str, mask: int, names: tuple[str, ...]) -> SourceRule:
    """The rule of one kind on the sources of ``mask``; ``names`` are those of all sources.

    Raises:
        ConfigError: the kind is unknown.
    """
    if kind not in KINDS:
        raise ConfigError(
            f"unknown kind of rule {kind!r}", key="kind", hint=did_you_mean(str(kind), KINDS)
        )
    indices = indices_of(mask)
    return KINDS[kind](frozenset(indices), tuple(names[index] for index in indices))


@dataclass(frozen=True, eq=False)
class SourceRules:
    """Every valid rule of one kind, and the minimal ones among them.

    Args:
        kind: ``retention`` or ``omission``.
        names: what the sources are called, in order.
        valid_masks: the valid sets as masks, largest first.
        minimal_masks: the minimal valid sets as masks, smallest first.
        num_probes: how many distinct subsets had to be asked for this kind.
        complete: whether the whole lattice was decided; where a budget ran out, the sets named
            are certain and there may be more.
    """

    kind: str
    names: tuple[str, ...]
    valid_masks: Masks
    minimal_masks: tuple[int, ...]
    num_probes: int
    complete: bool = True

    @cached_property
    def minimal(self) -> frozenset[frozenset[int]]:
        """The minimal rules, each as the set of its source indices."""
        return frozenset(frozenset(indices_of(mask)) for mask in self.minimal_masks)

    @cached_property
    def valid(self) -> SubsetFamily:
        """Every valid rule, as a set of sets of source indices that is expanded as it is read."""
        return SubsetFamily(self.valid_masks)

    @cached_property
    def rules(self) -> tuple[SourceRule, ...]:
        """The minimal rules as records, smallest first."""
        return tuple(source_rule(self.kind, mask, self.names) for mask in self.minimal_masks)

    @property
    def num_sources(self) -> int:
        """How many sources the rules speak of."""
        return len(self.names)

    def __len__(self) -> int:
        """How many minimal rules there are."""
        return len(self.minimal_masks)

    def __str__(self) -> str:
        """The minimal rules in words, one a line, behind a line of counts."""
        count = len(self)
        head = (
            f"{count} minimal {self.kind} rule{'' if count == 1 else 's'} "
            f"({len(self.valid_masks)} valid of {1 << self.num_sources} subsets, "
            f"{self.num_probes} probes)"
        )
        if not self.complete:
            head += ", stopped by the probe budget: these are certain, there may be more"
        lines = [f"  {rule}" for rule in self.rules[:_MOST_LINES]]
        if count > _MOST_LINES:
            lines.append(f"  … and {count - _MOST_LINES} more")
        return "\n".join([head, *lines])

    def to_json(self) -> dict[str, Any]:
        """The minimal rules and the counts as a JSON object."""
        return {
            "kind": self.kind,
            "names": list(self.names),
            "minimal": [rule.to_json() for rule in self.rules],
            "num_valid": len(self.valid_masks),
            "num_probes": self.num_probes,
            "complete": self.complete,
        }

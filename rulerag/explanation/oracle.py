"""Whether a condition holds for sets of sources, whichever kind of rule they belong to.

A set is given by the sources that a rule speaks of: for a retention rule those kept, for an
omission rule those removed. Either way a rule is valid when the condition holds for the set and
for everything larger, so that searches need not know which kind they look for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rulerag.explanation.judging import Judge, Predicate
from rulerag.explanation.lattice import full_mask
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.results import source_rule

__all__ = ["RuleOracle"]


class RuleOracle:
    """A predicate over an engine as a function of the sources of a rule; remembers what it saw.

    Args:
        kind: ``retention`` or ``omission``.
        engine: answers for subsets of the sources.
        predicate: whether an output meets the condition.
        report: called with how many subsets were looked at anew, after each batch.

    Raises:
        ConfigError: the kind is unknown.
    """

    def __init__(
        self,
        kind: str,
        engine: ProbeEngine,
        predicate: Predicate,
        *,
        report: Callable[[int], object] = lambda count: None,
    ) -> None:
        source_rule(kind, 0, ())  # refuses an unknown kind
        self.kind = kind
        self.num_sources = engine.num_sources
        self.full = full_mask(engine.num_sources)
        self.failing: list[int] = []
        self.holding: list[int] = []
        self.orderly = True  # no set was seen to hold inside one that was seen to fail
        self._engine = engine
        self._judge = Judge(predicate, engine.outputs)
        self._seen: dict[int, bool] = {}
        self._report = report

    @property
    def num_probes(self) -> int:
        """How many distinct subsets were needed so far."""
        return len(self._seen)

    def kept(self, mask: int) -> int:
        """The subset of the sources to keep for a set; the other way round it is the same."""
        return mask if self.kind == "retention" else self.full ^ mask

    def holds(self, mask: int) -> bool:
        """Whether the condition holds for one set."""
        known = self._seen.get(mask)
        return self.hold([mask])[0] if known is None else known

    def hold(self, masks: Sequence[int]) -> list[bool]:
        """Whether the condition holds for each set; unknown ones are asked in one batch.

        Raises:
            ProbeBudgetError: the engine's budget ran out; what was asked is remembered.
            PredicateError: the predicate raised or did not return a Boolean.
        """
        new = [mask for mask in dict.fromkeys(masks) if mask not in self._seen]
        if new:
            asked = [self.kept(mask) for mask in new]
            try:
                self._engine.probe_codes(asked)
            finally:
                self._remember(new, asked)
                self._report(len(new))
        return [self._seen[mask] for mask in masks]

    def refuted(self, mask: int) -> bool:
        """Whether the condition was seen to fail for the set itself or for a larger one.

        Then no rule on the set is valid; this needs no assumption.
        """
        return any(mask & ~larger == 0 for larger in self.failing)

    def _remember(self, masks: Sequence[int], asked: Sequence[int]) -> None:
        codes = self._engine.known_codes(asked)
        known = codes >= 0
        verdicts = iter(self._judge(codes[known]).tolist())
        for mask, answered in zip(masks, known.tolist(), strict=True):
            if answered:
                verdict = next(verdicts)
                self._seen[mask] = verdict
                self.orderly = self.orderly and self._fits(mask, verdict)
                (self.holding if verdict else self.failing).append(mask)

    def _fits(self, mask: int, verdict: bool) -> bool:
        if verdict:
            return not self.refuted(mask)
        return not any(smaller & ~mask == 0 for smaller in self.holding)

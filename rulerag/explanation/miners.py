"""Exact miners of retention and omission rules: level by level from the top of the lattice.

A candidate is asked only when all of its parents are valid, so a miner asks exactly the valid
sets and the maximal invalid ones, and each of those is needed by any exact miner.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), section 4: Algorithm 1 (mono) and Algorithm 2 (dual).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from rulerag.errors import ExplanationError, ProbeBudgetError
from rulerag.explanation.judging import Judge, Predicate
from rulerag.explanation.lattice import full_mask, indices_of
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.results import SourceRule, SourceRules, source_rule
from rulerag.explanation.tables import Masks, children, masks_of, table_of, without_child

__all__ = ["MAX_EXACT_SOURCES", "DualMiner", "MonoMiner", "Predicate", "RuleHook"]

MAX_EXACT_SOURCES = 20

RuleHook = Callable[[SourceRule], None]


class MonoMiner:
    """Finds every valid and minimal rule of one kind (Algorithm 1).

    Args:
        kind: ``retention`` (the predicate holds whenever these sources are kept) or ``omission``
            (whenever they are removed).
        progress: show a progress bar of probes.

    Raises:
        ConfigError: the kind is unknown.
    """

    def __init__(self, kind: str, *, progress: bool = False) -> None:
        source_rule(kind, 0, ())  # refuses an unknown kind
        self.kind = kind
        self.progress = progress

    def mine(
        self, engine: ProbeEngine, predicate: Predicate, *, on_rule: RuleHook | None = None
    ) -> SourceRules:
        """Find the rules.

        Args:
            engine: answers for subsets of the sources; what it knows already is not asked again.
            predicate: whether an output meets the condition; called once per distinct output.
            on_rule: called with each minimal rule as soon as it is certain to be one.

        Raises:
            ExplanationError: there are more sources than can be decided exactly.
            PredicateError: the predicate raised or did not return a Boolean.
            ProbeBudgetError: the engine's budget ran out; ``partial`` holds what is certain.
        """
        search = _Search(self.kind, engine, predicate, on_rule)
        _run(engine, [search], search.result, self.progress)
        return search.result()


class DualMiner:
    """Finds the retention and the omission rules in one pass (Algorithm 2).

    Both kinds share the engine: a subset that both need is asked once, so a pass never asks more
    than two mono miners together. Each result counts what its own kind needed; the engine's
    ``num_probes`` counts the pass.

    Args:
        progress: show a progress bar of probes.
    """

    def __init__(self, *, progress: bool = False) -> None:
        self.progress = progress

    def mine(
        self,
        engine: ProbeEngine,
        *,
        retention: Predicate,
        omission: Predicate,
        on_rule: RuleHook | None = None,
    ) -> tuple[SourceRules, SourceRules]:
        """Find the rules of both kinds.

        Args:
            engine: answers for subsets of the sources; what it knows already is not asked again.
            retention: the condition of the retention rules.
            omission: the condition of the omission rules, often the opposite one.
            on_rule: called with each minimal rule as soon as it is certain to be one.

        Raises:
            ExplanationError: there are more sources than can be decided exactly.
            PredicateError: a predicate raised or did not return a Boolean.
            ProbeBudgetError: the engine's budget ran out; ``partial`` holds what is certain, as
                a pair like the result.
        """
        kept = _Search("retention", engine, retention, on_rule)
        removed = _Search("omission", engine, omission, on_rule)
        _run(engine, [kept, removed], lambda: (kept.result(), removed.result()), self.progress)
        return kept.result(), removed.result()


def _run(
    engine: ProbeEngine,
    searches: Sequence[_Search],
    result: Callable[[], object],
    progress: bool,
) -> None:
    """Walk the searches down the lattice in step, one batch of probes for each level."""
    with tqdm(desc="probing", unit=" subsets", disable=not progress, leave=False) as bar:
        while any(search.candidates.size for search in searches):
            asked = [search.asked() for search in searches]
            before = engine.num_probes
            try:
                codes = engine.probe_codes(np.concatenate(asked))
            except ProbeBudgetError as error:
                for search, masks in zip(searches, asked, strict=True):
                    search.stop(engine.known_codes(masks))
                raise ProbeBudgetError(
                    f"{error.message}; {_certain(searches)}", partial=result(), hint=error.hint
                ) from None
            finally:
                bar.update(engine.num_probes - before)
            start = 0
            for search, masks in zip(searches, asked, strict=True):
                search.advance(codes[start : start + masks.size])
                start += masks.size


def _certain(searches: Sequence[_Search]) -> str:
    words = [
        f"{len(found)} minimal and {found.valid_masks.size} valid {found.kind} rules"
        for found in (search.result() for search in searches)
    ]
    return f"certain so far: {' and '.join(words)}"


class _Search:
    """One kind of rule on its way down: the candidates of a level, and what is decided above."""

    def __init__(
        self, kind: str, engine: ProbeEngine, predicate: Predicate, on_rule: RuleHook | None
    ) -> None:
        self._num_sources = engine.num_sources
        _refuse_large(self._num_sources)
        self._kind = kind
        self._names = engine.names
        self._judge = Judge(predicate, engine.outputs)
        self._on_rule = on_rule
        self._full = full_mask(self._num_sources)
        self.candidates: Masks = np.array([self._full], dtype=np.int64)
        self._candidate_table = 1 << self._full
        self._above = 0  # the valid sets of the level above, as a table
        self._valid: list[Masks] = []
        self._minimal: list[int] = []
        self._num_probes = 0
        self._complete = True

    def asked(self) -> Masks:
        """The subsets to keep for the candidates, in their order."""
        if self._kind == "retention":
            return self.candidates
        return (self._full ^ self.candidates)[::-1]  # ascending too

    def advance(self, codes: npt.NDArray[np.int32]) -> None:
        """Decide the candidates by their outputs and go one level down."""
        if not self.candidates.size:
            return
        self._num_probes += int(self.candidates.size)
        valid = self._keep(self._judge(self._aligned(codes)))
        self._report(without_child(self._above, valid, self._num_sources))
        below = children(valid, self._num_sources)
        self._above = valid
        self._candidate_table = below
        self.candidates = masks_of(below, self._num_sources)
        if not below:
            self._report(valid)

    def stop(self, codes: npt.NDArray[np.int32]) -> None:
        """Decide what can be decided when some candidates got no output (code -1)."""
        if not self.candidates.size:
            return
        codes = self._aligned(codes)
        known = codes >= 0
        self._num_probes += int(np.count_nonzero(known))
        holds = np.zeros(codes.size, dtype=np.bool_)
        holds[known] = self._judge(codes[known])
        possible = table_of(self.candidates[holds | ~known], self._num_sources)
        self._report(without_child(self._above, possible, self._num_sources))
        below = children(possible, self._num_sources)
        self._report(without_child(self._keep(holds), below, self._num_sources))
        self._complete = bool(known.all()) and not below
        self.candidates = self.candidates[:0]

    def result(self) -> SourceRules:
        """The rules decided so far."""
        minimal = sorted(self._minimal, key=lambda mask: (mask.bit_count(), indices_of(mask)))
        valid = np.concatenate(self._valid) if self._valid else self.candidates[:0]
        return SourceRules(
            self._kind, self._names, valid, tuple(minimal), self._num_probes, self._complete
        )

    def _aligned(self, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        return codes if self._kind == "retention" else codes[::-1]

    def _keep(self, holds: npt.NDArray[np.bool_]) -> int:
        """Record the candidates that hold as valid; return their table."""
        valid = self.candidates[holds]
        if valid.size:
            self._valid.append(valid)
        if valid.size == self.candidates.size:
            return self._candidate_table
        return table_of(valid, self._num_sources) if valid.size else 0

    def _report(self, table: int) -> None:
        if not table:
            return
        masks = masks_of(table, self._num_sources).tolist()
        self._minimal += masks
        if self._on_rule is not None:
            for mask in masks:
                self._on_rule(source_rule(self._kind, mask, self._names))


def _refuse_large(num_sources: int) -> None:
    if num_sources > MAX_EXACT_SOURCES:
        raise ExplanationError(
            f"{num_sources} sources need up to 2^{num_sources} = {2**num_sources:,} probes to be "
            f"decided exactly; the exact miners take {MAX_EXACT_SOURCES} at most",
            hint="make fewer sources: keep some documents fixed, or group several into one source "
            "(rulerag.explanation.sources.group), or find rules with a statistical guarantee "
            "(CertifiedMiner)",
        )

"""Exact miners of retention and omission rules: level by level from the top of the lattice.

A candidate is asked only when all of its parents are valid, so a miner asks exactly the valid
sets and the maximal invalid ones, and each of those is needed by any exact miner.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), section 4: Algorithm 1 (mono) and Algorithm 2 (dual).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rulerag.errors import ExplanationError, ProbeBudgetError
from rulerag.explanation.lattice import (
    Masks,
    children,
    full_mask,
    indices_of,
    masks_of,
    table_of,
    without_child,
)
from rulerag.explanation.probing import Predicate, PredicateValues, ProbeEngine
from rulerag.explanation.records import ExactRules, check_kind

MAX_EXACT_SOURCES = 20


class MonoMiner:
    """Finds every valid and minimal rule of one kind (Algorithm 1).

    Args:
        kind: ``retention`` (the predicate holds whenever these sources are kept) or ``omission``
            (whenever they are removed).

    Raises:
        ConfigError: the kind is unknown.
    """

    def __init__(self, kind: str) -> None:
        self.kind = check_kind(kind)

    def mine(self, engine: ProbeEngine, predicate: Predicate) -> ExactRules:
        """Find the rules.

        Args:
            engine: answers for subsets of the sources; what it knows already is not asked again.
            predicate: whether an output meets the condition; called once per distinct output.

        Returns:
            The rules; what is certain, and not ``complete``, where the engine's budget ran out.

        Raises:
            ExplanationError: there are more sources than can be decided exactly.
            PredicateError: the predicate raised or did not return a Boolean.
        """
        (rules,) = _mine(engine, [_LevelSearch(self.kind, engine, predicate)])
        return rules


class DualMiner:
    """Finds the retention and the omission rules in one pass (Algorithm 2).

    Both kinds share the engine: a subset that both need is asked once, so a pass never asks more
    than two mono miners together. Each result counts what its own kind needed; the engine's
    ``num_probes`` counts the pass.
    """

    def mine(
        self, engine: ProbeEngine, *, retention: Predicate, omission: Predicate
    ) -> tuple[ExactRules, ExactRules]:
        """Find the rules of both kinds.

        Args:
            engine: answers for subsets of the sources; what it knows already is not asked again.
            retention: the condition of the retention rules.
            omission: the condition of the omission rules, often the opposite one.

        Returns:
            Both; what is certain, and not ``complete``, where the engine's budget ran out.

        Raises:
            ExplanationError: there are more sources than can be decided exactly.
            PredicateError: a predicate raised or did not return a Boolean.
        """
        conditions = {"retention": retention, "omission": omission}
        searches = [_LevelSearch(kind, engine, one) for kind, one in conditions.items()]
        enough, needed = _mine(engine, searches)
        return enough, needed


def _mine(engine: ProbeEngine, searches: Sequence[_LevelSearch]) -> list[ExactRules]:
    """Walk the searches down the lattice in step, one batch of probes for each level."""
    ended = ""
    while any(search.candidates.size for search in searches):
        kept = [search.kept() for search in searches]
        try:
            codes = engine.probe_codes(np.concatenate(kept))
        except ProbeBudgetError as error:
            for search, masks in zip(searches, kept, strict=True):
                search.stop(engine.known_codes(masks))
            ended = error.message
            break
        start = 0
        for search, masks in zip(searches, kept, strict=True):
            search.advance(codes[start : start + masks.size])
            start += masks.size
    return [search.result(ended) for search in searches]


class _LevelSearch:
    """One kind of rule on its way down: the candidates of a level, and what is decided above."""

    def __init__(self, kind: str, engine: ProbeEngine, predicate: Predicate) -> None:
        self._num_sources = engine.num_sources
        if self._num_sources > MAX_EXACT_SOURCES:
            needed = f"2^{self._num_sources} = {2**self._num_sources:,} probes"
            raise ExplanationError(
                f"{self._num_sources} sources need up to {needed} to be decided exactly; the exact "
                f"miners take {MAX_EXACT_SOURCES} at most",
                hint="make fewer sources: keep some documents fixed, or join several into one, or "
                "find rules with a statistical guarantee (CertifiedMiner)",
            )
        self._kind = kind
        self._names = engine.names
        self._values = PredicateValues(predicate, engine.outputs)
        self._full = full_mask(self._num_sources)
        self.candidates: Masks = np.array([self._full], dtype=np.int64)
        self._candidate_table = 1 << self._full
        self._above = 0  # the valid sets of the level above, as a table
        self._valid: list[Masks] = []
        self._minimal: list[int] = []
        self._num_probes = 0
        self._complete = True

    def kept(self) -> Masks:
        """The subsets to keep for the candidates, in their order."""
        if self._kind == "retention":
            return self.candidates
        return (self._full ^ self.candidates)[::-1]  # ascending too

    def advance(self, codes: npt.NDArray[np.int32]) -> None:
        """Decide the candidates by their outputs and go one level down."""
        if not self.candidates.size:
            return
        self._num_probes += int(self.candidates.size)
        valid = self._keep(self._values(self._aligned(codes)))
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
        holds[known] = self._values(codes[known])
        possible = table_of(self.candidates[holds | ~known], self._num_sources)
        self._report(without_child(self._above, possible, self._num_sources))
        below = children(possible, self._num_sources)
        self._report(without_child(self._keep(holds), below, self._num_sources))
        self._complete = bool(known.all()) and not below
        self.candidates = self.candidates[:0]

    def result(self, ended: str) -> ExactRules:
        """The rules decided so far, and what ended the search early."""
        minimal = sorted(self._minimal, key=lambda mask: (mask.bit_count(), indices_of(mask)))
        valid = np.concatenate(self._valid) if self._valid else self.candidates[:0]
        ended = "" if self._complete else ended
        return ExactRules(
            self._kind, self._names, tuple(minimal), self._num_probes, not ended, ended, valid
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
        self._minimal += masks_of(table, self._num_sources).tolist()

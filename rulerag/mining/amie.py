"""AMIE 3's rules by exact joins: closed, connected Horn rules of up to four atoms."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rulerag.errors import ConfigError, MiningError
from rulerag.io import fingerprint_object
from rulerag.mining.amie_atoms import one_atom_pca_sizes, one_atom_supports
from rulerag.mining.amie_candidates import Candidates, Shape
from rulerag.mining.amie_index import DirectedIndex
from rulerag.mining.amie_rules import build_rules, in_skyline, within_recursivity
from rulerag.mining.checkpoint import Checkpoint
from rulerag.mining.memory import check_memory, check_rules_memory, check_three_memory
from rulerag.mining.quality import (
    check_count,
    check_fraction,
    functional_on_object,
    minimum_supports,
)
from rulerag.parallel import SerialBackend, ThreadBackend
from rulerag.rules import RuleBank

if TYPE_CHECKING:
    from rulerag.kg.graph import FactTable
    from rulerag.mining.amie_index import Longs
    from rulerag.mining.amie_work import Work
    from rulerag.parallel import Backend
    from rulerag.rules import Rule

__all__ = ["AmieMiner"]

logger = logging.getLogger(__name__)


class AmieMiner:
    """Mines static Horn rules with AMIE 3's language, thresholds and counts.

    Every closed rule of up to ``max_atoms`` atoms without reflexive atoms; two variables may stand
    for the same entity. Counts are exact: the same as AMIE 3.5 reports. Without ``constants`` the
    rules hold variables only.

    Args:
        max_atoms: atoms of a rule with its head, 2 to 4; with 2 no code has to be compiled.
        min_head_coverage: least ``support / facts of the head``, a fraction.
        min_pca_confidence: least PCA confidence, a fraction.
        threads: threads for bodies of two and three atoms; the result does not depend on it.
        skyline: drop a rule of three or four atoms unless its PCA confidence is greater than that
            of each closed rule with some of its body atoms (AMIE's default).
        min_head_size: least facts of a head relation (AMIE's default: 100).
        min_support: least support, in facts.
        min_standard_confidence: least standard confidence, a fraction.
        recursivity_limit: how many atoms of a rule may have the same relation.
        standard_confidence: whether to count standard body sizes.
        constants: mine rules with constants too (AMIE's ``-const``), of up to three atoms;
            :mod:`rulerag.mining.amie_constants` says which.
        progress: show progress bars.
        max_memory_gb: refuse runs whose estimate is above it; the free memory when None.
        checkpoint: a folder for finished relations; an interrupted run resumes from it.
        backend: where relations are mined, in place of threads of this process: processes or a
            Ray cluster. The result does not depend on it.

    Raises:
        ConfigError: an argument is out of range; names it and the range.

    References:
        Lajus, Galárraga & Suchanek 2020 (AMIE 3, doi:10.1007/978-3-030-49461-2_3), sections 3
        and 4; Galárraga et al. 2015 (AMIE+, doi:10.1007/s00778-015-0394-1).
    """

    def __init__(
        self,
        *,
        max_atoms: int = 3,
        min_head_coverage: float = 0.01,
        min_pca_confidence: float = 0.1,
        threads: int = 2,
        skyline: bool = True,
        min_head_size: int = 100,
        min_support: int = 1,
        min_standard_confidence: float = 0.0,
        recursivity_limit: int = 3,
        standard_confidence: bool = True,
        constants: bool = False,
        progress: bool = False,
        max_memory_gb: float | None = None,
        checkpoint: str | Path | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.max_atoms = check_count("max_atoms", max_atoms, 2, 4)
        self.min_head_coverage = check_fraction("min_head_coverage", min_head_coverage)
        self.min_pca_confidence = check_fraction("min_pca_confidence", min_pca_confidence)
        self.threads = check_count("threads", threads, 1)
        self.skyline = skyline
        self.min_head_size = check_count("min_head_size", min_head_size, 1)
        self.min_support = check_count("min_support", min_support, 1)
        self.min_standard_confidence = check_fraction(
            "min_standard_confidence", min_standard_confidence
        )
        self.recursivity_limit = check_count("recursivity_limit", recursivity_limit, 1)
        self.standard_confidence = standard_confidence
        if min_standard_confidence > 0 and not standard_confidence:
            raise ConfigError(
                "needs standard confidence, which is switched off",
                key="min_standard_confidence",
                hint="set standard_confidence=True",
            )
        self.constants = constants
        self.progress = progress
        if max_memory_gb is not None and not max_memory_gb > 0:
            raise ConfigError(
                f"{max_memory_gb!r} is out of range",
                key="max_memory_gb",
                hint="give a positive number",
            )
        self.max_memory_gb = max_memory_gb
        self.checkpoint = checkpoint
        threaded = ThreadBackend(self.threads) if self.threads > 1 else SerialBackend()
        self.backend: Backend = threaded if backend is None else backend

    def mine(self, facts: FactTable) -> RuleBank:
        """Return every rule that passes the thresholds, by head, most confident first.

        Args:
            facts: static facts; duplicates count once.

        Raises:
            MiningError: the facts are dated, or the memory would not suffice.
        """
        if facts.is_temporal:
            raise MiningError(
                f"the facts of {facts.name!r} are dated and AmieMiner mines static rules",
                hint="use TLogicMiner, or give AmieMiner static facts (without timestamps)",
            )
        index = DirectedIndex.build(facts)
        least = minimum_supports(
            index.head_size,
            min_head_coverage=self.min_head_coverage,
            min_support=self.min_support,
            min_head_size=self.min_head_size,
        )
        if not least.any():
            logger.warning(
                "no relation of %r has %d facts or more, so there are no rules",
                facts.name,
                self.min_head_size,
            )
            return RuleBank()
        check_memory(index, least, self.max_atoms, self.backend.workers, self.max_memory_gb)
        counted = self._one_atom(index, least)
        if self.max_atoms > 2:
            counted = self._longer(counted, index, least, facts)
        rules = self._passing(counted, index)
        check_rules_memory(len(rules), self.max_memory_gb)
        standard = self.standard_confidence
        bank = RuleBank(build_rules(rules, facts.relations, index.head_size, standard=standard))
        if not self.constants:
            return bank
        return RuleBank([*bank, *self._with_constants(counted, index, least, facts)])

    def _one_atom(self, index: DirectedIndex, least: Longs) -> Candidates:
        head, body, support = one_atom_supports(index, least)
        rules = Candidates.unsized(head, Shape.ATOM, body, support=support)
        flip = functional_on_object(index)[head]
        pca = one_atom_pca_sizes(
            index,
            np.where(flip, head + index.num_relations, head),
            np.where(flip, index.inverse(body), body),
        )
        return rules.sized(pca, np.diff(index.relation_bounds)[body])

    def _longer(
        self, atoms: Candidates, index: DirectedIndex, least: Longs, facts: FactTable
    ) -> Candidates:
        """One-atom candidates, and those of two and three atoms as asked for."""
        from rulerag.mining.amie_joins import TwoAtomJoins  # loads numba
        from rulerag.mining.amie_work import Counting

        on_object = functional_on_object(index)
        work = self._work(facts)
        counting = Counting(self.min_pca_confidence, self.standard_confidence)
        two = TwoAtomJoins(index, on_object, work, counting)
        rules = Candidates.concatenate([atoms, two.sizes(two.candidates(least))])
        if self.max_atoms < 4:
            return rules
        from rulerag.mining.amie_three_joins import ThreeAtomJoins

        three = ThreeAtomJoins(index, on_object, work, rules, least, counting)
        check_three_memory(three.parts(), self.backend.workers, self.max_memory_gb)
        return Candidates.concatenate([rules, three.sizes(three.candidates())])

    def _with_constants(
        self, counted: Candidates, index: DirectedIndex, least: Longs, facts: FactTable
    ) -> list[Rule]:
        from rulerag.mining.amie_constant_rules import (
            build_constant_rules,
            check_names,
            passing_constants,
        )
        from rulerag.mining.amie_constants import mine_constants  # loads numba

        check_names(facts)
        atoms = counted.rows(counted.shape == Shape.ATOM)
        rules, unary = mine_constants(
            index,
            functional_on_object(index),
            self._work(facts),
            atoms,
            least,
            max_atoms=self.max_atoms,
            min_head_size=self.min_head_size,
            min_pca_confidence=self.min_pca_confidence,
            max_memory_gb=self.max_memory_gb,
        )
        rules = passing_constants(
            rules,
            atoms,
            unary,
            skyline=self.skyline,
            recursivity_limit=self.recursivity_limit,
            min_standard_confidence=self.min_standard_confidence,
        )
        check_rules_memory(len(rules), self.max_memory_gb)
        standard = self.standard_confidence
        return build_constant_rules(rules, unary, facts, index.head_size, standard=standard)

    def _work(self, facts: FactTable) -> Work:
        from rulerag.mining.amie_work import Work

        checkpoint = self._open_checkpoint(facts)
        return Work(self.backend, progress=self.progress, checkpoint=checkpoint)

    def _passing(self, rules: Candidates, index: DirectedIndex) -> Candidates:
        relations = index.num_relations
        keep = rules.pca_confidence >= self.min_pca_confidence
        keep &= within_recursivity(rules, relations, self.recursivity_limit)
        if self.standard_confidence:
            standard = rules.support / np.maximum(rules.body_size, 1)
            keep &= standard >= self.min_standard_confidence
        if self.skyline:
            keep &= in_skyline(rules, relations)
        return rules.rows(keep)

    def _open_checkpoint(self, facts: FactTable) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        settings: list[object] = [
            facts.fingerprint,
            self.min_head_coverage,
            self.min_pca_confidence,
            self.min_support,
            self.min_head_size,
            self.standard_confidence,
            min(self.max_atoms, 3),
        ]
        return Checkpoint(self.checkpoint, "amie-" + fingerprint_object(settings))

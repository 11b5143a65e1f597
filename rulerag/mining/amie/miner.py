"""AMIE 3's rules by exact joins: closed, connected Horn rules of up to four atoms."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pydantic

from rulerag.composition import register
from rulerag.errors import MiningError
from rulerag.mining.amie.candidates import CandidateRules
from rulerag.mining.amie.one_atom import one_atom_candidates
from rulerag.mining.amie.rules import build_rules, in_skyline
from rulerag.mining.indexes import build_static_index
from rulerag.mining.runtime import (
    RunOptions,
    TaskRunner,
    check_memory,
    checkpoint_folder,
    thread_backend,
)
from rulerag.rules import RuleBank

if TYPE_CHECKING:
    from rulerag.arrays import Longs
    from rulerag.kg import FactTable
    from rulerag.mining.indexes import StaticIndex
    from rulerag.parallel import Backend

logger = logging.getLogger(__name__)

_LESS_MEMORY = "raise max_memory_gb or min_head_coverage, lower max_atoms or threads"
_BYTES_PER_RULE = 1_000
# Bytes, measured on random graphs of up to ten million facts and rounded up.
_PER_DIRECTED_FACT = 80
_PER_ENTITY = 24
_PER_TABLE_SLOT = 24
_PER_CANDIDATE = 200
_BLOCKS = 100_000_000  # intermediate results of joins by columns, and the compiler


class AmieSettings(RunOptions):
    """What :class:`AmieMiner` looks for, and how.

    Args:
        max_atoms: atoms of a rule with its head, 2 to 4; with 2 no code has to be compiled.
        min_head_coverage: least ``support / facts of the head``, a fraction.
        min_pca_confidence: least PCA confidence, a fraction.
        min_standard_confidence: least standard confidence, a fraction.
        threads: threads for bodies of two and three atoms.
        skyline: drop a rule unless its PCA confidence is greater than that of each closed rule with
            fewer of its body atoms (AMIE's default).
        min_head_size: least facts of a head relation (AMIE's default: 100).
        min_support: least support, in facts.
        progress: as in :class:`~rulerag.mining.runtime.RunOptions`, like the other two.
        max_memory_gb: see there.
        checkpoint: see there.

    Raises:
        ConfigError: a setting is out of range; names it and the range.
    """

    max_atoms: int = pydantic.Field(default=3, ge=2, le=4)
    min_head_coverage: float = pydantic.Field(default=0.01, ge=0, le=1)
    min_pca_confidence: float = pydantic.Field(default=0.1, ge=0, le=1)
    min_standard_confidence: float = pydantic.Field(default=0.0, ge=0, le=1)
    threads: int = pydantic.Field(default=2, ge=1)
    skyline: bool = True
    min_head_size: int = pydantic.Field(default=100, ge=1)
    min_support: int = pydantic.Field(default=1, ge=1)


@register("miner", "amie")
class AmieMiner:
    """Mines static Horn rules with AMIE 3's language, thresholds and counts.

    Every closed rule of up to ``max_atoms`` atoms without reflexive atoms or constants; two
    variables may stand for the same entity. Counts are exact: the same as AMIE 3.5 reports.

    Args:
        settings: all settings together; the defaults when None.
        backend: where relations are mined, in place of threads of this process: processes or a
            Ray cluster. The result does not depend on it.
        changes: fields of :class:`AmieSettings` by name: ``AmieMiner(max_atoms=2, threads=4)``.

    Raises:
        ConfigError: a setting is unknown or out of range; names it and the range.

    References:
        Lajus, Galárraga & Suchanek 2020 (AMIE 3, doi:10.1007/978-3-030-49461-2_3), sections 3
        and 4; Galárraga et al. 2015 (AMIE+, doi:10.1007/s00778-015-0394-1).
    """

    def __init__(
        self,
        settings: AmieSettings | None = None,
        *,
        backend: Backend | None = None,
        **changes: Any,
    ) -> None:
        self.settings = AmieSettings.joined(settings, changes)
        self.backend = thread_backend(self.settings.threads) if backend is None else backend

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
        index = build_static_index(facts)
        least = self._least_supports(index.head_size)
        if not least.any():
            logger.warning(
                "no relation of %r has %d facts or more, so there are no rules",
                facts.name,
                self.settings.min_head_size,
            )
            return RuleBank()
        needed = _memory(index, least, self.settings.max_atoms, self.backend.workers)
        what = f"mining {index.num_facts:,} facts with {index.num_relations:,} relations needs"
        check_memory(needed, self.settings.max_memory_gb, what, _LESS_MEMORY)
        rules = one_atom_candidates(index, least)
        if self.settings.max_atoms > 2:
            from rulerag.mining.amie.two_atoms import two_atom_candidates  # loads numba

            runner = TaskRunner(
                self.backend, self.settings.progress, self._checkpoint_folder(facts)
            )
            longer = two_atom_candidates(index, least, self.settings.min_pca_confidence, runner)
            rules = CandidateRules(*map(np.concatenate, zip(rules, longer, strict=True)))
        if self.settings.max_atoms > 3:
            from rulerag.mining.amie.three_atoms import three_atom_candidates

            confidences = self.settings.min_pca_confidence, self.settings.min_standard_confidence
            longer = three_atom_candidates(index, least, confidences, rules, runner)
            rules = CandidateRules(*map(np.concatenate, zip(rules, longer, strict=True)))
        keep = rules.pca_confidence >= self.settings.min_pca_confidence
        keep &= rules.standard_confidence >= self.settings.min_standard_confidence
        if self.settings.skyline:
            keep &= in_skyline(rules, index.num_relations, self.settings.min_standard_confidence)
        rules = rules.rows(keep)
        what = f"holding {len(rules.head):,} rules needs"
        check_memory(
            len(rules.head) * _BYTES_PER_RULE, self.settings.max_memory_gb, what, _LESS_MEMORY
        )
        return RuleBank(build_rules(rules, facts.relations, index.head_size))

    def _least_supports(self, head_size: Longs) -> Longs:
        """The least support of each head relation; 0 where the relation is too rare to be a head.

        Args:
            head_size: int64 array of shape (R,), facts of each relation.
        """
        least = np.zeros(len(head_size), dtype=np.int64)
        for relation, size in enumerate(head_size.tolist()):
            if size < self.settings.min_head_size:
                continue
            needed = math.ceil(self.settings.min_head_coverage * size)
            if needed and (needed - 1) / size >= self.settings.min_head_coverage:
                needed -= 1  # 0.07 * 100 is 7.000000000000001, yet 7 of 100 cover 0.07
            least[relation] = max(needed, self.settings.min_support)
        return least

    def _checkpoint_folder(self, facts: FactTable) -> Path | None:
        settings = [
            facts.fingerprint,
            self.settings.min_head_coverage,
            self.settings.min_pca_confidence,
            self.settings.min_standard_confidence,
            self.settings.min_support,
            self.settings.min_head_size,
        ]
        return checkpoint_folder(self.settings.checkpoint, "amie", settings)


def _memory(index: StaticIndex, min_support: Longs, max_atoms: int, threads: int) -> int:
    """An upper estimate of the bytes that AMIE's joins need beyond what is in use.

    Args:
        index: the graph.
        min_support: int64 array of shape (R,), least support by head; 0 leaves a head out.
        max_atoms: atoms of a rule with its head.
        threads: kernels that run at once; each has tables of its own.
    """
    total = _BLOCKS + 2 * index.num_facts * _PER_DIRECTED_FACT + index.num_entities * _PER_ENTITY
    if max_atoms < 3 or not min_support.any():
        return total
    # A body of a head's fact (x, y) passes an entity that x and y share, so the smaller degree
    # bounds them; and there are no more bodies than pairs of directed relations.
    degree = np.bincount(index.source, minlength=index.num_entities)
    forward = slice(0, index.num_facts)
    shared = np.minimum(degree[index.source[forward]], degree[index.target[forward]])
    visits = np.bincount(index.relation[forward], shared, index.num_relations)
    in_use = np.count_nonzero(np.diff(index.group_bounds))
    bodies = np.minimum(visits, 1.5 * in_use**2)
    tables = np.sort(bodies[min_support > 0])[-threads:].sum() * 4 * _PER_TABLE_SLOT
    kept = np.minimum(bodies, visits / np.maximum(min_support, 1))[min_support > 0].sum()
    buffers = threads * index.num_entities * _PER_ENTITY
    return total + int(tables) + int(kept) * _PER_CANDIDATE + buffers

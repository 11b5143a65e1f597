"""Temporal rules: what at one time, or over some steps in time, leads to what at a later one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rulerag.composition import register
from rulerag.errors import ConfigError, MiningError, did_you_mean
from rulerag.mining.runtime import (
    TaskRunner,
    check_count,
    check_fraction,
    check_limit,
    check_memory,
    checkpoint_folder,
    thread_backend,
)
from rulerag.mining.temporal.one_atom import count_one_atom
from rulerag.mining.temporal.rules import TemporalRules, as_rules, one_atom_columns
from rulerag.rules import RuleBank

if TYPE_CHECKING:
    from rulerag.arrays import Ints
    from rulerag.kg import FactTable
    from rulerag.parallel import Backend

_TRANSITIONS = ("exponential", "uniform")

# Measured on random graphs of up to ten million facts and rounded up.
_BYTES_PER_FACT = 200  # of the join of bodies of one atom
_BYTES_OF_BLOCKS = 100_000_000  # its blocks
_BYTES_PER_WALKED_FACT = 330  # in one direction: sorted copies in four orders, and the index
_BYTES_OF_COLUMNS = 60_000_000  # the compiler, and the columns of rules


@register("miner", "tlogic")
class TLogicMiner:
    """Mines cyclic temporal rules: ``r1(x, z, t1) ∧ … ∧ rk(w, y, tk) => r(x, y, t)``.

    The body's facts stand in time order (``t1 ≤ … ≤ tk``), all strictly before the head, and form
    a walk from one end of the head to the other; relations may be read backwards, and variables
    may return.

    Bodies of one atom are counted exactly: ``support`` is the number of distinct facts
    ``r1(x, y, t1)`` that some ``r(x, y, t)`` follows at a later time, ``body_size`` the number of
    distinct facts ``r1(x, y, t1)``. Where only these are mined all of them are counted, else those
    that walks suggest, which forecast better under noisy-or. Longer bodies are found by random
    walks and counted over the distinct ones among ``num_bodies`` samples, as TLogic does.
    ``confidence`` is the ratio.

    A rule with one body atom speaks for both ends of its head; longer ones predict the end that
    their walk leads to: the object of ``r(?x, ?y)``, the subject of ``r(?y, ?x)``.

    Args:
        lengths: body lengths to mine, in atoms, 1 to 3.
        min_confidence: least confidence, a fraction.
        min_support: least support, in facts or sampled bodies; when None 2 where only bodies of
            one atom are mined, else 1 (TLogic's).
        num_walks: walks tried for each relation, direction and length.
        num_bodies: bodies sampled for each rule of two or three atoms.
        transition: how walks choose among earlier facts: ``exponential``, recent ones with more
            weight, or ``uniform``.
        seed: of the walks and samples; the result does not depend on threads or backend.
        threads: threads for walks and samples.
        backend: where relations are worked on, in place of threads of this process.
        checkpoint: a folder for finished relations; an interrupted run resumes from it.
        max_memory_gb: refuse facts whose estimate is above it; the free memory when None.
        progress: show progress bars.

    Raises:
        ConfigError: an argument is out of range; names it and the range.

    References:
        Liu et al. 2022, TLogic (arXiv:2112.08025), section 4: walks, rule support, body support
        and confidence, with its published settings as defaults.
    """

    def __init__(
        self,
        *,
        lengths: Sequence[int] = (1,),
        min_confidence: float = 0.01,
        min_support: int | None = None,
        num_walks: int = 200,
        num_bodies: int = 500,
        transition: str = "exponential",
        seed: int = 0,
        threads: int = 1,
        backend: Backend | None = None,
        checkpoint: str | Path | None = None,
        max_memory_gb: float | None = None,
        progress: bool = False,
    ) -> None:
        self.lengths = _checked_lengths(lengths)
        self.min_confidence = check_fraction("min_confidence", min_confidence)
        least = 2 if self.lengths == (1,) else 1
        self.min_support = check_count(
            "min_support", least if min_support is None else min_support, 1
        )
        if transition not in _TRANSITIONS:
            raise ConfigError(
                f"unknown transition {transition!r}",
                key="transition",
                hint=did_you_mean(transition, _TRANSITIONS),
            )
        self.num_walks = check_count("num_walks", num_walks, 1)
        self.num_bodies = check_count("num_bodies", num_bodies, 1)
        self.transition = transition
        self.seed = check_count("seed", seed, 0, 2**63 - 1)
        threaded = thread_backend(threads)
        self.backend = threaded if backend is None else backend
        self.checkpoint = checkpoint
        self.max_memory_gb = check_limit(max_memory_gb)
        self.progress = progress

    def mine(self, facts: FactTable) -> RuleBank:
        """Return every rule that passes the thresholds, sorted by head, then confidence.

        Raises:
            MiningError: the facts carry no timestamps, or the memory would not suffice.
        """
        if facts.timestamp is None:
            raise MiningError(
                f"{facts.name} has no timestamps, so no temporal rules",
                hint="mine static facts with AmieMiner (--miner amie)",
            )
        suggested, parts = None, []
        if self.lengths != (1,):
            suggested, longer = self._walk(facts)
            parts.append(longer)
        if 1 in self.lengths:
            parts.append(self._one_atom(facts, suggested))
        found = TemporalRules(*map(np.concatenate, zip(*parts, strict=True)))
        return RuleBank(
            as_rules(found.passing(self.min_support, self.min_confidence), facts.relations)
        )

    def _one_atom(self, facts: FactTable, suggested: Ints | None) -> TemporalRules:
        """Exact counts of bodies of one atom: of all, or of the suggested ones."""
        relations = len(facts.relations)
        needed = len(facts) * _BYTES_PER_FACT + 2 * relations * relations * 16 + _BYTES_OF_BLOCKS
        what = f"joining {len(facts):,} facts of {relations:,} relations needs"
        check_memory(needed, self.max_memory_gb, what)
        support, body_size = count_one_atom(facts, progress=self.progress)
        if suggested is None:
            body, head = np.nonzero(support)
        else:
            head, body = suggested[suggested[:, 1] == 1][:, [0, 2]].astype(np.int64).T
            # r(y, x) <- b(x, y) is r(x, y) <- b(y, x)
            turned = np.where(head < relations, body, (body + relations) % (2 * relations))
            body, head = np.unique(np.stack([turned, head % relations]), axis=1)
        return TemporalRules(one_atom_columns(head, body), support[body, head], body_size[body])

    def _walk(self, facts: FactTable) -> tuple[Ints, TemporalRules]:
        """What walks suggest, and the longer rules among them with their counts."""
        from rulerag.mining.temporal.long_rules import count_rules, suggest_rules  # loads numba
        from rulerag.mining.temporal.walk_index import build_walk_index

        needed = 2 * len(facts) * _BYTES_PER_WALKED_FACT + _BYTES_OF_COLUMNS
        needed += 2 * len(facts.relations) * len(facts.entities)
        check_memory(needed, self.max_memory_gb, f"walks over {len(facts):,} facts need")
        settings = [facts.fingerprint, facts.calendar.step, list(self.lengths), self.num_walks]
        settings += [self.num_bodies, self.transition, self.seed]
        folder = checkpoint_folder(self.checkpoint, "tlogic", settings)
        runner = TaskRunner(self.backend, self.progress, folder)
        index, uniform = build_walk_index([facts]), self.transition == "uniform"
        suggested = suggest_rules(index, self.lengths, self.num_walks, uniform, self.seed, runner)
        longer = suggested[suggested[:, 1] > 1]
        return suggested, count_rules(index, longer, self.num_bodies, self.seed, runner)


def _checked_lengths(lengths: Sequence[int]) -> tuple[int, ...]:
    known = sorted(set(lengths))
    if not known or not set(known) <= {1, 2, 3}:
        raise ConfigError(
            f"temporal bodies of lengths {list(lengths)} are not mined",
            key="lengths",
            hint="use some of 1, 2 and 3, for example lengths=(1, 2, 3)",
        )
    return tuple(known)

"""Temporal rules: what at one time, or over some steps in time, leads to what at a later one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rulerag.errors import ConfigError, MiningError, did_you_mean
from rulerag.io import fingerprint_object
from rulerag.kg.graph import FactTable
from rulerag.mining.checkpoint import Checkpoint
from rulerag.mining.memory import check_pairs_memory
from rulerag.mining.quality import check_count, check_fraction
from rulerag.mining.tlogic_counts import count_one_atom
from rulerag.mining.tlogic_rules import TemporalRules, as_rules, one_atom_columns
from rulerag.parallel import SerialBackend, ThreadBackend
from rulerag.rules import RuleBank

if TYPE_CHECKING:
    from rulerag.mining.tlogic_index import Ints
    from rulerag.parallel import Backend

__all__ = ["TLogicMiner"]

_CANDIDATES = ("auto", "all", "walks")
_TRANSITIONS = ("exponential", "uniform")


class TLogicMiner:
    """Mines cyclic temporal rules: ``r1(x, z, t1) ∧ … ∧ rk(w, y, tk) => r(x, y, t)``.

    The body's facts stand in time order (``t1 ≤ … ≤ tk``), all strictly before the head, and form
    a walk from one end of the head to the other; relations may be read backwards, and variables
    may return.

    Bodies of one atom are counted exactly: ``support`` is the number of distinct facts
    ``r1(x, y, t1)`` that some ``r(x, y, t)`` follows at a later time, ``body_size`` the number of
    distinct facts ``r1(x, y, t1)``. Longer bodies are found by random walks and counted over the
    distinct ones among ``num_bodies`` samples, as TLogic does. ``confidence`` is the ratio.

    A rule with one body atom speaks for both ends of its head; longer ones predict the end that
    their walk leads to: the object of ``r(?x, ?y)``, the subject of ``r(?y, ?x)``.

    Args:
        lengths: body lengths to mine, in atoms, 1 to 3.
        min_confidence: least confidence, a fraction.
        min_support: least support, in facts or sampled bodies; when None 2 where only bodies of
            one atom are mined, else 1 (TLogic's).
        candidates: which bodies of one atom are counted: ``all``, or those that ``walks``
            suggest, which forecast better under noisy-or; ``auto``: all where only these are
            mined, else by walks.
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
        candidates: str = "auto",
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
        for key, value, known in (
            ("candidates", candidates, _CANDIDATES),
            ("transition", transition, _TRANSITIONS),
        ):
            if value not in known:
                raise ConfigError(
                    f"unknown {key} {value!r}", key=key, hint=did_you_mean(value, known)
                )
        self.candidates = candidates
        if candidates == "auto":
            self.candidates = "all" if self.lengths == (1,) else "walks"
        self.num_walks = check_count("num_walks", num_walks, 1)
        self.num_bodies = check_count("num_bodies", num_bodies, 1)
        self.transition = transition
        self.seed = check_count("seed", seed, 0, 2**63 - 1)
        check_count("threads", threads, 1)
        threaded: Backend = ThreadBackend(threads) if threads > 1 else SerialBackend()
        self.backend = threaded if backend is None else backend
        self.checkpoint = checkpoint
        if max_memory_gb is not None and not max_memory_gb > 0:
            raise ConfigError(
                f"{max_memory_gb!r} is out of range",
                key="max_memory_gb",
                hint="give a positive number",
            )
        self.max_memory_gb = max_memory_gb
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
        parts = []
        suggested = np.zeros((0, 9), np.int32)
        if self.candidates == "walks" or self.lengths != (1,):
            suggested, longer = self._walk(facts)
            parts.append(longer)
        if 1 in self.lengths:
            every = self.candidates == "all"
            parts.append(self._one_atom(facts, None if every else suggested))
        found = TemporalRules.join(*parts).passing(self.min_support, self.min_confidence)
        return RuleBank(as_rules(found, facts.relations))

    def _one_atom(self, facts: FactTable, suggested: Ints | None) -> TemporalRules:
        """Exact counts of bodies of one atom: of all, or of the suggested ones."""
        relations = len(facts.relations)
        check_pairs_memory(len(facts), relations, self.max_memory_gb)
        support, body_size = count_one_atom(facts, progress=self.progress)
        if suggested is None:
            body, head = np.nonzero(support)
        else:
            head, body = suggested[suggested[:, 1] == 1][:, [0, 2]].astype(np.int64).T
            inverse = head >= relations  # r(y, x) <- b(x, y) is r(x, y) <- b(y, x)
            head = np.where(inverse, head - relations, head)
            turned = np.where(body < relations, body + relations, body - relations)
            both = np.stack([np.where(inverse, turned, body), head])
            body, head = np.unique(both, axis=1)
        return TemporalRules(one_atom_columns(head, body), support[body, head], body_size[body])

    def _walk(self, facts: FactTable) -> tuple[Ints, TemporalRules]:
        """What walks suggest, and the longer rules among them with their counts."""
        from rulerag.mining.amie_work import Work  # loads numba
        from rulerag.mining.tlogic_walks import RuleWalks

        walks = RuleWalks(
            facts,
            lengths=self.lengths,
            num_walks=self.num_walks,
            num_bodies=self.num_bodies,
            uniform=self.transition == "uniform",
            seed=self.seed,
            work=Work(
                self.backend, progress=self.progress, checkpoint=self._open_checkpoint(facts)
            ),
            max_memory_gb=self.max_memory_gb,
        )
        suggested = walks.candidates()
        return suggested, walks.counted(suggested[suggested[:, 1] > 1])

    def _open_checkpoint(self, facts: FactTable) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        settings: list[object] = [facts.fingerprint, facts.calendar.step, list(self.lengths)]
        settings += [self.num_walks, self.num_bodies, self.transition, self.seed]
        return Checkpoint(self.checkpoint, "tlogic-" + fingerprint_object(settings))


def _checked_lengths(lengths: Sequence[int]) -> tuple[int, ...]:
    known = sorted(set(lengths))
    if not known or not set(known) <= {1, 2, 3}:
        raise ConfigError(
            f"temporal bodies of lengths {list(lengths)} are not mined",
            key="lengths",
            hint="use some of 1, 2 and 3, for example lengths=(1, 2, 3)",
        )
    return tuple(known)

"""Temporal rules: what at one time, or over some steps in time, leads to what at a later one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pydantic

from rulerag.composition import register
from rulerag.errors import ConfigError, MiningError
from rulerag.mining.runtime import (
    RunOptions,
    TaskRunner,
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

# Measured on random graphs of up to ten million facts and rounded up.
_BYTES_PER_FACT = 200  # of the join of bodies of one atom
_BYTES_OF_BLOCKS = 100_000_000  # its blocks
_BYTES_PER_WALKED_FACT = 330  # in one direction: sorted copies in four orders, and the index
_BYTES_OF_COLUMNS = 60_000_000  # the compiler, and the columns of rules


class TLogicSettings(RunOptions):
    """What :class:`TLogicMiner` looks for, and how.

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
        threads: as in :class:`~rulerag.mining.runtime.RunOptions`, like the other three.
        progress: see there.
        max_memory_gb: see there.
        checkpoint: see there.

    Raises:
        ConfigError: a setting is out of range; names it and the range.
    """

    lengths: tuple[int, ...] = (1,)
    min_confidence: float = pydantic.Field(default=0.01, ge=0, le=1)
    min_support: int | None = pydantic.Field(default=None, ge=1)
    num_walks: int = pydantic.Field(default=200, ge=1)
    num_bodies: int = pydantic.Field(default=500, ge=1)
    transition: Literal["exponential", "uniform"] = "exponential"
    seed: int = pydantic.Field(default=0, ge=0, lt=2**63)

    @pydantic.field_validator("lengths", mode="before")
    @classmethod
    def _one_to_three(cls, value: Sequence[int]) -> tuple[int, ...]:
        known = sorted(set(value))
        if not known or not set(known) <= {1, 2, 3}:
            raise ConfigError(
                f"temporal bodies of lengths {list(value)} are not mined",
                key="lengths",
                hint="use some of 1, 2 and 3, for example lengths=(1, 2, 3)",
            )
        return tuple(known)


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
        settings: all settings together; the defaults when None.
        backend: where relations are worked on, in place of threads of this process.
        changes: fields of :class:`TLogicSettings` by name: ``TLogicMiner(lengths=(1, 2))``.

    Raises:
        ConfigError: a setting is unknown or out of range; names it and the range.

    References:
        Liu et al. 2022, TLogic (arXiv:2112.08025), section 4: walks, rule support, body support
        and confidence, with its published settings as defaults.
    """

    def __init__(
        self,
        settings: TLogicSettings | None = None,
        *,
        backend: Backend | None = None,
        **changes: Any,
    ) -> None:
        self.settings = TLogicSettings.joined(settings, changes)
        self.backend = thread_backend(self.settings.threads) if backend is None else backend

    def mine(self, facts: FactTable) -> RuleBank:
        """Return every rule that passes the thresholds, sorted by head, then confidence.

        Raises:
            MiningError: the facts carry no timestamps, or the memory would not suffice.
        """
        return RuleBank(as_rules(self.count(facts), facts.relations))

    def count(self, facts: FactTable) -> TemporalRules:
        """The same rules as columns, in no order.

        Raises:
            MiningError: as in :meth:`mine`.
        """
        if facts.timestamp is None:
            raise MiningError(
                f"{facts.name} has no timestamps, so no temporal rules",
                hint="mine static facts with AmieMiner (--miner amie)",
            )
        suggested, parts = None, []
        if self.settings.lengths != (1,):
            suggested, longer = self._walk(facts)
            parts.append(longer)
        if 1 in self.settings.lengths:
            parts.append(self._one_atom(facts, suggested))
        least = self.settings.min_support
        if least is None:
            least = 2 if self.settings.lengths == (1,) else 1
        found = TemporalRules(*map(np.concatenate, zip(*parts, strict=True)))
        return found.passing(least, self.settings.min_confidence)

    def _one_atom(self, facts: FactTable, suggested: Ints | None) -> TemporalRules:
        """Exact counts of bodies of one atom: of all, or of the suggested ones."""
        relations = len(facts.relations)
        needed = len(facts) * _BYTES_PER_FACT + 2 * relations * relations * 16 + _BYTES_OF_BLOCKS
        what = f"joining {len(facts):,} facts of {relations:,} relations needs"
        check_memory(needed, self.settings.max_memory_gb, what)
        support, body_size = count_one_atom(facts, progress=self.settings.progress)
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

        wanted = self.settings
        needed = 2 * len(facts) * _BYTES_PER_WALKED_FACT + _BYTES_OF_COLUMNS
        needed += 2 * len(facts.relations) * len(facts.entities)
        check_memory(needed, wanted.max_memory_gb, f"walks over {len(facts):,} facts need")
        key = [facts.fingerprint, facts.calendar.step, list(wanted.lengths), wanted.num_walks]
        key += [wanted.num_bodies, wanted.transition, wanted.seed]
        folder = checkpoint_folder(wanted.checkpoint, "tlogic", key)
        runner = TaskRunner(self.backend, wanted.progress, folder)
        index, uniform = build_walk_index([facts]), wanted.transition == "uniform"
        suggested = suggest_rules(
            index, wanted.lengths, wanted.num_walks, uniform, wanted.seed, runner
        )
        longer = suggested[suggested[:, 1] > 1]
        return suggested, count_rules(index, longer, wanted.num_bodies, wanted.seed, runner)

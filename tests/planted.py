"""Answers by a known formula over the sources, so that the true explanation is known.

They judge explainers: AND, OR, a disjunction of sets (DNF), sources that spoil the answer
(non-monotone), and outputs that are wrong now and then (noise).
"""

from __future__ import annotations

import hashlib
import itertools
import operator
from collections.abc import Iterable, Sequence
from functools import reduce

from rulerag.errors import ConfigError
from rulerag.explanation.lattice import (
    indices_of,
    mask_of,
    minimal_elements,
    minimal_transversals,
)
from rulerag.explanation.probing import ProbeEngine

Clause = tuple[Iterable[int], Iterable[int]]


class PlantedAnswer:
    """Answers ``yes`` when, for some clause, all its sources are kept and none that spoils it.

    Args:
        num_sources: how many sources there are.
        clauses: sets of source indices, or pairs of those that have to be kept and those that
            have to be removed.
        noise: the share of the subsets whose answer is turned round, the same ones every time.
        seed: which ones.

    Raises:
        ConfigError: a clause names a source that does not exist, or noise is not in [0, 1).
    """

    def __init__(
        self,
        num_sources: int,
        clauses: Sequence[Iterable[int] | Clause],
        *,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        if not 0 <= noise < 1:
            raise ConfigError(f"expected a share from 0 to below 1, found {noise}", key="noise")
        self.num_sources = num_sources
        self.noise = noise
        self.seed = seed
        self._clauses = [_masks(clause) for clause in clauses]
        if any((wanted | spoiling) >> num_sources for wanted, spoiling in self._clauses):
            raise ConfigError(f"a clause reaches beyond {num_sources} sources", key="clauses")

    @property
    def is_monotone(self) -> bool:
        """Whether keeping more sources never spoils the answer (noise apart)."""
        return not any(spoiling for _, spoiling in self._clauses)

    def __call__(self, kept: Sequence[Sequence[int]]) -> list[str]:
        """The answers for some subsets, given by their kept indices."""
        return ["yes" if self.says_yes(mask_of(subset)) else "no" for subset in kept]

    def engine(self, *, max_probes: int | None = None) -> ProbeEngine:
        """A new probe engine that asks this answer."""
        return ProbeEngine.from_function(self, num_sources=self.num_sources, max_probes=max_probes)

    def predicate(self, output: str) -> bool:
        """Whether an output is the planted ``yes``."""
        return output == "yes"

    def says_yes(self, mask: int) -> bool:
        """Whether the answer for a kept subset is ``yes``, noise included."""
        truth = any(
            wanted & ~mask == 0 and not spoiling & mask for wanted, spoiling in self._clauses
        )
        return truth != (self.noise > 0 and self._draw(mask) < self.noise)

    def minimal(self, kind: str = "retention") -> frozenset[frozenset[int]]:
        """The minimal rules of a monotone formula, noise apart.

        Retention rules say ``yes``; omission rules say ``no``.

        Raises:
            ConfigError: the formula is not monotone; ask a brute force for its rules.
        """
        if not self.is_monotone:
            raise ConfigError("the minimal rules of a formula with spoiling sources are not known")
        wanted = minimal_elements(wanted for wanted, _ in self._clauses)
        masks = wanted if kind == "retention" else set(minimal_transversals(wanted))
        return frozenset(frozenset(indices_of(mask)) for mask in masks)

    def validity(self, sources: Iterable[int]) -> float:
        """The share of the subsets that keep ``sources`` for which the answer is ``yes``.

        Over all the noise that could have been drawn; a single draw differs from it by the square
        root of the number of subsets, which is nothing from 30 free sources on.
        """
        kept = mask_of(sources)
        share = 0.0
        for count in range(1, len(self._clauses) + 1):
            for chosen in itertools.combinations(self._clauses, count):
                wanted, spoiling = (reduce(operator.or_, m) for m in zip(*chosen, strict=True))
                if spoiling & (kept | wanted):
                    continue
                free = (wanted & ~kept).bit_count() + spoiling.bit_count()
                share += (-1) ** (count + 1) * 0.5**free
        return share * (1 - self.noise) + (1 - share) * self.noise

    def _draw(self, mask: int) -> float:
        """A number in [0, 1) that belongs to this subset."""
        width = (self.num_sources + 7) // 8
        content = self.seed.to_bytes(8, "little", signed=True) + mask.to_bytes(width, "little")
        digest = hashlib.blake2b(content, digest_size=8).digest()
        return int.from_bytes(digest, "little") / 2.0**64


def _masks(clause: Iterable[int] | Clause) -> tuple[int, int]:
    parts = list(clause)
    if len(parts) == 2 and not any(isinstance(part, int) for part in parts):
        wanted, spoiling = parts
        return mask_of(wanted), mask_of(spoiling)  # type: ignore[arg-type]
    return mask_of(parts), 0  # type: ignore[arg-type]

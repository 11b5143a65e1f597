"""Whether retention and omission rules fit each other, as they must.

When a predicate and its opposite are explained, a retention rule and an omission rule that share
no source contradict each other: keep the one, remove the other. And where the predicate is
monotone, each family is exactly the minimal hitting sets of the other, so that every subset keeps
a whole retention rule or removes a whole omission rule.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), section 3: retention and omission rules.
    Reiter 1987 (Artificial Intelligence 32): conflicts, diagnoses and their hitting sets.
    Fredman and Khachiyan 1996 (J. Algorithms 21): duality of monotone forms.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulerag.explanation.lattice import indices_of, iter_minimal_transversals, mask_of
from rulerag.explanation.trace import expect
from rulerag.explanation.wording import listing, runs

__all__ = ["Duality", "check_duality"]

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Duality:
    """How two families of rules of opposite predicates fit each other.

    Args:
        consistent: every omission rule shares a source with every retention rule.
        dual: each family is exactly the minimal hitting sets of the other; every subset then
            keeps a whole retention rule or removes a whole omission rule.
        disjoint: a retention and an omission rule that share no source, where there are such.
        undecided: the sources removed by a subset that falls under no rule of either family, where
            they are consistent and not dual.
    """

    consistent: bool
    dual: bool
    disjoint: tuple[Names, Names] | None = None
    undecided: Names | None = None

    def __str__(self) -> str:
        """The result in one sentence."""
        if self.disjoint is not None:
            kept, removed = (" + ".join(names) or "no source" for names in self.disjoint)
            return (
                f"The rules contradict each other: keeping {kept} and removing {removed} go "
                "together, so neither holds for every subset."
            )
        if self.dual:
            return (
                "Every subset falls under one of these rules: each kind is the minimal hitting "
                "sets of the other."
            )
        example = ""
        if self.undecided is not None:
            example = f", for example with {listing(runs(self.undecided)) or 'nothing'} removed"
        return f"Some subsets fall under no rule of either kind{example}."

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {
            "consistent": self.consistent,
            "dual": self.dual,
            "disjoint": None if self.disjoint is None else [list(one) for one in self.disjoint],
            "undecided": None if self.undecided is None else list(self.undecided),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Duality:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        disjoint = expect(row, "disjoint", list | None)
        undecided = expect(row, "undecided", list | None)
        return cls(
            expect(row, "consistent", bool),
            expect(row, "dual", bool),
            None if disjoint is None else (tuple(disjoint[0]), tuple(disjoint[1])),
            None if undecided is None else tuple(undecided),
        )


def check_duality(
    retention: Sequence[Names], omission: Sequence[Names], sources: Sequence[str]
) -> Duality:
    """Compare the minimal rules of a predicate with those of its opposite.

    Asks nothing: it looks at the rules alone, so that it says whether two families that were mined
    apart fit, and whether something is left that neither decides.

    Args:
        retention: the minimal retention rules of the predicate, as names.
        omission: the minimal omission rules of its opposite.
        sources: every name.
    """
    place = {name: index for index, name in enumerate(sources)}
    kept = [mask_of(place[name] for name in names) for names in retention]
    removed = [mask_of(place[name] for name in names) for names in omission]
    for names, rule in zip(retention, kept, strict=True):
        for others, other in zip(omission, removed, strict=True):
            if not rule & other:
                return Duality(False, False, (tuple(names), tuple(others)))
    undecided = _undecided(kept, removed)
    if undecided is None:
        return Duality(True, True)
    return Duality(True, False, undecided=tuple(sources[i] for i in indices_of(undecided)))


def _undecided(kept: Collection[int], removed: Collection[int]) -> int | None:
    """A set that hits every retention rule and holds no omission rule; None when there is none.

    Removing it leaves no retention rule whole and removes no omission rule. When there is none,
    each minimal hitting set holds an omission rule, which hits every retention rule itself: they
    are the same sets, so that no more hitting sets are looked at than there are omission rules.
    """
    return next(
        (
            hitting
            for hitting in iter_minimal_transversals(kept)
            if not any(rule & ~hitting == 0 for rule in removed)
        ),
        None,
    )

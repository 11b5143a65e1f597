"""Conjunctive queries: the small language between a question in words and the facts.

A query is a conjunction of atoms with variables and names, a time, and what is wanted of it::

    count ?x: works for(?x, Café Brûlé SA), lives in(?x, Lyon) [2014-01-01, 2014-12-31]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from rulerag.errors import DataFormatError, did_you_mean
from rulerag.rules import Atom

Form = Literal["entities", "count", "yes or no", "time", "first", "last"]
"""What is wanted: every binding of a variable, how many there are, whether there is one, the times
of the facts, or the bindings of the earliest or the latest facts (the time, of no variable)."""

FORMS: tuple[str, ...] = get_args(Form)


@dataclass(frozen=True, slots=True)
class ConjunctiveQuery:
    """Facts that hold together, and what of them is wanted.

    Args:
        atoms: terms are raw names, or variables that start with ``?``.
        wanted: the variable asked for; of ``yes or no`` the name in doubt, which the facts may
            contradict by another; empty where there is none.
        form: what is wanted; see :data:`Form`.
        since: the first time that dated facts may have, in steps of the calendar; None for any.
        until: the last.
        excluded: names that are no answers, as where what is like somebody is asked for.

    Raises:
        DataFormatError: there is no atom, no name in any, an atom that shares no variable with the
            others, an unknown form, or the wanted variable stands in none.
    """

    atoms: tuple[Atom, ...]
    wanted: str = ""
    form: Form = "entities"
    since: int | None = None
    until: int | None = None
    excluded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise DataFormatError(
                f"unknown form {self.form!r}", key="form", hint=did_you_mean(self.form, FORMS)
            )
        if not any(not term.startswith("?") for one in self.atoms for term in ends(one)):
            raise DataFormatError("no atom names an entity", key="atoms", hint="name one at least")
        if len(list(in_order(self.atoms))) < len(self.atoms):
            raise DataFormatError(
                "an atom shares no variable with the others", key="atoms", hint="leave it out"
            )
        if not (self.form == "yes or no" or self.asks_time) and self.wanted not in self.variables:
            raise DataFormatError(
                f"{self.wanted!r} is no variable of the atoms",
                key="wanted",
                hint="one of " + (", ".join(self.variables) or "none: ask yes or no"),
            )

    @property
    def asks_time(self) -> bool:
        """Whether times are wanted: all of them, or the first or the last."""
        return self.form == "time" or (self.form in ("first", "last") and not self.wanted)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables, in the order of the atoms."""
        terms = (term for one in self.atoms for term in ends(one))
        return tuple(dict.fromkeys(term for term in terms if term.startswith("?")))

    def __str__(self) -> str:
        atoms = ", ".join(f"{one.relation}({one.subject}, {one.object})" for one in self.atoms)
        time = "" if self.since is self.until is None else f" [{self.since}, {self.until}]"
        return f"{' '.join(filter(None, (self.form, self.wanted)))}: {atoms}{time}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object; :meth:`from_json` reads it."""
        return {
            "form": self.form,
            "wanted": self.wanted,
            "atoms": [[one.subject, one.relation, one.object] for one in self.atoms],
            "since": self.since,
            "until": self.until,
            "excluded": list(self.excluded),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> ConjunctiveQuery:
        """Read what :meth:`to_json` or a language model writes.

        Raises:
            DataFormatError: as the constructor, or a key has another type.
        """
        atoms = row.get("atoms")
        if not isinstance(atoms, list) or not all(
            isinstance(one, list) and len(one) == 3 and all(isinstance(x, str) and x for x in one)
            for one in atoms
        ):
            raise DataFormatError("expected lists of subject, relation and object", key="atoms")
        for key in ("since", "until"):
            if not isinstance(row.get(key), int | None):
                raise DataFormatError("expected a whole number or null", key=key)
        if not isinstance(row.get("form", ""), str):
            raise DataFormatError("expected a text", key="form")
        excluded = row.get("excluded") or []
        if not isinstance(excluded, list):
            raise DataFormatError("expected a list of names", key="excluded")
        return cls(
            tuple(Atom(relation, subject, object_) for subject, relation, object_ in atoms),
            str(row.get("wanted") or ""),
            row.get("form", "entities"),
            row.get("since"),
            row.get("until"),
            tuple(map(str, excluded)),
        )


def ends(atom: Atom) -> tuple[str, str]:
    """The two terms of an atom."""
    return atom.subject, atom.object


def in_order(atoms: Sequence[Atom]) -> Iterator[int]:
    """The atoms so that each has an end that is named or bound by those before it."""
    bound: set[str] = set()
    left = list(range(len(atoms)))
    while left:
        step = max(left, key=lambda n: sum(_known(term, bound) for term in ends(atoms[n])))
        if not any(_known(term, bound) for term in ends(atoms[step])):
            return
        bound.update(ends(atoms[step]))
        left.remove(step)
        yield step


def _known(term: str, bound: set[str]) -> bool:
    return not term.startswith("?") or term in bound

"""From counted bodies with constants to rules: limits, skyline, names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.errors import MiningError
from rulerag.mining.amie_constant_support import ConstantShape
from rulerag.mining.normal_form import place_of
from rulerag.mining.quality import static_quality
from rulerag.rules import Atom, Rule, rule_text

if TYPE_CHECKING:
    from rulerag.kg.graph import FactTable
    from rulerag.mining.amie_candidates import Candidates
    from rulerag.mining.amie_constants import ConstantRules
    from rulerag.mining.amie_index import Longs
    from rulerag.mining.amie_unary import UnaryAtoms

__all__ = ["build_constant_rules", "check_names", "passing_constants"]

Bools = npt.NDArray[np.bool_]

# For each shape, whether its columns hold unary atoms, and the ends of its atoms: ``v`` is the
# head's variable, ``C`` the constant of a unary atom.
_FORM: dict[ConstantShape, tuple[tuple[bool, str, str], ...]] = {
    ConstantShape.ONE: ((True, "v", "C"),),
    ConstantShape.TWO: ((True, "v", "C"), (True, "v", "C")),
    ConstantShape.STEP: ((False, "v", "?z"), (True, "?z", "C")),
    ConstantShape.SIDES: ((False, "v", "?z"), (False, "v", "?z")),
    ConstantShape.NEAR: ((False, "?x", "?y"), (True, "?x", "C")),
    ConstantShape.FAR: ((False, "?x", "?y"), (True, "?y", "C")),
    ConstantShape.ENDS: ((True, "?x", "C"), (True, "?y", "C")),
}


def check_names(facts: FactTable) -> None:
    """Refuse entities whose names would read as variables in a rule.

    Raises:
        MiningError: names one.
    """
    for name in facts.entities.names:
        if name.startswith("?"):
            raise MiningError(
                f"the entity {name!r} would read as a variable in a rule",
                hint="rename it, or mine without constants",
            )


def passing_constants(
    rules: ConstantRules,
    atoms: Candidates,
    unary: UnaryAtoms,
    *,
    skyline: bool,
    recursivity_limit: int,
    min_standard_confidence: float,
) -> ConstantRules:
    """The rules within the limits, and in the skyline where asked for.

    Args:
        rules: every rule with enough support and PCA confidence.
        atoms: the one-atom candidates without constants.
        unary: the unary atoms.
        skyline: as :class:`~rulerag.mining.amie.AmieMiner` has it.
        recursivity_limit: how many atoms of a rule may have the same relation.
        min_standard_confidence: least standard confidence.
    """
    standard = rules.support / np.maximum(rules.body_size, 1)
    keep = (standard >= min_standard_confidence) & _within(rules, unary, recursivity_limit)
    if skyline:
        keep &= _in_skyline(rules, atoms, unary)
    return rules.rows(keep)


def _within(rules: ConstantRules, unary: UnaryAtoms, limit: int) -> Bools:
    names = [rules.head]
    for column, values in enumerate((rules.first, rules.second)):
        name = np.full(len(rules), -1 - column)
        for shape, form in _FORM.items():
            rows = np.flatnonzero(rules.shape == shape)
            if column < len(form):
                of_atom = form[column][0]
                picked = values[rows]
                name[rows] = unary.name(picked) if of_atom else picked % unary.num_relations
        names.append(name)
    table = np.stack(names)
    same = (table[:, None] == table[None, :]).sum(axis=1)
    return np.asarray(same.max(axis=0, initial=0) <= limit)


def _in_skyline(rules: ConstantRules, atoms: Candidates, unary: UnaryAtoms) -> Bools:
    """Whether a rule is more confident than each closed rule with one of its body atoms."""
    groups = len(unary.relation) + 1
    keep = np.ones(len(rules), dtype=np.bool_)
    one = np.flatnonzero(rules.shape == ConstantShape.ONE)
    with_atom = rules.head_atom[one] * groups + rules.first[one]
    two = np.flatnonzero(rules.shape == ConstantShape.TWO)
    for column in (rules.first, rules.second):
        wanted = rules.head_atom[two] * groups + column[two]
        rival = _looked_up(with_atom, rules.pca_confidence[one], wanted)
        keep[two] &= rules.pca_confidence[two] > rival
    directed = 2 * unary.num_relations
    hanging = np.flatnonzero(
        (rules.shape == ConstantShape.NEAR) | (rules.shape == ConstantShape.FAR)
    )
    wanted = rules.head[hanging] * directed + rules.first[hanging]
    rival = _looked_up(atoms.head * directed + atoms.first, atoms.pca_confidence, wanted)
    keep[hanging] &= rules.pca_confidence[hanging] > rival
    return keep


def _looked_up(
    keys: Longs, values: npt.NDArray[np.float64], wanted: Longs
) -> npt.NDArray[np.float64]:
    """The value of each wanted key; 0 where it is not there (its confidence was too small)."""
    order = np.argsort(keys)
    ordered = np.append(keys[order], -1)
    place = np.searchsorted(ordered[:-1], wanted)
    return np.where(ordered[place] == wanted, np.append(values[order], 0.0)[place], 0.0)


def build_constant_rules(
    rules: ConstantRules, unary: UnaryAtoms, facts: FactTable, head_size: Longs, *, standard: bool
) -> list[Rule]:
    """Named rules, by head relation, then PCA confidence, support, shape and body."""
    order = np.lexsort(
        (
            rules.second,
            rules.first,
            rules.head_atom,
            rules.shape,
            -rules.support,
            -rules.pca_confidence,
            rules.head,
        )
    )
    names = _Names(unary, facts)
    built = []
    for row in np.stack(rules.rows(order).columns(), axis=1).tolist():
        head, head_atom, shape, first, second, support, pca_size, body_size = row
        if head_atom < 0:
            conclusion, variable = Atom(facts.relations.names[head], "?x", "?y"), ""
        else:
            variable = names.variable(head_atom)
            conclusion = names.unary(head_atom, variable)
        body = names.body(ConstantShape(shape), (first, second), variable)
        quality = static_quality(
            support, int(head_size[head]), body_size if standard else None, pca_size
        )
        bare = Rule(conclusion, body, text=" ")
        text = rule_text(bare, facts.relations.label, facts.entities.label)
        built.append(Rule(conclusion, body, quality=quality, text=text, miner="amie"))
    return built


class _Names:
    """Atoms of rules from their numbers."""

    def __init__(self, unary: UnaryAtoms, facts: FactTable) -> None:
        self._unary = unary
        self._relations = facts.relations.names
        self._entities = facts.entities.names

    def variable(self, atom: int) -> str:
        """The variable of a head with a constant: ``?x`` where it is the subject, else ``?y``."""
        return "?y" if self._unary.relation[atom] < self._unary.num_relations else "?x"

    def unary(self, atom: int, variable: str) -> Atom:
        """A unary atom of a variable."""
        directed = int(self._unary.relation[atom])
        constant = self._entities[self._unary.constant[atom]]
        return self._atom(directed, constant, variable)

    def body(
        self, shape: ConstantShape, numbers: tuple[int, int], variable: str
    ) -> tuple[Atom, ...]:
        """The atoms of a body, in :func:`~rulerag.mining.normal_form.normal_form`."""
        atoms = []
        for number, (of_atom, *ends) in zip(numbers, _FORM[shape], strict=False):
            one, two = (variable if end == "v" else end for end in ends)
            atoms.append(self.unary(number, one) if of_atom else self._atom(number, one, two))
        return tuple(sorted(atoms, key=place_of))

    def _atom(self, directed: int, subject: str, object_: str) -> Atom:
        relation = directed % self._unary.num_relations
        ends = (subject, object_) if directed == relation else (object_, subject)
        return Atom(self._relations[relation], *ends)

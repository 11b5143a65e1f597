"""From counted candidates to rules: thresholds, skyline, order, names."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_candidates import Candidates, Shape
from rulerag.mining.normal_form import parallel_order
from rulerag.mining.quality import static_quality
from rulerag.rules import Atom, Rule

if TYPE_CHECKING:
    from rulerag.kg.graph import Vocabulary
    from rulerag.mining.amie_index import Longs

__all__ = ["build_rules", "in_skyline", "within_recursivity"]


def within_recursivity(rules: Candidates, num_relations: int, limit: int) -> npt.NDArray[np.bool_]:
    """Whether no relation stands in more than ``limit`` atoms of a rule."""
    one = rules.first % num_relations
    two = np.where(rules.second < 0, -1, rules.second % num_relations)
    same = np.ones(len(rules), dtype=np.int64)
    for a, b, c in ((rules.head, one, two), (one, two, rules.head), (two, one, rules.head)):
        same = np.maximum(same, 1 + (a == b) + (a == c))
    return np.asarray(same <= limit)


def in_skyline(rules: Candidates, num_relations: int) -> npt.NDArray[np.bool_]:
    """Whether a rule's PCA confidence is greater than that of each closed rule within it.

    Only parallel bodies hold closed rules: one for each of their atoms. AMIE 3, section 3.
    """
    directed = 2 * num_relations
    atoms = rules.rows(rules.shape == Shape.ATOM)
    keys = atoms.head * directed + atoms.first
    order = np.argsort(keys)
    keys = np.append(keys[order], -1)
    confidence = np.append(atoms.pca_confidence[order], 0.0)

    def of_atom(first: Longs) -> npt.NDArray[np.float64]:
        wanted = rules.head * directed + first
        place = np.searchsorted(keys[:-1], wanted)
        return np.where(keys[place] == wanted, confidence[place], 0.0)

    best = np.maximum(of_atom(rules.first), of_atom(rules.second))
    return np.asarray((rules.shape != Shape.PARALLEL) | (rules.pca_confidence > best))


def build_rules(
    rules: Candidates, relations: Vocabulary, head_size: Longs, *, standard: bool
) -> list[Rule]:
    """Named rules, by head relation, then PCA confidence, support, body length and body.

    Args:
        rules: counted candidates.
        relations: names and labels of relation ids.
        head_size: int64 array of shape (R,), facts of each relation.
        standard: whether standard body sizes were counted.
    """
    order = np.lexsort(
        (rules.second, rules.first, rules.shape, -rules.support, -rules.pca_confidence, rules.head)
    )
    ordered = rules.rows(order)
    atoms = _Atoms(relations)
    columns = (
        ordered.head,
        ordered.shape,
        ordered.first,
        ordered.second,
        ordered.support,
        head_size[ordered.head],
        ordered.body_size,
        ordered.pca_body_size,
    )
    built = []
    for head, shape, first, second, support, size, body_size, pca_size in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        body: tuple[Atom, ...]
        if shape == Shape.ATOM:
            body = (atoms.atom(first, "?x", "?y"),)
        elif shape == Shape.PATH:
            body = (atoms.atom(first, "?x", "?z"), atoms.atom(second, "?z", "?y"))
        else:
            body = parallel_order(atoms.atom(first, "?x", "?y"), atoms.atom(second, "?x", "?y"))
        quality = static_quality(support, size, body_size if standard else None, pca_size)
        conclusion = atoms.atom(head, "?x", "?y")
        text = f"{' and '.join(map(atoms.words, body))} leads to {atoms.words(conclusion)}"
        built.append(Rule(conclusion, body, quality=quality, text=text, miner="amie"))
    return built


class _Atoms:
    """The atoms of many rules, each made and put into words once.

    The words are those of :func:`rulerag.rules.rule_text`, for rules with the head
    ``relation(?x, ?y)`` only.
    """

    _NAMES: ClassVar = {"?x": "Entity 1", "?y": "Entity 2", "?z": "Entity 3"}

    def __init__(self, relations: Vocabulary) -> None:
        self._relations = relations
        self._atoms: dict[tuple[int, str, str], Atom] = {}
        self._words: dict[Atom, str] = {}

    def atom(self, directed: int, subject: str, object_: str) -> Atom:
        """The atom ``directed(subject, object_)``, an inverse written the other way round."""
        key = (directed, subject, object_)
        if key not in self._atoms:
            relation = directed % len(self._relations)
            ends = (subject, object_) if directed == relation else (object_, subject)
            self._atoms[key] = Atom(self._relations.names[relation], *ends)
        return self._atoms[key]

    def words(self, atom: Atom) -> str:
        """The atom in the words of a rule's text."""
        if atom not in self._words:
            ends = self._NAMES[atom.subject], self._NAMES[atom.object]
            self._words[atom] = f"[{ends[0]}, {self._relations.label(atom.relation)}, {ends[1]}]"
        return self._words[atom]

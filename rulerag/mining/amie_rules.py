"""From counted candidates to rules: thresholds, skyline, order, names."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_candidates import Candidates, Shape
from rulerag.mining.normal_form import place_of
from rulerag.mining.quality import static_quality
from rulerag.rules import Atom, Rule

if TYPE_CHECKING:
    from rulerag.kg.graph import Vocabulary
    from rulerag.mining.amie_index import Longs

__all__ = ["build_rules", "in_skyline", "within_recursivity"]


def within_recursivity(rules: Candidates, num_relations: int, limit: int) -> npt.NDArray[np.bool_]:
    """Whether no relation stands in more than ``limit`` atoms of a rule."""
    body = np.stack([rules.first, rules.second, rules.third])
    # Atoms that are not there differ from all others, and from one another.
    absent = -1 - np.arange(3)[:, None]
    relations = np.concatenate([rules.head[None], np.where(body < 0, absent, body % num_relations)])
    same = (relations[:, None] == relations[None, :]).sum(axis=1)
    return np.asarray(same.max(axis=0, initial=0) <= limit)


# The closed bodies within a body, each with the columns of its relations.
_WITHIN = {
    Shape.PARALLEL: ((Shape.ATOM, 0), (Shape.ATOM, 1)),
    Shape.TRIANGLE: ((Shape.ATOM, 0), (Shape.PATH, 1, 2)),
    Shape.NEAR_SIDE: ((Shape.ATOM, 0),),
    Shape.FAR_SIDE: ((Shape.ATOM, 0),),
    Shape.NEAR_PAIR: ((Shape.PATH, 0, 2), (Shape.PATH, 1, 2)),
    Shape.FAR_PAIR: ((Shape.PATH, 0, 1), (Shape.PATH, 0, 2)),
    Shape.TRIPLE: (
        *((Shape.ATOM, column) for column in range(3)),
        *((Shape.PARALLEL, *pair) for pair in ((0, 1), (0, 2), (1, 2))),
    ),
}


def in_skyline(rules: Candidates, num_relations: int) -> npt.NDArray[np.bool_]:
    """Whether a rule's PCA confidence is greater than that of each closed rule within it.

    Lajus et al. 2020 (AMIE 3), section 3. A rule within another has no less support, so that all
    rules with enough support must be given, those below the confidence threshold too.
    """
    base = 2 * num_relations + 1
    columns = np.stack([rules.first, rules.second, rules.third])

    def code(head: Longs, shape: int, first: Longs, second: Longs | int) -> Longs:
        return ((head * len(Shape) + shape) * base + first) * base + second + 1

    shorter = rules.rows(rules.shape <= Shape.PARALLEL)
    keys = np.zeros(len(shorter), dtype=np.int64)
    for shape in (Shape.ATOM, Shape.PATH, Shape.PARALLEL):
        rows = np.flatnonzero(shorter.shape == shape)
        part = shorter.rows(rows)
        keys[rows] = code(part.head, shape, part.first, part.second)
    order = np.argsort(keys)
    keys = np.append(keys[order], -1)
    confidence = np.append(shorter.pca_confidence[order], 0.0)
    own = rules.pca_confidence
    keep = np.ones(len(rules), dtype=np.bool_)
    for shape, within in _WITHIN.items():
        rows = np.flatnonzero(rules.shape == shape)
        for kind, *places in within:
            relations = [columns[place, rows] for place in places]
            second = relations[1] if len(relations) > 1 else -1
            wanted = code(rules.head[rows], kind, relations[0], second)
            place = np.searchsorted(keys[:-1], wanted)
            rival = np.where(keys[place] == wanted, confidence[place], 0.0)
            keep[rows] &= own[rows] > rival
    return keep


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
        (
            rules.third,
            rules.second,
            rules.first,
            rules.shape,
            -rules.support,
            -rules.pca_confidence,
            rules.head,
        )
    )
    ordered = rules.rows(order)
    atoms = _Atoms(relations)
    columns = (
        ordered.head,
        ordered.shape,
        ordered.first,
        ordered.second,
        ordered.third,
        ordered.support,
        head_size[ordered.head],
        ordered.body_size,
        ordered.pca_body_size,
    )
    built = []
    for head, shape, first, second, third, support, size, body_size, pca_size in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        body = atoms.body(shape, (first, second, third))
        quality = static_quality(support, size, body_size if standard else None, pca_size)
        conclusion = atoms.atom(head, "?x", "?y")
        text = f"{' and '.join(map(atoms.words, body))} leads to {atoms.words(conclusion)}"
        built.append(Rule(conclusion, body, quality=quality, text=text, miner="amie"))
    return built


# The ends of the atoms of each body.
_ENDS: dict[Shape, tuple[tuple[str, str], ...]] = {
    Shape.ATOM: (("?x", "?y"),),
    Shape.PATH: (("?x", "?z"), ("?z", "?y")),
    Shape.PARALLEL: (("?x", "?y"),) * 2,
    Shape.CHAIN: (("?x", "?z"), ("?z", "?w"), ("?w", "?y")),
    Shape.TRIANGLE: (("?x", "?y"), ("?x", "?z"), ("?z", "?y")),
    Shape.NEAR_SIDE: (("?x", "?y"), ("?x", "?z"), ("?x", "?z")),
    Shape.FAR_SIDE: (("?x", "?y"), ("?y", "?z"), ("?y", "?z")),
    Shape.NEAR_PAIR: (("?x", "?z"), ("?x", "?z"), ("?z", "?y")),
    Shape.FAR_PAIR: (("?x", "?z"), ("?z", "?y"), ("?z", "?y")),
    Shape.TRIPLE: (("?x", "?y"),) * 3,
}


class _Atoms:
    """The atoms of many rules, each made and put into words once.

    The words are those of :func:`rulerag.rules.rule_text`, for rules with the head
    ``relation(?x, ?y)`` only.
    """

    _NAMES: ClassVar = {
        "?x": "Entity 1",
        "?y": "Entity 2",
        "?z": "Entity 3",
        "?w": "Entity 4",
    }

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

    def body(self, shape: int, directed: tuple[int, ...]) -> tuple[Atom, ...]:
        """The atoms of a body, in :func:`~rulerag.mining.normal_form.normal_form`."""
        ends = _ENDS[Shape(shape)]
        placed = [
            self.atom(relation, *pair) for relation, pair in zip(directed, ends, strict=False)
        ]
        return tuple(sorted(placed, key=place_of) if len(set(ends)) < len(ends) else placed)

    def words(self, atom: Atom) -> str:
        """The atom in the words of a rule's text."""
        if atom not in self._words:
            ends = self._NAMES[atom.subject], self._NAMES[atom.object]
            self._words[atom] = f"[{ends[0]}, {self._relations.label(atom.relation)}, {ends[1]}]"
        return self._words[atom]

"""From counted candidates to rules: skyline, order, names."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie.candidates import CandidateRules, Shape
from rulerag.mining.paths import normal_form, place_of
from rulerag.rules import Atom, Rule, RuleQuality

if TYPE_CHECKING:
    from rulerag.arrays import Longs
    from rulerag.kg import Vocabulary


# The closed bodies within a body: their shape, and which of its atoms they have.
_WITHIN: dict[Shape, tuple[tuple[Shape, tuple[int, ...]], ...]] = {
    Shape.PARALLEL: ((Shape.ATOM, (0,)), (Shape.ATOM, (1,))),
    Shape.TRIANGLE: ((Shape.ATOM, (2,)), (Shape.PATH, (0, 1))),
    Shape.TWIN_SUBJECT: ((Shape.ATOM, (2,)),),
    Shape.TWIN_OBJECT: ((Shape.ATOM, (2,)),),
    Shape.TWIN_FIRST: ((Shape.PATH, (0, 2)), (Shape.PATH, (1, 2))),
    Shape.TWIN_LAST: ((Shape.PATH, (0, 1)), (Shape.PATH, (0, 2))),
    Shape.TRIPLE: (
        *((Shape.ATOM, (atom,)) for atom in range(3)),
        *((Shape.PARALLEL, pair) for pair in ((0, 1), (0, 2), (1, 2))),
    ),
}


def in_skyline(
    rules: CandidateRules, num_relations: int, min_standard_confidence: float
) -> npt.NDArray[np.bool_]:
    """Whether a rule's PCA confidence is greater than that of each closed rule within it.

    Lajus et al. 2020 (AMIE 3), section 3. What is within has no less support: it is among the
    candidates, whatever its confidence. As in AMIE it does not count below the least standard
    confidence.
    """
    directed = 2 * num_relations
    counts = rules.standard_confidence >= min_standard_confidence
    confidence = np.where(counts, rules.pca_confidence, 0)
    body = np.stack([rules.first, rules.second, rules.third])

    def keys(rows: Longs, atoms: tuple[int, ...]) -> Longs:
        key = rules.head[rows]
        for place in range(2):
            key = key * directed + (body[atoms[place], rows] if place < len(atoms) else 0)
        return key

    known = {}
    for shape in (Shape.ATOM, Shape.PATH, Shape.PARALLEL):
        rows = np.flatnonzero(rules.shape == shape)  # sorted by head, then body
        known[shape] = keys(rows, (0,) if shape == Shape.ATOM else (0, 1)), confidence[rows]
    keep = np.ones(len(rules.head), dtype=np.bool_)
    for shape, within in _WITHIN.items():
        rows = np.flatnonzero(rules.shape == shape)
        for inner, atoms in within:
            there, theirs = known[inner]
            place = np.searchsorted(there, keys(rows, atoms))
            keep[rows] &= rules.pca_confidence[rows] > theirs[place]
    return keep


# The ends of the atoms of each body.
_ENDS = {
    Shape.ATOM: (("?x", "?y"),),
    Shape.PATH: (("?x", "?z"), ("?z", "?y")),
    Shape.PARALLEL: (("?x", "?y"),) * 2,
    Shape.LONG_PATH: (("?x", "?z"), ("?z", "?w"), ("?w", "?y")),
    Shape.TRIANGLE: (("?x", "?z"), ("?z", "?y"), ("?x", "?y")),
    Shape.TWIN_SUBJECT: (("?x", "?z"), ("?x", "?z"), ("?x", "?y")),
    Shape.TWIN_OBJECT: (("?y", "?z"), ("?y", "?z"), ("?x", "?y")),
    Shape.TWIN_FIRST: (("?x", "?z"), ("?x", "?z"), ("?z", "?y")),
    Shape.TWIN_LAST: (("?x", "?z"), ("?z", "?y"), ("?z", "?y")),
    Shape.TRIPLE: (("?x", "?y"),) * 3,
}
_WORDS = {"?x": "Entity 1", "?y": "Entity 2", "?z": "Entity 3", "?w": "Entity 4"}


def build_rules(rules: CandidateRules, relations: Vocabulary, head_size: Longs) -> list[Rule]:
    """Named rules, by head relation, then PCA confidence, support, body length and body.

    Args:
        rules: counted candidates.
        relations: names and labels of relation ids.
        head_size: int64 array of shape (R,), facts of each relation.
    """

    @cache
    def atom(directed: int, subject: str, object_: str) -> Atom:
        if directed < len(relations):
            return Atom(relations.names[directed], subject, object_)
        return Atom(relations.names[directed - len(relations)], object_, subject)

    @cache
    def words(atom: Atom) -> str:  # as in rulerag.rules.rule_text
        ends = _WORDS[atom.subject], _WORDS[atom.object]
        return f"[{ends[0]}, {relations.label(atom.relation)}, {ends[1]}]"

    keys = (
        rules.third,
        rules.second,
        rules.first,
        rules.shape,
        -rules.support,
        -rules.pca_confidence,
    )
    ordered = rules.rows(np.lexsort((*keys, rules.head)))
    sizes = head_size[ordered.head].tolist()
    built = []
    for row, size in zip(zip(*(c.tolist() for c in ordered), strict=True), sizes, strict=True):
        head, shape, *atoms, support, pca_body_size, body_size = row
        conclusion = atom(head, "?x", "?y")
        ends = zip(atoms, _ENDS[shape], strict=False)
        body = tuple(atom(relation, *pair) for relation, pair in ends)
        if shape == Shape.PARALLEL:
            body = tuple(sorted(body, key=place_of))
        elif len(body) > 2:
            body = normal_form(conclusion, body)[1]
        quality = RuleQuality(
            support=support,
            head_coverage=support / size,
            standard_confidence=support / body_size,
            pca_confidence=support / pca_body_size,
            body_size=body_size,
            pca_body_size=pca_body_size,
        )
        text = f"{' and '.join(map(words, body))} leads to {words(conclusion)}"
        built.append(Rule(conclusion, body, quality=quality, text=text, miner="amie"))
    return built

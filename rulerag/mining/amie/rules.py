"""From counted candidates to rules: skyline, order, names."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie.candidates import CandidateRules, Shape
from rulerag.mining.paths import place_of
from rulerag.rules import Atom, Rule, RuleQuality

if TYPE_CHECKING:
    from rulerag.arrays import Longs
    from rulerag.kg import Vocabulary


def in_skyline(rules: CandidateRules, num_relations: int) -> npt.NDArray[np.bool_]:
    """Whether a rule's PCA confidence is greater than that of each one-atom rule within it.

    Lajus et al. 2020 (AMIE 3), section 3. Only parallel bodies hold closed one-atom bodies, which
    have no less support: they are among the candidates, whatever their confidence.
    """
    atoms = rules.rows(rules.shape == Shape.ATOM)  # sorted by head, then body
    keys = atoms.head * 2 * num_relations + atoms.first
    keep = np.ones(len(rules.head), dtype=np.bool_)
    rows = np.flatnonzero(rules.shape == Shape.PARALLEL)
    for body in (rules.first, rules.second):
        place = np.searchsorted(keys, rules.head[rows] * 2 * num_relations + body[rows])
        keep[rows] &= rules.pca_confidence[rows] > atoms.pca_confidence[place]
    return keep


# The ends of the atoms of each body.
_ENDS = {
    Shape.ATOM: (("?x", "?y"),),
    Shape.PATH: (("?x", "?z"), ("?z", "?y")),
    Shape.PARALLEL: (("?x", "?y"),) * 2,
}
_WORDS = {"?x": "Entity 1", "?y": "Entity 2", "?z": "Entity 3"}


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

    keys = (rules.second, rules.first, rules.shape, -rules.support, -rules.pca_confidence)
    ordered = rules.rows(np.lexsort((*keys, rules.head)))
    sizes = head_size[ordered.head].tolist()
    built = []
    for row, size in zip(zip(*(c.tolist() for c in ordered), strict=True), sizes, strict=True):
        head, shape, first, second, support, pca_body_size, body_size = row
        conclusion = atom(head, "?x", "?y")
        ends = zip((first, second), _ENDS[shape], strict=False)
        body = tuple(atom(relation, *pair) for relation, pair in ends)
        if shape == Shape.PARALLEL:
            body = tuple(sorted(body, key=place_of))
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

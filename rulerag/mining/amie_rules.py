"""From counted candidates to rules: thresholds, skyline, order, names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_candidates import Candidates, Shape
from rulerag.mining.normal_form import parallel_order
from rulerag.mining.quality import static_quality
from rulerag.rules import Atom, Rule, rule_text

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
    names, built = relations.names, []
    num_relations = len(names)

    def atom(directed: int, subject: str, object_: str) -> Atom:
        if directed < num_relations:
            return Atom(names[directed], subject, object_)
        return Atom(names[directed - num_relations], object_, subject)

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
    for head, shape, first, second, support, size, body_size, pca_size in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        body: tuple[Atom, ...] = (atom(first, "?x", "?z" if shape == Shape.PATH else "?y"),)
        if shape == Shape.PATH:
            body += (atom(second, "?z", "?y"),)
        elif shape == Shape.PARALLEL:
            body = parallel_order(body[0], atom(second, "?x", "?y"))
        quality = static_quality(support, size, body_size if standard else None, pca_size)
        # The text is made once, with labels; Rule would make it from raw names.
        bare = Rule(Atom(names[head], "?x", "?y"), body, quality=quality, text=" ", miner="amie")
        built.append(
            Rule(
                bare.head,
                body,
                quality=quality,
                text=rule_text(bare, relations.label),
                miner="amie",
            )
        )
    return built

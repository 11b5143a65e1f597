"""Rules as integer columns, sorted by what they predict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.errors import MiningError
from rulerag.mining.tlogic_index import Ints, Longs

if TYPE_CHECKING:
    from rulerag.kg.vocabulary import Vocabulary
    from rulerag.rules import Atom, Rule

__all__ = ["MAX_BODY", "CodedRules", "code_rules", "code_static_rules"]

MAX_BODY = 3
"""The longest body that is applied, in atoms."""


# Directed head relation, directed body relations, links, confidence, the rule.
_Row = tuple[int, list[int], list[int], float, "Rule"]


class CodedRules(NamedTuple):
    """Rules by the directed relation that they predict, in the order in which they are tried.

    Attributes:
        bounds: int64 array of shape (2 R + 1,), rules of each directed relation.
        length: int32 array of shape (n,), facts of the body.
        body: int32 array of shape (n, 3), directed relations, in time order.
        link: int32 array of shape (n, 4), for each place of the walk the first place that holds
            the same entity.
        confidence: float64 array of shape (n,).
    """

    bounds: Longs
    length: Ints
    body: Ints
    link: Ints
    confidence: npt.NDArray[np.float64]


def code_rules(
    rules: Iterable[Rule], relations: Vocabulary, *, smoothing: float = 0.0
) -> tuple[CodedRules, list[Rule]]:
    """Code temporal rules whose bodies are walks between the head's ends.

    A rule ``r(?x, ?y)`` whose body walks from ``?x`` to ``?y`` predicts objects; one for
    ``r(?y, ?x)`` predicts subjects, as TLogic's rules for inverse relations do. A body that can be
    walked from both ends (every body of one atom) is applied from both, unless other rules of its
    length name inverse heads, which then stand for themselves.

    Args:
        rules: the rules, in the order that decides between equal confidences.
        relations: the graph's.
        smoothing: added to each body size; ``support / (body_size + smoothing)`` is the confidence
            that scores. Rules without counts keep the confidence that they have.

    Returns:
        The columns, and the rule behind each row.

    Raises:
        MiningError: a rule is static, too long, or no walk; names it.
        UnknownNameError: a relation that the graph does not hold.
    """
    given = list(rules)
    inverse = {len(rule.body) for rule in given if _inverse_head(rule)}
    rows: list[_Row] = []
    for rule in given:
        both = len(rule.body) not in inverse
        rows += _readings(rule, relations, _confidence(rule, smoothing), both)
    # The most confident first; the sort is stable, so the given order decides ties.
    rows.sort(key=lambda row: (row[0], -row[4].ranking_confidence))
    return _columns(rows, relations), [row[4] for row in rows]


def _columns(rows: list[_Row], relations: Vocabulary) -> CodedRules:
    heads = np.array([row[0] for row in rows], np.int64)
    body = np.zeros((len(rows), MAX_BODY), np.int32)
    link = np.tile(np.arange(MAX_BODY + 1, dtype=np.int32), (len(rows), 1))
    for number, (_, walk, links, _, _) in enumerate(rows):
        body[number, : len(walk)] = walk
        link[number, : len(links)] = links
    return CodedRules(
        bounds=np.searchsorted(heads, np.arange(2 * len(relations) + 1)),
        length=np.array([len(row[1]) for row in rows], np.int32),
        body=body,
        link=link,
        confidence=np.array([row[3] for row in rows], np.float64),
    )


def _inverse_head(rule: Rule) -> bool:
    return (rule.head.subject, rule.head.object) == ("?y", "?x")


def _confidence(rule: Rule, smoothing: float) -> float:
    quality = rule.quality
    if quality.support is None or not quality.body_size:
        return rule.ranking_confidence
    return quality.support / (quality.body_size + smoothing)


def _readings(rule: Rule, relations: Vocabulary, confidence: float, both: bool) -> list[_Row]:
    if not rule.temporal:
        raise MiningError(
            f"the rule {rule.text!r} is static and cannot be applied in time",
            hint="give temporal rules, or a static graph",
        )
    if len(rule.body) > MAX_BODY:
        raise MiningError(
            f"the rule {rule.text!r} has {len(rule.body)} body atoms",
            hint=f"bodies of up to {MAX_BODY} atoms are applied",
        )
    found: list[_Row] = []
    for directed, start, end in _ends(rule, relations):
        walk = _walk(rule.body, start, end, relations)
        if walk is not None:
            found.append((directed, *walk, confidence, rule))
    if not found:
        raise MiningError(
            f"the body of the rule {rule.text!r} is no walk between the ends of its head",
            hint="drop rules with other bodies",
        )
    if len(found) == 2 and not both:
        return [found[1] if _inverse_head(rule) else found[0]]
    return found


def _ends(rule: Rule, relations: Vocabulary) -> list[tuple[int, str, str]]:
    """What the head predicts: a directed relation, the known and the wanted variable, twice."""
    head = relations.id(rule.head.relation)
    start, end = rule.head.subject, rule.head.object
    return [(head, start, end), (head + len(relations), end, start)]


def _walk(
    atoms: Sequence[Atom], start: str, end: str, relations: Vocabulary
) -> tuple[list[int], list[int]] | None:
    """Directed relations and links of the body read from one variable; None when it is no walk."""
    body, places = [], [start]
    for atom in atoms:
        relation = relations.id(atom.relation)
        if atom.subject == places[-1]:
            body.append(relation)
            places.append(atom.object)
        elif atom.object == places[-1]:
            body.append(relation + len(relations))
            places.append(atom.subject)
        else:
            return None
    if places[-1] != end:
        return None
    return body, [places.index(place) for place in places]


def code_static_rules(
    rules: Iterable[Rule], relations: Vocabulary, *, confidence: str = "pca"
) -> tuple[CodedRules, npt.NDArray[np.bool_], list[Rule]]:
    """Code static rules of one or two body atoms, each for both ends of its head.

    Args:
        rules: the rules, in the order that decides between equal confidences.
        relations: the graph's.
        confidence: ``pca`` or ``standard``; the other where a rule lacks it.

    Returns:
        The columns; for each row whether both body atoms stand between the head's ends; and the
        rule behind each row.

    Raises:
        MiningError: a rule is temporal, or its body has another form; names it.
        UnknownNameError: a relation that the graph does not hold.
    """
    rows: list[_Row] = []
    for rule in rules:
        quality = rule.quality
        value = quality.standard_confidence if confidence == "standard" else quality.pca_confidence
        value = rule.ranking_confidence if value is None else value
        for directed, start, end in _ends(rule, relations):
            body, links = _static_body(rule, start, end, relations)
            rows.append((directed, body, links, value, rule))
    rows.sort(key=lambda row: (row[0], -row[3]))
    parallel = np.array([len(row[1]) == len(row[2]) for row in rows], dtype=bool)
    return _columns(rows, relations), parallel, [row[4] for row in rows]


def _static_body(
    rule: Rule, start: str, end: str, relations: Vocabulary
) -> tuple[list[int], list[int]]:
    """Directed relations and links of a walk; links as many as relations for parallel atoms."""
    if not rule.temporal and len(rule.body) <= 2:
        for atoms in (rule.body, rule.body[::-1]):
            walk = _walk(atoms, start, end, relations)
            if walk is not None:
                return walk
        sides = [_walk([atom], start, end, relations) for atom in rule.body]
        if sides[0] and sides[-1]:
            return [sides[0][0][0], sides[-1][0][0]], [0, 1]
    raise MiningError(
        f"the rule {rule.text!r} cannot be applied to a static graph",
        hint="static rules have one body atom, or two that join the ends of the head",
    )

"""Rules as integer columns, sorted by what they predict, and walks as atoms and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints, Longs
from rulerag.errors import MiningError
from rulerag.mining.paths.canonical import further_variables
from rulerag.rules import Atom

if TYPE_CHECKING:
    from rulerag.kg import Vocabulary
    from rulerag.rules import Rule

_MAX_BODY = 3  # the longest body that is applied, in atoms

Walk = tuple[int, list[int], list[int]]
"""Directed head relation, directed body relations, and for each place of the walk the first place
that holds the same entity."""


class CodedRules(NamedTuple):
    """Rules by the directed relation that they predict, in the order in which they are tried.

    Attributes:
        bounds: int64 array of shape (2 R + 1,), rules of each directed relation.
        length: int32 array of shape (n,), facts of the body.
        body: int32 array of shape (n, 3), directed relations, in time order.
        link: int32 array of shape (n, 4), for each place of the walk the first place that holds
            the same entity.
        parallel: bool array of shape (n,), whether the body is no walk: two facts that both lead
            from the known entity to the wanted one.
        frontier: int32 array of shape (n,): a body of three facts whose first two lead to nodes
            of their own shares a *frontier* with every rule of the same first two facts, by
            number; -1 for other bodies.
        confidence: float64 array of shape (n,).
    """

    bounds: Longs
    length: Ints
    body: Ints
    link: Ints
    parallel: npt.NDArray[np.bool_]
    frontier: Ints
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
    inverse = {len(rule.body) for rule in given if _has_inverse_head(rule)}
    rows: list[tuple[Walk, float, Rule]] = []
    for rule in given:
        quality, confidence = rule.quality, rule.ranking_confidence
        if quality.support is not None and quality.body_size:
            confidence = quality.support / (quality.body_size + smoothing)
        both = len(rule.body) not in inverse
        walks = _checked_walks(rule, relations)
        rows += [(walk, confidence, rule) for walk in (walks if both else walks[:1])]
    # The most confident first; the sort is stable, so the given order decides ties.
    rows.sort(key=lambda row: (row[0][0], -row[2].ranking_confidence))
    return _columns(rows, relations)


def code_static_rules(
    rules: Iterable[Rule], relations: Vocabulary, *, confidence: str = "pca"
) -> tuple[CodedRules, list[Rule]]:
    """Code static rules of one or two body atoms, each for both ends of its head.

    Args:
        rules: the rules, in the order that decides between equal confidences.
        relations: the graph's.
        confidence: ``pca`` or ``standard``; the other where a rule lacks it.

    Returns:
        The columns, and the rule behind each row.

    Raises:
        MiningError: a rule is temporal, or its body has another form; names it.
        UnknownNameError: a relation that the graph does not hold.
    """
    rows: list[tuple[Walk, float, Rule]] = []
    for rule in rules:
        quality = rule.quality
        value = quality.standard_confidence if confidence == "standard" else quality.pca_confidence
        value = rule.ranking_confidence if value is None else value
        rows += [(walk, value, rule) for walk in _static_walks(rule, relations)]
    rows.sort(key=lambda row: (row[0][0], -row[1]))
    return _columns(rows, relations)


def _columns(
    rows: list[tuple[Walk, float, Rule]], relations: Vocabulary
) -> tuple[CodedRules, list[Rule]]:
    heads = np.array([head for (head, _, _), _, _ in rows], np.int64)
    body = np.zeros((len(rows), _MAX_BODY), np.int32)
    link = np.tile(np.arange(_MAX_BODY + 1, dtype=np.int32), (len(rows), 1))
    length = np.array([len(walk) for (_, walk, _), _, _ in rows], np.int32)
    for number, ((_, walk, links), _, _) in enumerate(rows):
        body[number, : len(walk)] = walk
        link[number, : len(links)] = links
    # Neither the second nor the last node may be the one that the fact before it started from.
    free = (link[:, 1] == 1) & (link[:, 2] != 1) & (link[:, 3] != 1)
    long = free & (length == _MAX_BODY)
    beginnings = np.column_stack([body[long, :2], link[long, 2] == 0])
    frontier = np.full(len(rows), -1, np.int32)
    frontier[long] = np.unique(beginnings, axis=0, return_inverse=True)[1].reshape(-1)
    coded = CodedRules(
        bounds=np.searchsorted(heads, np.arange(2 * len(relations) + 1)),
        length=length,
        body=body,
        link=link,
        parallel=np.array([len(walk) == len(links) for (_, walk, links), _, _ in rows], np.bool_),
        frontier=frontier,
        confidence=np.array([confidence for _, confidence, _ in rows], np.float64),
    )
    return coded, [rule for _, _, rule in rows]


def _checked_walks(rule: Rule, relations: Vocabulary) -> list[Walk]:
    """The walks of a temporal rule that can be applied."""
    if not rule.temporal:
        raise MiningError(
            f"the rule {rule.text!r} is static and cannot be applied in time",
            hint="give temporal rules, or a static graph",
        )
    if len(rule.body) > _MAX_BODY:
        raise MiningError(
            f"the rule {rule.text!r} has {len(rule.body)} body atoms",
            hint=f"bodies of up to {_MAX_BODY} atoms are applied",
        )
    walks = walks_of(rule, relations)
    if not walks:
        raise MiningError(
            f"the body of the rule {rule.text!r} is no walk between the ends of its head",
            hint="drop rules with other bodies",
        )
    return walks


def _has_inverse_head(rule: Rule) -> bool:
    return (rule.head.subject, rule.head.object) == ("?y", "?x")


def walks_of(rule: Rule, relations: Vocabulary) -> list[Walk]:
    """The ways to walk a rule's body between the ends of its head: two, one or none.

    The way that the head is written for stands first: to the object of ``r(?x, ?y)``, to the
    subject of ``r(?y, ?x)``.

    Raises:
        UnknownNameError: a relation that the graph does not hold.
    """
    walks = [
        (directed, *walk)
        for directed, start, end in _ends(rule, relations)
        if (walk := _walk(rule.body, start, end, relations)) is not None
    ]
    return walks[::-1] if _has_inverse_head(rule) else walks


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


def atoms_of_walk(
    head: int, body: Sequence[int], links: Sequence[int], relations: Vocabulary
) -> tuple[Atom, tuple[Atom, ...]]:
    """Head and body of a rule whose body walks from ``?x`` to ``?y``.

    Args:
        head: directed relation; of an inverse one the head is ``relation(?y, ?x)``.
        body: directed relations.
        links: for each place of the walk the first place with the same entity.
        relations: the graph's.
    """
    names = {links[0]: "?x"}
    names.setdefault(links[-1], "?y")
    free = further_variables()
    for place in links:
        if place not in names:
            names[place] = next(free)

    def atom(relation: int, start: int, end: int) -> Atom:
        if relation < len(relations):
            return Atom(relations.names[relation], names[start], names[end])
        return Atom(relations.names[relation - len(relations)], names[end], names[start])

    atoms = (atom(relation, *links[step : step + 2]) for step, relation in enumerate(body))
    return atom(head, links[0], links[-1]), tuple(atoms)


def _static_walks(rule: Rule, relations: Vocabulary) -> list[Walk]:
    """A walk for each end of the head; links as many as relations for parallel atoms."""
    found: list[Walk] = []
    for directed, start, end in _ends(rule, relations):
        walks = (_walk(atoms, start, end, relations) for atoms in (rule.body, rule.body[::-1]))
        walk = next(filter(None, walks), None)
        if walk is None:
            sides = [_walk([atom], start, end, relations) for atom in rule.body]
            walk = ([side[0][0] for side in sides if side], [0, 1]) if all(sides) else None
        if walk is None or rule.temporal or len(rule.body) > 2:
            raise MiningError(
                f"the rule {rule.text!r} cannot be applied to a static graph",
                hint="static rules have one body atom, or two that join the ends of the head",
            )
        found.append((directed, *walk))
    return found

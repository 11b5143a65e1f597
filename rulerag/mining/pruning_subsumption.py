"""When one rule makes another one needless whatever the graph: theta-subsumption.

A rule ``A`` subsumes a rule ``B`` of the same head relation when a substitution of A's variables
turns A's head into B's and every body atom of A into one of B's (Plotkin 1970; De Raedt 2008,
Logical and Relational Learning, section 5.4). Wherever B's body holds A's holds too, so A predicts
all that B predicts, on every graph. A body that is a subset of another, up to the names of its
variables, is the usual case.

Temporal rules: the substituted atoms must stand in B in A's order, so that the times fit too, and
the heads must be equal as they are written, since the way round of a temporal head tells which end
the rule predicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from rulerag.rules import Atom, Rule

__all__ = ["not_subsumed", "subsumes"]

Binding = dict[str, str]


def subsumes(general: Rule, special: Rule) -> bool:
    """Whether the first rule predicts all that the second one predicts, on every graph."""
    if general.temporal != special.temporal:
        return False
    if general.temporal:
        if general.head != special.head:
            return False
        start: Binding | None = {end: end for end in (general.head.subject, general.head.object)}
    else:
        start = _matched(general.head, special.head, {})
    return start is not None and _covers(general, special, start, 0, 0)


def _covers(general: Rule, special: Rule, binding: Binding, atom: int, least: int) -> bool:
    """Whether the atoms from one on can be mapped, in a temporal rule to places from one on."""
    if atom == len(general.body):
        return True
    for place in range(least, len(special.body)):
        found = _matched(general.body[atom], special.body[place], binding)
        onward = place if general.temporal else 0
        if found is not None and _covers(general, special, found, atom + 1, onward):
            return True
    return False


def _matched(general: Atom, special: Atom, binding: Binding) -> Binding | None:
    """The binding that turns an atom into another one, or None."""
    if general.relation != special.relation:
        return None
    found = binding
    for term, target in ((general.subject, special.subject), (general.object, special.object)):
        if not term.startswith("?"):
            if term != target:
                return None
        elif term not in found:
            found = {**found, term: target}
        elif found[term] != target:
            return None
    return found


def not_subsumed(
    rules: Iterable[Rule],
    score: Callable[[Rule], float],
    order: Callable[[Rule], tuple[object, ...]],
) -> Iterator[Rule]:
    """The rules that no other rule of at least their score subsumes, in the given order.

    Of rules that subsume each other with the same score the first in ``order`` stays.
    """
    given = list(rules)
    scores = [score(rule) for rule in given]
    places = {number: place for place, number in enumerate(_sorted(given, order))}
    groups: dict[tuple[bool, str, frozenset[str]], list[int]] = {}
    for number, rule in enumerate(given):
        key = (rule.temporal, rule.head.relation, frozenset(a.relation for a in rule.body))
        groups.setdefault(key, []).append(number)
    for number, rule in enumerate(given):
        rivals = (other for key in _keys(rule) for other in groups.get(key, ()))
        if not any(
            _beats(given, scores, places, other, number) for other in rivals if other != number
        ):
            yield rule


def _sorted(given: list[Rule], order: Callable[[Rule], tuple[object, ...]]) -> list[int]:
    keys = [order(rule) for rule in given]
    return sorted(range(len(given)), key=lambda number: (keys[number], number))


def _keys(rule: Rule) -> Iterator[tuple[bool, str, frozenset[str]]]:
    """The groups that a rule may be subsumed from: bodies of some of its relations."""
    relations = sorted({atom.relation for atom in rule.body})
    for size in range(1, len(relations) + 1):
        for some in combinations(relations, size):
            yield rule.temporal, rule.head.relation, frozenset(some)


def _beats(
    rules: list[Rule], scores: list[float], places: dict[int, int], one: int, other: int
) -> bool:
    if scores[one] < scores[other] or not subsumes(rules[one], rules[other]):
        return False
    equal = scores[one] == scores[other] and subsumes(rules[other], rules[one])
    return not equal or places[one] < places[other]

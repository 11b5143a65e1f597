"""When one rule makes another one redundant whatever the graph: theta-subsumption.

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

from collections.abc import Iterator
from itertools import combinations

from rulerag.rules import Atom, Rule, RuleBank

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


def prune_subsumed(bank: RuleBank) -> RuleBank:
    """Drop each rule that another one with at least its confidence makes redundant on any graph.

    Rule A makes rule B redundant when A :func:`subsumes` B: the bodies are equal but for names and
    order, or A's is a part of B's. Of rules that subsume each other with the same confidence the
    one with more support stays, then the shorter one, then the first by text.

    Where candidates are scored by their most confident rule, the best score of every candidate
    stays what it was, on every graph. Sums and noisy-or change, since they count a fact that two
    rules see twice. AMIE's skyline is the same for bodies that are closed parts of others.

    Args:
        bank: static and temporal rules, of any length.

    Returns:
        The others, in their order.
    """
    rules = list(bank)
    ordered = sorted(rules, key=lambda r: (-(r.quality.support or 0), len(r.body), r.text))
    places = {rule.id: place for place, rule in enumerate(ordered)}
    groups: dict[tuple[bool, str, frozenset[str]], list[Rule]] = {}
    for rule in rules:
        key = (rule.temporal, rule.head.relation, frozenset(a.relation for a in rule.body))
        groups.setdefault(key, []).append(rule)

    def beats(one: Rule, other: Rule) -> bool:
        ahead = one.ranking_confidence - other.ranking_confidence
        if one is other or ahead < 0 or not subsumes(one, other):
            return False
        return ahead > 0 or not subsumes(other, one) or places[one.id] < places[other.id]

    return RuleBank(
        rule
        for rule in rules
        if not any(beats(rival, rule) for key in _keys(rule) for rival in groups.get(key, ()))
    )


def _keys(rule: Rule) -> Iterator[tuple[bool, str, frozenset[str]]]:
    """The groups that a rule may be subsumed from: bodies of some of its relations."""
    relations = sorted({atom.relation for atom in rule.body})
    for size in range(1, len(relations) + 1):
        for some in combinations(relations, size):
            yield rule.temporal, rule.head.relation, frozenset(some)

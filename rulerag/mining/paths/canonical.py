"""One way to write a rule, so that a rule from another tool gets the same identifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, count, permutations

from rulerag.rules import Atom, Rule, RuleBank, RuleQuality, rule_text

_FURTHER = ("?z", "?w", "?v", "?u")
_NUMBERS = {name: number for number, name in enumerate(("?x", *_FURTHER, "?y"))}
_LAST = len(_NUMBERS)
# Bodies up to this length are put in order; longer ones have too many orders to try.
_LONGEST = 4

Place = tuple[bool, int, int, str, str, str]


def place_of(atom: Atom) -> Place:
    """What orders the atoms of a body: those between ``?x`` and ``?y``, then along the way.

    Atoms with the same variables are ordered by direction and relation.
    """
    one = _NUMBERS.get(atom.subject, _LAST)
    two = _NUMBERS.get(atom.object, _LAST)
    direct = {atom.subject, atom.object} == {"?x", "?y"}
    return (not direct, min(one, two), max(one, two), atom.subject, atom.relation, atom.object)


def further_variables() -> Iterator[str]:
    """Names of a body's variables beyond the head's two, in order of appearance."""
    return chain(_FURTHER, (f"?v{number}" for number in count(1)))


def labelled_rule(
    head: Atom,
    body: tuple[Atom, ...],
    quality: RuleQuality,
    label: Callable[[str], str],
    miner: str,
    temporal: bool = False,
) -> Rule:
    """A rule whose text speaks with readable relation names."""
    bare = Rule(head, body, temporal, text=" ")  # without a text it would make its own first
    return replace(bare, quality=quality, text=rule_text(bare, label), miner=miner)


def normal_form(head: Atom, body: tuple[Atom, ...]) -> tuple[Atom, tuple[Atom, ...]]:
    """The rule as :class:`rulerag.mining.amie.AmieMiner` writes it.

    The head's variables become ``?x`` and ``?y``, further ones ``?z``, ``?w`` and so on, in order
    of appearance. Atoms stand in the order of :func:`place_of`; of all names that allows, the
    first in that order. Bodies above four atoms keep their order. Constants stay as they are.
    """
    names: dict[str, str] = {}
    for end, name in ((head.subject, "?x"), (head.object, "?y")):
        if end.startswith("?"):
            names.setdefault(end, name)
    orders = permutations(body) if 1 < len(body) <= _LONGEST else [body]
    written = [_renamed(order, names) for order in orders]
    best = min(written, key=lambda atoms: [place_of(atom) for atom in atoms])
    return _renamed((head,), names)[0], best


def canonical(rule: Rule) -> Rule:
    """The same rule as this library's miners write it, with its counts.

    A static rule takes its :func:`normal_form`. In a temporal rule the order of the atoms is their
    order in time and a head ``r(?y, ?x)`` tells that it predicts subjects: both stay, and only the
    further variables are named anew. A rule that is written so already keeps its text.
    """
    if rule.temporal:
        head, named = rule.head, {"?x": "?x", "?y": "?y"}
        if {head.subject, head.object} != {"?x", "?y"}:
            named = {end: end for end in (head.subject, head.object) if not end.startswith("?")}
            for end, name in ((head.subject, "?x"), (head.object, "?y")):
                named.setdefault(end, name)
        head, body = _renamed((head,), named)[0], _renamed(rule.body, named)
    else:
        head, body = normal_form(rule.head, rule.body)
    if (head, body) == (rule.head, rule.body):
        return rule
    return replace(rule, head=head, body=body, text="")


def merge_rules(*banks: RuleBank) -> RuleBank:
    """Join banks of several miners or runs; rules that differ in names alone are one rule.

    Every rule is put into :func:`canonical` form, so that the same rule is known again whoever
    wrote it. What each bank knows of it is joined as
    :meth:`RuleBank.merge <rulerag.rules.RuleBank.merge>` does.

    Args:
        banks: any number.
    """
    parts = (RuleBank([canonical(rule)]) for bank in banks for rule in bank)
    return RuleBank().merge(*parts)


def _renamed(atoms: tuple[Atom, ...], given: dict[str, str]) -> tuple[Atom, ...]:
    """The atoms with their further variables named in order of appearance."""
    names = dict(given)
    further = further_variables()
    for atom in atoms:
        for end in (atom.subject, atom.object):
            if end.startswith("?") and end not in names:
                names[end] = next(further)
    return tuple(
        Atom(a.relation, names.get(a.subject, a.subject), names.get(a.object, a.object))
        for a in atoms
    )

"""Which body atoms of a rule a document grounds, and what the variables stand for there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument

Bound = Mapping[str, Collection[str]]
"""What some variables of a rule may stand for."""


def grounds(atom: Atom, fact: Fact, bound: Bound) -> bool:
    """Whether a fact grounds an atom; variables that are not ``bound`` stand for any entity."""
    if fact.relation != atom.relation:
        return False
    for term, end in ((atom.subject, fact.subject), (atom.object, fact.object)):
        if not term.startswith("?"):
            if term != end:
                return False
        elif term in bound and end not in bound[term]:
            return False
    return atom.subject != atom.object or fact.subject == fact.object


def far_ends(atom: Atom, facts: Iterable[Fact], variable: str, bound: Bound) -> list[str]:
    """What a variable of an atom stands for in the facts that ground it, in their order."""
    return [
        fact.object if atom.object == variable else fact.subject
        for fact in facts
        if grounds(atom, fact, bound)
    ]


def may_answer(
    document: Document, rule: Rule, number: int, bound: Bound, known: frozenset[str]
) -> bool:
    """Whether a document may lead a rule to an answer that is not known.

    It may not where it grounds the atom and every answer that it names so is known.

    Args:
        document: what was found.
        rule: the guiding rule.
        number: the body atom that was searched; only one with the head's object names answers.
        bound: what variables stand for.
        known: the known answers.
    """
    atom = rule.body[number]
    if rule.head.object not in (atom.subject, atom.object):
        return True
    named = far_ends(atom, document.facts, rule.head.object, bound)
    return not named or not known.issuperset(named)


def grounded_atom(
    rule: Rule, query: Query, document: Document, bound: Bound | None = None
) -> int | None:
    """The first body atom that a fact of the document grounds for the query; None if there is none.

    A fact grounds an atom when it is of the atom's relation and has the query's subject wherever
    the atom has the head's subject. Where it is not known what a variable stands for, any entity
    may: atoms that do not touch the head's subject (the second hop of a chain) are then grounded by
    any fact of their relation.

    Args:
        rule: a guiding rule of the query.
        query: its ``subject`` is what the head's subject stands for.
        document: its ``facts`` are looked at.
        bound: what further variables stand for, where hops were followed.
    """
    known = {**(bound or {}), rule.head.subject: (query.subject,)}
    for number, atom in enumerate(rule.body):
        if any(grounds(atom, fact, known) for fact in document.facts):
            return number
    return None


def with_grounded_atoms(
    query: Query,
    rules: Sequence[Rule],
    documents: Sequence[ScoredDocument],
    bound: Mapping[str, Bound] | None = None,
) -> list[ScoredDocument]:
    """The same documents; each hit of a rule says which of its atoms the document grounds.

    Args:
        query: the query.
        rules: its guiding rules.
        documents: what they found.
        bound: by rule id, what further variables stand for.
    """
    by_id = {rule.id: rule for rule in rules}

    def grounded(hit: RuleHit, document: Document) -> RuleHit:
        if hit.rule_id is None:
            return hit
        known = (bound or {}).get(hit.rule_id)
        return replace(hit, atom=grounded_atom(by_id[hit.rule_id], query, document, known))

    return [
        replace(scored, found_by=tuple(grounded(hit, scored.document) for hit in scored.found_by))
        for scored in documents
    ]

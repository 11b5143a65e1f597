"""Which body atom of its guiding rule a found document grounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rulerag.rules import Rule
from rulerag.types import Document, Query, ScoredDocument

__all__ = ["grounded_atom", "with_grounded_atoms"]


def grounded_atom(rule: Rule, query: Query, document: Document) -> int | None:
    """The first body atom that a fact of the document grounds for the query; None if there is none.

    A fact grounds an atom when it is of the atom's relation and has the query's subject wherever
    the atom has the head's subject. Atoms that do not touch the head's subject (the second hop of
    a chain) are grounded by any fact of their relation.

    Args:
        rule: a guiding rule of the query.
        query: its ``subject`` is what the head's subject stands for.
        document: its ``facts`` are looked at.
    """
    start = rule.head.subject
    for number, atom in enumerate(rule.body):
        for fact in document.facts:
            if (
                fact.relation == atom.relation
                and (atom.subject != start or fact.subject == query.subject)
                and (atom.object != start or fact.object == query.subject)
            ):
                return number
    return None


def with_grounded_atoms(
    query: Query, rules: Sequence[Rule], documents: Sequence[ScoredDocument]
) -> list[ScoredDocument]:
    """The same documents; each hit of a rule says which of its atoms the document grounds."""
    by_id: Mapping[str, Rule] = {rule.id: rule for rule in rules}
    told = []
    for scored in documents:
        hits = tuple(
            hit
            if hit.rule_id is None
            else replace(hit, atom=grounded_atom(by_id[hit.rule_id], query, scored.document))
            for hit in scored.found_by
        )
        told.append(replace(scored, found_by=hits))
    return told

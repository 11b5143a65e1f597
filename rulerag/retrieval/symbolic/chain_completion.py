"""Chains made whole: where a document names an answer, what leads to it stands beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rulerag.kg.grounding import FactIndex, ground
from rulerag.rules import Rule
from rulerag.types import Query, ScoredDocument

__all__ = ["naming_atom", "with_whole_chains"]

# How far down a list the parts of a chain are looked for.
_LOOK = 50


def naming_atom(rule: Rule) -> int:
    """The last body atom with the head's object; the last of all where none has it."""
    places = [n for n, a in enumerate(rule.body) if rule.head.object in (a.subject, a.object)]
    return places[-1] if places else len(rule.body) - 1


def with_whole_chains(
    query: Query, rules: Sequence[Rule], documents: Sequence[ScoredDocument], count: int
) -> list[ScoredDocument]:
    """The same documents; the first ``count`` that need others to lead to an answer bring them.

    A reader can follow a chain only where it has a document for every atom. What a document
    brings takes the places behind it, with its score. A document that leads to an answer by a
    rule of one atom needs no others.

    Args:
        query: the query.
        rules: its guiding rules, most trusted first.
        documents: what was found, best first.
        count: how many chains are made whole.
    """
    chains = _chains(query, rules, documents[:_LOOK]) if count else {}
    order: dict[int, float] = {}
    given = 0
    for place, scored in enumerate(documents):
        if place in order:
            continue
        order[place] = scored.score
        if place in chains and given < count:
            given += 1
            for other in chains[place]:
                order.setdefault(other, scored.score)
    if not given:
        return list(documents)
    return [
        replace(documents[place], score=score, rank=rank)
        for rank, (place, score) in enumerate(order.items(), start=1)
    ]


def _chains(
    query: Query, rules: Sequence[Rule], documents: Sequence[ScoredDocument]
) -> dict[int, tuple[int, ...]]:
    """For the places of documents that name an answer, those of the rest of its best chain."""
    facts = [fact for scored in documents for fact in scored.document.facts]
    owner = [place for place, scored in enumerate(documents) for _ in scored.document.facts]
    relations = {fact.relation for fact in facts}
    index = FactIndex(facts)
    found: dict[int, tuple[int, ...]] = {}
    alone: set[int] = set()
    for rule in rules:
        if any(atom.relation not in relations for atom in rule.body):
            continue
        naming = naming_atom(rule)
        for grounding in ground(rule, query.subject, index, query.timestamp):
            places = [owner[row] for row in grounding.rows]
            if len(set(places)) == 1:
                alone.add(places[0])
            rest = tuple(dict.fromkeys(p for p in places if p != places[naming]))
            best = found.setdefault(places[naming], rest)
            # The chain whose last part was found soonest; of equal ones the more trusted rule's.
            if max(rest, default=0) < max(best, default=0):
                found[places[naming]] = rest
    return {place: rest for place, rest in found.items() if place not in alone}

"""Chain completion: where a document names an answer, what leads to it stands beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rulerag.kg.grounding import groundings_of
from rulerag.rules import Rule
from rulerag.types import GenerationRequest, Query, ScoredDocument

DEPTH = 50
"""How far down a list the parts of a chain are looked for."""


def answer_atom(rule: Rule) -> int:
    """The last body atom with the head's object; the last of all where none has it."""
    found = [n for n, a in enumerate(rule.body) if rule.head.object in (a.subject, a.object)]
    return found[-1] if found else len(rule.body) - 1


def complete_chains(
    query: Query, rules: Sequence[Rule], documents: Sequence[ScoredDocument], count: int
) -> list[ScoredDocument]:
    """The same documents; the first ``count`` that need others to lead to an answer bring them.

    A reader can follow a chain only where it has a document for every atom. What a document
    brings takes the ranks behind it, with its score. A document that leads to an answer by a
    rule of one atom needs no others.

    Args:
        query: the query.
        rules: its guiding rules, most trusted first.
        documents: what was found, best first.
        count: how many chains are completed.
    """
    chains = _chains(query, rules, documents[:DEPTH]) if count else {}
    order: dict[int, float] = {}
    completed = 0
    for number, scored in enumerate(documents):
        if number in order:
            continue
        order[number] = scored.score
        if number in chains and completed < count:
            completed += 1
            for other in chains[number]:
                order.setdefault(other, scored.score)
    if not completed:
        return list(documents)
    return [
        replace(documents[number], score=score, rank=rank)
        for rank, (number, score) in enumerate(order.items(), start=1)
    ]


def _chains(
    query: Query, rules: Sequence[Rule], documents: Sequence[ScoredDocument]
) -> dict[int, tuple[int, ...]]:
    """By the index of a document that names an answer, those of the rest of its best chain."""
    found: dict[int, tuple[int, ...]] = {}
    alone: set[int] = set()
    texts = tuple(scored.document for scored in documents)
    for rule, _, parts, _ in groundings_of(GenerationRequest(query, texts, tuple(rules))).found:
        last = answer_atom(rule)
        if len(set(parts)) == 1:
            alone.add(parts[0])
        rest = tuple(dict.fromkeys(part for part in parts if part != parts[last]))
        best = found.setdefault(parts[last], rest)
        # The chain whose last part was found soonest; of equal ones the more trusted rule's.
        if max(rest, default=0) < max(best, default=0):
            found[parts[last]] = rest
    return {number: rest for number, rest in found.items() if number not in alone}

"""Answers that the corpus states as they are, and documents that lead to no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulerag.retrieval.grounded import Bound, far_ends

if TYPE_CHECKING:
    from rulerag.rules import Rule
    from rulerag.types import Document, Query

__all__ = ["StatedAnswers", "leads_elsewhere"]


class StatedAnswers:
    """What the documents state of every subject and relation, before a query's time.

    Args:
        documents: the corpus.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self._stated: dict[tuple[str, str], list[tuple[str, int | None]]] = {}
        for document in documents:
            for fact in document.facts:
                ends = self._stated.setdefault((fact.subject, fact.relation), [])
                ends.append((fact.object, fact.timestamp))

    def of(self, query: Query) -> frozenset[str]:
        """The objects that documents state for the query's subject and relation."""
        now = query.timestamp
        return frozenset(
            end
            for end, time in self._stated.get((query.subject, query.relation), ())
            if now is None or time is None or time < now
        )


def leads_elsewhere(
    document: Document, rule: Rule, number: int, bound: Bound, stated: frozenset[str]
) -> bool:
    """Whether a document may lead a rule to an answer that is not stated.

    It may not where it grounds the atom and every answer that it names so is stated.

    Args:
        document: what was found.
        rule: the guiding rule.
        number: the body atom that was searched; only one with the head's object names answers.
        bound: what variables stand for.
        stated: the answers that are stated.
    """
    atom = rule.body[number]
    if rule.head.object not in (atom.subject, atom.object):
        return True
    named = far_ends(atom, document.facts, rule.head.object, bound)
    return not named or not stated.issuperset(named)

"""The fact that an answer is read from, as a citing generator must write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rulerag.types import Fact


class Citation(NamedTuple):
    """A fact in words, seen from the end that is not the answer.

    Args:
        subject: that other end.
        relation: the relation.
        inverse: whether the answer is the subject of the fact.
        bridge: whether the other end is another entity than the question's subject, as in the
            second step of a chain.
    """

    subject: str
    relation: str
    inverse: bool = False
    bridge: bool = False


def citation_of(
    fact: Fact, answer: str, subject: str, labels: Mapping[str, Mapping[str, str]]
) -> Citation | None:
    """A fact as a citation of an answer; None where the answer is at neither end.

    Args:
        fact: by its names.
        answer: the answer in words.
        subject: the name of the question's subject.
        labels: readable names, by ``entities`` and ``relations``.
    """
    entities, relations = labels.get("entities", {}), labels.get("relations", {})
    first, last = (entities.get(end, end) for end in (fact.subject, fact.object))
    relation = relations.get(fact.relation, fact.relation)
    if last == answer:
        return Citation(first, relation, False, fact.subject != subject)
    if first == answer:
        return Citation(last, relation, True, fact.object != subject)
    return None

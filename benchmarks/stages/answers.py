"""Measures of answers, one value a query: matches, overlaps, what the generator saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from rulerag.evaluation import AnswerMatcher
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import Rule
from rulerag.text import (
    NameFinder,
    best_token_f1,
    character_f1,
    exact_match,
    lenient_match,
    normalize_answer,
)
from rulerag.types import Document, GenerationRequest, Query

EM, F1 = "exact_match", "token_f1"
LENIENT, CHARACTERS = "lenient_match", "character_f1"
READING_MEASURES = frozenset({EM, F1, LENIENT, CHARACTERS, "entity_in_documents"})
"""What a record of a reading has; one that lacks some is measured again from its answers."""

Columns = dict[str, npt.NDArray[np.float64]]


class EntityMatcher:
    """Finds documents that state a fact of an answer: its subject or object is called so.

    A text also holds an answer inside a longer name, "China" in "Citizen (China)"; a fact does
    not. Documents without facts hold no entity. One matcher serves one corpus.

    Args:
        labels: readable labels of raw entity names; a name without one is its own.
    """

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self._labels = labels or {}
        self._entities: dict[str, frozenset[str]] = {}

    def first_rank(self, documents: Iterable[Document], answers: Iterable[str]) -> int | None:
        """The rank, from 1, of the first document that is about an answer; None without one."""
        wanted = {text for text in map(normalize_answer, answers) if text}
        for rank, document in enumerate(documents, start=1):
            entities = self._entities.get(document.id)
            if entities is None:
                entities = self._entities[document.id] = self._entities_of(document)
            if not wanted.isdisjoint(entities):
                return rank
        return None

    def _entities_of(self, document: Document) -> frozenset[str]:
        ends = {end for fact in document.facts for end in (fact.subject, fact.object)}
        return frozenset(normalize_answer(self._labels.get(end, end)) for end in ends)


def entity_names(dataset: RuleQADataset) -> NameFinder:
    """The readable names of every entity that documents, questions or answers name."""
    names = {
        end
        for document in dataset.corpus
        for fact in document.facts
        for end in (fact.subject, fact.object)
    }
    queries = [query for rows in dataset.queries.values() for query in rows]
    labels = dataset.labels["entities"]
    named = {labels.get(name, name) for name in names | {query.subject for query in queries}}
    return NameFinder(named.union(*(query.answers for query in queries)))


def answer_columns(queries: Sequence[Query], texts: Sequence[str], names: NameFinder) -> Columns:
    """Exact match and token F1, lenient exact match and character F1; all of shape (n,).

    Character F1 is against one answer, the first, as RuleRAG's published evaluator takes it.

    Args:
        queries: in order.
        texts: an answer each; empty for no answer.
        names: of the dataset's entities.
    """
    pairs = list(zip(queries, texts, strict=True))
    return {
        EM: np.array([exact_match(text, q.answers) for q, text in pairs]),
        F1: np.array([best_token_f1(text, q.answers) for q, text in pairs]),
        LENIENT: np.array([lenient_match(text, q.answers, names) for q, text in pairs]),
        CHARACTERS: np.array(
            [character_f1(text, q.answers[0]) if q.answers else 0.0 for q, text in pairs]
        ),
        "answered": np.array([float(bool(text)) for text in texts]),
    }


def reading_columns(
    requests: Sequence[GenerationRequest], texts: Sequence[str], dataset: RuleQADataset
) -> Columns:
    """What :func:`answer_columns` gives, and whether an answer was shown, as text and as entity.

    Args:
        requests: what was read.
        texts: an answer each.
        dataset: whose documents these are.
    """
    queries = [request.query for request in requests]
    columns = answer_columns(queries, texts, entity_names(dataset))
    matchers: dict[str, AnswerMatcher | EntityMatcher] = {
        "in_documents": AnswerMatcher(),
        "entity_in_documents": EntityMatcher(dataset.labels["entities"]),
    }
    for name, matcher in matchers.items():
        ranks = [matcher.first_rank(r.documents, r.query.answers) for r in requests]
        columns[name] = np.array([float(rank is not None) for rank in ranks])
    columns["repeat_shown"] = np.array([float(any(map(_repeats, r.rules))) for r in requests])
    return columns


def _repeats(rule: Rule) -> bool:
    """Whether a rule says that what held before holds again."""
    return [atom.relation for atom in rule.body] == [rule.head.relation] and (
        rule.body[0].subject == rule.head.subject
    )

"""Retrieval by executing the guiding rules on the facts inside the documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from rulerag.errors import ConfigError, EmptyDataError
from rulerag.io import fingerprint_object
from rulerag.kg.evidence import EvidenceModel, noisy_or_exponents
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.grounding import TableIndex, ground
from rulerag.protocols import RuleSelector
from rulerag.rules import Rule
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument

__all__ = ["SymbolicRetriever"]

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# The latest possible place in time, for undated facts: they neither age nor come first.
_UNDATED = 0


class _Hits(NamedTuple):
    """Groundings of one query as columns of shape (n,): one row is one fact of one grounding."""

    answer: Longs
    row: Longs
    time: Longs
    weight: Floats
    rule: Longs
    atom: Longs

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, float, int, int]]) -> _Hits:
        """Columns from rows in the order of the fields."""
        answer, row, time, weight, rule, atom = zip(*rows, strict=True) if rows else ([],) * 6
        a, r, t, n, i = (np.array(c, dtype=np.int64) for c in (answer, row, time, rule, atom))
        return cls(a, r, t, np.array(weight, dtype=np.float64), n, i)

    def take(self, keep: npt.NDArray[np.bool_]) -> _Hits:
        """The rows where ``keep`` is true."""
        answer, row, time, weight, rule, atom = self
        return _Hits(answer[keep], row[keep], time[keep], weight[keep], rule[keep], atom[keep])

    def join(self, other: _Hits) -> _Hits:
        """The rows of both."""
        return _Hits(
            np.concatenate([self.answer, other.answer]),
            np.concatenate([self.row, other.row]),
            np.concatenate([self.time, other.time]),
            np.concatenate([self.weight, other.weight]),
            np.concatenate([self.rule, other.rule]),
            np.concatenate([self.atom, other.atom]),
        )


class SymbolicRetriever:
    """Finds the documents whose facts ground the guiding rules of a query.

    Every rule is executed from the query's subject, on facts from before the query's time. The
    groundings that bind the same answer are joined by noisy-or of their weights. Documents are
    ordered answer by answer: the best document of every answer first (answers by their joined
    weight, documents by weight, then most recent first), then the second ones, and so on, so that
    ``top_k`` documents speak of as many answers as they can.

    Args:
        documents: the corpus; documents without facts are never found.
        selector: chooses the guiding rules.
        evidence: how groundings are weighted.
        order: ``evidence`` as described, or ``recent``: all groundings, most recent first.
        progress: show a progress bar over queries.

    Raises:
        EmptyDataError: no document states a fact.
        ConfigError: an unknown order.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        selector: RuleSelector,
        *,
        evidence: EvidenceModel | None = None,
        order: str = "evidence",
        progress: bool = False,
    ) -> None:
        if order not in ("evidence", "recent"):
            raise ConfigError(f"unknown order {order!r}", key="order", hint="evidence or recent")
        facts: list[Fact] = []
        owner: list[int] = []
        for number, document in enumerate(documents):
            facts.extend(document.facts)
            owner.extend([number] * len(document.facts))
        if not facts:
            raise EmptyDataError(
                "no document states a fact, so no rule can be executed",
                hint="use a text retriever (bm25), or documents with metadata.facts",
            )
        self.documents = documents
        self.selector = selector
        self.evidence = evidence or EvidenceModel()
        self.order = order
        self.progress = progress
        self._owner = np.array(owner, dtype=np.int64)
        self._index = TableIndex(KnowledgeGraph.from_facts(facts, name="corpus").train)
        self._plans: dict[tuple[str, ...], tuple[Longs, list[int]]] = {}

    @property
    def fingerprint(self) -> str:
        """Names the facts and every setting that changes results."""
        facts = self._index.facts
        return fingerprint_object(
            ["symbolic", facts.fingerprint, self.order, self.evidence.settings()]
        )

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents that ground its guiding rules.

        A query whose subject is unknown, or whose rules find nothing, gets an empty list.

        Raises:
            ConfigError: ``top_k`` below 1.
        """
        return [self._rank(hits, rules, top_k) for hits, rules in self._ground_all(queries, top_k)]

    def retrieve_union(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, the union of every rule's ``top_k`` most recent documents.

        Raises:
            ConfigError: ``top_k`` below 1.
        """
        lists = []
        for hits, rules in self._ground_all(queries, top_k):
            keep = hits.take(_place_in_group(hits.rule, -hits.time) < top_k)
            lists.append(self._rank(keep, rules, len(keep.row)))
        return lists

    def _ground_all(self, queries: Sequence[Query], top_k: int) -> list[tuple[_Hits, list[Rule]]]:
        if top_k < 1:
            raise ConfigError(f"{top_k} is below 1", key="top_k", hint="say 10")
        selected = self.selector.select(queries)
        bar = tqdm(queries, "executing rules", disable=not self.progress, unit="query")
        return [
            (self._ground(query, rules), rules) for query, rules in zip(bar, selected, strict=True)
        ]

    def _ground(self, query: Query, rules: list[Rule]) -> _Hits:
        facts = self._index.facts
        if query.subject not in facts.entities:
            return _Hits.of([])
        by_relation, longer = self._plan(rules)
        around = self._index.neighbours(facts.entities.id(query.subject))
        time = (
            around.timestamp
            if around.timestamp is not None
            else np.full(len(around.row), _UNDATED, dtype=np.int64)
        )
        rule = by_relation[around.relation]
        keep = rule >= 0
        if query.timestamp is not None and around.timestamp is not None:
            keep &= time < query.timestamp
        rule, time = rule[keep], time[keep]
        confidence = np.array([self.evidence.confidence(r) for r in rules] or [0.0])
        weight = confidence[rule]
        if query.timestamp is not None and around.timestamp is not None:
            weight = weight * self.evidence.fade(query.timestamp - time)
        hits = _Hits(around.other[keep], around.row[keep], time, weight, rule, np.zeros_like(rule))
        return hits.join(self._chains(query, rules, longer)) if longer else hits

    def _chains(self, query: Query, rules: list[Rule], longer: list[int]) -> _Hits:
        """The groundings of bodies with several atoms: one row for each of their facts."""
        entities = self._index.facts.entities
        rows = []
        for number in longer:
            rule = rules[number]
            for grounding in ground(rule, query.subject, self._index, query.timestamp):
                weight = self.evidence.weight(rule, query.timestamp, grounding.latest)
                time = grounding.latest if grounding.latest is not None else _UNDATED
                answer = entities.id(grounding.answer)
                for atom, row in enumerate(grounding.rows):
                    rows.append((answer, row, time, weight, number, atom))
        return _Hits.of(rows)

    def _plan(self, rules: list[Rule]) -> tuple[Longs, list[int]]:
        """The rule that each directed relation fires (-1: none), and the longer rules."""
        key = tuple(rule.id for rule in rules)
        if key not in self._plans:
            relations = self._index.facts.relations
            by_relation = np.full(2 * len(relations), -1, dtype=np.int64)
            longer = []
            for number, rule in enumerate(rules):
                atom = rule.body[0]
                plain = len(rule.body) == 1 and {atom.subject, atom.object} == {
                    rule.head.subject,
                    rule.head.object,
                }
                if not plain or rule.head.subject == rule.head.object:
                    longer.append(number)
                elif atom.relation in relations:
                    at = relations.id(atom.relation) + len(relations) * rule.is_inverse
                    by_relation[at] = number
            self._plans[key] = (by_relation, longer)
        return self._plans[key]

    def _rank(self, hits: _Hits, rules: list[Rule], top_k: int) -> list[ScoredDocument]:
        if not len(hits.row):
            return []
        if self.order == "recent":
            score = hits.time.astype(np.float64)
            order = np.lexsort((hits.row, -hits.weight, -hits.time))
        else:
            _, group = np.unique(hits.answer, return_inverse=True)
            joined = np.bincount(group, noisy_or_exponents(hits.weight))
            layer = _place_in_group(group, -hits.weight, -hits.time)
            score = -np.expm1(-joined)[group] - layer
            # Saturated noisy-ors are equal as numbers but not in evidence: order by the exponent.
            order = np.lexsort((hits.row, -hits.time, -joined[group], layer))
        rank_in_rule = _place_in_group(hits.rule, -hits.time, -hits.weight)
        return self._documents(hits, rules, order, score, rank_in_rule, top_k)

    def _documents(
        self,
        hits: _Hits,
        rules: list[Rule],
        order: Longs,
        score: Floats,
        rank_in_rule: Longs,
        top_k: int,
    ) -> list[ScoredDocument]:
        """The first ``top_k`` distinct documents of an order, each with all rules that found it."""
        owners = self._owner[hits.row]
        first: dict[int, int] = {}
        for i in order.tolist():
            first.setdefault(int(owners[i]), i)
            if len(first) == top_k:
                break
        found: dict[int, dict[tuple[int, int], RuleHit]] = {owner: {} for owner in first}
        for i in np.flatnonzero(np.isin(owners, list(first))).tolist():
            number, atom = int(hits.rule[i]), int(hits.atom[i])
            hit = RuleHit(rules[number].id, int(rank_in_rule[i]) + 1, float(hits.weight[i]), atom)
            mine = found[int(owners[i])]
            if (number, atom) not in mine or mine[number, atom].rank > hit.rank:
                mine[number, atom] = hit
        return [
            ScoredDocument(
                self.documents[owner],
                float(score[i]),
                rank,
                tuple(sorted(found[owner].values(), key=lambda h: (-h.score, h.rank))),
            )
            for rank, (owner, i) in enumerate(first.items(), start=1)
        ]


def _place_in_group(group: Longs, *keys: npt.NDArray[np.generic]) -> Longs:
    """The place (from 0) of each row inside its group, ordered by keys, then by position."""
    if not len(group):
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort((np.arange(len(group)), *reversed(keys), group))
    sorted_group = group[order]
    starts = np.flatnonzero(np.r_[True, sorted_group[1:] != sorted_group[:-1]])
    sizes = np.diff(np.r_[starts, len(group)])
    place = np.empty(len(group), dtype=np.int64)
    place[order] = np.arange(len(group)) - np.repeat(starts, sizes)
    return place

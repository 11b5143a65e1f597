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
from rulerag.kg.grounding import TableIndex
from rulerag.kg.grounding_table import RulePlans
from rulerag.protocols import RuleSelector
from rulerag.rules import Rule
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument

__all__ = ["SymbolicRetriever"]

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# The latest possible place in time, for undated facts: they neither age nor come first.
_UNDATED = 0


class _Hits(NamedTuple):
    """Groundings of one query as columns of shape (n,): one row is one fact of one grounding.

    Args:
        answer: entity ids.
        row: the fact's row.
        time: the latest time of the grounding.
        weight: the weight of the grounding.
        rule: which rule.
        atom: the body atom that the fact grounds.
        grounding: which grounding.
        lead: whether the fact names the answer; one row of each grounding does.
    """

    answer: Longs
    row: Longs
    time: Longs
    weight: Floats
    rule: Longs
    atom: Longs
    grounding: Longs
    lead: npt.NDArray[np.bool_]

    @classmethod
    def none(cls) -> _Hits:
        """No groundings."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, none, none.astype(np.float64), none, none, none, none > 0)

    def take(self, keep: npt.NDArray[np.bool_]) -> _Hits:
        """The rows where ``keep`` is true."""
        return _Hits._make(column[keep] for column in self)

    def join(self, other: _Hits) -> _Hits:
        """The rows of both; the groundings of the other are numbered on."""
        moved = other._replace(grounding=other.grounding + len(self.grounding))
        return _Hits._make(np.concatenate(pair) for pair in zip(self, moved, strict=True))

    def place(self, group: Longs, *keys: npt.NDArray[np.generic]) -> Longs:
        """The place of each row's grounding among those of its group, ordered by keys."""
        lead = np.flatnonzero(self.lead)
        place = np.zeros(int(self.grounding.max(initial=-1)) + 1, dtype=np.int64)
        among = _place_in_group(group[lead], *(key[lead] for key in keys))
        place[self.grounding[lead]] = among
        return place[self.grounding]


class SymbolicRetriever:
    """Finds the documents whose facts ground the guiding rules of a query.

    Every rule is executed from the query's subject, on facts from before the query's time. The
    groundings that bind the same answer are joined by noisy-or of their weights. Documents are
    ordered answer by answer: one document that names it for every answer first (answers by their
    joined weight, documents by weight, then most recent first), then the second ones, and so on, so
    that ``top_k`` documents speak of as many answers as they can. A chain of several facts names
    its answer at one end only: the first answers get the whole chain, the others its rest after
    every answer was named.

    Args:
        documents: the corpus; documents without facts are never found.
        selector: chooses the guiding rules.
        evidence: how groundings are weighted.
        order: ``evidence`` as described, or ``recent``: all groundings, most recent first.
        whole_chains: how many answers, the best first, get their best chain whole at once.
        progress: show a progress bar over queries.

    Raises:
        EmptyDataError: no document states a fact.
        ConfigError: an unknown order, or a negative number of chains.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        selector: RuleSelector,
        *,
        evidence: EvidenceModel | None = None,
        order: str = "evidence",
        whole_chains: int = 1,
        progress: bool = False,
    ) -> None:
        if order not in ("evidence", "recent"):
            raise ConfigError(f"unknown order {order!r}", key="order", hint="evidence or recent")
        if whole_chains < 0:
            raise ConfigError(f"{whole_chains} is negative", key="whole_chains", hint="say 1")
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
        self.whole_chains = whole_chains
        self.progress = progress
        self._owner = np.array(owner, dtype=np.int64)
        self._index = TableIndex(KnowledgeGraph.from_facts(facts, name="corpus").train)
        self._plans: dict[tuple[str, ...], _Plan] = {}

    @property
    def fingerprint(self) -> str:
        """Names the facts and every setting that changes results."""
        facts = self._index.facts
        settings = [self.order, self.whole_chains, self.evidence.settings()]
        return fingerprint_object(["symbolic", facts.fingerprint, *settings])

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
            keep = hits.take(hits.place(hits.rule, -hits.time) < top_k)
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
            return _Hits.none()
        plan = self._plan(rules)
        around = self._index.neighbours(facts.entities.id(query.subject))
        rule = plan.by_relation[around.relation]
        keep = rule >= 0
        time = around.timestamp
        if query.timestamp is not None and time is not None:
            keep &= time < query.timestamp
        rule = rule[keep]
        time, weight = self._weigh(query, plan, rule, None if time is None else time[keep])
        number = np.arange(len(rule))
        columns = around.other[keep], around.row[keep], time, weight, rule
        hits = _Hits(*columns, np.zeros_like(rule), number, np.ones(len(rule), dtype=np.bool_))
        return hits if plan.chains is None else hits.join(self._chains(query, plan, plan.chains))

    def _chains(self, query: Query, plan: _Plan, chains: RulePlans) -> _Hits:
        """The groundings of the longer bodies: one row for each of their facts."""
        found = chains.ground(query.subject, query.timestamp)
        rule = plan.longer[found.rule]
        time, weight = self._weigh(query, plan, rule, found.latest)
        number, atom = np.nonzero(found.rows >= 0)
        row = found.rows[number, atom]
        lead = plan.lead[found.rule][number] == atom
        time, weight, rule = time[number], weight[number], rule[number]
        return _Hits(found.answer[number], row, time, weight, rule, atom, number, lead)

    def _weigh(
        self, query: Query, plan: _Plan, rule: Longs, latest: Longs | None
    ) -> tuple[Longs, Floats]:
        """The time and the weight of groundings."""
        weight = plan.confidence[rule]
        if latest is None:
            return np.full(len(rule), _UNDATED, dtype=np.int64), weight
        if query.timestamp is not None:
            weight = weight * self.evidence.fade(query.timestamp - latest)
        return latest, weight

    def _plan(self, rules: list[Rule]) -> _Plan:
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
                variables = rule.head.subject.startswith("?") and rule.head.object.startswith("?")
                if not plain or not variables or rule.head.subject == rule.head.object:
                    longer.append(number)
                elif atom.relation in relations:
                    at = relations.id(atom.relation) + len(relations) * rule.is_inverse
                    by_relation[at] = number
            self._plans[key] = _Plan(
                by_relation,
                np.array([self.evidence.confidence(r) for r in rules] or [0.0]),
                np.array(longer, dtype=np.int64),
                np.array([_naming_atom(rules[n]) for n in longer], dtype=np.int64),
                RulePlans([rules[n] for n in longer], self._index) if longer else None,
            )
        return self._plans[key]

    def _rank(self, hits: _Hits, rules: list[Rule], top_k: int) -> list[ScoredDocument]:
        if not len(hits.row):
            return []
        if self.order == "recent":
            score = hits.time.astype(np.float64)
            order = np.lexsort((hits.row, -hits.weight, -hits.time))
        else:
            _, group = np.unique(hits.answer, return_inverse=True)
            lead = hits.lead
            joined = np.bincount(group[lead], noisy_or_exponents(hits.weight[lead]))
            best = np.empty(len(joined), dtype=np.int64)
            best[np.argsort(-joined, kind="stable")] = np.arange(len(joined))
            layer = 2 * hits.place(group, -hits.weight, -hits.time)
            whole = (layer == 0) & (best[group] < self.whole_chains)
            stage = layer + (~lead & ~whole)
            score = -np.expm1(-joined)[group] - stage
            # Saturated noisy-ors are equal as numbers but not in evidence: order by the exponent.
            order = np.lexsort((hits.atom, hits.row, -hits.time, -joined[group], stage))
        rank_in_rule = hits.place(hits.rule, -hits.time, -hits.weight)
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


class _Plan(NamedTuple):
    """Rules ready to be executed.

    Args:
        by_relation: int64 array of shape (2 R,), the rule that each directed relation around the
            subject fires; -1: none.
        confidence: float64 array of shape (rules,), smoothed and sharpened.
        longer: int64 array, the rules that need a join.
        lead: int64 array, the body atom that names the answer, for each of these.
        chains: these rules, ready for the join; None where there are none.
    """

    by_relation: Longs
    confidence: Floats
    longer: Longs
    lead: Longs
    chains: RulePlans | None


def _naming_atom(rule: Rule) -> int:
    """The last body atom with the head's object; the last of all where none has it."""
    places = [n for n, a in enumerate(rule.body) if rule.head.object in (a.subject, a.object)]
    return places[-1] if places else len(rule.body) - 1


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

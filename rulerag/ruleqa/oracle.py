"""Oracle documents: those that ground a guiding rule of a query for an acceptable answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from tqdm import tqdm

from rulerag.kg import FactTable, KnowledgeGraph, Verbalizer
from rulerag.kg.grounding import RulePlans, TableIndex
from rulerag.ruleqa.stored import Qrels
from rulerag.rules import Rule, RuleBank
from rulerag.types import Document, Query


class Oracle:
    """Finds oracle documents by entity and relation (RuleRAG, section 2), and by chains of them.

    Args:
        graph: names and labels.
        facts: the facts that the documents state.
        corpus: one document or more for each fact.
        rules: the rule bank.
        per_query: how many guiding rules of a query are executed, most supported first.
        progress: show progress bars.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        facts: FactTable,
        corpus: Sequence[Document],
        rules: RuleBank,
        per_query: int,
        *,
        progress: bool = False,
    ) -> None:
        self.progress = progress
        self.graph = graph
        self.facts = facts
        by_fact = {fact: document.id for document in corpus for fact in document.facts}
        self.document_of = [by_fact[fact] for fact in facts]
        self.index = TableIndex(facts)
        self.guides = {
            head: sorted(rules.for_head(head), key=lambda r: -(r.quality.support or 0))[:per_query]
            for head in rules.head_relations
        }
        self._plans: dict[str, RulePlans] = {}

    def qrels(self, queries: Iterable[Query], *, limit: int | None = None) -> Qrels:
        """Query id → document id → 1; queries without an oracle document are left out.

        Args:
            queries: in order.
            limit: documents of one query at most, the last ones of the corpus; all when None.
        """
        found = {}
        for query in tqdm(queries, desc="oracle documents", disable=not self.progress):
            rows = sorted(self._rows(query))
            if rows:
                kept = rows if limit is None else rows[-limit:]
                found[query.id] = {self.document_of[row]: 1 for row in kept}
        return found

    def degenerate(
        self, queries: Iterable[Query], words: Verbalizer, time: str
    ) -> tuple[list[Query], Qrels]:
        """Questions that need no rule, each made from a query and a rule that led to its answer.

        As in section A.1 of the paper: the question for a rule's head becomes the question for
        the atom of its body that ends in the answer, which a document states in so many words.
        The answers stay, and so does ``relation``, by which the guiding rules are found: "the only
        difference is the queries"; ``relation_label`` says what is asked now. Rules from one
        relation to another come before those that repeat a relation, the more supported first.
        Where the body is a chain, the question is asked of the entity before the answer.

        Args:
            queries: the original queries.
            words: puts the new ones into words.
            time: ``document`` or ``keep``, see ``RuleQASettings.degenerate_time``.

        Returns:
            The queries that have such a rule, under their own ids, and their documents.
        """
        made, qrels = [], {}
        for query in tqdm(queries, desc="degenerate queries", disable=not self.progress):
            found = self._direct(query)
            if found is None:
                continue
            subject, relation, rows = found
            timestamp = query.timestamp
            if timestamp is not None and time == "document":
                timestamp = max(self.facts.fact(row).timestamp or 0 for row in rows)
                rows = [row for row in rows if self.facts.fact(row).timestamp == timestamp]
            graph = words.graph
            question = replace(
                query,
                text=words.query(subject, relation, timestamp),
                subject=subject,
                timestamp=timestamp,
                subject_label=graph.entities.label(subject),
                relation_label=graph.relations.label(relation),
            )
            made.append(question)
            qrels[query.id] = {self.document_of[row]: 1 for row in rows}
        return made, qrels

    def _wanted(self, query: Query) -> list[int]:
        entities = self.graph.entities
        names = {entities.name_of_label(answer) for answer in query.answers}
        return [entities.id(name) for name in names]

    def _rows(self, query: Query) -> set[int]:
        rules = self.guides.get(query.relation, [])
        relations = self.graph.relations
        direct = [rule for rule in rules if len(rule.body) == 1]
        asked = [relations.id(r.body[0].relation) + len(relations) * r.is_inverse for r in direct]
        rows = set(self._linked(query, query.subject, asked))
        if len(direct) < len(rules):
            found = self._longer(query.relation).ground(query.subject, query.timestamp)
            grounded = found.rows[np.isin(found.answer, self._wanted(query))]
            rows |= set(grounded[grounded >= 0].tolist())
        return rows

    def _linked(self, query: Query, subject: str, directed: Sequence[int]) -> list[int]:
        """Rows that link a subject to an answer of the query by one of some directed relations."""
        pairs = np.meshgrid(np.array(directed, dtype=np.int64), self._wanted(query))
        relation, answer = (column.ravel() for column in pairs)
        anchor = np.full(len(relation), self.graph.entities.id(subject))
        _, _, rows, time = self.index.at(*self.index.spans(anchor, relation, answer))
        if time is not None and query.timestamp is not None:
            rows = rows[time < query.timestamp]
        return sorted(set(rows.tolist()))

    def _longer(self, relation: str) -> RulePlans:
        """The guiding rules of a relation with several body atoms, ready to be grounded."""
        if relation not in self._plans:
            longer = [rule for rule in self.guides[relation] if len(rule.body) > 1]
            self._plans[relation] = RulePlans(longer, self.index)
        return self._plans[relation]

    def _direct(self, query: Query) -> tuple[str, str, list[int]] | None:
        """Subject and relation of a question whose answer is in the rows."""
        guides = sorted(
            self.guides.get(query.relation, []),
            key=lambda r: any(atom.relation == query.relation for atom in r.body),
        )
        ids = self.graph.relations.id
        for rule in guides:
            if len(rule.body) == 1 and not rule.is_inverse:
                relation = rule.body[0].relation
                rows = self._linked(query, query.subject, [ids(relation)])
                if rows:
                    return query.subject, relation, rows
        return self._chained(query, [rule for rule in guides if len(rule.body) > 1])

    def _chained(self, query: Query, guides: Sequence[Rule]) -> tuple[str, str, list[int]] | None:
        """The same for the last step of a chain."""
        if not guides:
            return None
        longer = [rule for rule in self.guides[query.relation] if len(rule.body) > 1]
        found = self._longer(query.relation).ground(query.subject, query.timestamp)
        keep = np.flatnonzero(np.isin(found.answer, self._wanted(query)))
        for rule in guides:
            for grounding in keep[found.rule[keep] == longer.index(rule)].tolist():
                answer = self.graph.entities.names[int(found.answer[grounding])]
                for row in found.rows[grounding][found.rows[grounding] >= 0].tolist():
                    fact = self.facts.fact(row)
                    if fact.object == answer and fact.subject != query.subject:
                        relation = self.graph.relations.id(fact.relation)
                        rows = self._linked(query, fact.subject, [relation])
                        return fact.subject, fact.relation, rows
        return None

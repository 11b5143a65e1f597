"""Oracle documents: those that ground a guiding rule of a query for an acceptable answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from tqdm import tqdm

from rulerag.arrays import Longs
from rulerag.kg import FactTable, KnowledgeGraph, Verbalizer
from rulerag.kg.grounding import RulePlans, TableIndex
from rulerag.ruleqa.stored import Qrels
from rulerag.rules import RuleBank
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
            rows = np.unique(self._grounded(query)[2])
            rows = rows[rows >= 0][slice(None if limit is None else -limit, None)]
            if len(rows):
                found[query.id] = {self.document_of[row]: 1 for row in rows.tolist()}
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

    def _grounded(self, query: Query) -> tuple[Longs, Longs, Longs]:
        """The groundings of guiding rules for an answer: the rule, the answer, a row for each atom.

        int64 arrays of shapes (n,), (n,) and (n, atoms); -1 fills the rows of shorter rules.
        """
        relation = query.relation
        if relation not in self._plans:
            self._plans[relation] = RulePlans(self.guides.get(relation, []), self.index)
        found = self._plans[relation].ground(query.subject, query.timestamp)
        keep = np.isin(found.answer, self._wanted(query))
        return found.rule[keep], found.answer[keep], found.rows[keep]

    def _linked(self, query: Query, subject: str, relation: int) -> list[int]:
        """Rows that link a subject to an answer of the query by a directed relation."""
        answer = np.array(self._wanted(query), dtype=np.int64)
        anchor = np.full(len(answer), self.graph.entities.id(subject))
        spans = self.index.spans(anchor, np.full(len(answer), relation), answer)
        _, _, rows, time = self.index.at(*spans)
        if time is not None and query.timestamp is not None:
            rows = rows[time < query.timestamp]
        return sorted(set(rows.tolist()))

    def _direct(self, query: Query) -> tuple[str, str, list[int]] | None:
        """Subject and relation of a question whose answer is in the rows."""
        rules, answers, table = self._grounded(query)
        guides = self.guides.get(query.relation, [])

        def rank(number: int) -> tuple[int, bool]:
            body = guides[number].body
            return len(body) > 1, any(atom.relation == query.relation for atom in body)

        for number in sorted(range(len(guides)), key=rank):
            chain = len(guides[number].body) > 1
            for place in np.flatnonzero(rules == number).tolist():
                answer = self.graph.entities.names[int(answers[place])]
                for row in table[place][table[place] >= 0].tolist():
                    fact = self.facts.fact(row)
                    if fact.object == answer and (fact.subject == query.subject) != chain:
                        relation = self.graph.relations.id(fact.relation)
                        rows = self._linked(query, fact.subject, relation)
                        return fact.subject, fact.relation, rows
        return None

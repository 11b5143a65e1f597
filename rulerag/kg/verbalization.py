"""Facts and queries in words, and the corpus of a table of facts.

The forms are RuleRAG's (arXiv:2410.22353, section 2 and Table 8): a fact reads
``Time 2014-06-23 China Make statement Iran.``, a query ``Time 2014-12-01 what does China Make
statement ?``; without a time both start with the subject's words.
"""

from __future__ import annotations

from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.types import Document, Fact


def fact_text(subject: str, relation: str, object_: str, time: str = "") -> str:
    """The sentence of a fact, from labels and a written time."""
    text = f"{subject} {relation} {object_}."
    return f"Time {time} {text}" if time else text


def query_text(subject: str, relation: str, time: str = "") -> str:
    """The question for the object of a subject and a relation, from labels and a written time."""
    text = f"what does {subject} {relation} ?"
    return f"Time {time} {text}" if time else text


class Verbalizer:
    """Puts a graph's facts and queries into words.

    Args:
        graph: a knowledge graph, or a table of facts.
    """

    def __init__(self, graph: KnowledgeGraph | FactTable) -> None:
        self.graph = graph

    def fact(self, fact: Fact) -> str:
        """The sentence of a fact; names that the graph lacks are written as they are."""
        entity, relation = self.graph.entities.label, self.graph.relations.label
        time = self._time(fact.timestamp)
        return fact_text(entity(fact.subject), relation(fact.relation), entity(fact.object), time)

    def query(self, subject: str, relation: str, timestamp: int | None = None) -> str:
        """The question for the object of a subject and a relation, by raw names."""
        entity, relation_ = self.graph.entities.label(subject), self.graph.relations.label(relation)
        return query_text(entity, relation_, self._time(timestamp))

    def corpus(self, table: FactTable) -> list[Document]:
        """One document for each fact of a table, in table order.

        Ids count from ``d000001``, so the same table always gives the same ids. ``facts`` of a
        document hold the raw names.

        Args:
            table: the facts; over the same vocabularies as the graph.
        """
        entities, relations = (
            [labels.label(name) for name in names]
            for labels, names in (
                (self.graph.entities, table.entities.names),
                (self.graph.relations, table.relations.names),
            )
        )
        stamps = set() if table.timestamp is None else set(table.timestamp.tolist())
        times: dict[int | None, str] = {time: self._time(time) for time in (None, *stamps)}
        columns = (table.subject.tolist(), table.relation.tolist(), table.object.tolist())
        rows = enumerate(zip(table, *columns, strict=True), start=1)
        return [
            Document(
                f"d{n:06d}", fact_text(entities[s], relations[r], entities[o], times[f[3]]), (f,)
            )
            for n, (f, s, r, o) in rows
        ]

    def _time(self, timestamp: int | None) -> str:
        return "" if timestamp is None else self.graph.calendar.format(timestamp)

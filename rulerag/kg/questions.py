"""Questions over a graph: queries made from facts, and the query behind a typed question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rulerag.dataset import RuleQADataset
from rulerag.errors import DataFormatError, UnknownNameError, did_you_mean
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.kg.verbalization import Verbalizer
from rulerag.types import Query

__all__ = ["graph_labels", "parse_question", "queries_from_facts"]

_TIME = re.compile(r"^\s*Time\s+(\S+)\s+", re.IGNORECASE)
_ASK = re.compile(r"^\s*(?:what|who|whom|where|which)\s+(?:does|do|did|is|was)?\s*", re.IGNORECASE)


def queries_from_facts(facts: FactTable, words: Verbalizer, prefix: str) -> list[Query]:
    """One query for every asked (subject, relation, time), with all its objects as answers.

    Args:
        facts: the facts to ask about; queries follow the order of first appearance.
        words: puts the query into words.
        prefix: of the query ids, ``prefix-000001`` and so on.
    """
    asked: dict[tuple[str, str, int | None], list[str]] = {}
    for fact in facts:
        objects = asked.setdefault((fact.subject, fact.relation, fact.timestamp), [])
        if fact.object not in objects:
            objects.append(fact.object)
    return [
        Query(
            id=f"{prefix}-{number:06d}",
            text=words.query(subject, relation, time),
            subject=subject,
            relation=relation,
            timestamp=time,
            answers=tuple(facts.entities.label(name) for name in objects),
        )
        for number, ((subject, relation, time), objects) in enumerate(asked.items(), start=1)
    ]


def graph_labels(graph: KnowledgeGraph) -> dict[str, dict[str, str]]:
    """The labels that differ from their names, as a dataset keeps them."""
    return {
        kind: {
            name: label
            for name, label in zip(vocabulary.names, vocabulary.labels, strict=True)
            if name != label
        }
        for kind, vocabulary in (("entities", graph.entities), ("relations", graph.relations))
    }


def parse_question(text: str, dataset: RuleQADataset) -> Query:
    """The query behind a question such as ``Time 2014-12-01 what does China Consult ?``.

    The words after ``what does`` must be an entity and a relation of the dataset, by label or
    raw name; ``Time …`` may be left out, then the question is asked after the last document.

    Raises:
        DataFormatError: the date is none of this dataset.
        UnknownNameError: no entity and relation of the dataset make up the question; suggests
            close names.
    """
    calendar = Calendar(**dataset.calendar) if dataset.calendar else None
    rest, timestamp = text.strip().rstrip("?. "), None
    stated = _TIME.match(rest)
    if stated:
        if calendar is None:
            raise DataFormatError("the question has a date, the dataset has none", key="Time")
        timestamp, rest = calendar.parse(stated.group(1)), rest[stated.end() :]
    elif calendar is not None:
        times = (document.timestamp for document in dataset.corpus)
        timestamp = max(t for t in times if t is not None) + calendar.step
    rest = _ASK.sub("", rest, count=1).strip()
    entities, relations = _names(dataset)
    found = _split(rest, entities, relations)
    if found is None:
        raise UnknownNameError(
            f"no entity and relation of {dataset.name!r} make up {rest!r}",
            hint=f"ask 'what does SUBJECT RELATION ?'; {_closest(rest, entities, relations)}",
        )
    subject, relation = found
    return Query("question", text.strip(), subject, relation, timestamp)


def _split(
    words: str, entities: Mapping[str, str], relations: Mapping[str, str]
) -> tuple[str, str] | None:
    """The longest entity at the start whose remaining words are a relation."""
    parts = words.split()
    for cut in range(len(parts) - 1, 0, -1):
        subject = entities.get(" ".join(parts[:cut]).casefold())
        relation = relations.get(" ".join(parts[cut:]).casefold())
        if subject is not None and relation is not None:
            return subject, relation
    return None


def _closest(words: str, entities: Mapping[str, str], relations: Mapping[str, str]) -> str:
    """Say which half of the question is known, and suggest names for the other."""
    parts = words.split()
    for cut in range(len(parts) - 1, 0, -1):
        if " ".join(parts[:cut]).casefold() in entities:
            rest = " ".join(parts[cut:]).casefold()
            return f"no relation is called {rest!r}, {did_you_mean(rest, relations)}"
    for cut in range(1, len(parts)):
        if " ".join(parts[cut:]).casefold() in relations:
            start = " ".join(parts[:cut]).casefold()
            return f"no entity is called {start!r}, {did_you_mean(start, entities)}"
    return f"relations: {did_you_mean(words.casefold(), relations)}"


def _names(dataset: RuleQADataset) -> tuple[dict[str, str], dict[str, str]]:
    """Raw names of entities and relations by casefolded label and by casefolded raw name."""
    ends = {end for d in dataset.corpus for f in d.facts for end in (f.subject, f.object)}
    used = {fact.relation for document in dataset.corpus for fact in document.facts}
    used |= set(dataset.rules.head_relations)
    used |= {query.relation for rows in dataset.queries.values() for query in rows}
    return _by_word(ends, dataset.labels["entities"]), _by_word(used, dataset.labels["relations"])


def _by_word(names: set[str], labels: Mapping[str, str]) -> dict[str, str]:
    words: dict[str, str] = {}
    for name in sorted(names):
        for word in _forms(name, labels):
            words.setdefault(" ".join(word.split()).casefold(), name)
    return words


def _forms(name: str, labels: Mapping[str, str]) -> Sequence[str]:
    return (labels.get(name, name), name)

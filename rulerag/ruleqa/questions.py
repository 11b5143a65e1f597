"""Questions over a graph: queries made from facts, and the query behind a typed question."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from rulerag.cache import remembered
from rulerag.errors import DataFormatError, UnknownNameError, did_you_mean
from rulerag.io import StoredRecords
from rulerag.kg import Calendar, FactTable, KnowledgeGraph, Verbalizer, query_text
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.types import Document, Query, entities_of

_Known = tuple[str, str]  # a raw name and its label

_TIME = re.compile(r"^\s*Time\s+(\d+-\d+-\d+ \d+:\d+|\S+)(?:\s+|$)", re.IGNORECASE)
_ASK = re.compile(r"^\s*(?:what|who|whom|where|which)\s+(?:does|do|did|is|was)?\s*", re.IGNORECASE)


def queries_from_facts(
    facts: FactTable, words: Verbalizer, prefix: str, known: FactTable | None = None
) -> list[Query]:
    """One query for every (subject, relation, time), with all its objects as answers.

    The facts are taken as held out: their queries are predictions, known answers do not count. With
    ``known`` they are none, and what is known are further answers, behind the others.

    Args:
        facts: the facts to ask about; queries follow the order of first appearance.
        words: puts the query into words.
        prefix: of the query ids, ``prefix-000001`` and so on.
        known: facts that may have further answers.
    """
    asked: dict[tuple[str, str, int | None], list[str]] = {}
    for fact in facts:
        objects = asked.setdefault((fact.subject, fact.relation, fact.timestamp), [])
        if fact.object not in objects:
            objects.append(fact.object)
    for fact in known or ():
        objects = asked.get((fact.subject, fact.relation, fact.timestamp), [])
        if objects and fact.object not in objects:
            objects.append(fact.object)
    return [
        Query(
            id=f"{prefix}-{number:06d}",
            text=words.query(subject, relation, time),
            subject=subject,
            relation=relation,
            timestamp=time,
            answers=tuple(facts.entities.label(name) for name in objects),
            subject_label=words.graph.entities.label(subject),
            relation_label=words.graph.relations.label(relation),
            prediction=known is None,
        )
        for number, ((subject, relation, time), objects) in enumerate(asked.items(), start=1)
    ]


def graph_labels(graph: KnowledgeGraph) -> dict[str, dict[str, Any]]:
    """The labels that differ from their names, and aliases, as a dataset keeps them."""
    labels: dict[str, dict[str, Any]] = {
        kind: {
            name: label
            for name, label in zip(vocabulary.names, vocabulary.labels, strict=True)
            if name != label
        }
        for kind, vocabulary in (("entities", graph.entities), ("relations", graph.relations))
    }
    return {**labels, "aliases": dict(graph.entities.aliases)} if graph.entities.aliases else labels


def parse_question(text: str, dataset: RuleQADataset) -> Query:
    """The query behind a question such as ``Time 2014-12-01 what does China Consult ?``.

    The words after ``what does`` must be an entity and a relation of the dataset, by label or
    raw name, in any case; where they could be split in two ways, the longer entity counts.
    ``Time …`` may be left out, then the question is about the time after the last document. The
    query's text is the question in the words of the dataset's own queries, and it is a prediction
    where they are.

    Raises:
        DataFormatError: the date is none of this dataset.
        UnknownNameError: no entity and relation of the dataset make up the question; suggests
            close names.
    """
    parser = QuestionParser(dataset)
    query, rest = parser.read(text)
    if query is None:
        entities, relations = parser.names
        raise UnknownNameError(
            f"no entity and relation of {dataset.name!r} make up {rest!r}",
            hint=f"ask 'what does SUBJECT RELATION ?'; {_closest(rest, entities, relations)}",
        )
    return query


class QuestionParser:
    """:func:`parse_question` for many questions of one dataset.

    Args:
        dataset: what the questions are about.
    """

    def __init__(self, dataset: RuleQADataset) -> None:
        self.dataset = dataset
        self.names = _names(dataset)
        self._calendar = Calendar(**dataset.calendar) if dataset.calendar else None

    @cached_property
    def now(self) -> int | None:
        """The time after the last document, which an undated question is about; read once."""
        if self._calendar is None:
            return None
        return _latest(self.dataset.corpus) + self._calendar.step

    def parse(self, text: str) -> Query | None:
        """The query behind a question; None where it is not in the dataset's own form.

        Raises:
            DataFormatError: the date is none of this dataset.
        """
        return self.read(text)[0]

    def read(self, text: str) -> tuple[Query | None, str]:
        """The query, and the words of the question that name entity and relation.

        Raises:
            DataFormatError: the date is none of this dataset.
        """
        calendar, rest, timestamp = self._calendar, text.strip().rstrip("?. "), None
        stated = _TIME.match(rest)
        if stated:
            if calendar is None:
                raise DataFormatError(
                    "the question has a date, the dataset has none", key="Time", hint="leave it out"
                )
            timestamp, rest = calendar.parse(stated.group(1)), rest[stated.end() :]
        rest = _ASK.sub("", rest, count=1).strip()
        parts = _split(rest, *self.names)
        if parts is None:
            return None, rest
        if not stated:
            timestamp = self.now
        (subject, subject_label), (relation, relation_label) = parts
        time = calendar.format(timestamp) if calendar and timestamp is not None else ""
        query = Query(
            "question",
            query_text(subject_label, relation_label, time),
            subject,
            relation,
            timestamp,
            subject_label=subject_label,
            relation_label=relation_label,
            prediction=self.dataset.prediction,
        )
        return query, rest


def _split(
    words: str, entities: Mapping[str, _Known], relations: Mapping[str, _Known]
) -> tuple[_Known, _Known] | None:
    """The longest entity at the start whose remaining words are a relation."""
    cuts = _cuts(words)
    known = ((entities[s], relations[r]) for s, r in cuts if s in entities and r in relations)
    return next(known, None)


def _cuts(words: str) -> Iterator[tuple[str, str]]:
    """Every way to cut the words in two, the longest start first, as they are looked up."""
    parts = words.casefold().split()
    for cut in range(len(parts) - 1, 0, -1):
        yield " ".join(parts[:cut]), " ".join(parts[cut:])


def _closest(words: str, entities: Mapping[str, _Known], relations: Mapping[str, _Known]) -> str:
    """Say which half of the question is known, and suggest names for the other."""
    for start, end in _cuts(words):
        if start in entities:
            return f"no relation is called {end!r}, {_suggest(end, relations)}"
    for start, end in reversed(list(_cuts(words))):
        if end in relations:
            return f"no entity is called {start!r}, {_suggest(start, entities)}"
    return f"it ends in no relation, {_suggest(words, relations)}"


def _suggest(words: str, known: Mapping[str, _Known]) -> str:
    """The labels that come closest in any case; some of all labels where none does."""
    labels = {label.casefold(): label for _, label in known.values()}
    close = get_close_matches(words, labels)
    if not close:
        return did_you_mean("", labels.values())
    return "did you mean " + " or ".join(repr(labels[name]) for name in close) + "?"


def known_names(dataset: RuleQADataset) -> tuple[set[str], set[str]]:
    """The raw names of every entity and every relation that a dataset knows."""
    if not isinstance(dataset.corpus, StoredRecords):
        return _names_in(dataset, dataset.corpus)
    key = ["names", dataset.corpus.fingerprint, dataset.fingerprint]
    ends, used = remembered(
        "datasets", key, lambda: [sorted(names) for names in _names_in(dataset, dataset.corpus)]
    )
    return set(ends), set(used)


def _names(dataset: RuleQADataset) -> tuple[dict[str, _Known], dict[str, _Known]]:
    """Entities and relations by casefolded label and by casefolded raw name."""
    entities, relations = known_names(dataset)
    return (
        _by_words(entities, dataset.labels["entities"]),
        _by_words(relations, dataset.labels["relations"]),
    )


def _names_in(dataset: RuleQADataset, corpus: Iterable[Document]) -> tuple[set[str], set[str]]:
    """The entities and the relations that documents, queries and rules speak of."""
    ends: set[str] = set()
    used = set(dataset.rules.head_relations)
    for document in corpus:
        ends.update(entities_of(document))
        used.update(fact.relation for fact in document.facts)
    for query in itertools.chain.from_iterable(dataset.queries.values()):
        ends.add(query.subject)
        used.add(query.relation)
    return ends - {""}, used - {""}  # a question in one's own words names neither


def _latest(corpus: Sequence[Document]) -> int:
    """The latest time that a document speaks of; 0 where none speaks of any."""
    if isinstance(corpus, StoredRecords):
        key = ["latest", corpus.fingerprint]
        return int(remembered("datasets", key, lambda: _latest(list(corpus))))
    times = (document.timestamp for document in corpus)
    return max((time for time in times if time is not None), default=0)


def _by_words(names: set[str], labels: Mapping[str, str]) -> dict[str, _Known]:
    words: dict[str, _Known] = {}
    known = [(name, labels.get(name, name)) for name in sorted(names)]
    # Labels first: a raw name must not hide what the dataset's texts call something else.
    for column in (1, 0):
        for pair in known:
            words.setdefault(" ".join(pair[column].split()).casefold(), pair)
    return words

"""Facts, queries and rules in words, and the corpus of a table of facts.

The forms are RuleRAG's (arXiv:2410.22353, section 2 and Table 8): a fact reads
``Time 2014-06-23 China Make statement Iran.``, a query ``Time 2014-12-01 what does China Make
statement ?``; without a time both start with the subject's words. A relation may have words of its
own (:class:`Template`).
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import FactTable, Vocabulary
from rulerag.rules import Rule, rule_text
from rulerag.types import Document, Fact

__all__ = ["Template", "Verbalizer", "corpus", "fact_text", "query_text"]

_FIELDS = ("subject", "relation", "object", "time")
_FACT, _QUERY = "{subject} {relation} {object}.", "what does {subject} {relation} ?"


class Named(Protocol):
    """What verbalization needs of a graph; a table of facts has it too."""

    @property
    def entities(self) -> Vocabulary:
        """Names and labels of entities."""
        ...

    @property
    def relations(self) -> Vocabulary:
        """Names and labels of relations."""
        ...

    @property
    def calendar(self) -> Calendar:
        """How timestamps read."""
        ...


@dataclass(frozen=True, slots=True)
class Template:
    """The words of one relation.

    Fields are ``{subject}``, ``{relation}``, ``{object}`` and ``{time}``. A dated text starts with
    ``Time {time}`` unless its template says ``{time}`` itself.

    Args:
        fact: for facts.
        query: for queries, which know no ``{object}``.
    """

    fact: str = _FACT
    query: str = _QUERY

    def __post_init__(self) -> None:
        _check(self.fact, _FIELDS, "fact", needed=("subject", "object"))
        _check(self.query, ("subject", "relation", "time"), "query", needed=("subject",))


class Verbalizer:
    """Puts a graph's facts, queries and rules into words.

    Args:
        graph: a knowledge graph, or a table of facts.
        templates: by raw relation name, its words; a text alone is a template for facts.

    Raises:
        UnknownNameError: a template for a relation that the graph lacks.
        ConfigError: a template with an unknown or a missing field.
    """

    def __init__(self, graph: Named, templates: Mapping[str, Template | str] | None = None) -> None:
        self.graph = graph
        self.templates: dict[str, Template] = {}
        for relation, words in (templates or {}).items():
            if relation not in graph.relations:
                raise UnknownNameError(
                    f"a template for the relation {relation!r}, which the graph lacks",
                    hint=did_you_mean(relation, graph.relations.names),
                )
            self.templates[relation] = Template(words) if isinstance(words, str) else words

    def fact(self, fact: Fact) -> str:
        """The sentence of a fact; names that the graph lacks are written as they are."""
        entities = self.graph.entities
        template = self.templates.get(fact.relation)
        subject, object_ = entities.label(fact.subject), entities.label(fact.object)
        relation, time = self.graph.relations.label(fact.relation), self._time(fact.timestamp)
        if template is None:
            return f"{_prefix(time)}{subject} {relation} {object_}."
        values = {"subject": subject, "relation": relation, "object": object_}
        return _fill(template.fact, values, time)

    def query(self, subject: str, relation: str, timestamp: int | None = None) -> str:
        """The question for the object of a subject and a relation, by raw names."""
        template = self.templates.get(relation, Template())
        values = {
            "subject": self.graph.entities.label(subject),
            "relation": self.graph.relations.label(relation),
        }
        return _fill(template.query, values, self._time(timestamp))

    def rule(self, rule: Rule) -> str:
        """The rule in words, with readable relations (see :func:`rulerag.rules.rule_text`)."""
        return rule_text(rule, self.graph.relations.label)

    def corpus(self, table: FactTable, *, first: int = 1) -> list[Document]:
        """One document for each fact of a table, in table order.

        Ids count from ``d000001``, so the same table always gives the same ids. ``facts`` of a
        document hold the raw names.

        Args:
            table: the facts; over the same vocabularies as the graph.
            first: the number of the first document, for a corpus of several tables.
        """
        write = [self._writer(relation) for relation in table.relations.names]
        labels = [self.graph.entities.label(name) for name in table.entities.names]
        times = self._times(table)
        objects = table.object.tolist()
        columns = zip(table, table.subject.tolist(), table.relation.tolist(), objects, strict=True)
        return [
            Document(f"d{n:06d}", write[r](labels[s], labels[o], times[fact[3]]), (fact,))
            for n, (fact, s, r, o) in enumerate(columns, start=first)
        ]

    def _times(self, table: FactTable) -> dict[int | None, str]:
        """The written time of every timestamp; dates are far fewer than facts."""
        times: dict[int | None, str] = {None: ""}
        if table.timestamp is not None:
            times.update({t: self._time(t) for t in sorted(set(table.timestamp.tolist()))})
        return times

    def _writer(self, relation: str) -> Callable[[str, str, str], str]:
        """A function from subject, object and time to the sentence of one relation."""
        label = self.graph.relations.label(relation)
        template = self.templates.get(relation)
        if template is None:
            middle = f" {label} "
            return lambda s, o, time: f"Time {time} {s}{middle}{o}." if time else f"{s}{middle}{o}."
        words = template.fact
        return lambda s, o, time: _fill(words, {"subject": s, "relation": label, "object": o}, time)

    def _time(self, timestamp: int | None) -> str:
        return "" if timestamp is None else self.graph.calendar.format(timestamp)


def fact_text(fact: Fact, graph: Named) -> str:
    """The sentence of a fact, ``Time {time} {subject} {relation} {object}.`` in full."""
    return Verbalizer(graph).fact(fact)


def query_text(subject: str, relation: str, timestamp: int | None, graph: Named) -> str:
    """The question for an object, ``Time {time} what does {subject} {relation} ?`` in full."""
    return Verbalizer(graph).query(subject, relation, timestamp)


def corpus(table: FactTable, graph: Named | None = None) -> list[Document]:
    """One document for each fact of a table; see :meth:`Verbalizer.corpus`."""
    return Verbalizer(table if graph is None else graph).corpus(table)


def _prefix(time: str) -> str:
    return f"Time {time} " if time else ""


def _fill(template: str, values: Mapping[str, str], time: str) -> str:
    if "{time}" in template:
        return template.format(**values, time=time)
    return _prefix(time) + template.format(**values)


def _check(template: str, known: tuple[str, ...], kind: str, *, needed: tuple[str, ...]) -> None:
    """Refuse a template that would fail, or hide an end of the fact, when it is filled."""
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(f"{template!r} is no template ({error})", key=kind) from None
    fields = [name for _, name, _, _ in pieces if name is not None]
    plain = all(not spec and not conversion for _, _, spec, conversion in pieces)
    unknown = next((name for name in fields if name not in known), None)
    if unknown is not None or not plain:
        raise ConfigError(
            f"{template!r} holds a field that is not known here: {unknown!r}",
            key=kind,
            hint="fields are " + ", ".join(f"{{{name}}}" for name in known),
        )
    missing = [name for name in needed if name not in fields]
    if missing:
        raise ConfigError(f"{template!r} lacks the field {{{missing[0]}}}", key=kind)

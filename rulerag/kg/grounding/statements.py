"""What documents state of a question as it is asked, and what rules say beside it.

A document that states the asked relation of the asked subject answers the question; a rule can only
suggest an answer. So what is stated comes first, in retrieval and in reading, and a rule supports
it, contradicts it, or adds to it. Questions for what no document can state, those of forecasting
and completion benchmarks, say so (:attr:`rulerag.Query.prediction`) and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from rulerag.kg.corpus import stated_facts
from rulerag.kg.grounding.bindings import FactIndex
from rulerag.text import exact_match
from rulerag.types import Document, Groundings, Query

# The least share of a relation's other subjects with one object at a time, for two to contradict.
_FUNCTIONAL = 0.95
# Answers of rules, and stated ones, that are written out; the record holds all of them.
_RULES_SHOWN, _ANSWERS_SHOWN = 3, 6


class Statement(NamedTuple):
    """One answer that a document states.

    Args:
        object: the answer, a raw name.
        timestamp: the time that it is stated for; None for an undated fact.
        row: the document's place among those given.
    """

    object: str
    timestamp: int | None
    row: int


class Statements:
    """What documents state of every subject and relation.

    Of a question for the subject of a relation (``^relation``) they state who has the asked one as
    its object.

    Args:
        documents: the corpus, or the documents that a reader sees; those without facts state
            nothing that is known.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self._single: dict[str, tuple[int, int]] = {}

    @cached_property
    def index(self) -> FactIndex:
        """The facts, with the places of their documents; made when first asked for."""
        return FactIndex(stated_facts(self.documents))

    def _all_of(self, known: str, relation: str) -> list[Statement]:
        """What is stated of the known end of a relation."""
        if relation.startswith("^"):
            rows = self.index.match(relation[1:], None, known)
            return [Statement(row.subject, row.timestamp, row.row) for row in rows]
        rows = self.index.match(relation, known, None)
        return [Statement(row.object, row.timestamp, row.row) for row in rows]

    def of(self, query: Query) -> list[Statement]:
        """What is stated of the question: of its own time, or else of the latest before it.

        Undated facts hold at any time; an undated question asks for the latest of dated ones.
        Nothing is stated of a prediction. In the order of the documents.
        """
        if query.prediction:
            return []
        now, stated = query.timestamp, self._all_of(query.subject, query.relation)
        times = [s.timestamp for s in stated if s.timestamp is not None]
        latest = max((t for t in times if now is None or t <= now), default=None)
        return [s for s in stated if s.timestamp is None or s.timestamp == latest]

    def before(self, query: Query) -> frozenset[str]:
        """Every answer that is stated before the query's time, however long ago."""
        now, stated = query.timestamp, self._all_of(query.subject, query.relation)
        return frozenset(
            s.object for s in stated if now is None or s.timestamp is None or s.timestamp < now
        )

    def is_functional(self, query: Query) -> bool:
        """Whether the asked relation gives one object to a subject, so that two contradict.

        It does where at least 95 % of the other subjects have one object (at one time, where facts
        are dated) and there is another subject, or where the subject itself is all there is and has
        one. The asked subject is left out where it has several: they are the case to be judged.
        """
        relation = query.relation
        if relation not in self._single:
            inverse, name = relation.startswith("^"), relation.removeprefix("^")
            known = self.index.objects(name) if inverse else self.index.subjects(name)
            groups = [group for end in known for group in self._groups(end, relation)]
            self._single[relation] = sum(len(g) == 1 for g in groups), len(groups)
        single, total = self._single[relation]
        total -= sum(len(group) > 1 for group in self._groups(query.subject, relation))
        return total > 0 and single >= _FUNCTIONAL * total

    def _groups(self, known: str, relation: str) -> Iterable[set[str]]:
        """The objects of one subject and relation, by time."""
        groups: dict[int | None, set[str]] = {}
        for stated in self._all_of(known, relation):
            groups.setdefault(stated.timestamp, set()).add(stated.object)
        return groups.values()


def compare(
    answer: str,
    groundings: Groundings,
    corpus: Statements,
    labels: Mapping[str, str] | None = None,
    values: Sequence[str] = (),
) -> dict[str, Any]:
    """What documents state of a question beside what rules conclude from the documents in hand.

    Args:
        answer: what was answered.
        groundings: of the guiding rules on the documents that the answer was read from.
        corpus: what the whole corpus states.
        labels: readable names of entities.
        values: the parts of an answer that lists several.

    Returns:
        A JSON-like record, empty where there is nothing to tell: ``answers`` (each stated answer
        with the ``documents`` in hand that state it, those of the corpus where none in hand does,
        and its ``time``), ``rules`` (each ``answer`` that rules lead to, the most trusted first,
        with the ``rules``, their best ``confidence``, the ``documents`` and the ``verdict``:
        ``supports``, ``contradicts``, or ``adds``, also where nothing is stated), ``functional``
        (whether two answers contradict each other), ``conflict`` (whether any do) and ``answered``
        (whether the answer is a stated one, None where nothing is stated).
    """
    query, labels = groundings.query, labels or {}
    if query.prediction or not query.relation:
        return {}
    stated, functional = corpus.of(query), corpus.is_functional(query)
    in_hand = {document.id for document in groundings.documents}
    answers: dict[str, dict[str, Any]] = {}
    for name, time, row in stated:
        fresh: dict[str, Any] = {"answer": labels.get(name, name), "documents": [], "time": time}
        answers.setdefault(name, fresh)["documents"].append(corpus.documents[row].id)
    for entry in answers.values():
        entry["documents"] = [i for i in entry["documents"] if i in in_hand] or entry["documents"]
    concluded = _conclusions(groundings)
    for name, entry in concluded.items():
        entry["answer"] = labels.get(name, name)
        # What was last stated long ago is not contradicted by what may hold by now.
        now = query.timestamp
        current = any(time is None or now in (None, time) for _, time, _ in stated)
        apart = "contradicts" if functional and current else "adds"
        entry["verdict"] = "supports" if name in answers else apart
    if not answers and not concluded:
        return {}
    names = [entry["answer"] for entry in answers.values()]
    return {
        "answers": list(answers.values()),
        "rules": sorted(concluded.values(), key=lambda entry: -entry["confidence"]),
        "functional": functional,
        "conflict": (functional and len(answers) > 1)
        or any(entry["verdict"] == "contradicts" for entry in concluded.values()),
        "answered": bool(exact_match(answer, names, values)) if names else None,
    }


def _conclusions(groundings: Groundings) -> dict[str, dict[str, Any]]:
    """By answer, the rules that lead to it on the facts of the documents."""
    found: dict[str, dict[str, Any]] = {}
    for rule, answer, places, _ in groundings.found:
        if rule.restates_head:
            continue
        fresh: dict[str, Any] = {
            "answer": answer,
            "verdict": "",
            "rules": {},
            "confidence": 0.0,
            "documents": {},
        }
        entry = found.setdefault(answer, fresh)
        entry["rules"][rule.id] = None
        entry["confidence"] = max(entry["confidence"], rule.ranking_confidence)
        identifiers = (groundings.documents[place].id for place in places)
        entry["documents"].update(dict.fromkeys(identifiers))
    for entry in found.values():
        entry["rules"], entry["documents"] = list(entry["rules"]), list(entry["documents"])
    return found


def statement_lines(
    stated: Mapping[str, Any],
    query: Query,
    answer: str,
    documents: Mapping[str, str],
    rules: Mapping[str, str],
) -> list[str]:
    """The record of :func:`compare` in words, one line a statement.

    Args:
        stated: the record.
        query: the question.
        answer: what was answered.
        documents: what documents are called, by id (``D1``); the others go by their ids.
        rules: what rules are called, by id (``R1``).
    """
    if not stated:
        return []
    lines = []
    for entry in stated["answers"][:_ANSWERS_SHOWN]:
        now, time = query.timestamp, entry["time"]
        when = "last stated" if now is not None and time is not None and time < now else "stated"
        where = ", ".join(documents.get(name, name) for name in entry["documents"])
        lines.append(f"{entry['answer']} is {when} in {where}")
    if len(stated["answers"]) > _ANSWERS_SHOWN:
        lines.append(f"{len(stated['answers']) - _ANSWERS_SHOWN} more are stated")
    if not lines:
        lines.append("no document states an answer")
    if stated["functional"] and len(stated["answers"]) > 1:
        lines.append("these statements contradict each other: other subjects have one answer")
    if stated["answered"] is False and answer:
        lines.append(f"the answer {answer} is not what is stated")
    for entry in stated["rules"][:_RULES_SHOWN]:
        names = [rules.get(name, name) for name in entry["rules"]]
        where = ", ".join(documents.get(name, name) for name in entry["documents"])
        lines.append(f"{_verdict(entry, names, bool(stated['answers']))} (by {where})")
    more = len(stated["rules"]) - _RULES_SHOWN
    if more > 0:
        lines.append(f"rules lead to {more} more answer{'' if more == 1 else 's'}")
    return lines


def _verdict(entry: Mapping[str, Any], names: Sequence[str], is_stated: bool) -> str:
    """Who leads to which answer, and how that stands to what is stated."""
    one = len(names) == 1
    who = f"the rule {names[0]}" if one else f"the rules {', '.join(names)}"
    answer, verdict = entry["answer"], entry["verdict"]
    if verdict == "supports":
        return f"{who} {'supports' if one else 'support'} {answer}"
    if verdict == "contradicts":
        return f"{who} {'contradicts' if one else 'contradict'} what is stated: {answer}"
    return f"{who} {'leads' if one else 'lead'} to {answer}{' too' if is_stated else ''}"

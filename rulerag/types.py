"""The records that travel through a pipeline: frozen, without behaviour beyond their JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rulerag.errors import DataFormatError
from rulerag.rules import Rule, readable

if TYPE_CHECKING:
    from rulerag.kg import ConjunctiveQuery


class Fact(NamedTuple):
    """One fact of a graph by its names; ``timestamp`` in the graph's own time unit, or None."""

    subject: str
    relation: str
    object: str
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A retrievable text and the facts that it states.

    Args:
        id: unique in its corpus.
        text: what retrievers index and readers see.
        facts: the facts stated; empty for text of unknown content.
        title: an optional title (BEIR).
        entities: the raw names of what a text mentions, where that is known without facts: given
            as metadata, or linked (:func:`rulerag.linking.link_mentions`).
        time: the latest time that a text speaks of, in the graph's unit, where that is known
            without facts; likewise.
    """

    id: str
    text: str
    facts: tuple[Fact, ...] = ()
    title: str = ""
    entities: tuple[str, ...] = ()
    time: int | None = None

    @property
    def timestamp(self) -> int | None:
        """The latest time that the document speaks of; None when it is undated."""
        times = [fact.timestamp for fact in self.facts if fact.timestamp is not None]
        return max(times) if times else self.time

    def to_json(self) -> dict[str, Any]:
        """A BEIR corpus row; the facts stand in ``metadata``, and what is known beside them."""
        metadata: dict[str, Any] = {"facts": [list(fact) for fact in self.facts]}
        if self.entities:
            metadata["entities"] = list(self.entities)
        if self.time is not None:
            metadata["timestamp"] = self.time
        return {"_id": self.id, "title": self.title, "text": self.text, "metadata": metadata}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Document:
        """Read a BEIR corpus row.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        identifier, text = _text(row, "_id"), _text(row, "text")
        metadata = _metadata(row)
        facts = tuple(_fact(f) for f in _list(metadata, "facts"))
        entities = tuple(str(name) for name in _list(metadata, "entities"))
        time = _timestamp(metadata)
        return cls(identifier, text, facts, str(row.get("title") or ""), entities, time)


def entities_of(document: Document) -> tuple[str, ...]:
    """The raw names of the entities that a document speaks of, each once.

    Those at the ends of its facts come first, in their order, then those that it is known to
    mention; none where neither is known.

    Args:
        document: a document of any corpus.
    """
    ends = (end for fact in document.facts for end in (fact.subject, fact.object))
    return tuple(dict.fromkeys((*ends, *document.entities)))


@dataclass(frozen=True, slots=True)
class Query:
    """A question; ``subject`` and ``relation`` name its known parts where they are known.

    Args:
        id: unique in its query set.
        text: the question in words.
        subject: the entity asked about (a name of the graph), or empty.
        relation: the relation asked for, or empty.
        timestamp: the time asked about; None for static questions.
        answers: every acceptable answer, in words; empty when unknown.
        subject_label: the subject in the words of the texts; empty where no label is known.
        relation_label: the relation in the words of the texts, likewise.
        prediction: it asks for what no document can state (forecasting, completion): known answers
            are filtered by protocol, so what documents state has no precedence. A dataset says it
            for all of its queries; it is no part of a query's row.
        meaning: what a question in one's own words asks of facts; None where it is not known. No
            part of a query's row either.
        refusal: why a question cannot be answered, in words; empty where it may be.
    """

    id: str
    text: str
    subject: str = ""
    relation: str = ""
    timestamp: int | None = None
    answers: tuple[str, ...] = ()
    subject_label: str = ""
    relation_label: str = ""
    prediction: bool = False
    meaning: ConjunctiveQuery | None = None
    refusal: str = ""

    @property
    def subject_words(self) -> str:
        """The subject in words: its label, else its name in readable form."""
        return self.subject_label or readable(self.subject)

    @property
    def relation_words(self) -> str:
        """The relation in words: its label, else its name in readable form."""
        return self.relation_label or readable(self.relation)

    def to_json(self) -> dict[str, Any]:
        """A BEIR query row; the structure stands in ``metadata``."""
        metadata: dict[str, Any] = {
            "subject": self.subject,
            "relation": self.relation,
            "timestamp": self.timestamp,
            "answers": list(self.answers),
        }
        labels = {"subject_label": self.subject_label, "relation_label": self.relation_label}
        metadata |= {key: label for key, label in labels.items() if label}
        return {"_id": self.id, "text": self.text, "metadata": metadata}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Query:
        """Read a BEIR query row.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        metadata = _metadata(row)
        timestamp = _timestamp(metadata)
        return cls(
            id=_text(row, "_id"),
            text=_text(row, "text"),
            subject=str(metadata.get("subject") or ""),
            relation=str(metadata.get("relation") or ""),
            timestamp=timestamp,
            answers=tuple(str(a) for a in _list(metadata, "answers")),
            subject_label=str(metadata.get("subject_label") or ""),
            relation_label=str(metadata.get("relation_label") or ""),
        )


@dataclass(frozen=True, slots=True)
class RuleHit:
    """One search that found a document.

    Args:
        rule_id: the guiding rule of the search; None for the plain query.
        rank: the document's rank in that search, from 1.
        score: its score in that search, in the retriever's own unit.
        atom: the body atom of the rule that the document grounds, from 0, where known.
    """

    rule_id: str | None
    rank: int
    score: float
    atom: int | None = None


class Support(NamedTuple):
    """What speaks for a candidate answer.

    Args:
        scorer: which scorer says so.
        why: the reason in words: ``like Joan Baez, who has genre folk too``.
        facts: the facts behind it; the first names the candidate.
        document_ids: the documents that state them, in the order of the facts.
    """

    scorer: str
    why: str
    facts: tuple[Fact, ...] = ()
    document_ids: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """An object of ``answers.jsonl``."""
        documents = list(self.document_ids)
        return {"scorer": self.scorer, "why": self.why, "documents": documents}


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """A retrieved document with its final rank (from 1) and every search that found it.

    ``support`` says which candidate scorers wanted it and why, the strongest first.
    """

    document: Document
    score: float
    rank: int
    found_by: tuple[RuleHit, ...] = ()
    support: tuple[Support, ...] = ()

    @property
    def rule_ids(self) -> tuple[str, ...]:
        """The ids of the rules that found the document, in order, without repeats."""
        return tuple(dict.fromkeys(h.rule_id for h in self.found_by if h.rule_id is not None))


class Grounding(NamedTuple):
    """One way to satisfy a rule's body from a bound subject.

    Args:
        rule: the rule.
        answer: what the head's object is bound to.
        rows: behind each body atom, in body order, the row of the fact, or the place of the
            document that states it, as the index has it.
        latest: the latest timestamp of these facts; None for undated facts.
    """

    rule: Rule
    answer: str
    rows: tuple[int, ...]
    latest: int | None


class Groundings(NamedTuple):
    """Every grounding of rules on the facts of documents, and what they were worked out from.

    Args:
        query: names the subject and the time.
        documents: the documents; rows of groundings are places in them.
        rules: the rules.
        found: the groundings, rule by rule.
    """

    query: Query
    documents: tuple[Document, ...]
    rules: tuple[Rule, ...]
    found: tuple[Grounding, ...]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """What a generator reads: structure, not a prompt.

    Args:
        query: the question.
        documents: what it is answered from.
        rules: the guiding rules.
        groundings: of the rules on the documents, where they are worked out already
            (:func:`rulerag.kg.grounding.groundings_of` tells whether they are of these).
    """

    query: Query
    documents: tuple[Document, ...] = ()
    rules: tuple[Rule, ...] = ()
    groundings: Groundings | None = field(default=None, compare=False, repr=False)


class GroundedAtom(NamedTuple):
    """A document and the body atom (from 0) that it grounds; ``rule_id`` None: read directly."""

    document_id: str
    rule_id: str | None
    atom: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible answer with its score and the documents that support it (by id).

    Args:
        text: the answer.
        score: its score.
        document_ids: the documents that support it.
        rule_ids: the rules that lead to it.
        grounded: which document grounds which atom of which rule, where that is known.
        is_stated: whether documents state it as an answer to the meaning of the question.
    """

    text: str
    score: float
    document_ids: tuple[str, ...] = ()
    rule_ids: tuple[str, ...] = ()
    grounded: tuple[GroundedAtom, ...] = ()
    is_stated: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """What a generator answers.

    Args:
        text: the answer; empty when the generator abstains.
        score: its score (log-probability or the reader's own), where there is one.
        candidates: the ranked alternatives, best first, where the generator has them.
    """

    text: str
    score: float | None = None
    candidates: tuple[Candidate, ...] = ()

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> Completion:
        """The first of ranked candidates as the answer; empty without any."""
        if not candidates:
            return cls("")
        return cls(candidates[0].text, candidates[0].score, tuple(candidates))


@dataclass(frozen=True, slots=True)
class SelfExplanation:
    """What a model says about its own answer (Fragkathoulas and Chlapanis 2024, section 3.4).

    Args:
        thought: why, in its words.
        keywords: the words of the text that it names as those that helped.
        answer: its short answer.
        missing: the parts that its text does not hold, of ``thought``, ``keywords`` and ``answer``;
            nothing is put in their place.
    """

    thought: str = ""
    keywords: tuple[str, ...] = ()
    answer: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered query with its evidence.

    Args:
        query: what was asked.
        completion: what the generator said.
        documents: the evidence, in the order that the generator saw.
        rules: the guiding rules.
        fingerprints: of the dataset, the rules and the components that made the answer.
        union: every document found before the list was cut to its best, in the same order; empty
            where nothing was cut.
        stated: what documents state of the question and what the rules say beside it
            (:func:`rulerag.kg.grounding.compare`); empty for predictions.
    """

    query: Query
    completion: Completion
    documents: tuple[ScoredDocument, ...] = ()
    rules: tuple[Rule, ...] = ()
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    union: tuple[ScoredDocument, ...] = ()
    stated: Mapping[str, Any] = field(default_factory=dict)

    @property
    def union_size(self) -> int:
        """How many documents were found before the list was cut to its best."""
        return len(self.union or self.documents)

    @property
    def text(self) -> str:
        """The answer in words."""
        return self.completion.text

    @property
    def values(self) -> tuple[str, ...]:
        """Every answer that is stated of a question whose meaning is known, in words."""
        if self.query.meaning is None:
            return ()
        return tuple(one.text for one in self.completion.candidates if one.is_stated)

    def request(self) -> GenerationRequest:
        """The request that produced the answer, for probing it again."""
        documents = tuple(scored.document for scored in self.documents)
        return GenerationRequest(self.query, documents, self.rules)

    def to_json(self) -> dict[str, Any]:
        """The object written to ``answers.jsonl``."""
        return {
            "query_id": self.query.id,
            "query": self.query.text,
            "answer": self.text,
            "score": self.completion.score,
            "answers": list(self.query.answers),
            "documents": [
                {
                    "id": scored.document.id,
                    "text": scored.document.text,
                    **({"title": scored.document.title} if scored.document.title else {}),
                    "rank": scored.rank,
                    "score": scored.score,
                    "found_by": [
                        {"rule": h.rule_id, "rank": h.rank, "score": h.score, "atom": h.atom}
                        for h in scored.found_by
                    ],
                    **(
                        {"support": [one.to_json() for one in scored.support]}
                        if scored.support
                        else {}
                    ),
                }
                for scored in self.documents
            ],
            "rules": [{"id": rule.id, "text": rule.text} for rule in self.rules],
            "union_size": self.union_size,
            "fingerprints": dict(self.fingerprints),
            **({"stated": dict(self.stated)} if self.stated else {}),
            **({"refused": self.query.refusal} if self.query.refusal else {}),
            **(
                {"meaning": self.query.meaning.to_json(), "values": list(self.values)}
                if self.query.meaning is not None
                else {}
            ),
        }


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise DataFormatError("expected a text that is not empty", key=key)
    return value


def _metadata(row: Mapping[str, Any]) -> Mapping[str, Any]:
    value = row.get("metadata") or {}
    if not isinstance(value, dict):
        raise DataFormatError("expected an object of keys", key="metadata")
    return value


def _timestamp(metadata: Mapping[str, Any]) -> int | None:
    value = metadata.get("timestamp")
    if value is not None and not isinstance(value, int):
        raise DataFormatError("expected a whole number or null", key="timestamp")
    return value


def _list(metadata: Mapping[str, Any], key: str) -> list[Any]:
    value = metadata.get(key) or []
    if not isinstance(value, list):
        raise DataFormatError("expected a list", key=f"metadata.{key}")
    return value


def _fact(value: Sequence[Any]) -> Fact:
    if not isinstance(value, list) or len(value) not in (3, 4):
        raise DataFormatError(
            "expected [subject, relation, object] or [..., timestamp]", key="metadata.facts"
        )
    timestamp = value[3] if len(value) == 4 else None
    if timestamp is not None and not isinstance(timestamp, int):
        raise DataFormatError("expected a whole number or null as timestamp", key="metadata.facts")
    return Fact(str(value[0]), str(value[1]), str(value[2]), timestamp)

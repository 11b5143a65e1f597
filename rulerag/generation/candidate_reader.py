"""A generator without a model: takes each document's likeliest entity, and the best-placed one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from rulerag.composition import check_range, register
from rulerag.io import fingerprint_object
from rulerag.kg import stated_facts
from rulerag.kg.grounding import Statements
from rulerag.types import (
    Candidate,
    Completion,
    Document,
    GenerationRequest,
    GroundedAtom,
    entities_of,
)

Counts = Mapping[str, Mapping[str, int]]


def answers_by_relation(documents: Sequence[Document]) -> dict[str, Counter[str]]:
    """By relation, how often the facts of documents have each entity as an object."""
    counts: dict[str, Counter[str]] = {}
    for _, fact in stated_facts(documents):
        counts.setdefault(fact.relation, Counter())[fact.object] += 1
    return counts


@register("generator", "candidate")
class CandidateReader:
    """Answers with entities of the documents, as far as the order of the documents is trusted.

    The candidate of a document is the entity in it, other than the query's subject, that the
    corpus has most often as an object of the question's relation; of equal ones the first. The
    document at rank p (from 1) gives its candidate ``1 / p ** rank_discount``; the candidate with
    most wins, of equal ones the one that comes first. This is how
    :class:`~rulerag.retrieval.guided.merging.LearnedMerger` sees documents, whose lists it reads
    best. Of a text without facts, a candidate is what it mentions and the relation is known to
    have as an object. It abstains, with an empty answer, where no document names another entity.

    What documents state of the question (:class:`~rulerag.kg.grounding.Statements`) comes before
    all other candidates, whatever they weigh; it has no such precedence in a prediction.

    Args:
        known: by relation, how often each entity is an object (:func:`answers_by_relation`).
        labels: the readable form of entity names; names themselves where one is missing.
        rank_discount: how much the order of the documents counts; 0 ignores it.
        max_candidates: how many ranked candidates a completion carries.

    Raises:
        ConfigError: a negative discount, or fewer candidates than one.
    """

    def __init__(
        self,
        *,
        known: Counts,
        labels: Mapping[str, str] | None = None,
        rank_discount: float = 1.0,
        max_candidates: int = 10,
    ) -> None:
        check_range("rank_discount", rank_discount, 0)
        check_range("max_candidates", max_candidates, 1)
        self.known = known
        self.labels = labels or {}
        self.rank_discount = rank_discount
        self.max_candidates = max_candidates

    @cached_property
    def fingerprint(self) -> str:
        """Names the reader, what it knows, and every setting that changes answers."""
        known = sorted(
            (relation, sorted(counts.items())) for relation, counts in self.known.items()
        )
        settings = [self.rank_discount, self.max_candidates]
        return fingerprint_object(["candidate-reader", *settings, known, dict(self.labels)])

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order."""
        return [self._read(request) for request in requests]

    def _read(self, request: GenerationRequest) -> Completion:
        counts = self.known.get(request.query.relation, {})
        weights: dict[str, float] = {}
        documents: dict[str, list[str]] = {}
        for place, document in enumerate(request.documents, start=1):
            name = _candidate(document, request.query.subject, counts)
            if name is not None:
                weights[name] = weights.get(name, 0.0) + place**-self.rank_discount
                documents.setdefault(name, []).append(document.id)
        stated: dict[str, dict[str, None]] = {}
        for name, _, row in Statements(request.documents).of(request.query):
            identifier = request.documents[row].id
            stated.setdefault(name, {})[identifier] = None
            if identifier not in documents.setdefault(name, []):
                # The document's own candidate is another one: it speaks for both.
                weights[name] = weights.get(name, 0.0) + (row + 1) ** -self.rank_discount
                documents[name].append(identifier)
        total = sum(weights.values())
        # A stable sort: of equal candidates the one that was found first stays first.
        ranked = sorted(weights, key=lambda name: (name not in stated, -weights[name]))
        return Completion.of(
            [
                Candidate(
                    self.labels.get(name, name),
                    weights[name] / total,
                    tuple(documents[name]),
                    grounded=tuple(GroundedAtom(one, None, 0) for one in stated.get(name, ())),
                )
                for name in ranked[: self.max_candidates]
            ]
        )


def _candidate(document: Document, subject: str, counts: Mapping[str, int]) -> str | None:
    names = [name for name in entities_of(document) if name != subject]
    if not document.facts:
        # Nothing says what is stated of those that a text mentions: only what the relation is
        # known to have as an object can be an answer.
        names = [name for name in names if counts.get(name)]
    return max(names, key=lambda name: counts.get(name, 0), default=None)

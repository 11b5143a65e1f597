"""The best candidates of a scorer as a list of documents, and as an answer without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from rulerag.candidates.base import RememberedScorer
from rulerag.candidates.facts import INVERSE
from rulerag.composition import check_range, register
from rulerag.io import fingerprint_object
from rulerag.kg.grounding import Statements
from rulerag.protocols import CandidateScorer, Retriever, ScoredCandidates
from rulerag.retrieval.base import check_top_k, known_answers_first
from rulerag.types import (
    Candidate,
    Completion,
    Document,
    Fact,
    GenerationRequest,
    GroundedAtom,
    Query,
    RuleHit,
    ScoredDocument,
    Support,
    entities_of,
)


@register("retriever", "scored")
class ScoredRetriever:
    """Gives the places to the candidates of a scorer, best first, one document each.

    A candidate gets the first document of the wrapped retriever's list that names it beside the
    asked relation, or is a text without facts that mentions it; where there is none, the first
    document of the facts that speak for it. Each document says what wanted it
    (:attr:`~rulerag.types.ScoredDocument.support`). Places that are left, and questions without
    candidates, get the wrapped retriever's documents in their order. What the corpus states of a
    question comes first, unless it is a prediction.

    Args:
        documents: the corpus.
        retriever: of text, for example.
        scorer: finds candidates.
    """

    def __init__(
        self, documents: Sequence[Document], retriever: Retriever, scorer: CandidateScorer
    ) -> None:
        self.documents = documents
        self.retriever = retriever
        self.scorer = RememberedScorer(scorer)

    @cached_property
    def fingerprint(self) -> str:
        """Names the wrapped retriever and the scorer."""
        parts = [self.retriever.fingerprint, self.scorer.fingerprint]
        return fingerprint_object(["scored", *parts])

    @cached_property
    def statements(self) -> Statements:
        """What the corpus states."""
        return Statements(self.documents)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, one for each of its candidates.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        found = self.retriever.retrieve(queries, top_k)
        scored = self.scorer.score(queries)
        return [
            self._listed(query, candidates, listed, top_k)
            for query, candidates, listed in zip(queries, scored, found, strict=True)
        ]

    def _listed(
        self,
        query: Query,
        candidates: ScoredCandidates,
        listed: Sequence[ScoredDocument],
        top_k: int,
    ) -> list[ScoredDocument]:
        text = {one.document.id: one for one in listed}
        chosen: dict[str, ScoredDocument] = {}
        for place, name in enumerate(candidates.entities):
            if len(chosen) == top_k:
                break
            support = candidates.support(place)
            document = self._document(query, name, support, listed)
            if document is not None and document.id not in chosen:
                score = float(candidates.score[place])
                by_text = text[document.id].found_by if document.id in text else ()
                hits = by_text or (RuleHit(None, place + 1, score),)
                chosen[document.id] = ScoredDocument(
                    document, score, len(chosen) + 1, hits, support
                )
        least = min((one.score for one in chosen.values()), default=0.0)
        for one in listed:
            if one.document.id not in chosen:
                # Behind every candidate, whatever the unit of the wrapped scores.
                score = least - one.rank
                chosen[one.document.id] = ScoredDocument(
                    one.document, score, len(chosen) + 1, one.found_by
                )
        return known_answers_first(query, list(chosen.values()), self.statements)[:top_k]

    def _document(
        self,
        query: Query,
        name: str,
        support: Sequence[Support],
        listed: Sequence[ScoredDocument],
    ) -> Document | None:
        for one in listed:
            facts = one.document.facts
            if any(name == _other_end(fact, query) for fact in facts):
                return one.document
            if not facts and name in one.document.entities:
                return one.document
        for reason in support:
            for identifier in reason.document_ids:
                document = self._by_id[identifier]
                if name in entities_of(document):
                    return document
        return None

    @cached_property
    def _by_id(self) -> dict[str, Document]:
        return {document.id: document for document in self.documents}


@register("generator", "candidate-scorer")
class ScoredReader:
    """Answers with the best candidate of a scorer that a fact of the documents names.

    What no document shows is no answer, however likely it is: the documents stay the evidence, and
    where they name no candidate it abstains with an empty answer. What documents state of the
    question (:class:`~rulerag.kg.grounding.Statements`) comes before all candidates; nothing is
    stated of a prediction.

    Args:
        scorer: finds candidates; in a configuration, that of a retriever of type ``scored`` where
            none is named here.
        labels: the readable form of entity names; names themselves where one is missing.
        max_candidates: how many ranked candidates a completion carries.

    Raises:
        ConfigError: fewer candidates than one.
    """

    def __init__(
        self,
        *,
        scorer: CandidateScorer,
        labels: Mapping[str, str] | None = None,
        max_candidates: int = 10,
    ) -> None:
        check_range("max_candidates", max_candidates, 1)
        known = isinstance(scorer, RememberedScorer)
        self.scorer = scorer if known else RememberedScorer(scorer)
        self.labels = labels or {}
        self.max_candidates = max_candidates

    @cached_property
    def fingerprint(self) -> str:
        """Names the scorer and every setting that changes answers."""
        parts = [self.scorer.fingerprint, self.max_candidates, dict(self.labels)]
        return fingerprint_object(["candidate-scorer", *parts])

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order."""
        scored = self.scorer.score([request.query for request in requests])
        return [
            self._read(request, dict(zip(one.entities, one.score.tolist(), strict=True)))
            for request, one in zip(requests, scored, strict=True)
        ]

    def _read(self, request: GenerationRequest, scores: Mapping[str, float]) -> Completion:
        shown: dict[str, dict[str, None]] = {}
        for document in request.documents:
            for fact in document.facts:
                for name in (fact.subject, fact.object):
                    shown.setdefault(name, {})[document.id] = None
        stated: dict[str, dict[str, None]] = {}
        for name, _, row in Statements(request.documents).of(request.query):
            stated.setdefault(name, {})[request.documents[row].id] = None
        ranked = [*stated, *(name for name in scores if name in shown and name not in stated)]
        candidates = tuple(
            Candidate(
                self.labels.get(name, name),
                1.0 if name in stated else scores[name],
                tuple(stated.get(name) or shown[name]),
                grounded=tuple(GroundedAtom(one, None, 0) for one in stated.get(name, ())),
            )
            for name in ranked[: self.max_candidates]
        )
        if not candidates:
            return Completion("")
        return Completion(candidates[0].text, candidates[0].score, candidates)


def _other_end(fact: Fact, query: Query) -> str | None:
    """The end of a fact that may answer a question; None where it is of another relation."""
    if query.relation.startswith(INVERSE):
        return fact.subject if fact.relation == query.relation.removeprefix(INVERSE) else None
    return fact.object if fact.relation == query.relation else None

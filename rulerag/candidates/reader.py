"""A generator without a model: the best candidate of a scorer that the documents show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from rulerag.candidates.base import RememberedScorer
from rulerag.composition import check_range, register
from rulerag.io import fingerprint_object
from rulerag.kg.grounding import Statements
from rulerag.protocols import CandidateScorer
from rulerag.types import Candidate, Completion, GenerationRequest, GroundedAtom


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

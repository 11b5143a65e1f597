"""A generator that joins two: the symbolic one's candidates, weighed by a language model too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rulerag.composition import check_range, register
from rulerag.generation.prompts import Citation, PromptTemplate, citation_of
from rulerag.io import fingerprint_object
from rulerag.protocols import Generator
from rulerag.text import exact_match
from rulerag.types import Candidate, Completion, GenerationRequest

# The weights of the model that tuning tries.
_WEIGHTS = tuple(round(0.05 * n, 2) for n in range(21))


class ScoringModel(Generator, Protocol):
    """A language model that answers, and says how probable an answer is."""

    template: PromptTemplate

    def score(
        self,
        requests: Sequence[GenerationRequest],
        answers: Sequence[str],
        *,
        facts: Sequence[Citation | tuple[str, str] | None] | None = None,
    ) -> npt.NDArray[np.float64]:
        """The log-probability of an answer to each request, of shape (len(requests),)."""
        ...


class _CandidateScores(NamedTuple):
    """The candidates of one request, both scores normalised over them, and which are stated."""

    candidates: tuple[Candidate, ...]
    symbolic: npt.NDArray[np.float64]
    model: npt.NDArray[np.float64]
    stated: npt.NDArray[np.bool_]


@register(
    "generator",
    "hybrid",
    parts={"symbolic": "generator", "model": "generator"},
    shared={"labels": "all_labels"},
)
class HybridReader:
    """Ranks the symbolic generator's candidates by both generators.

    A candidate's score is ``(1 - weight) * log p_symbolic + weight * log p_model``, where each
    generator's scores are first made a distribution over the candidates. What documents state comes
    before what only rules lead to, here too, but in predictions. Where the symbolic generator
    abstains, the model answers alone.

    Args:
        symbolic: names candidates with scores above 0 and their documents.
        model: weighs them.
        weight: how much the model counts, from 0 to 1; tune it on validation with :meth:`tune`.
        labels: readable names of ``entities`` and ``relations``, for models that cite.

    Raises:
        ConfigError: the weight is out of range.
    """

    def __init__(
        self,
        symbolic: Generator,
        model: ScoringModel,
        *,
        weight: float = 0.3,
        labels: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        check_range("weight", weight, 0, 1)
        self.symbolic, self.model = symbolic, model
        self.weight, self.labels = weight, labels or {}

    @property
    def fingerprint(self) -> str:
        """Names both generators and how they are joined."""
        parts = [self.symbolic.fingerprint, self.model.fingerprint, self.weight]
        return fingerprint_object(["hybrid", *parts, self._names])

    @cached_property
    def _names(self) -> str:
        """A name for the labels, which only models that cite see."""
        cites = self.model.template.target == "citation"
        shown = {kind: dict(names) for kind, names in self.labels.items()} if cites else {}
        return fingerprint_object(shown)

    @property
    def prompts(self) -> Any:
        """The model's own, where it has them."""
        return getattr(self.model, "prompts", None)

    @property
    def system_fingerprint(self) -> str:
        """Which build of the model gave the last answers, where it knows."""
        return str(getattr(self.model, "system_fingerprint", ""))

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order; its candidates are ranked anew."""
        weighed = self._weigh(requests)
        alone = [r for r, one in zip(requests, weighed, strict=True) if not one.candidates]
        answers = iter(self.model.generate(alone) if alone else [])
        return [_ranked(one, self.weight) if one.candidates else next(answers) for one in weighed]

    def tune(self, requests: Sequence[GenerationRequest]) -> dict[float, float]:
        """Take the weight of the best exact match on validation requests.

        Of equal weights the middle one is taken.

        Args:
            requests: with answers; never those of the test.

        Returns:
            The exact match of each weight (0, 0.05 … 1), over the requests with candidates.
        """
        weighed = self._weigh(requests)
        answered = [(r, one) for r, one in zip(requests, weighed, strict=True) if one.candidates]
        found = {}
        for weight in _WEIGHTS:
            hits = [exact_match(_ranked(one, weight).text, r.query.answers) for r, one in answered]
            found[weight] = math.fsum(hits) / max(1, len(hits))
        best = [weight for weight in _WEIGHTS if found[weight] == max(found.values())]
        self.weight = best[len(best) // 2]
        return found

    def _weigh(self, requests: Sequence[GenerationRequest]) -> list[_CandidateScores]:
        """The candidates of each request with both scores; all are scored in one call."""
        named = [completion.candidates for completion in self.symbolic.generate(requests)]
        pairs = [(r, c) for r, found in zip(requests, named, strict=True) for c in found]
        facts = None
        if self.model.template.target == "citation":
            facts = [cited_fact(r, c, self.labels) for r, c in pairs]
        scores = np.zeros(len(pairs))
        # A candidate without a fact to cite cannot be written by a model that cites.
        able = [n for n in range(len(pairs)) if facts is None or facts[n] is not None]
        if able:
            scores[:] = -1e3
            scores[able] = self.model.score(
                [pairs[n][0] for n in able],
                [pairs[n][1].text for n in able],
                facts=None if facts is None else [facts[n] for n in able],
            )
        weighed, start = [], 0
        for request, found in zip(requests, named, strict=True):
            end = start + len(found)
            own = np.log([max(candidate.score, 1e-12) for candidate in found])
            first = not request.query.prediction
            stated = [first and any(g.rule_id is None for g in c.grounded) for c in found]
            values = _normalised(own), _normalised(scores[start:end])
            weighed.append(_CandidateScores(found, *values, np.array(stated, dtype=bool)))
            start = end
        return weighed


def cited_fact(
    request: GenerationRequest, candidate: Candidate, labels: Mapping[str, Mapping[str, str]]
) -> Citation | None:
    """A fact in the candidate's documents that holds it, in words.

    None where no document states one.
    """
    for document in request.documents:
        if document.id not in candidate.document_ids:
            continue
        for fact in document.facts:
            if cited := citation_of(fact, candidate.text, request.query.subject, labels):
                return cited
    return None


def _normalised(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    if not len(scores):
        return scores
    return np.asarray(scores - np.logaddexp.reduce(scores), dtype=np.float64)


def _ranked(one: _CandidateScores, weight: float) -> Completion:
    joined = (1 - weight) * one.symbolic + weight * one.model
    order = np.lexsort((-joined, ~one.stated)).tolist()
    return Completion.of([replace(one.candidates[n], score=float(joined[n])) for n in order])

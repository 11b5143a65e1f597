"""A generator without a model: fires the guiding rules on the facts inside the documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from rulerag.composition import check_range, register
from rulerag.io import fingerprint_object
from rulerag.kg import Calendar
from rulerag.kg.grounding import (
    EvidenceModel,
    QueryResult,
    Statements,
    evidence_sum,
    execute,
    groundings_of,
    values_in_words,
)
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Candidate, Completion, GenerationRequest, GroundedAtom

# The confidence of reading a fact of the question's relation without a rule, in a prediction.
_DIRECT = 0.5


class _Support:
    """What speaks for one candidate answer."""

    def __init__(self) -> None:
        self.weights: list[float] = []
        self.documents: dict[str, None] = {}
        self.rules: dict[str, None] = {}
        self.grounded: dict[GroundedAtom, None] = {}
        self.latest = -1
        self.first_place = 1 << 30
        self.is_stated = False

    def add(self, weight: float, place: int, latest: int | None) -> None:
        """Something with that weight speaks for the answer; the best of its documents is there."""
        self.weights.append(weight)
        self.first_place = min(self.first_place, place)
        if latest is not None:
            self.latest = max(self.latest, latest)


@register("generator", "symbolic")
class SymbolicReader:
    """Answers from the facts inside the retrieved documents. Deterministic, no model.

    Every guiding rule is executed from the query's subject on the documents' facts from before
    the query's time. A grounding weighs ``confidence * recency`` (see
    :class:`~rulerag.kg.grounding.EvidenceModel`), divided by ``place ** rank_discount``, where
    ``place`` is the best place (from 1) of its documents in the list. Weights of one answer are
    joined by noisy-or; ties go to the more recent fact, then to the earlier document, then to the
    answer first in alphabetical order. A chain counts only where the documents hold a fact for
    every one of its atoms; a candidate says which document grounds which. Where nothing fires it
    abstains with an empty answer.

    What a document states of the question (:class:`~rulerag.kg.grounding.Statements`) is taken
    unchanged, with the greatest weight, and comes before what only rules lead to. In a prediction
    it has no such precedence: the guiding rules decide alone, and without rules the facts of the
    question's relation from before the query's time are read as one more rule.

    Args:
        labels: the readable form of entity names; names themselves where one is missing.
        evidence: how groundings are weighted.
        rank_discount: how much the order of the documents counts; 0 ignores it.
        max_candidates: how many ranked candidates a completion carries.
        calendar: how the times of facts read; as numbers when None.

    Raises:
        ConfigError: a negative discount.
    """

    def __init__(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        evidence: EvidenceModel | None = None,
        rank_discount: float = 0.0,
        max_candidates: int = 10,
        calendar: Calendar | None = None,
    ) -> None:
        check_range("rank_discount", rank_discount, 0)
        self.labels = labels or {}
        self.evidence = evidence or EvidenceModel()
        self.rank_discount = rank_discount
        self.max_candidates = max_candidates
        self.calendar = calendar

    @property
    def fingerprint(self) -> str:
        """Names the generator and every setting that changes answers."""
        settings = [self.evidence.settings(), self.rank_discount, _DIRECT]
        return fingerprint_object(["symbolic-reader", *settings, self.max_candidates, self._names])

    @cached_property
    def _names(self) -> str:
        """A name for the labels, in which it answers."""
        return fingerprint_object(dict(self.labels))

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order."""
        return [self._read(request) for request in requests]

    def _read(self, request: GenerationRequest) -> Completion:
        query = request.query
        if query.refusal:
            return Completion(f"cannot be answered: {query.refusal}")
        if query.meaning is not None:
            statements = Statements(request.documents)
            result = execute(query.meaning, statements.index)
            if result.values:
                return self._stated(result, request)
        supports: dict[str, _Support] = {}
        for name, time, place in Statements(request.documents).of(query):
            support = supports.setdefault(name, _Support())
            support.is_stated = True
            support.add(1.0, place, time)
            identifier = request.documents[place].id
            support.documents[identifier] = None
            support.grounded[GroundedAtom(identifier, None, 0)] = None
        read = request
        if query.prediction and not request.rules:
            read = replace(request, rules=(_direct(query.relation),))
        for rule, answer, owners, latest in groundings_of(read).found:
            places = sorted(set(owners))
            weight = self.evidence.weight(rule, query.timestamp, latest)
            support = supports.setdefault(answer, _Support())
            discount = (places[0] + 1) ** self.rank_discount
            support.add(weight / discount, places[0], latest)
            support.documents.update((request.documents[p].id, None) for p in places)
            rule_id = rule.id if request.rules else None
            if rule_id is not None:
                support.rules[rule_id] = None
            for atom, place in enumerate(owners):
                found = GroundedAtom(request.documents[place].id, rule_id, atom)
                support.grounded[found] = None
        return self._complete(supports)

    def _stated(self, result: QueryResult, request: GenerationRequest) -> Completion:
        """What the documents state of a question whose meaning is known: all of it."""
        words = values_in_words(result, self.labels, self.calendar)
        candidates = []
        for value, text in zip(result.values, words, strict=True):
            documents = [request.documents[place].id for place in result.places_of(value)]
            grounded = tuple(GroundedAtom(one, None, 0) for one in documents)
            one = Candidate(text, 1.0, tuple(documents), grounded=grounded, is_stated=True)
            candidates.append(one)
        return Completion(", ".join(words), 1.0, tuple(candidates))

    def _complete(self, supports: Mapping[str, _Support]) -> Completion:
        # Saturated noisy-ors are equal as numbers but not in evidence: order by the exponent.
        ranked = sorted(
            ((evidence_sum(s.weights), name, s) for name, s in supports.items()),
            key=lambda item: (
                not item[2].is_stated,
                -item[0],
                -item[2].latest,
                item[2].first_place,
                item[1],
            ),
        )
        return Completion.of(
            [
                Candidate(
                    self.labels.get(name, name),
                    -math.expm1(-total),
                    tuple(s.documents),
                    tuple(s.rules),
                    tuple(s.grounded),
                )
                for total, name, s in ranked[: self.max_candidates]
            ]
        )


def _direct(relation: str) -> Rule:
    """Reading a stated fact of the question's relation, written as a rule of that relation."""
    quality = RuleQuality(confidence=_DIRECT)
    head = Atom(relation, "?x", "?y")
    return Rule(head, (head,), quality=quality, text=relation or "?", miner="direct")

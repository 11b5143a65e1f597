"""Fakes with known truth: a generator that answers by a formula over its documents, and oracles."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from rulerag.generation.prompts import PromptTemplate, SelfExplanationTemplate
from rulerag.rules import Atom, Rule
from rulerag.types import (
    Answer,
    Completion,
    Document,
    GenerationRequest,
    Query,
    RuleHit,
    ScoredDocument,
)


class PlantedGenerator:
    """Answers by a known function of the ids of the documents that it is given.

    Args:
        say: the answer for a set of document ids.
        fingerprint: its name and settings.
    """

    def __init__(
        self, say: Callable[[frozenset[str]], str], *, fingerprint: str = "planted"
    ) -> None:
        self.say = say
        self.fingerprint = fingerprint
        self.requests: list[GenerationRequest] = []
        self.batches: list[int] = []

    @classmethod
    def dnf(
        cls, clauses: Iterable[Iterable[str]], *, yes: str = "yes", no: str = "no"
    ) -> PlantedGenerator:
        """Says ``yes`` when every document of some clause is there: its minimal retention rules."""
        wanted = [frozenset(clause) for clause in clauses]
        return cls(lambda ids: yes if any(clause <= ids for clause in wanted) else no)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """One completion for each request, in order."""
        self.requests += requests
        self.batches.append(len(requests))
        return [
            Completion(self.say(frozenset(d.id for d in request.documents))) for request in requests
        ]


class PlantedFunction:
    """An answer function over source indices with a known truth table; it remembers what was asked.

    Args:
        outputs: the output of each mask, of length 2**n.
    """

    def __init__(self, outputs: Sequence[str]) -> None:
        self.outputs = outputs
        self.num_sources = (len(outputs) - 1).bit_length()
        self.asked: list[int] = []
        self.batches: list[list[tuple[int, ...]]] = []

    def __call__(self, kept: list[tuple[int, ...]]) -> list[str]:
        """The outputs of the subsets, in order."""
        self.batches.append(kept)
        masks = [sum(1 << index for index in subset) for subset in kept]
        self.asked += masks
        return [self.outputs[mask] for mask in masks]


def random_function(chance: random.Random, max_sources: int = 6) -> PlantedFunction:
    """A truth table: monotone up, monotone down, mostly true with holes, or anything."""
    num_sources = chance.randrange(max_sources + 1)
    size = 1 << num_sources
    kind = chance.choice(("up", "down", "holes", "any"))
    if kind in ("up", "down"):
        clauses = [chance.randrange(size) for _ in range(chance.randrange(4))]
        flip = size - 1 if kind == "down" else 0
        truth = [any((m ^ flip) & c == c for c in clauses) for m in range(size)]
    else:
        density = chance.random() if kind == "any" else 1 - 2 / size
        truth = [chance.random() < density for _ in range(size)]
    return PlantedFunction(["yes" if t else "no" for t in truth])


def brute_force(
    num_sources: int, holds: Callable[[int], bool], kind: str
) -> tuple[set[frozenset[int]], set[frozenset[int]]]:
    """Valid and minimal rules of one kind, straight from Definitions 4, 5 and 8.

    Args:
        num_sources: how many sources there are.
        holds: whether the predicate holds for the output of a kept mask.
        kind: ``retention`` or ``omission``.
    """
    every = range(1 << num_sources)
    truth = [holds(mask) for mask in every]
    valid = []
    for rule in every:
        concerned = (
            (t for t in every if t & rule == rule)
            if kind == "retention"
            else (t for t in every if t & rule == 0)
        )
        if all(truth[t] for t in concerned):
            valid.append(rule)
    minimal = [rule for rule in valid if not any(v != rule and v & rule == v for v in valid)]
    return set(map(subset_of, valid)), set(map(subset_of, minimal))


def subset_of(mask: int) -> frozenset[int]:
    """The source indices of a mask."""
    return frozenset(index for index in range(mask.bit_length()) if mask >> index & 1)


def planted_rule(name: str) -> Rule:
    """A one-atom rule whose body and head carry a name."""
    return Rule(Atom(f"has_{name}", "?x", "?y"), (Atom(f"had_{name}", "?x", "?y"),))


def planted_answer(
    text: str,
    found_by: Sequence[Sequence[Rule | None]],
    *,
    rules: Sequence[Rule] = (),
    texts: Sequence[str] = (),
) -> Answer:
    """An answer on documents d1, d2, …; ``found_by`` names the searches that found each one."""
    documents = []
    for number, searches in enumerate(found_by, start=1):
        hits = tuple(
            RuleHit(rule.id if rule else None, rank=number, score=10.0 - number)
            for rule in searches
        )
        words = texts[number - 1] if texts else f"Text {number}."
        document = Document(f"d{number}", words)
        documents.append(ScoredDocument(document, 10.0 - number, number, hits))
    return Answer(Query("q1", "where ?"), Completion(text), tuple(documents), tuple(rules))


class SelfExplainer(ABC):
    """A generator whose template reads what it writes; a subclass says what that is."""

    sampling = ""
    template: PromptTemplate = SelfExplanationTemplate()

    @property
    def fingerprint(self) -> str:
        return self.template.fingerprint

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        return [Completion(self.template.parse(self._written(one), one)) for one in requests]

    @abstractmethod
    def _written(self, request: GenerationRequest) -> str:
        """What the model writes before it is read."""

"""The seams of rulerag on one page: an object that fits one of these can take its place.

Batch first: sequences go in, sequences of equal length come out, in order. One item is a batch
of one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator as PythonGenerator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from rulerag.rules import Rule, RuleBank
from rulerag.types import Completion, GenerationRequest, Query, ScoredDocument, Support

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rulerag.arrays import Doubles, Longs
    from rulerag.kg import FactTable

__all__ = [
    "Arrival",
    "CandidateScorer",
    "Encoder",
    "Generator",
    "Guides",
    "Retriever",
    "RuleMiner",
    "RuleSelector",
    "SamplingGenerator",
    "ScoredCandidates",
    "StreamingGenerator",
    "WritingGenerator",
]


Guides = Sequence[Sequence[Rule]]
"""The guiding rules of several queries, one list each, best first."""


@runtime_checkable
class RuleMiner(Protocol):
    """Finds rules in a table of facts."""

    def mine(self, facts: FactTable) -> RuleBank:
        """Return every rule that passes the miner's thresholds, with its counts."""
        ...


@runtime_checkable
class RuleSelector(Protocol):
    """Chooses the guiding rules of queries."""

    def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        """Return, for each query, its guiding rules, best first; a list may be empty."""
        ...


@runtime_checkable
class Encoder(Protocol):
    """Maps texts to vectors."""

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return an array of shape (len(texts), dimension)."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """Finds documents for queries."""

    @property
    def fingerprint(self) -> str:
        """Names the index and every setting that changes results."""
        ...

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1."""
        ...


@dataclass(frozen=True, eq=False)
class ScoredCandidates:
    """The candidate answers of one query, best first.

    Args:
        names: the names of all entities by id, the same for every query of a scorer.
        entity: int64 array of shape (m,), the ids of the candidates.
        score: float64 array of shape (m,), above 0, descending.
        explain: says what speaks for a candidate, by its id; made when it is needed.
    """

    names: Sequence[str]
    entity: Longs
    score: Doubles
    explain: Callable[[int], tuple[Support, ...]]

    def __len__(self) -> int:
        return len(self.entity)

    @property
    def entities(self) -> list[str]:
        """The names of the candidates."""
        return [self.names[entity] for entity in self.entity.tolist()]

    def support(self, place: int) -> tuple[Support, ...]:
        """What speaks for the candidate at a place (from 0), the strongest first."""
        return self.explain(int(self.entity[place]))


@runtime_checkable
class CandidateScorer(Protocol):
    """Finds the likely answers of queries, each with the facts that speak for it."""

    @property
    def fingerprint(self) -> str:
        """Names the facts and every setting that changes scores."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names of all entities by id."""
        ...

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        """Return, for each query, its candidates, best first; there may be none."""
        ...


@runtime_checkable
class Generator(Protocol):
    """Answers queries from documents and rules; never reads a query's id or its gold answers.

    What else a generator may tell, where it can:

    * ``reading(request)``: everything that it reads of a request, as a JSON-like value. Two
      requests of one reading get one answer. By default a request is read whole, but for the id
      and the gold answers of its query.
    * ``prompts(requests)``: what a model reads, and in ``dropped`` the documents that did not fit.
    * ``sampling``: how it decodes by chance, in words; empty where the same request always gets
      the same answer.
    * ``system_fingerprint``: which build of a model gave the last answer.
    * ``stream(requests)``: see :class:`StreamingGenerator`.
    * ``stream_text(request)``: see :class:`WritingGenerator`.
    * ``sample(requests, count)``: see :class:`SamplingGenerator`.
    """

    @property
    def fingerprint(self) -> str:
        """Names the model and every setting that changes results."""
        ...

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order."""
        ...


class Arrival(NamedTuple):
    """One answer of a batch as it arrives.

    Args:
        place: of its request in the batch, from 0.
        completion: the answer.
        system: which build of the model gave it, as an endpoint says; empty where it does not.
    """

    place: int
    completion: Completion
    system: str = ""


@runtime_checkable
class StreamingGenerator(Generator, Protocol):
    """A generator that hands out each answer of a batch as soon as it is there."""

    def stream(self, requests: Sequence[GenerationRequest]) -> Iterator[Arrival]:
        """Every answer once, in any order; raises only after what had arrived was handed out."""
        ...


@runtime_checkable
class WritingGenerator(Generator, Protocol):
    """A generator that shows one answer while it is written."""

    def stream_text(self, request: GenerationRequest) -> PythonGenerator[str, None, Completion]:
        """The text in pieces; returns the completion, whose text is read out of it, in the end."""
        ...


@runtime_checkable
class SamplingGenerator(Generator, Protocol):
    """A generator that can also sample answers, each by a seed of its own, as votes need them."""

    def sample(
        self, requests: Sequence[GenerationRequest], count: int, *, temperature: float, seed: int
    ) -> list[list[Completion]]:
        """Return ``count`` sampled completions for each request, in order."""
        ...

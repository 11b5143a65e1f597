"""Generators that sample: the answer that most of several tries give, and how to notice them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulerag.errors import ConfigError, ExplanationError
from rulerag.io import fingerprint_object
from rulerag.text import normalize_answer
from rulerag.types import Candidate, Completion, GenerationRequest

if TYPE_CHECKING:
    from rulerag.protocols import Generator

__all__ = ["VotingGenerator", "refuse_another_answer", "refuse_sampling"]


class VotingGenerator:
    """Asks a generator several times and answers what most of the tries said.

    Outputs count as one after normalisation. Ties go to the one that was said first.

    Args:
        generator: one that samples, anew in each call.
        votes: how many tries.

    Raises:
        ConfigError: fewer than one vote.
    """

    def __init__(self, generator: Generator, votes: int = 5) -> None:
        if votes < 1:
            raise ConfigError(f"expected a number from 1, found {votes}", key="votes")
        self.generator = generator
        self.votes = votes

    @property
    def fingerprint(self) -> str:
        """Names the generator and the number of votes."""
        return fingerprint_object(["votes", self.votes, self.generator.fingerprint])

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order; its candidates hold the votes.

        The candidates' scores are shares of the votes; the completion keeps the generator's own
        score of the winning try.
        """
        ballots = [self.generator.generate(requests) for _ in range(self.votes)]
        return [self._count([ballot[i] for ballot in ballots]) for i in range(len(requests))]

    def _count(self, tries: Sequence[Completion]) -> Completion:
        tally = Counter(normalize_answer(one.text) for one in tries)
        first: dict[str, Completion] = {}
        for one in tries:
            first.setdefault(normalize_answer(one.text), one)
        ranked = tally.most_common()  # equal counts stay in the order of appearance
        winner = first[ranked[0][0]]
        candidates = tuple(
            Candidate(first[text].text, count / len(tries)) for text, count in ranked
        )
        return Completion(winner.text, winner.score, candidates)


def refuse_sampling(generator: Generator, request: GenerationRequest, *, tries: int = 2) -> None:
    """Ask the same request several times and refuse a generator that answers differently.

    Raises:
        ExplanationError: two answers differ; a probe would say as much about chance as about the
            sources.
    """
    texts = [generator.generate([request])[0].text for _ in range(max(2, tries))]
    for text in texts[1:]:
        refuse_another_answer(texts[0], text)


def refuse_another_answer(first: str, second: str | None) -> None:
    """Refuse two answers to one request that differ; costs nothing where both are known.

    Args:
        first: what the generator said.
        second: what it said when it was asked the same again; None when it was not.

    Raises:
        ExplanationError: the answers differ.
    """
    if second is not None and normalize_answer(first) != normalize_answer(second):
        raise ExplanationError(
            f"the generator says {first!r} and then {second!r} to the same request",
            hint="decode greedily, or let several tries vote (votes, VotingGenerator)",
        )

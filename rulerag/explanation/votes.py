"""Generators that sample: the answer that most of several tries give, and how to notice them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rulerag.errors import ConfigError, SamplingError
from rulerag.explanation.asking import reading_of
from rulerag.io import fingerprint_object
from rulerag.text import normalize_answer
from rulerag.types import Answer, Candidate, Completion, GenerationRequest

if TYPE_CHECKING:
    from rulerag.explanation.probe import ProbeEngine
    from rulerag.protocols import Generator

__all__ = [
    "VotingGenerator",
    "refuse_another_answer",
    "refuse_sampled_answer",
    "refuse_sampling",
    "refuse_sampling_generator",
    "sampling_of",
]

# Where readers hold the readers that they are made of.
_PARTS = ("generator", "reader", "model", "symbolic")


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

    @property
    def sampling(self) -> str:
        """Empty: the vote stands for the tries, unless there is only one."""
        return "" if self.votes > 1 else sampling_of(self.generator)

    @property
    def system_fingerprint(self) -> str:
        """Which build of a model gave the last answers, where the generator knows."""
        return str(getattr(self.generator, "system_fingerprint", ""))

    @property
    def prompts(self) -> Any:
        """The generator's own, where it has them."""
        return getattr(self.generator, "prompts", None)

    def reading(self, request: GenerationRequest) -> object:
        """What the generator reads."""
        return reading_of(self.generator, request)

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


def sampling_of(generator: object) -> str:
    """How a generator, or one that it is made of, decodes by chance; empty where none says so.

    Read from ``sampling``, else from ``do_sample`` and ``temperature``.
    """
    stated = getattr(generator, "sampling", None)
    if stated is not None:
        return str(stated) if stated else ""
    if getattr(generator, "do_sample", None) is True:
        return "do_sample"
    temperature = getattr(generator, "temperature", None)
    if isinstance(temperature, int | float) and temperature > 0:
        return f"temperature {temperature:g}"
    parts = (getattr(generator, name, None) for name in _PARTS)
    found = (sampling_of(part) for part in parts if hasattr(part, "fingerprint"))
    return next((words for words in found if words), "")


def refuse_sampled_answer(engine: ProbeEngine, answer: Answer, generator: Generator) -> None:
    """Refuse a generator that does not say so but answers by chance.

    The probe that keeps every source, which each explanation needs, asks what the answer came from.
    Only where it says something else is the generator asked a third time: one that then says the
    same again has its reasons, such as another build since; one that changes again is refused. A
    vote over tries may change and is not compared.

    Args:
        engine: over the generator.
        answer: what is explained.
        generator: what gave it, without a cache in front.

    Raises:
        SamplingError: the generator answers the same request otherwise each time.
    """
    if isinstance(generator, VotingGenerator) or engine.max_probes == 0:
        return
    second = engine.probe([range(engine.num_sources)])[0]
    if normalize_answer(second) != normalize_answer(answer.text):
        refuse_another_answer(second, generator.generate([answer.request()])[0].text)


def refuse_sampling_generator(generator: Generator) -> None:
    """Refuse a generator that says it decodes by chance; asks nothing.

    Raises:
        SamplingError: it does; says how.
    """
    if how := sampling_of(generator):
        raise SamplingError(
            f"the generator decodes by chance ({how}): asked the same again it may answer "
            "otherwise, and a probe would tell as much about chance as about the sources",
            hint="set temperature 0, or let several tries vote (votes, VotingGenerator)",
        )


def refuse_sampling(generator: Generator, request: GenerationRequest, *, tries: int = 2) -> None:
    """Ask the same request several times and refuse a generator that answers differently.

    Raises:
        SamplingError: two answers differ; a probe would say as much about chance as about the
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
        SamplingError: the answers differ.
    """
    if second is not None and normalize_answer(first) != normalize_answer(second):
        raise SamplingError(
            f"the generator says {first!r} and then {second!r} to the same request",
            hint="decode greedily, or let several tries vote (votes, VotingGenerator)",
        )

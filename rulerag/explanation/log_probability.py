"""The log-probability of one response as what a probe gives; ContextCite explains its logit.

A verdict is 0 or 1; the log-probability of what the model wrote also tells by how much a source
counts. It comes from generators that score given texts, such as ``HuggingFaceGenerator``.

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 2: the response's probability
    under ablated contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, did_you_mean
from rulerag.explanation.asking import reading_of
from rulerag.explanation.cache import AnswerCache, CachedGenerator
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.sources import Source
from rulerag.io import fingerprint_object
from rulerag.types import Completion, GenerationRequest

if TYPE_CHECKING:
    from rulerag.protocols import Generator

__all__ = [
    "VALUES",
    "ResponseScorer",
    "ScoringGenerator",
    "check_value",
    "response_engine",
    "scoring",
]

VALUES = ("verdict", "log-probability")
"""What attribution can explain: whether the condition holds, or the response's log-probability."""


class ScoringGenerator(Protocol):
    """A generator that tells what it writes, and how probable a given text is."""

    @property
    def fingerprint(self) -> str:
        """Names the model and every setting that changes results."""
        ...

    def write(self, requests: Sequence[GenerationRequest]) -> list[str]:
        """What the model writes for each request, word for word."""
        ...

    def score(
        self, requests: Sequence[GenerationRequest], answers: Sequence[str], *, literal: bool
    ) -> npt.NDArray[np.float64]:
        """The log-probability of a text behind each request, of shape (len(requests),)."""
        ...


def scoring(generator: Generator | ScoringGenerator) -> ScoringGenerator:
    """The generator, where it gives log-probabilities.

    Raises:
        ConfigError: it does not.
    """
    if not all(callable(getattr(generator, name, None)) for name in ("score", "write")):
        raise ConfigError(
            f"{type(generator).__name__} gives no log-probability of a text",
            key="value",
            hint="a local language model does (generator type huggingface); or explain verdicts",
        )
    return cast(ScoringGenerator, generator)


def check_value(value: str, generator: Generator, attribution: Sequence[str]) -> None:
    """Refuse, before any work is done, a value that attribution could not explain.

    Raises:
        ConfigError: the value is unknown, nothing is to be attributed to sources, or the generator
            gives no log-probabilities.
    """
    if value not in VALUES:
        raise ConfigError(
            f"there is no value {value!r}", key="value", hint=did_you_mean(value, VALUES)
        )
    if value == "verdict":
        return
    scoring(generator)
    if not attribution:
        raise ConfigError(
            f"the {value} is a value of sources, and no method is named",
            key="value",
            hint="name one with attribution, such as guided or linear",
        )


class _OnScores:
    """What is made of a generator that scores texts; it reads what that one reads."""

    def __init__(self, generator: Generator | ScoringGenerator) -> None:
        self.generator = scoring(generator)

    @property
    def prompts(self) -> Any:
        """The generator's own, where it has them."""
        return getattr(self.generator, "prompts", None)

    def reading(self, request: GenerationRequest) -> object:
        """What the generator reads."""
        return reading_of(cast("Generator", self.generator), request)


class ResponseScorer(_OnScores):
    """A generator whose output is the log-probability that another writes one response.

    Made for a :class:`~rulerag.explanation.probe.ProbeEngine`: budget, cache and counts then hold
    for log-probabilities as they do for answers. Outputs are the numbers as texts, which
    ``float`` reads, and stand in the completions' scores too.

    Args:
        generator: one that scores texts.
        response: what is explained, word for word, as ``generator.write`` gives it.

    Raises:
        ConfigError: the generator gives no log-probabilities.
    """

    def __init__(self, generator: Generator | ScoringGenerator, response: str) -> None:
        super().__init__(generator)
        self.response = response

    @property
    def fingerprint(self) -> str:
        """Names the generator and the response."""
        return fingerprint_object(["log-probability", self.generator.fingerprint, self.response])

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """The log-probability of the response to each request, in order.

        Raises:
            GenerationError: a prompt with the response does not fit the model.
        """
        values = self.generator.score(requests, [self.response] * len(requests), literal=True)
        return [Completion(repr(float(value)), float(value)) for value in values]


class _Writer(_OnScores):
    """A generator whose output is what another writes, word for word."""

    @property
    def fingerprint(self) -> str:
        return fingerprint_object(["written", self.generator.fingerprint])

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        return [Completion(text) for text in self.generator.write(requests)]


def response_engine(
    generator: Generator,
    request: GenerationRequest,
    sources: Sequence[Source] | None = None,
    *,
    cache: AnswerCache | None = None,
    max_probes: int | None = None,
) -> ProbeEngine:
    """An engine over the log-probability of what a generator writes for a request.

    ``valued(engine, None)`` reads it as numbers; a predicate such as ``lambda text: float(text) >
    -1`` gives rules of the log-probability.

    Args:
        generator: one that scores texts.
        request: the whole request.
        sources: disjoint parts of its documents; each document is one by default.
        cache: where the response and its log-probabilities are kept.
        max_probes: how many distinct subsets may be scored; writing the response is one more call.

    Raises:
        ConfigError: the generator gives no log-probabilities.
        ExplanationError: there is no source, or the sources do not fit the documents.
        GenerationError: the request does not fit the model.
    """
    writer: Generator = _Writer(generator)
    if cache is not None:
        writer = CachedGenerator(writer, cache)
    scorer: Generator = ResponseScorer(generator, writer.generate([request])[0].text)
    if cache is not None:
        scorer = CachedGenerator(scorer, cache)
    return ProbeEngine.from_generator(scorer, request, sources, max_probes=max_probes)

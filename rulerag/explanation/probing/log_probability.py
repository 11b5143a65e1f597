"""The log-probability of one response as what a probe gives; ContextCite explains its logit.

A predicate value is 0 or 1; the log-probability of what the model wrote also shows by how much a
source counts. It comes from generators that score given texts, such as ``HuggingFaceGenerator``.

References:
    Cohen-Wang et al. 2024 (ContextCite, arXiv:2409.00729), section 2: the response's probability
    under ablated contexts.
"""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.errors import ConfigError
from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.probing.generators import WrappedGenerator
from rulerag.explanation.units import Context
from rulerag.io import fingerprint_object
from rulerag.protocols import Generator
from rulerag.types import Completion, GenerationRequest


def refuse_without_scores(generator: object) -> None:
    """Refuse a generator that does not tell how probable a given text is, and what it writes.

    Raises:
        ConfigError: it does not.
    """
    if not all(callable(getattr(generator, name, None)) for name in ("score", "write")):
        what = f"{type(generator).__name__} gives no log-probability of a text"
        hint = "a local language model does (generator type huggingface); or explain verdicts"
        raise ConfigError(what, key="value", hint=hint)


class ResponseScorer(WrappedGenerator):
    """A generator whose output is the log-probability that another writes one response.

    Made for a :class:`~rulerag.explanation.probing.ProbeEngine`: budget, cache and counts then hold
    for log-probabilities as they do for answers. Outputs are the numbers as texts, which
    ``float`` reads, and stand in the completions' scores too.

    Args:
        generator: one with the methods ``score`` and ``write`` of ``HuggingFaceGenerator``.
        response: what is explained, word for word, as ``generator.write`` gives it.

    Raises:
        ConfigError: the generator gives no log-probabilities.
    """

    def __init__(self, generator: object, response: str) -> None:
        refuse_without_scores(generator)
        super().__init__(generator)
        self.response = response

    @property
    def fingerprint(self) -> str:
        """Names the generator and the response."""
        return fingerprint_object(
            ["log-probability as written", self.generator.fingerprint, self.response]
        )

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """The log-probability of the response to each request, in order.

        Raises:
            GenerationError: a prompt with the response does not fit the model.
        """
        values = self.generator.score(requests, [self.response] * len(requests), literal=True)
        return [Completion(repr(float(value)), float(value)) for value in values]


class _Writer(WrappedGenerator):
    """A generator whose output is what another writes, word for word."""

    @property
    def fingerprint(self) -> str:
        return fingerprint_object(["written", self.generator.fingerprint])

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        return [Completion(text) for text in self.generator.write(requests)]


def response_engine(
    generator: Generator,
    request: GenerationRequest,
    context: Context | None = None,
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
        context: its documents cut into sources; each document is one by default.
        cache: where the response and its log-probabilities are kept.
        max_probes: how many distinct subsets may be scored; writing the response is one more call.

    Raises:
        ConfigError: the generator gives no log-probabilities.
        ExplanationError: there is no source.
        GenerationError: the request does not fit the model.
    """

    def cached(one: Generator) -> Generator:
        return one if cache is None else CachedGenerator(one, cache)

    refuse_without_scores(generator)
    response = cached(_Writer(generator)).generate([request])[0].text
    scorer = cached(ResponseScorer(generator, response))
    return ProbeEngine.from_generator(scorer, request, context, max_probes=max_probes)

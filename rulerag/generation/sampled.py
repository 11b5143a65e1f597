"""Answers drawn by chance, for methods that vote over several: each draw has a seed of its own.

A generator that can be asked so has a method ``sample`` beside ``generate``
(:class:`SamplingGenerator`). The functions here are that method of the readers that run a model.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rulerag.errors import ConfigError
from rulerag.generation.hf_batches import Tokens
from rulerag.generation.hf_decoding import Decoded, Decoder, best_tokens
from rulerag.protocols import Generator
from rulerag.types import Completion, GenerationRequest

if TYPE_CHECKING:
    from rulerag.generation.huggingface import HuggingFaceGenerator
    from rulerag.generation.openai_compatible import OpenAICompatibleGenerator

__all__ = ["SamplingGenerator", "sampled_by_endpoint", "sampled_by_model"]


@runtime_checkable
class SamplingGenerator(Generator, Protocol):
    """A generator that can also draw answers."""

    def sample(
        self, requests: Sequence[GenerationRequest], count: int, *, temperature: float, seed: int
    ) -> list[list[Completion]]:
        """Return ``count`` drawn completions for each request, in order."""
        ...


def sampled_by_model(
    reader: HuggingFaceGenerator,
    requests: Sequence[GenerationRequest],
    count: int,
    *,
    temperature: float,
    seed: int,
) -> list[list[Completion]]:
    """Draw answers from the model's distribution, whole (no top-k, no top-p).

    What is drawn depends on prompt and seed alone, not on the batch (up to rounding).

    Args:
        reader: whose method this is.
        requests: what is asked.
        count: answers of each request.
        temperature: scores are divided by it; above 0.
        seed: another one draws others.

    Returns:
        For each request its completions in the order of the draw; a score is the log-probability
        at temperature 1.

    Raises:
        ConfigError: the count or the temperature is out of range.
        GenerationError: a prompt does not fit even without documents.
    """
    _check(count, temperature)
    encoded = [tokens for _, tokens in reader.encode(requests)]
    distinct = {tokens.tobytes(): tokens for tokens in encoded}
    seeds = [_seed_of(key, seed, number) for key in distinct for number in range(count)]
    repeated = [tokens for tokens in distinct.values() for _ in range(count)]
    drawn = _draw(reader, repeated, temperature, seeds)
    of = {key: drawn[n * count : (n + 1) * count] for n, key in enumerate(distinct)}
    return [
        [reader._completion(decoded, request) for decoded in of[tokens.tobytes()]]
        for request, tokens in zip(requests, encoded, strict=True)
    ]


def sampled_by_endpoint(
    reader: OpenAICompatibleGenerator,
    requests: Sequence[GenerationRequest],
    count: int,
    *,
    temperature: float,
    seed: int,
) -> list[list[Completion]]:
    """Ask an endpoint ``count`` times at a temperature, each time with another seed.

    Endpoints take the seed as a wish: the same call may draw another answer.

    Args:
        reader: whose method this is.
        requests: what is asked.
        count: answers of each request.
        temperature: above 0.
        seed: of the first time; the others count up from it.

    Raises:
        ConfigError: the count or the temperature is out of range.
        GenerationError: as :meth:`OpenAICompatibleGenerator.generate`.
    """
    _check(count, temperature)
    rounds = []
    for number in range(count):
        drawing = copy.copy(reader)
        drawing.options = {**reader.options, "temperature": temperature, "seed": seed + number}
        try:
            rounds.append(drawing.generate(requests))
        finally:
            reader._usage = drawing._usage  # it goes on from what was counted before
    return [list(completions) for completions in zip(*rounds, strict=True)]


def _check(count: int, temperature: float) -> None:
    if count < 1:
        raise ConfigError(f"{count} is below 1", key="count")
    if temperature <= 0:
        raise ConfigError(f"{temperature} draws nothing", key="temperature", hint="0.7")


def _seed_of(prompt: bytes, seed: int, number: int) -> int:
    """A seed of 63 bits for one draw from a prompt."""
    digest = hashlib.sha256(f"{seed}:{number}:".encode() + prompt).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _draw(
    reader: HuggingFaceGenerator,
    prompts: Sequence[Tokens],
    temperature: float,
    seeds: Sequence[int],
) -> list[Decoded]:
    """Continue each prompt by chance, from its own seed."""
    import torch

    # On the processor: a seed draws the same there whatever the model runs on.
    chances = [torch.Generator().manual_seed(seed) for seed in seeds]

    def choose(logits: Any, places: Sequence[int]) -> tuple[Any, Any]:
        best_tokens(logits)  # refuses scores that are not numbers
        weights = torch.softmax(logits.float() / temperature, dim=-1).cpu()
        drawn = [
            torch.multinomial(row, 1, generator=chances[place])
            for row, place in zip(weights, places, strict=True)
        ]
        chosen = torch.cat(drawn).to(logits.device)
        scores = torch.log_softmax(logits.float(), dim=-1)
        return chosen, scores.gather(1, chosen[:, None])[:, 0]

    greedy = reader._decoders[1]
    decoder = Decoder(greedy.model, greedy.ending, greedy.pad, choose)
    return decoder.generate(prompts, reader._limits, lambda _: None)

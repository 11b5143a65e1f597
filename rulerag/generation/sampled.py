"""Answers drawn by chance, for methods that vote over several: each draw has a seed of its own.

A generator that can be asked so has a method ``sample`` beside ``generate``
(:class:`SamplingGenerator`). The functions here are that method of the readers that run a model.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from rulerag.errors import ConfigError
from rulerag.generation.hf_batches import Tokens
from rulerag.generation.hf_decoding import Decoded
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

    What is drawn depends on prompt and seed alone, not on the batch.

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
    drawn: dict[bytes, list[Decoded]] = {}
    found = []
    for request, (_, tokens) in zip(requests, reader.encode(requests), strict=True):
        key = tokens.tobytes()
        if key not in drawn:
            drawn[key] = _draw(reader, tokens, count, temperature, _seed_of(key, seed))
        found.append([reader._completion(decoded, request) for decoded in drawn[key]])
    return found


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


def _seed_of(prompt: bytes, seed: int) -> int:
    """A seed of 63 bits from a prompt and the seed of the run."""
    digest = hashlib.sha256(f"{seed}:".encode() + prompt).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _draw(
    reader: HuggingFaceGenerator, tokens: Tokens, count: int, temperature: float, seed: int
) -> list[Decoded]:
    """Continue one prompt several times."""
    import torch
    import transformers

    model, library = reader.model, cast(Any, transformers)
    ending = reader._decoders[1].ending
    prompt = torch.from_numpy(tokens)[None].to(model.device)
    # Of its own: what a model folder recommends (top-p, penalties) is not the distribution.
    chance = library.GenerationConfig(
        do_sample=True,
        temperature=temperature,
        top_k=0,
        top_p=1.0,
        max_new_tokens=reader.max_new_tokens,
        num_return_sequences=count,
        eos_token_id=sorted(ending.tokens) or None,
        pad_token_id=reader.tokenizer.pad_token_id or 0,
        return_dict_in_generate=True,
        output_logits=True,
    )
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.inference_mode():
        torch.manual_seed(seed)
        output = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), generation_config=chance
        )
    written = output.sequences[:, prompt.shape[1] :]
    scores = torch.stack(output.logits, dim=1).float().log_softmax(-1)
    each = scores.gather(2, written[..., None])[..., 0]
    results = [Decoded() for _ in range(count)]
    for result, row, values in zip(results, written.tolist(), each.tolist(), strict=True):
        for token, score in zip(row, values, strict=True):
            if not ending.take(result, token, score):
                break
    return results

"""A reader behind any OpenAI-compatible endpoint: OpenAI, vLLM, Ollama, llama.cpp, transformers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rulerag.errors import ConfigError
from rulerag.generation.openai_answers import score_of, system_of, text_of
from rulerag.generation.openai_calls import Endpoint, in_parallel
from rulerag.generation.prompts import Prompt, PromptTemplate
from rulerag.generation.sampled import sampled_by_endpoint
from rulerag.io import fingerprint_object
from rulerag.protocols import Arrival
from rulerag.types import Completion, GenerationRequest

__all__ = ["OpenAICompatibleGenerator", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What an endpoint was asked and what it counted.

    Args:
        calls: answered calls.
        retries: calls that were tried again.
        prompt_tokens: tokens read, as the endpoint counts them.
        completion_tokens: tokens written.
        cost: the price of both, in the unit of the prices; None without prices.
    """

    calls: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


class OpenAICompatibleGenerator:
    """Answers through an HTTP endpoint that speaks OpenAI's language.

    Calls run in parallel, at most ``concurrency`` at a time, at temperature 0. Failures that may
    pass are tried again (see :class:`~rulerag.generation.openai_calls.Endpoint`); the first that
    will not ends the call to :meth:`generate`. Equal prompts are asked once. An answer that is
    empty, cut or refused is an error (:mod:`~rulerag.generation.openai_answers`).

    Args:
        base_url: the address, for example ``http://localhost:8000/v1``.
        model: the model's name at the endpoint.
        api_key: the key; by default the value of the variable ``api_key_env``, or none.
        api_key_env: the environment variable that holds the key.
        api: ``chat`` (``/chat/completions``) or ``completions`` (``/completions``, for models
            without a chat template).
        template: the prompts (see :meth:`~rulerag.generation.prompts.PromptTemplate.of`).
        max_new_tokens: how long an answer may get.
        max_prompt_tokens: pack documents under this many tokens; None for no limit.
        count_tokens: counts the tokens of a text; a third of its characters by default.
        concurrency: the most calls at a time.
        timeout: seconds that the endpoint may be silent.
        max_retries: how often one call is tried again.
        backoff: seconds before the first retry; doubled with each further one.
        max_wait: the longest wait that an endpoint may ask for, in seconds.
        log_probability: ask for token log-probabilities; their sum is the completion's score.
        prices: price of a million prompt tokens and of a million completion tokens.
        options: further keys of the body; None as a value leaves a key out, as in
            ``{"max_tokens": None, "max_completion_tokens": 32}``.
        progress: show a progress bar.

    Raises:
        ConfigError: a wrong address, key, api or number.
        MissingDependencyError: the openai package is not installed.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        api: Literal["chat", "completions"] = "chat",
        template: PromptTemplate | str | Mapping[str, Any] | None = None,
        max_new_tokens: int = 32,
        max_prompt_tokens: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
        concurrency: int = 8,
        timeout: float = 60.0,
        max_retries: int = 4,
        backoff: float = 0.5,
        max_wait: float = 120.0,
        log_probability: bool = False,
        prices: tuple[float, float] | None = None,
        options: Mapping[str, Any] | None = None,
        progress: bool = False,
    ) -> None:
        if api not in ("chat", "completions"):
            raise ConfigError(f"no such api: {api!r}", key="api", hint="'chat' or 'completions'")
        for key, value in (("concurrency", concurrency), ("max_new_tokens", max_new_tokens)):
            if value < 1:
                raise ConfigError(f"{value} is below 1", key=key)
        self.model, self.api = model, api
        self.template = PromptTemplate.of(template)
        self.max_new_tokens, self.max_prompt_tokens = max_new_tokens, max_prompt_tokens
        self.count_tokens = count_tokens or _about
        self.concurrency, self.progress = concurrency, progress
        self.log_probability, self.prices = log_probability, prices
        self.options = dict(options or {})
        self._usage = Usage()
        self._system = ""
        self._lock = threading.Lock()
        self._endpoint = Endpoint(
            base_url,
            api_key if api_key is not None else os.environ.get(api_key_env),
            timeout=timeout,
            max_retries=max_retries,
            backoff=backoff,
            max_wait=max_wait,
        )

    def __repr__(self) -> str:
        return f"OpenAICompatibleGenerator({self._endpoint.name!r}, {self.model!r})"

    @property
    def fingerprint(self) -> str:
        """Names endpoint, model, template and every setting that changes answers; no key.

        Which build of the model answers only its answers tell: see :attr:`system_fingerprint`.
        """
        counted = getattr(self.count_tokens, "__qualname__", type(self.count_tokens).__qualname__)
        packing = [self.max_prompt_tokens, counted if self.max_prompt_tokens else None]
        settings = [self.max_new_tokens, *packing, self.log_probability, self.options]
        template = [type(self.template).__name__, self.template.fingerprint]
        parts = [self._endpoint.name, self.model, self.api, *template, *settings]
        return fingerprint_object(["openai-compatible", *parts])

    @property
    def system_fingerprint(self) -> str:
        """Which build of the model gave the latest answer, where the endpoint tells; else empty."""
        return self._system

    @property
    def sampling(self) -> str:
        """How the endpoint was told to decode by chance; empty at temperature 0, the default."""
        temperature = self.options.get("temperature", 0)
        if temperature is None:
            return "the endpoint's own temperature"
        return "" if temperature == 0 else f"temperature {temperature}"

    @property
    def usage(self) -> Usage:
        """Calls, retries, tokens and cost since this object was made."""
        with self._lock:
            usage = replace(self._usage, retries=self._endpoint.retries)
        if self.prices is None:
            return usage
        read, written = self.prices
        cost = (usage.prompt_tokens * read + usage.completion_tokens * written) / 1e6
        return replace(usage, cost=cost)

    def prompts(self, requests: Sequence[GenerationRequest]) -> list[Prompt]:
        """What the model reads for each request, and which documents did not fit.

        Raises:
            GenerationError: a prompt does not fit even without documents.
        """
        budget, count = self.max_prompt_tokens, self.count_tokens
        return [self.template.render(r, budget=budget, count=count) for r in requests]

    def reading(self, request: GenerationRequest) -> object:
        """The packed prompt, word for word."""
        return self.prompts([request])[0].text

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order.

        Raises:
            GenerationError: a call failed for good (the endpoint is down or slow, the key is
                wrong, the answer is nonsense); ``retryable`` says whether a later one may succeed.
            EmptyCompletionError, CutCompletionError, RefusedCompletionError: it answered, and said
                nothing.
        """
        found = {arrival.place: arrival.completion for arrival in self.stream(requests)}
        return [found[place] for place in range(len(requests))]

    def stream(self, requests: Sequence[GenerationRequest]) -> Iterator[Arrival]:
        """Every answer as soon as it is there, in any order.

        When a call fails for good, or the user interrupts, no further call is made; those under way
        are waited for and handed out before the failure is raised.

        Raises:
            GenerationError: as :meth:`generate`.
        """
        from tqdm import tqdm

        texts = [prompt.text for prompt in self.prompts(requests)]
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            places.setdefault(text, []).append(place)
        first = {text: requests[where[0]] for text, where in places.items()}
        bar = tqdm(total=len(first), desc="generate", disable=not self.progress)
        with bar:
            for (text, _), found in in_parallel(first.items(), self._complete, self.concurrency):
                bar.update()
                for place in places[text]:
                    yield Arrival(place, *found)

    def _complete(
        self, asked: tuple[str, GenerationRequest], stop: threading.Event
    ) -> tuple[Completion, str]:
        """The answer to one prompt, and which build of the model gave it."""
        text, request = asked
        answer = self._endpoint.call(self.api, self._payload(text), stop)
        self._count(answer.get("usage"))
        written = text_of(
            answer,
            self.api,
            provider=self._endpoint.name,
            asked=f"query {request.query.id!r}",
            read=lambda part: self.template.read(part, request),
        )
        system = self._system = system_of(answer)
        score = score_of(answer, self.api) if self.log_probability else None
        return Completion(self.template.read(written, request), score), system

    sample = sampled_by_endpoint

    def _payload(self, text: str) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": self.model,
            "temperature": 0,
            "max_tokens": self.max_new_tokens,
        }
        if self.api == "chat":
            payload["messages"] = [{"role": "user", "content": text}]
        else:
            payload |= {"prompt": text, "stop": ["\n"]}
        if self.log_probability:
            payload["logprobs"] = True if self.api == "chat" else 1
        payload |= self.options
        return {key: value for key, value in payload.items() if value is not None}

    def _count(self, usage: Any) -> None:
        stated = usage if isinstance(usage, dict) else {}
        read, written = (
            value if isinstance(value := stated.get(key), int) else 0
            for key in ("prompt_tokens", "completion_tokens")
        )
        with self._lock:
            self._usage = replace(
                self._usage,
                calls=self._usage.calls + 1,
                prompt_tokens=self._usage.prompt_tokens + read,
                completion_tokens=self._usage.completion_tokens + written,
            )


def _about(text: str) -> int:
    return -(-len(text) // 3)

"""A reader behind any OpenAI-compatible endpoint: OpenAI, vLLM, Ollama, llama.cpp, transformers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Literal

from rulerag.errors import ConfigError, GenerationError
from rulerag.generation.openai_calls import Endpoint, Stopped
from rulerag.generation.prompts import Prompt, PromptTemplate
from rulerag.generation.sampled import sampled_by_endpoint
from rulerag.io import fingerprint_object
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
    will not ends the call to :meth:`generate`. Equal prompts are asked once.

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
        """Names endpoint, model, template and every setting that changes answers; no key."""
        settings = [self.max_new_tokens, self.max_prompt_tokens, self.options]
        parts = [self._endpoint.name, self.model, self.api, self.template.fingerprint, *settings]
        return fingerprint_object(["openai-compatible", *parts])

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

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order.

        Raises:
            GenerationError: a call failed for good (the endpoint is down or slow, the key is
                wrong, the answer is nonsense); ``retryable`` says whether a later one may succeed.
        """
        texts = [prompt.text for prompt in self.prompts(requests)]
        distinct = dict(zip(texts, requests, strict=True))
        answers = dict(zip(distinct, self._ask(distinct), strict=True))
        return [answers[text] for text in texts]

    def _ask(self, texts: Mapping[str, GenerationRequest]) -> list[Completion]:
        from tqdm import tqdm

        stop = threading.Event()
        bar = tqdm(total=len(texts), desc="generate", disable=not self.progress)
        with bar, ThreadPoolExecutor(max_workers=self.concurrency) as pool:
            try:
                futures = [pool.submit(self._complete, *pair, stop) for pair in texts.items()]
                for future in futures:
                    future.add_done_callback(lambda _: bar.update())
                done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
                if waiting or any(future.exception() for future in done):
                    raise _first_failure(futures)
            finally:
                # Also on an interrupt: what has not begun is not asked.
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
        return [future.result() for future in futures]

    def _complete(self, text: str, request: GenerationRequest, stop: threading.Event) -> Completion:
        answer = self._endpoint.call(self.api, self._payload(text), stop)
        choice = answer["choices"][0] if answer["choices"] else None
        written = _written(choice, self.api)
        if written is None:
            raise GenerationError(
                "answered a completion without a text",
                provider=self._endpoint.name,
                hint="check api=: chat models answer 'chat', base models 'completions'",
            )
        self._count(answer.get("usage"))
        score = _score(choice, self.api) if self.log_probability else None
        return Completion(self.template.read(written, request), score)

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


def _first_failure(futures: Sequence[Future[Completion]]) -> BaseException:
    """The failure to report: that of the first prompt that was not merely stopped."""
    failures = [f.exception() for f in futures if f.done() and not f.cancelled()]
    shown = [f for f in failures if f is not None and not isinstance(f, Stopped)]
    return shown[0] if shown else GenerationError("the calls were stopped")


def _about(text: str) -> int:
    return -(-len(text) // 3)


def _written(choice: Any, api: str) -> str | None:
    """The text of a choice; empty for a refusal, None when it has no place for a text."""
    if not isinstance(choice, dict):
        return None
    holder = choice.get("message") if api == "chat" else choice
    if not isinstance(holder, dict):
        return None
    text = holder.get("content" if api == "chat" else "text")
    if isinstance(text, list):  # parts of a message
        text = "".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
    return text if isinstance(text, str) else "" if api == "chat" and text is None else None


def _score(choice: Any, api: str) -> float | None:
    """The sum of the tokens' log-probabilities, where the endpoint gives them."""
    given = choice.get("logprobs")
    if not isinstance(given, dict):
        return None
    if api == "chat":
        values = [t.get("logprob") for t in given.get("content") or () if isinstance(t, dict)]
    else:
        values = list(given.get("token_logprobs") or ())
    numbers = [value for value in values if isinstance(value, int | float)]
    return float(sum(numbers)) if numbers else None

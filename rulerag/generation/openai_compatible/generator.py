"""A generator behind any OpenAI-compatible endpoint, and how it is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, Self

import pydantic

from rulerag.composition import Settings, check_range, register
from rulerag.errors import ConfigError
from rulerag.generation.openai_compatible.answers import Reply, read
from rulerag.generation.openai_compatible.endpoint import Endpoint
from rulerag.generation.prompts import Prompt, PromptTemplate
from rulerag.io import fingerprint_object
from rulerag.protocols import Arrival
from rulerag.types import Completion, GenerationRequest, Query

_PATHS = {"chat": "/chat/completions", "completions": "/completions"}


class CallSettings(Settings):
    """How an endpoint is called and what it may write.

    Args:
        api_key_env: the environment variable that holds the key.
        api: ``chat`` (``/chat/completions``) or ``completions`` (``/completions``, for models
            without a chat template).
        max_new_tokens: how long an answer may get.
        max_prompt_tokens: pack documents under this many tokens, each of three characters; None
            for no limit.
        concurrency: the most calls at a time, up to 1,000.
        timeout: seconds that the endpoint may be silent.
        max_retries: how often one call is tried again.
        log_probability: request token log-probabilities; their sum is the completion's score,
            where the endpoint gives one for every token of the answer and for no thought.
        options: further keys of the body; None as a value leaves a key out, as in
            ``{"max_tokens": None, "max_completion_tokens": 32}``.
    """

    api_key_env: str = "OPENAI_API_KEY"
    api: Literal["chat", "completions"] = "chat"
    max_new_tokens: int = pydantic.Field(default=32, ge=1)
    max_prompt_tokens: int | None = None
    concurrency: int = pydantic.Field(default=8, ge=1, le=1_000)
    timeout: float = pydantic.Field(default=60.0, gt=0)
    max_retries: int = pydantic.Field(default=4, ge=0)
    log_probability: bool = False
    options: Mapping[str, Any] = {}


@register("generator", "openai")
class OpenAICompatibleGenerator:
    """Answers through an HTTP endpoint that speaks OpenAI's language.

    Calls run in parallel, at most ``concurrency`` at a time, at temperature 0. Equal prompts are
    sent once. The openai client tries a call again after a failed connection, a timeout and the
    statuses 408, 409, 429 and 5xx; it waits between tries (exponential backoff up to 8 seconds, or
    as long as ``Retry-After`` says, up to 2 minutes). The first call that fails for good ends
    :meth:`generate`. No message shows the key.

    Args:
        base_url: the address, for example ``http://localhost:8000/v1``.
        model: the model's name at the endpoint.
        api_key: the key; by default the value of the variable ``api_key_env``, or none.
        template: the prompts (see :meth:`~rulerag.generation.prompts.PromptTemplate.of`).
        progress: show a progress bar.
        settings: how it is called (:class:`CallSettings`).
        changes: settings one by one, which overrule.

    Raises:
        ConfigError: a wrong address, key or setting.
        MissingDependencyError: the openai package is not installed.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        template: PromptTemplate | str | Mapping[str, Any] | None = None,
        progress: bool = False,
        settings: CallSettings | None = None,
        **changes: Any,
    ) -> None:
        self.settings = CallSettings.joined(settings, changes)
        self.model, self.progress = model, progress
        self.template = PromptTemplate.of(template)
        own = self.settings
        stated = os.environ.get(own.api_key_env, "") if api_key is None else api_key
        self._endpoint = Endpoint(
            base_url, stated.strip(), timeout=own.timeout, max_retries=own.max_retries
        )
        self.address = self._endpoint.address
        self._system = ""

    def only_to(self, resolve: Callable[[str, int], str]) -> Self:
        """The same, calling what a host was resolved to, without proxies and with a size limit.

        Args:
            resolve: from a host and a port to an address; raises why it may not be called.
        """
        self._endpoint.resolve = resolve
        return self

    def __repr__(self) -> str:
        return f"OpenAICompatibleGenerator({self.address!r}, {self.model!r})"

    @property
    def fingerprint(self) -> str:
        """Names endpoint, model, template and every setting that changes answers; no key.

        Which build of the model answers only its answers say: see :attr:`system_fingerprint`.
        """
        own = self.settings
        limits = [own.max_new_tokens, own.max_prompt_tokens, own.log_probability, dict(own.options)]
        template = [type(self.template).__name__, self.template.fingerprint]
        parts = [self.address, self.model, own.api, *template, *limits]
        return fingerprint_object(["openai-compatible", *parts])

    @property
    def system_fingerprint(self) -> str:
        """Which build of the model gave the latest answer, where the endpoint says; else empty."""
        return self._system

    def server(self) -> dict[str, Any]:
        """What the endpoint says of itself: its model, and of vLLM version and flags.

        Flags are told by a vLLM that was started with ``VLLM_SERVER_DEV_MODE=1``.
        """
        return {"address": self.address, "model": self.model, **self._endpoint.about(self.model)}

    @property
    def sampling(self) -> str:
        """How the endpoint samples answers; empty at temperature 0, the default."""
        temperature = self.settings.options.get("temperature", 0)
        if temperature is None:
            return "the endpoint's own temperature"
        return "" if temperature == 0 else f"temperature {temperature}"

    def prompts(self, requests: Sequence[GenerationRequest]) -> list[Prompt]:
        """What the model reads for each request, and which documents did not fit.

        Raises:
            GenerationError: a prompt does not fit even without documents.
        """
        budget = self.settings.max_prompt_tokens
        return [self.template.render(r, budget=budget, count=_about) for r in requests]

    def reading(self, request: GenerationRequest) -> object:
        """The packed prompt, word for word, and by what its completion is read."""
        return [self.prompts([request])[0].text, *self.template.read_by(request)]

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Return one completion for each request, in order.

        Raises:
            GenerationError: a call failed for good (the endpoint is down or slow, the key is
                wrong, the answer is nonsense); ``retryable`` says whether a later one may succeed.
            EmptyCompletionError, CutCompletionError, RefusedCompletionError: it answered, and said
                nothing.
        """
        completions = {arrival.place: arrival.completion for arrival in self.stream(requests)}
        return [completions[place] for place in range(len(requests))]

    def stream(self, requests: Sequence[GenerationRequest]) -> Iterator[Arrival]:
        """Every answer as soon as it is there, in any order.

        When a call fails for good, or the user interrupts, no further call is made; those under way
        that end well are handed out before the failure is raised. Closing the iterator drops them
        and closes their connections, and so does a second interrupt.

        Raises:
            GenerationError: as :meth:`generate`.
        """
        return self._stream(requests, self.settings.options)

    def sample(
        self, requests: Sequence[GenerationRequest], count: int, *, temperature: float, seed: int
    ) -> list[list[Completion]]:
        """Call the endpoint ``count`` times at a temperature, each time with another seed.

        Endpoints take the seed as a wish: the same call may draw another answer.

        Args:
            requests: what is read.
            count: answers of each request.
            temperature: above 0.
            seed: of the first time; the others count up from it.

        Raises:
            ConfigError: the count or the temperature is out of range.
            GenerationError: as :meth:`generate`.
        """
        check_range("count", count, 1)
        if temperature <= 0:
            raise ConfigError(f"{temperature} draws nothing", key="temperature", hint="0.7")
        drawn: list[list[Completion]] = [[Completion("")] * count for _ in requests]
        for number in range(count):
            options = {**self.settings.options, "temperature": temperature, "seed": seed + number}
            for arrival in self._stream(requests, options):
                drawn[arrival.place][number] = arrival.completion
        return drawn

    def stream_text(self, request: GenerationRequest) -> Generator[str, None, Completion]:
        """One answer's text in pieces, as the model writes it, without what it thinks before.

        What it returns in the end is the completion that :meth:`generate` would return
        (``completion = yield from generator.stream_text(request)``). A stream that has begun is not
        tried again. Closing the iterator closes the connection.

        Raises:
            GenerationError: as :meth:`generate`, and where the stream ends before the answer does
                (retryable) or the server cannot stream.
        """
        streamed = {"stream": True, "stream_options": {"include_usage": True}}
        body = self._payload(self.prompts([request])[0].text, {**streamed, **self.settings.options})
        answer = Reply(chat=self.settings.api == "chat")
        with closing(self._endpoint.events(_PATHS[self.settings.api], body)) as events:
            for event in events:
                if piece := answer.shown(answer.add(event) or ""):
                    yield piece
        if answer.finish is None:
            raise self._endpoint.error(
                f"ended the stream before the answer to query {request.query.id!r}",
                "try again: the server was stopped, or failed; its log says more",
                retryable=True,
            )
        return self._completion(answer, request)

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """What the model answers to messages as they stand, at temperature 0.

        Args:
            messages: each with ``role`` and ``content``.

        Raises:
            ConfigError: the api is not ``chat``.
            GenerationError: as :meth:`generate`.
        """
        if self.settings.api != "chat":
            raise ConfigError("base models take no messages", key="api", hint="api='chat'")
        body = self._payload("", self.settings.options) | {"messages": [*map(dict, messages)]}
        request = GenerationRequest(Query("messages", ""))
        answers = self._endpoint.in_parallel(
            _PATHS["chat"], {0: body}, lambda _, answer: self._whole(answer, request), 1
        )
        ((_, (completion, _)),) = answers
        return completion.text

    def _stream(
        self, requests: Sequence[GenerationRequest], options: Mapping[str, Any]
    ) -> Iterator[Arrival]:
        from tqdm import tqdm

        places: dict[str, list[int]] = {}
        for place, prompt in enumerate(self.prompts(requests)):
            places.setdefault(prompt.text, []).append(place)

        def completion(text: str, answer: Any) -> tuple[Completion, str]:
            return self._whole(answer, requests[places[text][0]])

        bodies = {text: self._payload(text, options) for text in places}
        path, at_once = _PATHS[self.settings.api], self.settings.concurrency
        answers = self._endpoint.in_parallel(path, bodies, completion, at_once)
        with (
            tqdm(total=len(places), desc="generate", disable=not self.progress) as bar,
            closing(answers),
        ):
            for text, (completed, system) in answers:
                bar.update()
                for place in places[text]:
                    yield Arrival(place, completed, system)

    def _whole(self, body: Any, request: GenerationRequest) -> tuple[Completion, str]:
        """The completion in the body of an answered call, and which build of the model gave it."""
        answer = Reply(chat=self.settings.api == "chat")
        if answer.add(body) is None:
            raise self._endpoint.error(
                "answered a completion without a text",
                "check api=: chat models answer 'chat', base models 'completions'",
            )
        return self._completion(answer, request), answer.system

    def _completion(self, answer: Reply, request: GenerationRequest) -> Completion:
        text = read(answer, request, template=self.template, error=self._endpoint.error)
        self._system = answer.system
        return Completion(text, answer.score if self.settings.log_probability else None)

    def _payload(self, text: str, options: Mapping[str, Any]) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": self.model,
            "temperature": 0,
            "max_tokens": self.settings.max_new_tokens,
        }
        if self.settings.api == "chat":
            payload["messages"] = self.template.conversation(text)
        else:
            payload |= {"prompt": self.template.continued(text), "stop": [self.template.stop]}
        if self.settings.log_probability:
            payload["logprobs"] = True if self.settings.api == "chat" else 1
        return {key: value for key, value in (payload | dict(options)).items() if value is not None}


def _about(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text) // 3)

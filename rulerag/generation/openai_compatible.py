"""A generator behind any OpenAI-compatible endpoint: OpenAI, vLLM, Ollama, llama.cpp, transformers.

The openai client makes the calls and tries failed ones again. A completion that is empty, null,
cut or refused says nothing about the evidence in its prompt: each is an error of its own kind, so
that none is taken for an answer that changed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

import pydantic

from rulerag.composition import Settings, register
from rulerag.errors import (
    ConfigError,
    CutCompletionError,
    EmptyCompletionError,
    GenerationError,
    MissingDependencyError,
    RefusedCompletionError,
)
from rulerag.generation.prompts import Prompt, PromptTemplate
from rulerag.io import fingerprint_object
from rulerag.protocols import Arrival
from rulerag.types import Completion, GenerationRequest

Task = TypeVar("Task")
Result = TypeVar("Result")

_PATHS = {"chat": "/chat/completions", "completions": "/completions"}
_CUT = frozenset({"length", "max_tokens"})
_FILTERED = frozenset({"content_filter", "content_policy_violation"})
_NO_QUOTA = "insufficient_quota"
_RETRYABLE = frozenset({408, 409, 425, 429})
_FINAL_5XX = frozenset({501, 505})
_HINTS = {
    401: "check the API key: api_key=, or the variable that api_key_env names",
    403: "the API key may not use this model",
    404: "check base_url (it usually ends in /v1), the model's name and api=",
    429: "lower concurrency=, or try again later",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """The calls to an endpoint and the tokens that it counted.

    Args:
        calls: answered calls.
        retries: calls that were tried again.
        prompt_tokens: tokens read, as the endpoint counts them.
        completion_tokens: tokens written.
    """

    calls: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class EndpointSettings(Settings):
    """How an endpoint is called and what it may write.

    Args:
        api_key_env: the environment variable that holds the key.
        api: ``chat`` (``/chat/completions``) or ``completions`` (``/completions``, for models
            without a chat template).
        max_new_tokens: how long an answer may get.
        max_prompt_tokens: pack documents under this many tokens, each of three characters; None
            for no limit.
        concurrency: the most calls at a time.
        timeout: seconds that the endpoint may be silent.
        max_retries: how often one call is tried again.
        log_probability: request token log-probabilities; their sum is the completion's score.
        options: further keys of the body; None as a value leaves a key out, as in
            ``{"max_tokens": None, "max_completion_tokens": 32}``.
    """

    api_key_env: str = "OPENAI_API_KEY"
    api: Literal["chat", "completions"] = "chat"
    max_new_tokens: int = pydantic.Field(default=32, ge=1)
    max_prompt_tokens: int | None = None
    concurrency: int = pydantic.Field(default=8, ge=1)
    timeout: float = pydantic.Field(default=60.0, gt=0)
    max_retries: int = pydantic.Field(default=4, ge=0)
    log_probability: bool = False
    options: Mapping[str, Any] = {}


@register("generator", "openai")
class OpenAICompatibleGenerator:
    """Answers through an HTTP endpoint that speaks OpenAI's language.

    Calls run in parallel, at most ``concurrency`` at a time, at temperature 0. Equal prompts are
    sent once. A call is tried again after a failed connection, a timeout and the statuses 408, 409,
    425, 429 and 5xx, but for 501, 505 and an empty account; the openai client waits between tries
    (exponential backoff up to 8 seconds, or as long as ``Retry-After`` says, up to 2 minutes). The
    first call that fails for good ends :meth:`generate`. No message shows the key.

    Args:
        base_url: the address, for example ``http://localhost:8000/v1``.
        model: the model's name at the endpoint.
        api_key: the key; by default the value of the variable ``api_key_env``, or none.
        template: the prompts (see :meth:`~rulerag.generation.prompts.PromptTemplate.of`).
        progress: show a progress bar.
        settings: how it is called (:class:`EndpointSettings`).
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
        settings: EndpointSettings | None = None,
        **changes: Any,
    ) -> None:
        self.settings = EndpointSettings.joined(settings, changes)
        self.model, self.progress = model, progress
        self.template = PromptTemplate.of(template)
        stated = os.environ.get(self.settings.api_key_env, "") if api_key is None else api_key
        self._key = stated.strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise ConfigError("the API key holds characters that cannot be sent", key="api_key")
        self.address = _public_address(base_url)
        self._counts: Counter[str] = Counter()
        self._system = ""
        self._lock = threading.Lock()
        self._client = self._open(base_url)

    def _open(self, base_url: str) -> Any:
        """The client; hooks count its retries and say which failures it should try again."""
        try:
            import openai
        except ImportError:
            raise MissingDependencyError("openai", "openai") from None

        counts, lock = self._counts, self._lock  # not self: the client must not keep it alive

        def count(request: Any) -> None:
            if request.headers.get("x-stainless-retry-count", "0") != "0":
                with lock:
                    counts["retries"] += 1

        hooks: dict[str, list[Callable[..., Any]]] = {"request": [count], "response": [_mark_retry]}
        client = openai.OpenAI(
            base_url=base_url,
            api_key=self._key or "none",
            timeout=self.settings.timeout,
            max_retries=self.settings.max_retries,
            http_client=openai.DefaultHttpxClient(event_hooks=hooks),
        )
        weakref.finalize(self, client.close)
        return client

    def __repr__(self) -> str:
        return f"OpenAICompatibleGenerator({self.address!r}, {self.model!r})"

    @property
    def fingerprint(self) -> str:
        """Names endpoint, model, template and every setting that changes answers; no key.

        Which build of the model answers only its answers say: see :attr:`system_fingerprint`.
        """
        own = self.settings
        packing = [own.max_prompt_tokens, "_about" if own.max_prompt_tokens else None]
        limits = [own.max_new_tokens, *packing, own.log_probability, dict(own.options)]
        template = [type(self.template).__name__, self.template.fingerprint]
        parts = [self.address, self.model, own.api, *template, *limits]
        return fingerprint_object(["openai-compatible", *parts])

    @property
    def system_fingerprint(self) -> str:
        """Which build of the model gave the latest answer, where the endpoint says; else empty."""
        return self._system

    @property
    def sampling(self) -> str:
        """How the endpoint samples answers; empty at temperature 0, the default."""
        temperature = self.settings.options.get("temperature", 0)
        if temperature is None:
            return "the endpoint's own temperature"
        return "" if temperature == 0 else f"temperature {temperature}"

    @property
    def usage(self) -> Usage:
        """Calls, retries and tokens since this object was made."""
        return Usage(**self._counts)

    def prompts(self, requests: Sequence[GenerationRequest]) -> list[Prompt]:
        """What the model reads for each request, and which documents did not fit.

        Raises:
            GenerationError: a prompt does not fit even without documents.
        """
        budget = self.settings.max_prompt_tokens
        return [self.template.render(r, budget=budget, count=_about) for r in requests]

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
        if count < 1:
            raise ConfigError(f"{count} is below 1", key="count")
        if temperature <= 0:
            raise ConfigError(f"{temperature} draws nothing", key="temperature", hint="0.7")
        drawn: list[list[Completion]] = [[Completion("")] * count for _ in requests]
        for number in range(count):
            options = {**self.settings.options, "temperature": temperature, "seed": seed + number}
            for arrival in self._stream(requests, options):
                drawn[arrival.place][number] = arrival.completion
        return drawn

    def _stream(
        self, requests: Sequence[GenerationRequest], options: Mapping[str, Any]
    ) -> Iterator[Arrival]:
        from tqdm import tqdm

        places: dict[str, list[int]] = {}
        for place, prompt in enumerate(self.prompts(requests)):
            places.setdefault(prompt.text, []).append(place)
        first = [(text, requests[where[0]]) for text, where in places.items()]
        complete = partial(self._complete, options)
        with tqdm(total=len(first), desc="generate", disable=not self.progress) as bar:
            for (text, _), found in _in_parallel(first, complete, self.settings.concurrency):
                bar.update()
                for place in places[text]:
                    yield Arrival(place, *found)

    def _complete(
        self, options: Mapping[str, Any], prompt: tuple[str, GenerationRequest]
    ) -> tuple[Completion, str]:
        """The answer to one prompt, and which build of the model gave it."""
        text, request = prompt
        answer = self._call(self._payload(text, options))
        tokens = {key: _at(answer, "usage", key) for key in ("prompt_tokens", "completion_tokens")}
        with self._lock:
            self._counts.update(calls=1, **{k: n for k, n in tokens.items() if isinstance(n, int)})
        read = self._read(answer, request)
        system = _at(answer, "system_fingerprint")
        self._system = system if isinstance(system, str) else ""
        score = self._score(answer) if self.settings.log_probability else None
        return Completion(read, score), self._system

    def _payload(self, text: str, options: Mapping[str, Any]) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": self.model,
            "temperature": 0,
            "max_tokens": self.settings.max_new_tokens,
        }
        system = self.template.system
        if self.settings.api == "chat":
            said = [{"role": "system", "content": system}] if system else []
            payload["messages"] = [*said, {"role": "user", "content": text}]
        else:
            payload |= {"prompt": f"{system}\n{text}" if system else text, "stop": ["\n"]}
        if self.settings.log_probability:
            payload["logprobs"] = True if self.settings.api == "chat" else 1
        return {key: value for key, value in (payload | dict(options)).items() if value is not None}

    def _call(self, payload: Mapping[str, Any]) -> Any:
        """The endpoint's answer, which has choices."""
        import openai

        try:
            answer = self._client.post(_PATHS[self.settings.api], cast_to=object, body=payload)
        except openai.APIError as error:
            raise self._failure(error) from None
        except ValueError as error:  # no JSON
            answer = getattr(error, "doc", "")
        if not isinstance(_at(answer, "choices"), list):
            start = " ".join(str(answer).split())[:120]
            raise self._error(
                f"answered something that is no completion: {start!r}",
                hint="check base_url (it usually ends in /v1) and api=",
            )
        return answer

    def _failure(self, error: Any) -> GenerationError:
        """What a failed call means."""
        import openai

        if isinstance(error, openai.APITimeoutError):
            message = f"no answer within {self.settings.timeout:g} seconds"
            return self._error(message, "raise timeout=, or lower concurrency=", retryable=True)
        if isinstance(error, openai.APIConnectionError):
            cause = str(error.__cause__ or error) or "no connection"
            hint = "is the server running at this address?"
            return self._error(f"cannot be reached ({cause})", hint, retryable=True)
        status, code = getattr(error, "status_code", 0), getattr(error, "code", None)
        reason = str(error.message)[:300]
        message = f"status {status}: {reason}" if status else reason
        if code in _FILTERED:
            hint = "take another model, or leave out what its content filter objects to"
            return self._error(f"refused the question: {message}", hint, RefusedCompletionError)
        passing = status in _RETRYABLE or (status >= 500 and status not in _FINAL_5XX)
        return self._error(message, _HINTS.get(status), retryable=passing and code != _NO_QUOTA)

    def _error(
        self,
        message: str,
        hint: str | None,
        kind: type[GenerationError] = GenerationError,
        *,
        retryable: bool = False,
    ) -> GenerationError:
        """An error of this endpoint, without the key."""
        safe = message.replace(self._key, "***") if self._key else message
        return kind(safe, provider=self.address, retryable=retryable, hint=hint)

    def _read(self, answer: Any, request: GenerationRequest) -> str:
        """The answer in what the model wrote; never empty.

        A text that was cut at the limit of tokens counts as long as the line with the answer ended
        before the cut: nothing behind that line is read.

        Raises:
            RefusedCompletionError: the model refused, or a content filter kept the text back.
            CutCompletionError: the text was cut before its answer ended.
            EmptyCompletionError: the text is null or empty, or holds no answer.
            GenerationError: the answer has no place for a text.
        """
        chat, query = self.settings.api == "chat", f"query {request.query.id!r}"
        choice = _at(answer, "choices", 0)
        holder = _at(choice, "message") if chat else choice
        content = _at(holder, "content" if chat else "text")
        if isinstance(content, list):  # the parts of a text
            content = "".join(str(_at(part, "text") or "") for part in content)
        textless = not isinstance(holder, dict) or not (chat or "text" in holder)
        if textless or not isinstance(content, str | None):
            raise self._error(
                "answered a completion without a text",
                hint="check api=: chat models answer 'chat', base models 'completions'",
            )
        text, reason = content or "", _at(choice, "finish_reason")
        refusal = _at(holder, "refusal")
        if reason in _FILTERED or (isinstance(refusal, str) and refusal.strip()):
            why = "a content filter kept it back" if reason in _FILTERED else f"{refusal!r:.200}"
            raise self._error(
                f"refused to answer {query}: {why}",
                "take another model, change what the filter or the model objects to, or leave the "
                "question out",
                RefusedCompletionError,
            )
        if reason in _CUT and not self.template.parse(text.rpartition("\n")[0], request):
            shown = f" after {text!r:.100}" if text else " before it wrote a text"
            raise self._error(
                f"the answer to {query} was cut{shown} (finish_reason {reason!r})",
                "allow longer answers (max_new_tokens); models that think first need much more",
                CutCompletionError,
            )
        read = self.template.parse(text, request)
        if not read:
            empty = "null" if content is None else "an empty text"
            what = f"{text!r:.100}, in which no answer stands" if text.strip() else empty
            raise self._error(
                f"answered {query} with {what} (finish_reason {reason!r})",
                "try again, or check the model, its chat template and the options stop and tools",
                EmptyCompletionError,
            )
        return read

    def _score(self, answer: Any) -> float | None:
        """The sum of the tokens' log-probabilities, where the endpoint gives them."""
        found = _at(answer, "choices", 0, "logprobs")
        if self.settings.api == "chat":
            values = [_at(token, "logprob") for token in _at(found, "content") or ()]
        else:
            values = list(_at(found, "token_logprobs") or ())
        numbers = [value for value in values if isinstance(value, int | float)]
        return float(sum(numbers)) if numbers else None


def _in_parallel(
    tasks: Sequence[Task], call: Callable[[Task], Result], threads: int
) -> Iterator[tuple[Task, Result]]:
    """Calls in threads; each task with its result as soon as it is there, in any order.

    When a call fails, or the user interrupts, no further one begins; those under way that end well
    are handed out before the failure is raised.

    Args:
        tasks: the arguments of the calls.
        call: takes a task.
        threads: the most calls at a time.

    Raises:
        Exception: what the first failing call raised.
        KeyboardInterrupt: the user interrupted; at once when that is the second time.
    """
    stop = threading.Event()
    failure: BaseException | None = None

    def unless_stopped(task: Task) -> tuple[Result] | None:
        return None if stop.is_set() else (call(task),)

    with ThreadPoolExecutor(max_workers=threads) as pool:
        left = {pool.submit(unless_stopped, task): task for task in tasks}
        try:
            while left:
                try:
                    for future in as_completed(list(left)):
                        task = left.pop(future)
                        if (error := future.exception()) is not None:
                            failure = failure or error
                            stop.set()
                        elif (found := future.result()) is not None:
                            yield task, found[0]
                except KeyboardInterrupt as interrupt:
                    if isinstance(failure, KeyboardInterrupt):
                        raise
                    failure = interrupt
                    stop.set()
        finally:
            stop.set()  # also where nobody wants the rest
    if failure is not None:
        raise failure


def _mark_retry(response: Any) -> None:
    """Say of a failure whether to try again where the client would decide otherwise by its status.

    The client obeys this header before the status.
    """
    status = response.status_code
    if status == 425:
        response.headers["x-should-retry"] = "true"
    elif status in _FINAL_5XX or (status == 429 and _NO_QUOTA.encode() in response.read()):
        response.headers["x-should-retry"] = "false"


def _public_address(url: str) -> str:
    """The address without user name and password.

    Raises:
        ConfigError: it is no address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            "expected an address that starts with http:// or https://",
            key="base_url",
            hint="for example http://localhost:8000/v1",
        )
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _at(value: Any, *path: str | int) -> Any:
    """What stands at a path in JSON; None where there is no such place."""
    for key in path:
        try:
            value = value[key]
        except (TypeError, KeyError, IndexError):
            return None
    return value


def _about(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text) // 3)

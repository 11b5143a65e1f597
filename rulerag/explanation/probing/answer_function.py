"""Any function that answers, sync or async, asked about many lists of documents at once.

The questions run on an event loop of their own, so that it does not matter whether one runs
already, as in a notebook: coroutines beside each other, plain functions in threads. A failure
stops the batch, but what was answered stays answered; a failure is never an answer.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError, RuleRAGError
from rulerag.explanation.units import Context
from rulerag.text import shortened

Answerer = Callable[[str, list[Any]], str | Awaitable[str]] | Callable[[str, Any], Any]
"""Takes the question and some of the documents, in their order; returns the answer."""

Kept = tuple[int, ...]
"""The sources that are kept, by their indices, ascending."""

CHARACTERS_A_TOKEN = 4
"""About so many characters a token has, in prompts and answers."""

_MOST_TOGETHER = 256
"""So many lists of documents a function that takes batches gets at once."""

_here = threading.local()

_KEYS = ("answer", "result", "output", "generation", "response", "content", "text", "output_text")
_ATTRIBUTES = ("response", "text", "content", "data", "answer", "result", "output", "output_text")
"""Where the answer stands in what functions and chains return: by key, and as an attribute."""


class AnswerFunction:
    """An answer function as the answers of a probe engine.

    Args:
        answer: the function.
        question: what is asked.
        context: the documents as the function takes them, and what is kept or removed of them.
        workers: how many calls run at once.
        batched: the function takes the question and a list of lists of documents, and returns a
            list of answers.
        together: so many lists it gets at once; between them it can be cancelled.
        known: what was answered before, by what the function read then (``context.key``); it is
            not asked again, and what is answered now is added as soon as it is there.

    Attributes:
        arrived: the answers of the last batch so far, by the sources kept.
        calls: how many calls were made.
        prompt_characters: of all prompts, without what stands around question and documents.
        answer_characters: of all answers.
        repeats: what was answered to the whole prompt besides.

    Raises:
        ConfigError: the function cannot be called, or the number of workers is below 1.
    """

    def __init__(
        self,
        answer: Answerer,
        question: str,
        context: Context,
        *,
        workers: int = 8,
        batched: bool = False,
        together: int = _MOST_TOGETHER,
        known: dict[Hashable, str] | None = None,
    ) -> None:
        if not callable(answer):
            raise ConfigError(
                f"{type(answer).__name__} cannot be called",
                key="answer",
                hint="def answer(question, documents) -> str",
            )
        if workers < 1:
            raise ConfigError(f"{workers} is below 1", key="workers")
        self._answer, self.question = answer, question
        self.context, self.workers = context, workers
        self._async, self._batched = _is_async(answer), batched
        self._together = together if batched else 1
        self._known: dict[Hashable, str] = {} if known is None else known
        self._cancelled = threading.Event()
        self.arrived: dict[Kept, str] = {}
        self.calls = self.prompt_characters = self.answer_characters = 0
        self.repeats: list[str] = []
        self._repeats_wanted = 0
        self._deadline: float | None = None

    @property
    def num_sources(self) -> int:
        """How many documents, or parts of them, can be kept or removed."""
        return len(self.context.places)

    def finer(self, context: Context) -> AnswerFunction:
        """The same function with its documents cut otherwise; what was answered stays known."""
        made = AnswerFunction(
            self._answer,
            self.question,
            context,
            workers=self.workers,
            batched=self._batched,
            together=self._together,
            known=self._known,
        )
        made.repeats = list(self.repeats)
        return made

    def cancel(self) -> None:
        """Ask nothing more; calls that run are given up. From any thread."""
        self._cancelled.set()

    def reopen(self, max_seconds: float | None) -> None:
        """Ask again after it was cancelled, for so many seconds at most."""
        self._cancelled.clear()
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds

    def repeat(self, count: int) -> None:
        """Ask the whole prompt so often besides, with the next batch."""
        self._repeats_wanted = count

    def __call__(self, batch: list[Kept]) -> list[str]:
        """The answers for some subsets, in order.

        Raises:
            ExplanationError: the function raised or returned no text.
            ProbeBudgetError: it was cancelled, or the time was up.
        """
        keys = {kept: self.context.key(kept) for kept in batch}
        self.arrived = {k: self._known[key] for k, key in keys.items() if key in self._known}
        # The whole prompt first, then in an order in which prompts share their beginnings.
        new = sorted(
            {*keys} - {*self.arrived}, key=lambda kept: (len(kept) < self.num_sources, kept)
        )
        if new or self._repeats_wanted:
            self._run(new)
        return [self.arrived[kept] for kept in batch]

    def _run(self, batch: list[Kept]) -> None:
        """Ask in a thread of its own, with its own event loop."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                with (
                    asyncio.Runner() as runner
                ):  # asyncio.run is not closed where RAGAS is imported
                    runner.run(self._ask(batch))
            except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
                failed.append(error)

        thread = threading.Thread(target=work, name="rulerag-probes", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.05)  # so that Ctrl-C is heard
        except BaseException:
            self._cancelled.set()
            raise
        if failed:
            raise failed[0]

    async def _ask(self, batch: Sequence[Kept]) -> None:
        places = asyncio.Semaphore(self.workers)  # after a failure none is given back
        loop = asyncio.get_running_loop()
        pool = None if self._async else ThreadPoolExecutor(self.workers, "rulerag-answer")

        def in_thread(documents: list[Any]) -> Any:
            _here.check = self._check
            try:
                return self._answer(self.question, documents)
            except StopIteration as error:  # which no future can hold
                raise RuntimeError("StopIteration") from error

        async def call(documents: list[Any]) -> Any:
            if pool is None:
                return await self._answer(self.question, documents)  # type: ignore[misc]
            answer = await loop.run_in_executor(pool, in_thread, documents)
            return await answer if inspect.isawaitable(answer) else answer

        async def answered(lists: list[list[Any]], first: Kept) -> list[Any]:
            try:
                answer = await call(lists if self._batched else lists[0])
            except (RuleRAGError, asyncio.CancelledError):
                raise
            except Exception as error:
                hint = "what was answered before is kept; deepen() goes on from there"
                if len(first) == self.num_sources:
                    hint = "it has to answer with all documents, then parts of them are tried"
                raise ExplanationError(
                    f"the answer function raised {type(error).__name__}: {error} "
                    f"({self._about(first)})",
                    hint=hint,
                ) from error
            return _listed(answer, len(lists)) if self._batched else [answer]

        whole = tuple(range(self.num_sources))

        async def again() -> None:
            await places.acquire()
            self._check()
            self.calls += 1
            (answer,) = await answered([list(self.context.documents)], whole)
            self.repeats.append(_text(answer, self._about(whole)))
            self._count(whole, self.repeats[-1])
            places.release()

        async def some(part: Sequence[Kept]) -> None:
            await places.acquire()
            self._check()
            lists = [self.context.given(kept) for kept in part]
            self.calls += len(part)
            answers = await answered(lists, part[0])
            for kept, one in zip(part, answers, strict=True):
                self.arrived[kept] = _text(one, self._about(kept))
                self._known[self.context.key(kept)] = self.arrived[kept]
                self._count(kept, self.arrived[kept])
            places.release()

        size = self._together
        parts = [batch[start : start + size] for start in range(0, len(batch), size)]
        tasks = [asyncio.create_task(some(part)) for part in parts]
        tasks += [asyncio.create_task(again()) for _ in range(self._repeats_wanted)]
        self._repeats_wanted = 0
        watch = asyncio.create_task(self._watch())
        every: asyncio.Future[Any] = asyncio.gather(*tasks)
        try:
            both: set[asyncio.Future[Any]] = {every, watch}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if watch.done() and not every.done():
                watch.result()
            await every
        finally:
            watch.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(every, *tasks, return_exceptions=True)
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    def _count(self, kept: Kept, answer: str) -> None:
        """Add what was read and written in one call."""
        context = self.context
        there = range(self.num_sources) if context.removal == "replace" else kept
        texts = (context.passages[context.places[source]].text for source in there)
        self.prompt_characters += len(self.question) + sum(map(len, texts))
        self.answer_characters += len(answer)

    def _about(self, kept: Kept) -> str:
        """Which documents a call had, in words."""
        if len(kept) == self.num_sources:
            return f"asked with all {len(self.context.documents)} documents"
        if not kept:
            return "asked without documents"
        names = [self.context.passages[self.context.places[index]].label for index in kept[:12]]
        return f"asked with {', '.join(names)}{', …' if len(kept) > 12 else ''}"

    async def _watch(self) -> None:
        """End as soon as it is cancelled or the time is up."""
        while True:
            self._check()
            await asyncio.sleep(0.02)

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise ProbeBudgetError("the explanation was cancelled", hint="deepen() goes on")
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise ProbeBudgetError("the time is up", hint="raise max_seconds, or deepen()")


def check_cancelled() -> None:
    """For an answer function that makes many calls: whether it shall make no more.

    Raises:
        ProbeBudgetError: what is asked in this thread was cancelled, or its time is up.
    """
    check: Callable[[], None] | None = getattr(_here, "check", None)
    if check is not None:
        check()


def _listed(answers: Any, number: int) -> list[Any]:
    """The answers to a batch."""
    if not isinstance(answers, list | tuple) or len(answers) != number:
        many = isinstance(answers, list | tuple)
        count = f"{len(answers)} of them" if many else type(answers).__name__
        raise ExplanationError(
            f"the answer function returned {count} for {number} lists of documents",
            hint="return one answer for each list, in order",
        )
    return list(answers)


def _is_async(answer: Any) -> bool:
    return inspect.iscoroutinefunction(answer) or inspect.iscoroutinefunction(
        getattr(answer, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def answer_text(output: Any) -> Any:
    """The answer in what was returned, a text, a message or a mapping; else what was returned."""
    if isinstance(output, Mapping):
        values = [output[key] for key in _KEYS if key in output]
        values = values or list(output.get("messages", ()))[-1:]
        return answer_text(values[0]) if values else output
    texts = (getattr(output, name, None) for name in _ATTRIBUTES)
    return next((str(one) for one in texts if isinstance(one, str)), output)


def _text(answer: Any, about: str) -> str:
    text = answer_text(answer)
    if isinstance(text, str):
        return text
    raise ExplanationError(
        f"the answer function returned {shortened(repr(answer), 60)} of type "
        f"{type(answer).__name__} instead of a text ({about})",
        hint="return a text, an empty one for no answer",
    )

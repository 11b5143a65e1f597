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
from rulerag.explanation.levels import Context
from rulerag.explanation.wording import shortened

AnswerFunction = Callable[[str, list[Any]], str | Awaitable[str]]
"""Takes the question and some of the documents, in their order; returns the answer."""

Kept = tuple[int, ...]

CHARACTERS_A_TOKEN = 4
"""About so many characters a token has, in prompts and answers."""

_MOST_TOGETHER = 64
"""So many lists of documents a function that takes batches gets at once."""

_SAID = ("content", "text", "response", "answer", "result", "output", "output_text")


class AskedFunction:
    """An answer function as the answers of a probe engine.

    Args:
        answer: the function.
        question: what is asked.
        context: the documents as the function takes them, and what is kept or removed of them.
        workers: how many calls run at once.
        batched: the function takes the question and a list of lists of documents, and returns a
            list of answers.
        known: what was answered before, by what the function read then; it is not asked again.

    Attributes:
        arrived: what the last batch got so far, by kept places.
        calls: how many calls were made.
        read: characters of all prompts, without what stands around question and documents.
        written: characters of all answers.
        deadline: the moment, of :func:`time.monotonic`, from which on nothing is asked.
        wanted_repeats: how often the next batch asks the whole prompt besides.
        repeated: what was answered to the whole prompt besides.

    Raises:
        ConfigError: the function cannot be called, or the number of workers is below 1.
    """

    def __init__(
        self,
        answer: AnswerFunction,
        question: str,
        context: Context,
        *,
        workers: int = 8,
        batched: bool = False,
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
        self._waits, self._batched = _is_async(answer), batched
        self._known: dict[Hashable, str] = {} if known is None else known
        self._cancelled = threading.Event()
        self.arrived: dict[Kept, str] = {}
        self.calls = self.read = self.written = 0
        self.wanted_repeats, self.repeated = 0, list[str]()
        self.deadline: float | None = None

    @property
    def num_sources(self) -> int:
        """How many documents, or parts of them, can be kept or removed."""
        return len(self.context.places)

    def finer(self, context: Context) -> AskedFunction:
        """The same function with its documents cut otherwise; what was answered stays known."""
        made = AskedFunction(
            self._answer,
            self.question,
            context,
            workers=self.workers,
            batched=self._batched,
            known=self._known,
        )
        made.repeated = list(self.repeated)
        return made

    def cancel(self) -> None:
        """Ask nothing more; calls that run are given up. From any thread."""
        self._cancelled.set()

    def reopen(self, max_seconds: float | None) -> None:
        """Ask again after it was cancelled, for so many seconds at most."""
        self._cancelled.clear()
        self.deadline = None if max_seconds is None else time.monotonic() + max_seconds

    def __call__(self, batch: list[Kept]) -> list[str]:
        """The answers for some subsets, in order.

        Raises:
            ExplanationError: the function raised or returned no text.
            ProbeBudgetError: it was cancelled, or the time was up.
        """
        keys = {kept: self.context.key(kept) for kept in batch}
        self.arrived = {k: self._known[key] for k, key in keys.items() if key in self._known}
        new = [kept for kept in batch if kept not in self.arrived]
        if new or self.wanted_repeats:
            try:
                self._run(new)
            finally:
                answered = (kept for kept in new if kept in self.arrived)
                self._known |= {keys[kept]: self.arrived[kept] for kept in answered}
        return [self.arrived[kept] for kept in batch]

    def _run(self, batch: list[Kept]) -> None:
        """Ask in a thread of its own, with its own event loop."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                asyncio.run(self._ask(batch))
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
        places = asyncio.Semaphore(self.workers)
        loop = asyncio.get_running_loop()
        pool = None if self._waits else ThreadPoolExecutor(self.workers, "rulerag-answer")

        async def call(documents: list[Any]) -> Any:
            if pool is None:
                return await self._answer(self.question, documents)  # type: ignore[misc]
            said = await loop.run_in_executor(pool, self._answer, self.question, documents)
            return await said if inspect.isawaitable(said) else said

        async def answered(lists: list[list[Any]], first: Kept) -> list[Any]:
            try:
                said = await call(lists if self._batched else lists[0])
            except (RuleRAGError, asyncio.CancelledError):
                raise
            except Exception as error:
                hint = "what was answered before is kept; deepen() goes on from there"
                if len(first) == self.num_sources:
                    hint = "it has to answer with all documents, then parts of them are tried"
                raise ExplanationError(
                    f"the answer function raised {type(error).__name__}: {error} "
                    f"({self._told(first)})",
                    hint=hint,
                ) from error
            return _listed(said, len(lists)) if self._batched else [said]

        whole = tuple(range(self.num_sources))

        async def again() -> None:
            async with places:
                self._check()
                self.calls += 1
                lists = [list(self.context.documents)]
                (said,) = await answered(lists, whole)
                self.repeated.append(_text(said, self._told(whole)))
                self._count(whole, self.repeated[-1])

        async def some(part: Sequence[Kept]) -> None:
            async with places:
                self._check()
                lists = [self.context.given(kept) for kept in part]
                self.calls += len(part)
                answers = await answered(lists, part[0])
                for kept, one in zip(part, answers, strict=True):
                    self.arrived[kept] = _text(one, self._told(kept))
                    self._count(kept, self.arrived[kept])

        size = _MOST_TOGETHER if self._batched else 1
        parts = [batch[start : start + size] for start in range(0, len(batch), size)]
        tasks = [asyncio.create_task(some(part)) for part in parts]
        tasks += [asyncio.create_task(again()) for _ in range(self.wanted_repeats)]
        self.wanted_repeats = 0
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

    def _count(self, kept: Kept, said: str) -> None:
        """Add what was read and written in one call."""
        context = self.context
        there = range(self.num_sources) if context.removal == "replace" else kept
        texts = (context.passages[context.places[source]].text for source in there)
        self.read += len(self.question) + sum(map(len, texts))
        self.written += len(said)

    def _told(self, kept: Kept) -> str:
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
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise ProbeBudgetError("the time is up", hint="raise max_seconds, or deepen()")


def _listed(said: Any, number: int) -> list[Any]:
    """The answers to a batch."""
    if not isinstance(said, list | tuple) or len(said) != number:
        count = f"{len(said)} of them" if isinstance(said, list | tuple) else type(said).__name__
        raise ExplanationError(
            f"the answer function returned {count} for {number} lists of documents",
            hint="return one answer for each list, in order",
        )
    return list(said)


def _is_async(answer: Any) -> bool:
    return inspect.iscoroutinefunction(answer) or inspect.iscoroutinefunction(
        getattr(answer, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def _text(said: Any, told: str) -> str:
    """What was said, of a text, a message, or a mapping with an answer."""
    if isinstance(said, str):
        return said
    for name in _SAID:
        held = said.get(name) if isinstance(said, Mapping) else getattr(said, name, None)
        if isinstance(held, str):
            return held
    raise ExplanationError(
        f"the answer function returned {shortened(repr(said), 60)} of type "
        f"{type(said).__name__} instead of a text ({told})",
        hint="return a text, an empty one for no answer",
    )

"""Any function that answers, asked about many lists of documents: nothing that arrived is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from rulerag.errors import ConfigError, ExplanationError, GenerationError, ProbeBudgetError
from rulerag.explanation.probing import AnswerFunction, ProbeEngine
from rulerag.explanation.units import Context

TEXTS = ("zero", "one", "two", "three")
EVERY = [tuple(n for n in range(4) if mask >> n & 1) for mask in range(16)]


def joined(question: str, documents: Sequence[str]) -> str:
    return f"{question} {'+'.join(documents)}"


def asked(answer: Callable[..., Any], **options: Any) -> AnswerFunction:
    return AnswerFunction(answer, "Which?", Context(TEXTS), **options)


class Counting:
    """Answers after a while, and knows how many calls ran at once."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.lock = threading.Lock()

    def enter(self) -> None:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)

    def leave(self) -> None:
        with self.lock:
            self.running -= 1


class Sync(Counting):
    def __call__(self, question: str, documents: Sequence[str]) -> str:
        self.enter()
        time.sleep(0.01)
        self.leave()
        return joined(question, documents)


class Async(Counting):
    async def __call__(self, question: str, documents: Sequence[str]) -> str:
        self.enter()
        await asyncio.sleep(0.01)
        self.leave()
        return joined(question, documents)


class Awaitable(Async):
    """No coroutine function by its looks: what it returns has to be awaited."""

    def __init__(self) -> None:
        super().__init__()
        self.later = super().__call__

    def __call__(self, question: str, documents: Sequence[str]) -> Any:  # type: ignore[override]
        return self.later(question, documents)


@pytest.mark.parametrize("kind", [Sync, Async, Awaitable])
@pytest.mark.parametrize("inside_a_loop", [False, True])
def test_calls_run_beside_each_other_and_answers_come_in_order(
    kind: type[Any], inside_a_loop: bool
) -> None:
    answer = kind()
    function = asked(answer, workers=5)

    async def notebook() -> list[str]:
        return function(EVERY)

    found = asyncio.run(notebook()) if inside_a_loop else function(EVERY)
    assert found == [joined("Which?", [TEXTS[n] for n in kept]) for kept in EVERY]
    assert function.calls == 16 and 2 <= answer.most <= 5
    assert function(EVERY) == found and function.calls == 16, "what is known is not asked again"
    characters = 16 * len("Which?") + 8 * sum(map(len, TEXTS))
    assert function.prompt_characters == characters
    assert function.answer_characters == sum(map(len, found))


def test_a_function_of_many_lists_gets_them_together() -> None:
    sizes: list[int] = []

    def many(question: str, lists: Sequence[Sequence[str]]) -> list[str]:
        sizes.append(len(lists))
        return [joined(question, documents) for documents in lists]

    texts = [f"Text {n}." for n in range(9)]
    function = AnswerFunction(many, "Which?", Context(texts), batched=True, workers=1)
    every = [tuple(n for n in range(9) if mask >> n & 1) for mask in range(300)]
    assert function(every)[3] == "Which? Text 0.+Text 1." and sizes == [256, 44]
    assert function.calls == 300


@pytest.mark.parametrize(
    "answer",
    [
        SimpleNamespace(content="It is one."),
        {"answer": "It is one.", "sources": []},
        {"result": "It is one."},
        SimpleNamespace(response="It is one."),
        "It is one.",
    ],
)
def test_the_text_of_a_message_is_its_answer(answer: Any) -> None:
    assert asked(lambda question, documents: answer)([(1,)]) == ["It is one."]


def raising(error: Exception) -> Callable[..., str]:
    def answer(question: str, documents: Sequence[str]) -> str:
        raise error

    return answer


@pytest.mark.parametrize(
    ("answer", "kept", "batched", "message"),
    [
        (raising(ValueError("no key")), (0, 1, 2, 3), False, "ValueError: no key.*all 4 documents"),
        (raising(ValueError("no key")), (), False, "asked without documents"),
        (raising(ValueError("no key")), (0, 2), False, r"asked with \[1\], \[3\]"),
        (raising(StopIteration()), (0,), False, "StopIteration"),
        (lambda q, d: None, (0,), False, "returned None of type NoneType instead of a text"),
        (lambda q, d: {"sources": []}, (0,), False, "of type dict instead of a text"),
        (lambda q, d: ["a", "b"], (0,), True, "returned 2 of them for 1 lists"),
        (lambda q, d: "a", (0,), True, "returned str for 1 lists"),
        (lambda q, d: [None], (0,), True, "returned None of type NoneType"),
    ],
)
def test_what_is_no_answer_is_named(
    answer: Callable[..., Any], kept: tuple[int, ...], batched: bool, message: str
) -> None:
    function = asked(answer, batched=batched)
    function.reopen(5)
    with pytest.raises(ExplanationError, match=message):
        function([kept])


def test_an_error_of_ours_passes_through() -> None:
    with pytest.raises(GenerationError, match="overloaded"):
        asked(raising(GenerationError("overloaded")))([(0,)])


@pytest.mark.parametrize(
    ("options", "key"), [({"answer": "chain"}, "answer"), ({"workers": 0}, "workers")]
)
def test_bad_arguments_are_named(options: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=f"key '{key}'"):
        asked(**{"answer": joined, **options})


# --- batches that end early ----------------------------------------------------------------------


def test_a_failure_keeps_what_arrived_and_another_try_asks_the_rest() -> None:
    seen: list[tuple[str, ...]] = []

    def answer(question: str, documents: Sequence[str]) -> str:
        seen.append(tuple(documents))
        if len(seen) == 6:
            raise TimeoutError("slow server")
        return joined(question, documents)

    function = asked(answer, workers=1)
    engine = ProbeEngine.from_answer_function(function, max_probes=16)
    with pytest.raises(ExplanationError, match=r"TimeoutError: slow server.*deepen"):
        engine.probe(range(16))
    assert engine.num_probes == 5 == len(function.arrived) and engine.left == 11
    assert engine.output(7) is not None and engine.output(11) is None, "in order of beginnings"
    assert len(engine.probe(range(16))) == 16 == engine.num_probes
    assert len(seen) == 17 and seen.count(seen[5]) == 2, "only what failed is asked twice"


@pytest.mark.parametrize("slow", ["sync", "async"])
@pytest.mark.parametrize("ending", ["cancelled", "deadline"])
def test_cancelling_and_deadlines_give_up_calls_and_keep_answers(slow: str, ending: str) -> None:
    wait = threading.Event()

    def stuck(question: str, documents: Sequence[str]) -> str:
        if len(documents) > 1:
            wait.wait(20)
        return joined(question, documents)

    async def later(question: str, documents: Sequence[str]) -> str:
        while len(documents) > 1 and not wait.is_set():
            await asyncio.sleep(0.01)
        return joined(question, documents)

    function = asked(stuck if slow == "sync" else later, workers=16)
    engine = ProbeEngine.from_answer_function(function)
    function.reopen(0.4 if ending == "deadline" else None)
    if ending == "cancelled":
        threading.Timer(0.4, function.cancel).start()
    begun = time.monotonic()
    words = "the time is up" if ending == "deadline" else "was cancelled"
    with pytest.raises(ProbeBudgetError, match=words):
        engine.probe(range(16))
    assert time.monotonic() - begun < 5 and engine.num_probes == 5
    with pytest.raises(ProbeBudgetError, match=words):
        engine.probe([15])
    wait.set()
    function.reopen(None)
    assert engine.probe(range(16))[15] == joined("Which?", TEXTS) and engine.num_probes == 16


def test_repeats_ask_the_whole_prompt_besides_and_stay_apart() -> None:
    turns = iter(range(100))
    function = asked(lambda question, documents: f"{len(documents)} {next(turns)}", workers=1)
    function.repeat(2)
    (first,) = function([(0, 1, 2, 3)])
    assert [first, *function.repeats] == ["4 0", "4 1", "4 2"] and function.calls == 3
    function([(0, 1, 2, 3)])
    assert function.calls == 3, "they are asked once"
    function.repeat(1)
    assert function([]) == [] and function.repeats[-1] == "4 3"


def test_finer_parts_share_what_was_answered() -> None:
    texts = ["First this. Then that.", "Other."]
    function = AnswerFunction(joined, "Which?", Context(texts))
    function.repeat(1)
    function([(0, 1), (1,), ()])
    finer = function.finer(Context(texts, level="sentence"))
    assert finer.num_sources == 3 and finer.repeats == function.repeats
    found = finer([(0, 1, 2), (2,), (0, 2)])
    assert found[2] == "Which? First this.+Other." and finer.calls == 1

"""The endpoint reader against a real server: `transformers serve`, with a tiny model.

The tiny model's weights are random: its answers mean nothing, and differ from prompt to prompt.
"""

from __future__ import annotations

import importlib.util
import json
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.speed.generation import requests, small_llama
from rulerag.errors import CutCompletionError, GenerationError
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.generation.prompts.template import PromptTemplate
from rulerag.types import Completion, Document, GenerationRequest, Query
from tests.endpoints import wait_until
from tests.real_server import TransformersServe, serving_models

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("accelerate") is None, reason="needs accelerate (--device)"
    ),
]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransformersServe]:
    with serving_models(tmp_path_factory.mktemp("serve") / "serve.log") as running:
        yield running


@pytest.fixture
def real(started: TransformersServe, monkeypatch: pytest.MonkeyPatch) -> TransformersServe:
    """The server at work, also after a test that killed it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    started.start()
    return started


class Tiny(NamedTuple):
    """A LLaMA of random weights, whose chat template adds nothing.

    Args:
        folder: where it lies.
        blank: its tokens that write nothing to be seen.
    """

    folder: Path
    blank: list[int]

    def options(self, ends: Sequence[int] = range(5, 550, 4)) -> dict[str, Any]:
        """Options by which it writes words, and may end with any of some tokens."""
        config = {"eos_token_id": list(ends), "pad_token_id": 2, "suppress_tokens": self.blank}
        return {"generation_config": json.dumps(config)}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("tiny")
    model, tokenizer = small_llama([PromptTemplate().render(r).text for r in requests(40)])
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    every = range(model.config.vocab_size)
    blank = [n for n in every if n < 3 or not tokenizer.decode([n]).strip()]
    return Tiny(folder, blank)


def short(number: int) -> list[GenerationRequest]:
    return [
        GenerationRequest(
            Query(f"q{n}", f"what does Land {n} visit ?"),
            (Document("d", f"Land {n} consult {'Norland' * (1 + n % 5)}."),),
        )
        for n in range(number)
    ]


def reader(real: TransformersServe, model: Tiny, **options: Any) -> OpenAICompatibleGenerator:
    given = {"options": model.options(), **options}
    return OpenAICompatibleGenerator(real.url, str(model.folder), **given)


def written(
    remote: OpenAICompatibleGenerator, request: GenerationRequest
) -> tuple[str, Completion | None]:
    """The text that the server streams, and what is read out of it; None where it was cut."""
    pieces, stream = [], remote.stream_text(request)
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as end:
            return "".join(pieces), end.value
        except CutCompletionError:
            return "".join(pieces), None


def check_same(
    remote: OpenAICompatibleGenerator, local: HuggingFaceGenerator, asked: list[GenerationRequest]
) -> None:
    """Whole or in pieces, the server answers word for word what the model answers here."""
    for request, text in zip(asked, local.write(asked), strict=True):
        streamed, completion = written(remote, request)
        # Here an answer ends with its line; chats are sent without a stop.
        assert streamed.strip().startswith(text.strip()) and text.strip()
        try:
            (whole,) = remote.generate([request])
        except CutCompletionError as cut:  # a model need not come to an end
            assert repr(text.strip())[1:60] in str(cut) and completion is None
        else:
            assert whole == completion == Completion(local.template.parse(text))


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_a_real_server_answers_as_the_local_model(
    real: TransformersServe, tiny: Tiny, api: str
) -> None:
    remote = reader(real, tiny, api=api, max_new_tokens=6, options={})
    local = HuggingFaceGenerator(tiny.folder, max_new_tokens=6, device="cpu", chat=api == "chat")
    check_same(remote, local, requests(8)[4:7])


def test_a_server_killed_in_the_middle_is_named_soon_and_may_come_back(
    real: TransformersServe, tiny: Tiny
) -> None:
    asked, seen = short(64), dict[int, Completion]()
    remote = reader(real, tiny, max_retries=1)
    before = remote.generate(asked[:3])
    threads = threading.active_count()
    killed = 0.0
    with pytest.raises(GenerationError, match=r"cannot be reached .*is the server runn") as caught:
        for arrival in remote.stream(asked):
            seen[arrival.place] = arrival.completion
            if len(seen) == 5:
                real.kill()
                killed = time.monotonic()
    assert caught.value.retryable and caught.value.provider == real.url
    assert time.monotonic() - killed < 10
    assert 5 <= len(seen) < 64, "what had arrived is not lost"
    wait_until(lambda: threading.active_count() <= threads)
    assert threading.active_count() <= threads
    real.start()
    after = remote.generate(asked)
    assert after[:3] == before
    assert len({completion.text for completion in after}) > 32, "in order, then"
    assert {place: after[place] for place in seen} == seen

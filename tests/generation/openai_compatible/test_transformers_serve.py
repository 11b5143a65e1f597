"""The endpoint reader against a real server: `transformers serve`, with a tiny model.

The tiny model's weights are random: its answers mean nothing, and differ from prompt to prompt.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.speed.generation import requests, small_llama
from rulerag.errors import CutCompletionError
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.generation.prompts.template import PromptTemplate
from rulerag.types import Completion, GenerationRequest
from tests.generation.openai_compatible.test_streaming import streamed
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


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    model, tokenizer = small_llama([PromptTemplate().render(r).text for r in requests(40)])
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def check_same(
    remote: OpenAICompatibleGenerator, local: HuggingFaceGenerator, asked: list[GenerationRequest]
) -> None:
    """Whole or in pieces, the server answers word for word what the model answers here."""
    for request, text in zip(asked, local.write(asked), strict=True):
        pieces: list[str] = []
        try:
            completion = streamed(remote, pieces, request)[1]
            assert completion == remote.generate([request])[0]
            assert completion == Completion(local.template.parse(text))
        except CutCompletionError as cut:  # a model need not come to an end
            assert repr(text.strip())[1:60] in str(cut)
        # Here an answer ends with its line; chats are sent without a stop.
        assert "".join(pieces).strip().startswith(text.strip()) and text.strip()


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_a_real_server_answers_as_the_local_model(
    real: TransformersServe, tiny: Path, api: str
) -> None:
    remote = OpenAICompatibleGenerator(real.url, str(tiny), api=api, max_new_tokens=6)
    local = HuggingFaceGenerator(tiny, max_new_tokens=6, device="cpu", chat=api == "chat")
    check_same(remote, local, requests(8)[4:7])

"""What can be wrong with a model, each as one message on the command line and status 2."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.models.gguf import tiny_llama, write_gguf


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model (its context is 256 tokens), and copies of it that are damaged."""
    home = tmp_path_factory.mktemp("models")
    tiny = tiny_llama(home / "tiny")
    gguf = write_gguf(tiny, home / "tiny.gguf").read_bytes()
    write_gguf(tiny, home / "grok.gguf", architecture="grok")
    (home / "torn.gguf").write_bytes(gguf[: len(gguf) // 2])
    for name in ("torn", "headless", "half", "unread"):
        shutil.copytree(tiny, home / name)
    whole = (tiny / "model.safetensors").read_bytes()
    (home / "torn" / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    (home / "headless" / "model.safetensors").write_bytes(whole[:5])
    (home / "unread" / "config.json").write_text('{"model_type": "llama",')
    _without_last_layer(home / "half" / "model.safetensors")
    return home


def _without_last_layer(file: Path) -> None:
    from safetensors.torch import load_file, save_file

    kept = {name: w for name, w in load_file(file).items() if ".layers.1." not in name}
    save_file(kept, file, metadata={"format": "pt"})


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("settings", "said", "works"),
    [
        ("model: MODELS/grok.gguf", "the architecture 'grok' cannot be opened", "LLaMA, Qwen"),
        ("model: MODELS/torn.gguf", "torn.gguf: cannot be read", "fetch it again"),
        ("model: MODELS/torn", "torn cannot be opened: Error while", "where one was cut off"),
        ("model: MODELS/headless", "headless cannot be opened: Error", "where one was cut off"),
        ("model: MODELS/half", "9 weights of the model", "of another architecture"),
        ("model: MODELS/unread", "unread/config.json, line 1: not JSON", ""),
        ("model: smollm2-135m-instruct", "is not here", "rulerag models fetch smollm2"),
    ],
)
def test_a_model_that_cannot_answer_is_refused_in_one_message(
    settings: str, said: str, works: str, rulerag: Any, models: Path, dated: Path, tmp_path: Path
) -> None:
    stated = settings.replace("MODELS", str(models))
    (tmp_path / "reader.yaml").write_text(f"generator: {{type: huggingface, {stated}}}\n")
    result = rulerag("answer", dated, "--generator", tmp_path / "reader.yaml", "--limit", 1)
    assert result.code == 2 and "Traceback" not in result.err
    message = result.err.strip().splitlines()[-1]
    assert message.startswith("error: ") and said in message and works in message


def test_damaged_encoders_are_refused_too(
    refused: Callable[..., str], models: Path, dated: Path
) -> None:
    for name in ("torn", "headless", "unread"):
        options = ("--retriever", "dense", "--encoder", models / name, "--limit", 1)
        message = refused("answer", dated, *options)
        assert str(models / name) in message

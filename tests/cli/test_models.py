"""The commands about models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag.models import known_models
from tests.models.gguf import tiny_llama, write_gguf


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))


def test_what_there_is(rulerag: Any) -> None:
    shown = rulerag("models", "list")
    assert shown.code == 0 and all(name in shown.out for name in known_models())
    assert "LlamaForCausalLM" in rulerag("models", "info", "rulerag-nano-llama").out
    assert "SHA-256 b179c952" in rulerag("models", "info", "smollm2-135m-instruct").out


def test_a_gguf_file_is_described_and_saved(rulerag: Any, tmp_path: Path) -> None:
    file = write_gguf(tiny_llama(tmp_path / "tiny"), tmp_path / "tiny.gguf")
    assert "96,448" in rulerag("models", "info", file).out
    assert rulerag("models", "save", file, "--out", tmp_path / "out").code == 0
    assert "float32 from F32" in rulerag("models", "info", tmp_path / "out").out


def test_what_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "add --accept-terms" in refused("models", "fetch", "gemma-3-270m")
    assert "unknown model 'gemma'" in refused("models", "fetch", "gemma")
    assert "called 'smol'" in refused("models", "info", "smol")
    unread = refused("models", "save", tmp_path / "none.gguf", "--out", tmp_path / "o")
    assert "none.gguf: cannot be read" in unread
    unfetched = refused("answer", "who ?", "--dataset", tmp_path, "--generator", "gemma-3-270m")
    assert "rulerag models fetch gemma-3-270m" in unfetched or "manifest" in unfetched

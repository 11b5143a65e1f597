"""One small model for all tests about models, and a cache folder for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.gguf import tiny_llama, write_gguf


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of transformers."""
    return tiny_llama(tmp_path_factory.mktemp("tiny") / "tiny-llama")


@pytest.fixture(scope="session")
def gguf_file(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model as a GGUF file."""
    return write_gguf(tiny, tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder for each test."""
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))

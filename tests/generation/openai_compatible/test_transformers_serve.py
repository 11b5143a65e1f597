"""The endpoint reader against a real server: `transformers serve` with a tiny checkpoint."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.speed.generation import requests, small_llama
from rulerag.errors import CutCompletionError
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.generation.prompts.template import PromptTemplate


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="needs accelerate")
def test_transformers_serve_answers_as_the_local_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    asked = requests(3)
    model, tokenizer = small_llama([PromptTemplate().render(r).text for r in requests(40)])
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(sys.executable).parent / "transformers"
    command = [str(program), "serve", str(tmp_path), "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with open(tmp_path / "serve.log", "w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and server.poll() is None:
            with socket.socket() as attempt:
                if attempt.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        address = f"http://127.0.0.1:{port}/v1"
        for api in ("chat", "completions"):
            remote = OpenAICompatibleGenerator(address, str(tmp_path), api=api, max_new_tokens=6)
            local = HuggingFaceGenerator(
                tmp_path, max_new_tokens=6, device="cpu", chat=api == "chat"
            )
            for request, text in zip(asked, local.write(asked), strict=True):
                try:
                    (completion,) = remote.generate([request])
                    assert completion.text == local.template.parse(text)
                except CutCompletionError as cut:  # the untrained model seldom comes to an end
                    assert text in str(cut)
            assert remote.usage.calls == 3
            assert remote.usage.prompt_tokens > 600
    finally:
        server.terminate()
        server.wait(timeout=20)

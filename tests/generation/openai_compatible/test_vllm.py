"""A real vLLM: the same explanation twice, no noise in float32, its version in the record."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rulerag
from rulerag import OpenAICompatibleGenerator
from rulerag.models import find_model

PROGRAM = os.environ.get("RULERAG_VLLM") or shutil.which("vllm")
ROOT = Path(__file__).resolve().parents[3]
CITIES = {"Lyon": "nowhere", "Paris": "France", "Rome": "Italy", "Oslo": "Norway"}
DOCUMENTS = [f"{city} is the capital of {country}." for city, country in CITIES.items()]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.models,
    pytest.mark.skipif(not PROGRAM, reason="no vllm on the PATH, nor named by RULERAG_VLLM"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = find_model("smollm2-135m-instruct")
    if not Path(model).is_dir():
        pytest.skip("smollm2-135m-instruct was not fetched")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = [str(PROGRAM), "serve", str(model), "--served-model-name", "smollm2"]
    words += ["--dtype", "float32", "--enforce-eager", "--max-model-len", "1024"]
    words += ["--host", "127.0.0.1", "--port", str(port)]
    own = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
    log = tmp_path_factory.mktemp("vllm") / "log"
    with (
        log.open("wb") as out,
        subprocess.Popen(words, env={**os.environ, **own}, stdout=out, stderr=out) as run,
    ):
        try:
            for _ in range(240):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert run.poll() is None, log.read_text()[-3000:]
                time.sleep(1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            run.terminate()


BATCH = """
import sys
from rulerag.errors import CutCompletionError, GenerationError
from rulerag.generation.ray_batch import RayBatchGenerator
from rulerag.types import Document, GenerationRequest, Query

engine = {"max_model_len": 512, "dtype": "float32", "enforce_eager": True}
generator = RayBatchGenerator(
    sys.argv[1], template="open", engine=engine, cpus=1, max_new_tokens=12
)
paris = (Document("d", "Paris is the capital of France."),)
asked = [
    GenerationRequest(Query(f"q{n}", f"What is the capital of France? ({n % 5})"), paris)
    for n in range(12)
]
texts = [one.text for one in generator.generate(asked)]
assert len(texts) == 12 and "Paris" in texts[0] and texts[:5] == texts[5:10], texts
long = GenerationRequest(Query("long", "x"), (Document("d", "word " * 2000),))
try:
    generator.generate([asked[0], long])
except GenerationError as error:
    print(error)
story = GenerationRequest(Query("story", "Tell a long story."), paris)
try:
    generator.generate([story])
except CutCompletionError as error:
    print(error)
"""


def test_a_cluster_of_engines_answers_all_and_names_what_is_too_long() -> None:
    model = find_model("smollm2-135m-instruct")
    python = Path(str(PROGRAM)).with_name("python")
    own = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "PYTHONPATH": str(ROOT)}
    words = [str(python), "-c", BATCH, str(model)]
    environment = {**os.environ, **own, "RAY_worker_niceness": "0"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "1 of 2 prompts were not answered, the first of query 'long'" in done.stdout
    assert "maximum context length is 512" in done.stdout
    assert "the answer to query 'story' was cut" in done.stdout


def test_an_explanation_is_the_same_twice_and_names_the_server(address: str) -> None:
    seen = []
    for _ in range(2):
        generator = OpenAICompatibleGenerator(
            address, "smollm2", template="open", concurrency=8, max_new_tokens=12
        )
        why = rulerag.explain(generator, "What is the capital of France?", DOCUMENTS, whole=True)
        (claim,) = why.claims
        assert claim.retention and "Paris" in why.text
        certificates = [one.certificate for one in (*claim.retention, *claim.omission)]
        assert all(one.repeated > 1 and one.disagreed == 0 for one in certificates)
        seen.append((why.text, set(claim.retention), set(claim.omission)))
    assert seen[0] == seen[1]
    server = why.explanation.settings["server"]
    assert server["served"]["max_model_len"] == 1024 and server["version"]["version"]
    assert "float32" in str(server["flags"])

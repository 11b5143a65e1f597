"""Bodies in the forms of vLLM, Ollama and llama.cpp (tests/generation/recorded), over real HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rulerag.errors import CutCompletionError, GenerationError
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from tests.endpoints import Server, event
from tests.generation.openai_compatible.test_streaming import REQUEST, streamed

FOLDER = Path(__file__).resolve().parents[1] / "recorded"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "servers.md"
RECORDED: dict[tuple[str, str], dict[str, Any]] = {
    (path.stem, exchange["name"]): exchange
    for path in sorted(FOLDER.glob("*.json"))
    for exchange in json.loads(path.read_text(encoding="utf-8"))["exchanges"]
}


class Fault(NamedTuple):
    message: str
    retryable: bool = False
    kind: type[GenerationError] = GenerationError


USED_UP = Fault(
    r"was cut after \d\d characters of thoughts, before it wrote a text .*'length'.*max_new_tokens",
    kind=CutCompletionError,
)
UNKNOWN = Fault("status 404: .*tiny.*check base_url .* the model's name")
TOO_LONG = Fault("status 400: .*context .*lower max_prompt_tokens=")
# The score of an answer, or what is wrong.
EXPECTED: dict[tuple[str, str], float | Fault | None] = {
    ("vllm", "chat with log-probabilities"): -0.875,
    ("vllm", "chat with reasoning"): None,
    ("vllm", "chat with reasoning under its old name"): None,
    ("vllm", "reasoning used up the tokens"): USED_UP,
    ("vllm", "aborted"): Fault("broke off the answer to query 'q0' after 'Nor'", True),
    ("vllm", "completion with log-probabilities"): -0.9375,
    ("vllm", "stream with reasoning"): None,
    ("vllm", "stream with log-probabilities"): -0.875,
    ("vllm", "stream that fails"): Fault("EngineCore encountered an issue", True),
    ("vllm", "unknown model"): UNKNOWN,
    ("vllm", "prompt too long"): TOO_LONG,
    ("ollama", "chat with log-probabilities"): -0.875,
    ("ollama", "chat with reasoning"): None,
    ("ollama", "reasoning used up the tokens"): USED_UP,
    ("ollama", "completion without the log-probabilities asked for"): None,
    ("ollama", "stream with reasoning"): None,
    ("ollama", "stream of a completion"): None,
    ("ollama", "stream that fails"): Fault(
        "ended the stream before the answer to query 'q0'", True
    ),
    ("ollama", "unknown model"): UNKNOWN,
    ("ollama", "prompt too long for a model that cannot shift its context"): TOO_LONG,
    ("ollama", "too many requests waiting"): Fault("status 503: server busy", True),
    ("llama_cpp", "chat with log-probabilities"): -0.875,
    ("llama_cpp", "completion with log-probabilities in the form of a chat"): -0.875,
    ("llama_cpp", "chat with reasoning"): None,
    ("llama_cpp", "reasoning left in the text"): None,
    ("llama_cpp", "reasoning left in the text that the chat template began"): None,
    ("llama_cpp", "reasoning used up the tokens"): USED_UP,
    ("llama_cpp", "stream with reasoning and a ping"): None,
    ("llama_cpp", "stream whose log-probabilities have a gap"): None,
    ("llama_cpp", "stream that fails"): Fault("Context size has been exceeded.*max_prompt_tokens="),
    ("llama_cpp", "still loading"): Fault("status 503: Loading model", True),
    ("llama_cpp", "prompt too long"): TOO_LONG,
}


def replayed(exchange: dict[str, Any]) -> Any:
    """The body of an exchange as its server would write it."""
    if "body" in exchange:
        return exchange["body"]
    return iter(":\n\n" if one == ":" else event(one) for one in exchange["events"])


def test_every_exchange_names_its_source() -> None:
    assert set(EXPECTED) == set(RECORDED)
    for exchange in RECORDED.values():
        assert exchange["source"].startswith(("vllm-project/", "ollama/", "ggml-org/", "llama_cpp"))


@pytest.mark.parametrize("key", list(EXPECTED), ids=" ".join)
def test_each_servers_form_is_understood(server: Server, key: tuple[str, str]) -> None:
    exchange, expected = RECORDED[key], EXPECTED[key]
    streams = "events" in exchange
    server.say = lambda n, body: (exchange["status"], {}, replayed(exchange))
    generator = OpenAICompatibleGenerator(
        server.url, "tiny", api=exchange["api"], log_probability=True, timeout=5.0, max_retries=0
    )

    def answer() -> tuple[str, Any]:
        if not streams:
            return "", generator.generate([REQUEST])[0]
        pieces, completion = streamed(generator)
        return "".join(pieces), completion

    if isinstance(expected, Fault):
        with pytest.raises(GenerationError, match=expected.message) as caught:
            answer()
        assert type(caught.value) is expected.kind
        assert caught.value.retryable == expected.retryable
        return
    shown, completion = answer()
    assert completion.text == "Norland", "and nothing of what it thought"
    assert completion.score == expected
    assert not streams or shown.strip(" .\n") == "Norland"
    assert generator.system_fingerprint in ("", "fp_ollama") or "-" in generator.system_fingerprint


def test_the_page_about_servers_runs(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    exchange = RECORDED["vllm", "stream with reasoning"]
    server.say = lambda n, body: (200, {}, replayed(exchange))
    exec(compile(code.replace("http://localhost:8000/v1", server.url), PAGE.name, "exec"), {})
    assert capsys.readouterr().out == "Norland\nanswer: Norland\n"
    names = {json.loads(p.read_text(encoding="utf-8"))["server"] for p in FOLDER.glob("*.json")}
    assert names == {"vLLM", "Ollama", "llama.cpp"} and all(f"| {name} |" in page for name in names)

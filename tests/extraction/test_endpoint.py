"""A language model behind an address says what words mean: well, brokenly, and interrupted."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag.cli import main
from tests.endpoints import Server, completion, failure, prompt_of
from tests.real_server import serving_models

SAID = {
    "enrolled in": "joins",
    "signed up with": "joins",
    "filed a complaint against": "sues",
    "dined with": "none",
}
NAMES = [f"A{n}n B{n}o" for n in range(20)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Texts of known words and of four that nobody knows, and a table of some facts."""
    lines, known = [], ["from,relation,to,date"]
    for n in range(6):
        lines += [
            f"{NAMES[n]} joined Acme Works on 2021-01-0{n + 1}.",
            f"{NAMES[n]} sued Acme Works on 2022-01-0{n + 1}.",
        ]
        known += [
            f"{NAMES[n]},joins,Acme Works,2021-01-0{n + 1}",
            f"{NAMES[n]},sues,Acme Works,2022-01-0{n + 1}",
        ]
    for n, words in enumerate(SAID):
        lines.append(f"{NAMES[n]} {words} Acme Works on 2023-01-0{n + 1}.")
    (tmp_path / "texts.txt").write_text("\n\n".join(lines))
    (tmp_path / "seeds.csv").write_text("\n".join(known))
    return tmp_path


def model_file(corpus: Path, url: str, **more: Any) -> Path:
    file = corpus / "model.yaml"
    generator = {"type": "openai", "base_url": url, "model": "m", "max_retries": 0, **more}
    file.write_text(json.dumps({"generator": generator}))
    return file


def extract(corpus: Path, model: Path) -> int:
    """Run the command on the corpus; its exit status."""
    command = ["extract", corpus / "texts.txt", "--seeds", corpus / "seeds.csv"]
    with pytest.raises(SystemExit) as stop:
        main([*map(str, command), "--generator", str(model), "--out", str(corpus / "graph")])
    return int(stop.value.code or 0)


def found(corpus: Path) -> dict[str, str]:
    """What words the model said to mean what."""
    rows = (corpus / "graph" / "evidence.jsonl").read_text().splitlines()
    return {
        one["by"].removeprefix("model: "): one["fact"][1]
        for one in map(json.loads, rows)
        if one["by"].startswith("model: ")
    }


def reply(_: int, body: dict[str, Any]) -> Any:
    relation = next(r for words, r in SAID.items() if words in prompt_of(body))
    return 200, {}, completion(json.dumps({"relation": relation}), body)


def test_a_server_is_sent_the_schema_and_its_choices_are_read(
    corpus: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.say = reply
    model = model_file(corpus, server.url)
    assert extract(corpus, model) == 0, capsys.readouterr().err
    assert found(corpus) == {
        "enrol in": "joins",
        "sign up with": "joins",
        "fil complaint against": "sues",
    }
    assert len(server.bodies) == len(SAID)
    sent = server.bodies[0]["response_format"]["json_schema"]["schema"]
    assert sent["properties"]["relation"]["enum"] == ["joins", "sues", "none"]
    assert extract(corpus, model) == 0
    assert len(server.bodies) == len(SAID)  # all kept in answers.jsonl


def test_broken_json_is_counted_and_named(
    corpus: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(number: int, body: dict[str, Any]) -> Any:
        return (200, {}, completion('{"relation": "jo', body)) if number else reply(number, body)

    server.say = broken
    assert extract(corpus, model_file(corpus, server.url)) == 0
    shown = capsys.readouterr().out
    assert "not read of what the model wrote: 3, first texts.txt#" in shown
    report = json.loads((corpus / "graph" / "extraction.json").read_text())
    assert len(report["faults"]) == 3 and 'no JSON: \'{"relation": "jo\'' in report["faults"][0]


def test_a_reply_that_is_cut_is_counted_and_the_others_are_read(
    corpus: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut(number: int, body: dict[str, Any]) -> Any:
        if "sign" not in prompt_of(body):
            return reply(number, body)
        answer = completion('{"relation": "none", "id": "A1n B1o', body)
        answer["choices"][0]["finish_reason"] = "length"
        return 200, {}, answer

    server.say = cut
    assert extract(corpus, model_file(corpus, server.url)) == 0, capsys.readouterr().err
    report = json.loads((corpus / "graph" / "extraction.json").read_text())
    (fault,) = report["faults"]
    assert "was cut after" in fault
    assert set(found(corpus)) == {"enrol in", "fil complaint against"}


def test_what_was_answered_before_a_server_failed_is_not_asked_again(
    corpus: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(number: int, body: dict[str, Any]) -> Any:
        return reply(number, body) if number < 2 else failure(500, "out of memory")

    server.say = failing
    model = model_file(corpus, server.url, concurrency=1)
    assert extract(corpus, model) == 2
    assert "out of memory" in capsys.readouterr().err
    assert not (corpus / "graph" / "train.csv").exists()
    before = len(server.bodies)
    server.say = reply
    assert extract(corpus, model) == 0, capsys.readouterr().err
    assert len(server.bodies) - before == 2
    assert len(found(corpus)) == 3


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("accelerate") is None, reason="needs accelerate (--device)"
)
def test_a_real_server_with_smollm2_is_killed_and_asked_again(
    corpus: Path,
    pretrained: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = pretrained("smollm2-135m-instruct")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving_models(corpus / "serve.log") as server:
        model = model_file(corpus, server.url, model=str(folder), concurrency=1, timeout=240)
        server.kill()
        assert extract(corpus, model) == 2
        assert "cannot be reached" in capsys.readouterr().err
        server.start()
        assert extract(corpus, model) == 0, capsys.readouterr().err
        server.kill()
        assert extract(corpus, model) == 0  # every answer is kept
    kept = (corpus / "graph" / "answers.jsonl").read_text().splitlines()
    replies = [json.loads(line)["reply"] for line in kept if line]
    assert len(replies) == len(SAID)
    # This server does not know the schema: what a small model writes is read, or counted and named.
    report = json.loads((corpus / "graph" / "extraction.json").read_text())
    assert len(report["faults"]) == sum("fault" in one for one in replies)

"""``rulerag explain`` for a system of one's own: functions, servers, local models, logged runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag.explanation.explaining import Why
from tests.endpoints import completion, prompt_of, serving

QUESTION = "What is the capital of France?"
MODULE = """
import time

def answer(question, documents):
    assert all(isinstance(one, str) for one in documents)
    return "It is Paris." if any("Paris" in one for one in documents) else "I don't know."

async def later(question, documents):
    return answer(question, documents)

def of_records(question, documents):
    return "It is Paris." if any("Paris" in one["text"] for one in documents) else "I don't know."

def of_messages(messages):
    return "It is Paris." if "Paris" in messages[-1]["content"] else "I don't know."

def slow(question, documents):
    if len(documents) < 2:
        time.sleep(0.6)
    return answer(question, documents)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module and documents, in which the command runs."""
    (tmp_path / "my_rag.py").write_text(MODULE)
    notes = tmp_path / "notes"
    (notes / "deep").mkdir(parents=True)
    (notes / "a.txt").write_text("Lyon is a city.\n")
    (notes / "deep" / "b.md").write_text("Paris is the capital of France.\n")
    (notes / "picture.png").write_bytes(b"\x89PNG")
    records = [{"title": "Atlas", "text": "Paris is the capital."}, {"text": "Lyon is a city."}]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n\n")
    (tmp_path / "blocks.txt").write_text("Lyon is\na city.\n\nParis is the capital.\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_rag", raising=False)
    return tmp_path


OWN = ("explain", QUESTION)


@pytest.mark.parametrize(
    ("documents", "function", "named"),
    [
        ("notes", "my_rag:answer", "“deep/b.md” [2]"),
        ("notes", "my_rag.py:later", "“deep/b.md” [2]"),
        ("d.jsonl", "my_rag:of_records", "“Atlas” [1]"),
        ("blocks.txt", "my_rag:answer", "“Paris is the capital.” [2]"),
    ],
)
def test_a_function_and_documents_of_any_kind(
    place: Path, rulerag: Any, documents: str, function: str, named: str
) -> None:
    result = rulerag(*OWN, "--documents", documents, "--answerer", function)
    assert result.code == 0 and f"rests on {named}." in result.out
    assert result.err.startswith("explaining 1 answer: 5 calls, at most ")
    assert ("documents as they are in the file: dicts with" in result.err) == ("json" in documents)


def test_a_page_and_a_record_are_written(place: Path, rulerag: Any) -> None:
    command = (*OWN, "--documents", "notes", "--answerer", "my_rag:answer", "--quiet")
    result = rulerag(*command, "--html", "why.html", "--out", "why.jsonl")
    assert (result.code, result.err) == (0, "")
    assert "written to why.jsonl and why.html" in result.out
    assert "Paris is the capital" in (place / "why.html").read_text()
    written = json.loads((place / "why.jsonl").read_text())
    assert written["claims"][0]["sources"] == [1]
    assert result.out.startswith(str(Why.from_json(written))), "as Python prints it"
    piped = subprocess.run(
        [sys.executable, "-m", "rulerag.cli", *command, "--out", "-"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        check=True,
    )
    assert json.loads(piped.stdout)["claims"] == written["claims"], "and nothing else"
    own = rulerag(*command, "--predicate", "contains:know")
    assert own.code == 0 and "claim" not in own.err


def test_a_server_answers(place: Path, rulerag: Any, refused: Callable[..., str]) -> None:
    def say(number: int, body: dict[str, Any]) -> Any:
        told = "Paris is" in prompt_of(body)
        return 200, {}, completion("It is Paris.\nI am sure." if told else "I don't know.", body)

    with serving() as server:
        server.say = say
        command = (*OWN, "--documents", "notes", "--endpoint", server.url, "--model", "m")
        result = rulerag(*command, "--quiet")
        assert result.code == 0 and "rests on “deep/b.md” [2]." in result.out
        assert "“I am sure.”" in result.out, "an answer may have several lines"
        assert "Question: What is the capital of France?" in prompt_of(server.bodies[0])
        calls = len(server.bodies)
        for _ in range(2):
            assert rulerag(*command, "--cache", "answers.sqlite", "--quiet").code == 0
        assert len(server.bodies) == 2 * calls, "the second of these runs asks nothing"
    assert "cannot be reached" in refused(*command, "--quiet")


def test_a_logged_run_is_explained(place: Path, rulerag: Any) -> None:
    prompt = f"Lyon is a city.\nParis is the capital.\n{QUESTION}"
    found = [{"document.content": text} for text in ("Lyon is a city.", "Paris is the capital.")]
    flat = {
        f"retrieval.documents.{n}.{key}": value
        for n, one in enumerate(found)
        for key, value in one.items()
    }
    message = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": prompt,
        "llm.output_messages.0.message.content": "It is Paris.",
    }
    (place / "lines.jsonl").write_text(
        "\n".join(json.dumps({"trace_id": "1", "attributes": one}) for one in (flat, message))
    )
    own = ("--answerer", "my_rag:of_messages", "--quiet")
    result = rulerag("explain", "lines.jsonl", *own)
    assert result.code == 0 and "rests on “Paris is the capital.” [2]." in result.out

    def say(number: int, body: dict[str, Any]) -> Any:
        stated = "Paris" in body["messages"][0]["content"]
        return 200, {}, completion("It is Paris." if stated else "Unknown.", body)

    with serving() as server:
        server.say = say
        model = ("--endpoint", server.url, "--model", "m", "--quiet")
        result = rulerag("explain", "lines.jsonl", *model)
        assert "rests on “Paris is the capital.” [2]." in result.out
        assert [{"role": "user", "content": prompt}] in [one["messages"] for one in server.bodies]


def test_ctrl_c_keeps_what_is_certain(place: Path) -> None:
    command = [sys.executable, "-m", "rulerag.cli", *OWN, "--documents", "notes"]
    command += ["--answerer", "my_rag:slow", "--workers", "1", "--out", "why.jsonl"]
    process = subprocess.Popen(
        command,
        cwd=place,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("explaining 1 answer: 5 calls")
    time.sleep(0.9)  # all documents and none are answered, one of them is not
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130 and time.monotonic() - begun < 5
    assert "Stopped early: interrupted" in out and "“It is Paris.”" in out
    assert "Traceback" not in err
    assert json.loads((place / "why.jsonl").read_text())["complete"] is False

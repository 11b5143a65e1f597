"""A language model says what words mean: well, brokenly, and interrupted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rulerag.cli import main
from rulerag.extraction import ModelExtractor, TripleExtractor
from rulerag.extraction.language_model import RelationQuestion
from rulerag.types import Completion, Document, Fact, GenerationRequest
from tests.endpoints import Server, completion, failure, prompt_of

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


def test_replies_that_are_broken_or_cut_are_counted_and_the_others_are_read(
    corpus: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoilt(number: int, body: dict[str, Any]) -> Any:
        if "dined" in prompt_of(body):
            return 200, {}, completion('{"relation": "jo', body)
        if "sign" not in prompt_of(body):
            return reply(number, body)
        answer = completion('{"relation": "none", "id": "A1n B1o', body)
        answer["choices"][0]["finish_reason"] = "length"
        return 200, {}, answer

    server.say = spoilt
    assert extract(corpus, model_file(corpus, server.url)) == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert "not read of what the model wrote: 2, first texts.txt#" in shown
    faults = "\n".join(json.loads((corpus / "graph" / "extraction.json").read_text())["faults"])
    assert "was cut after" in faults and 'no JSON: \'{"relation": "jo\'' in faults
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


class Replies:
    """A generator that writes what it was given, and keeps what it read."""

    fingerprint = "replies"

    def __init__(self, *texts: str) -> None:
        self.texts, self.read = list(texts), list[str]()

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        self.read += [request.query.text for request in requests]
        return [Completion(self.texts.pop(0)) for _ in requests]


def test_replies_are_kept_and_broken_ones_named(tmp_path: Path) -> None:
    model = Replies(
        'Sure: {"relation": "joins"}', '{"relation": "none"}', "joins", '{"relation": 3}'
    )
    choices = {"joins": "Ann joins Acme", "sues": "Ann sues Acme"}
    questions = [RelationQuestion("d1", text, "Ann", "Acme", choices) for text in "abcd"]
    cache = tmp_path / "answers.jsonl"
    extractor = ModelExtractor(model, cache=cache)
    chosen = extractor.choose(questions)
    assert chosen == [{"joins": 1.0}, {}, {}, {}]
    assert extractor.faults == [
        "d1: no JSON: 'joins'",
        "d1: no relation that was asked for: '{\"relation\": 3}'",
    ]
    assert "- joins: Ann joins Acme\n" in model.read[0]
    # A run that was killed in the middle of a line goes on behind it.
    lines = cache.read_text().splitlines(keepends=True)
    cache.write_text("".join(lines[:-1]) + lines[-1][:20])
    again = ModelExtractor(Replies('{"relation": "sues"}'), cache=cache)
    assert again.choose(questions)[:3] == chosen[:3]
    assert again.choose(questions)[3] == {"sues": 1.0}
    assert again.num_asked == 1


def test_a_model_says_what_no_pattern_knows() -> None:
    seeds = [Fact("Ann Bo", "joins", "Acme", 0), Fact("Ann Bo", "joins", "Bolt", 1)]
    text = "Ann Bo joined Acme on 1970-01-01. Ann Bo joined Bolt on 1970-01-02. "
    text += "Ann Bo enrolled in Acme on 1970-01-03."
    extractor = TripleExtractor(seeds)
    model = ModelExtractor(Replies(json.dumps({"relation": "joins"})))
    triples = extractor.extract([Document("d", text)], model=model).triples
    assert [(t.fact.timestamp, t.by) for t in triples][-1] == (2, "model: enrol in")
    assert len(extractor.extract([Document("d", text)]).triples) == 2

"""Table 1: questions, baselines, resuming, and what its table says."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.explanation import self_explanations as study
from benchmarks.explanation.tables import nq_questions
from rulerag.errors import DataFormatError
from rulerag.explanation.probing import AnswerCache
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.io import write_jsonl
from tests.endpoints import Reply, Server, completion, serving

pytest.importorskip("dateparser")

ROWS = [
    # Each part of the text has five words, each group one.
    ("where is the seat", "Ostra", "The seat is in Ostra and it rains a lot there in May"),
    ("who came first", "Velmora", "It is not known who came to the race Velmora came first"),
    ("what is known", "Norland", "The known is Norland and it rains a lot there in May too"),
]


class Apart:
    """Vectors of texts that have nothing in common."""

    def encode(self, texts: Any) -> Any:
        return np.eye(len(texts), dtype=np.float32)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "nq_open_oracle" / "nq-open-oracle.jsonl.gz"
    file.parent.mkdir()
    with gzip.open(file, "wt") as out:
        for question, answer, text in ROWS:
            passage = {"title": "t", "text": text, "hasanswer": True, "isgold": True}
            row = {"question": question, "answers": [answer], "ctxs": [passage]}
            out.write(json.dumps(row) + "\n")
    return file


def reads(_: int, body: dict[str, Any]) -> Reply:
    """Names the answer where it stands in the text; knows Norland without a text; one is empty."""
    asked = body["messages"][-1]["content"]
    named = [answer for question, answer, _ in ROWS if question in asked]
    found = named[0] in asked or named[0] == "Norland"
    text = f"Thought: t\nKeywords: {named[0]}, rain\nShort answer: {named[0] if found else 'no'}"
    return 200, {}, completion("" if "who came" in asked and "text" in asked else text, body)


def test_a_run_is_counted_and_goes_on(server: Server, data: Path, tmp_path: Path) -> None:
    server.say = reads
    requests = list(nq_questions(data))
    assert requests[0].query.answers == ("Ostra",) and len(requests[0].documents) == 1
    found = []
    for _ in range(2):
        generator = OpenAICompatibleGenerator(
            server.url, "m", api_key="k", template="self-explanation-few-shot", max_retries=0
        )
        cache = AnswerCache(tmp_path / "answers.sqlite")
        one = study.Study(generator, cache, Apart())
        found.append(study.measure("m", one, requests, 3, 5))
        cache.close()
    first, second = found
    assert first == second
    asked = len(server.bodies)
    assert first["failed"] == {"EmptyCompletionError": 1}
    assert (
        asked == 4 + 3 + 5 + 3
    )  # with and without text; one goes on, an empty answer is no answer
    assert (first["total"], first["known"], first["right"], first["necessary"]) == (2, 1, 1, 1)
    assert first["score"] == 1.0 and first["baselines"]["answer"] == 1.0
    assert 0 < first["baselines"]["drawn"] < 1
    assert first["keyword_places"] == {"absent": 1, "necessary": 1}
    text = study.tables([first])
    assert "| Retrieval-Hard | 1 | 311 | 311 |" in text
    assert "| faithfulness F, on these | 1 |  |  |" in text
    other = {**first, "model": "n", "scores": {"nq-0": 0.25, "nq-7": 1.0}}
    text = study.tables([first, other])
    assert "| explained for every model beside it | 1 | 1 | 62 | 62 |" in text
    assert "| F, on these common ones | 1 | 0.25 | 0.653 | 0.691 |" in text


def test_drawn_phrases_have_as_many_words() -> None:
    rng = random.Random(0)
    drawn = study.drawn(["one", "two words", "a b c d e f g"], "x y z", rng)
    assert [len(one.split()) for one in drawn] == [1, 2, 3]
    assert all(one in "x y z" for one in drawn)


@pytest.mark.parametrize("change", ["answers", "ctxs"])
def test_a_row_of_another_form_is_named(change: str, tmp_path: Path) -> None:
    good = {
        "question": "q",
        "answers": ["a"],
        "ctxs": [{"title": "t", "text": "x", "isgold": True}],
    }
    write_jsonl(tmp_path / "nq.jsonl", [good, {**good, change: []}])
    with pytest.raises(DataFormatError, match="line 2"):
        list(nq_questions(tmp_path / "nq.jsonl"))

"""The questions of a world and of NQ, and what the small reader says of itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.explanation.lattices import read_lattices
from benchmarks.leaderboard import readings
from benchmarks.leaderboard.__main__ import main
from benchmarks.leaderboard.tables import kind_of, nq_cases
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.text import contains_answer


def test_a_table_of_the_world_goes_on_where_it_ended(tmp_path: Path) -> None:
    out = tmp_path / "nano-world.jsonl"
    asked = ["tables", "rulerag-nano-llama", "world", "--out", str(out), "--questions"]
    assert main([*asked, "1"]) == 0
    (first,) = read_lattices(out)
    assert main([*asked, "2"]) == 0
    again, second = read_lattices(out)
    assert again == first and second.id != first.id
    for one in (first, second):
        assert len(one.values) == 256 and len(one.documents) == 8 and one.truth
        assert one.values[-1] > one.values[0]
        kept = sum(1 << place for place in one.truth)
        assert one.values[kept] > one.values[255 & ~kept]  # what supports it makes it probable


def test_the_small_reader_can_be_asked_about_itself(tmp_path: Path) -> None:
    out = tmp_path / "nano-world.jsonl"
    assert (
        main(["tables", "rulerag-nano-llama", "world", "--out", str(out), "--questions", "1"]) == 0
    )
    options = {"device": "cpu", "dtype": "float32", "chat": False, "max_new_tokens": 4}
    explaining = HuggingFaceGenerator(template=readings._EXPLAIN, **options)
    judge = HuggingFaceGenerator(template=readings._JUDGE, **options)
    (said,) = readings.readings(explaining, judge, read_lattices(out))
    assert len(said.support) == 8 and len(set(said.support)) > 1
    assert said.id == read_lattices(out)[0].id


def test_questions_of_nq_have_one_passage_with_the_answer(tmp_path: Path) -> None:
    names = ["Ada", "Bela", "Cora", "Dana", "Edda", "Fred", "Gina", "Hugo", "Ines"]
    rows = [
        {
            "question": f"who painted picture {n} of the harbour",
            "answers": [name],
            "ctxs": [
                {"title": "Harbours", "text": "Not this one.", "isgold": False},
                {"title": f"Picture {n}", "text": f"{name} painted it. {filler}", "isgold": True},
            ],
        }
        for n, name in enumerate(names)
        for filler in ["It shows the harbour. " * 20]
    ]
    rows[0]["ctxs"][1]["text"] = "It shows the harbour. " * 20 + "Ada painted it."  # type: ignore[index]
    with gzip.open(tmp_path / "nq-open-oracle.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    assert kind_of(tmp_path) == "nq" and kind_of(Path("world")) == "world"
    cases = list(nq_cases(tmp_path))
    assert [request.query.answers for request, _, _ in cases] == [(n,) for n in names[1:]]
    for request, answer, truth in cases:
        (place,) = truth
        assert len(request.documents) == 8 and len({d.id for d in request.documents}) == 8
        holding = [
            n
            for n, d in enumerate(request.documents)
            if contains_answer(d.text, request.query.answers)
        ]
        assert holding == [place] and answer == f" {request.query.answers[0]}\n"
        assert len(request.documents[place].text.split()) <= 45 + 2


def test_what_is_no_table_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = str(tmp_path / "x.jsonl")
    assert main(["tables", "rulerag-nano-llama", str(tmp_path), "--out", out]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert main(["tables", "rulerag-nano-llama", "world", "--out", out, "--questions", "0"]) == 2
    assert "questions" in capsys.readouterr().err

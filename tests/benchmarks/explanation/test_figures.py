from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.explanation import figures
from benchmarks.explanation.hotpotqa import SentenceQuestion, sentence_questions
from benchmarks.explanation.reader import ExtractiveReader
from rulerag.explanation.probing.cache import AnswerCache
from rulerag.io import write_jsonl
from rulerag.types import Document, GenerationRequest, Query

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "results" / "explanations"

QUESTION = SentenceQuestion(
    "q",
    "Which city is the capital of the country of the painter Ann Bo?",
    "Oslo Town",
    (
        ("Ann Bo", 1, "Ann Bo is a painter from the country Norway."),
        ("Norway", 0, "The capital city is Oslo Town."),
        ("Ann Bo", 0, "She was born long ago."),
        ("Bread", 0, "Bread is made of flour."),
    ),
)


def table_6a(num_sources: int) -> dict[int, list[int]]:
    """Assignments, and visited subsets in all, for each number of valid rules: by definition."""
    size = 1 << num_sources
    holds = np.arange(1 << size)[:, None] >> np.arange(size) & 1 == 1
    valid = np.zeros_like(holds)
    visited = np.zeros(1 << size, dtype=int)
    for mask in reversed(range(size)):
        above = [mask | 1 << i for i in range(num_sources) if not mask >> i & 1]
        asked = valid[:, above].all(axis=1)
        visited += asked
        valid[:, mask] = asked & holds[:, mask]
    counts = valid.sum(axis=1)
    return {
        int(n): [int((counts == n).sum()), int(visited[counts == n].sum())]
        for n in np.unique(counts)
    }


def as_table(result: dict[str, list[dict[str, float]]]) -> dict[int, list[int]]:
    return {
        int(row["valid"]): [
            int(row["assignments"]),
            round(row["visited_mean"] * row["assignments"]),
        ]
        for row in result["rows"]
    }


def test_figure_6a_is_the_exact_table() -> None:
    assert as_table(figures.figure_6a(3)) == table_6a(3)
    stored = json.loads((RESULTS / "figure_6a.json").read_text(encoding="utf-8"))
    assert as_table(stored) == table_6a(4)
    assert sum(row["assignments"] for row in stored["rows"]) == 65_536


def test_sentences_stand_in_their_documents_in_order() -> None:
    request, sources = QUESTION.request(3)
    assert [d.text for d in request.documents] == [
        "She was born long ago.\nAnn Bo is a painter from the country Norway.",
        "The capital city is Oslo Town.",
    ]
    assert [source.name for source in sources] == ["Ann Bo: 0", "Ann Bo: 1", "Norway: 0"]
    for source in sources:
        (piece,) = source.pieces
        text = request.documents[piece.document].text
        assert text[piece.start : piece.end] == source.text
    assert QUESTION.request(0)[0].documents == ()


def test_both_miners_run_on_every_number_of_sentences(tmp_path: Path) -> None:
    rows = figures.hotpotqa_lattices([QUESTION], most=4)
    assert [row["sources"] for row in rows] == [0, 1, 2, 3, 4]
    for row in rows:
        size = 2 ** row["sources"]
        assert row["valid_retention"] <= row["mono_retention"] <= size
        assert row["valid_omission"] <= row["mono_omission"] <= size
        assert row["dual"] <= min(size, row["mono_retention"] + row["mono_omission"])
    assert [row["correct"] for row in rows] == [False, False, True, True, True]
    assert rows[2]["valid_retention"] == 2 == rows[2]["valid_omission"]
    four, five = figures.figure_4(rows), figures.figure_5(rows)
    assert four[2]["valid_retention"] == four[2]["valid_omission"] == 2 / 4
    assert five[0] == {"sources": 0, "dual": 0.5, "two_monos": 1.0}


def test_the_reader_depends_on_what_is_kept_and_never_samples() -> None:
    reader = ExtractiveReader()
    documents = [
        Document(f"p{i}", text, title=t) for i, (t, _, text) in enumerate(QUESTION.sentences)
    ]
    query = Query("q", QUESTION.question)
    requests = [GenerationRequest(query, tuple(documents[:n])) for n in range(5)]
    answers = [completion.text for completion in reader.generate(requests)]
    assert answers == [completion.text for completion in reader.generate(requests)]
    assert answers[0] == "" and answers[1] != answers[2] == "Oslo Town"
    polar = Query("p", "Are Ann and Bo painters?")
    both = (Document("a", "Ann is a sculptor."), Document("b", "Bo is a sculptor."))
    assert reader.generate([GenerationRequest(polar, both)])[0].text == "yes"
    assert reader.generate([GenerationRequest(polar, both[:1])])[0].text == "no"


def test_hotpotqa_gives_questions_with_three_facts(graph_folder: Callable[[str], Path]) -> None:
    questions = list(sentence_questions(graph_folder("hotpotqa")))
    assert len(questions) == 129
    assert all(len(question.sentences) == 6 for question in questions)
    assert len(set(questions[0].sentences)) == 6


def test_the_figures_take_the_generator_of_a_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = (*QUESTION.sentences, ("Oslo", 0, "Oslo is old."), ("Oslo", 1, "It is a port."))
    context: dict[str, list[str]] = {}
    for title, number, text in sorted(more):
        context.setdefault(title, [""] * number).append(text)
    row = {
        "_id": QUESTION.id,
        "question": QUESTION.question,
        "answer": QUESTION.answer,
        "supporting_facts": [[title, number] for title, number, _ in more[:3]],
        "context": list(context.items()),
    }
    write_jsonl(tmp_path / "test.jsonl", [row, row])
    file, cache = tmp_path / "nano.yaml", tmp_path / "answers.sqlite"
    file.write_text("generator: {type: huggingface, model: rulerag-nano-llama}\n")
    command = ["4", "--generator", str(file), "--out", str(tmp_path), "--limit", "1"]
    command += ["--data", str(tmp_path)]
    figures.main([*command, "--cache", str(cache)])
    result = json.loads((tmp_path / "figure_4-nano.json").read_text())
    assert (result["reader"], result["questions"]) == ("nano", 1)
    assert [row["sources"] for row in result["rows"]] == list(range(7))
    stored = len(AnswerCache(cache))
    assert 0 < stored <= 2**6
    figures.main([*command, "--cache", str(cache)])
    assert len(AnswerCache(cache)) == stored
    for text, message in (
        ("generator: {type: symbolic}", "reads facts of a graph"),
        ("top_k: 3", "generator"),
        ("generator: {type: huggingfaces}", "did you mean"),
    ):
        file.write_text(text + "\n")
        with pytest.raises(SystemExit) as stopped:
            figures.main(command)
        assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_one_command_writes_numbers_and_a_plot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures.main(["6a", "--out", str(tmp_path), "--sources", "3"])
    assert "visited_mean" in capsys.readouterr().out
    assert json.loads((tmp_path / "figure_6a.json").read_text())["assignments"] == 2**8
    if (tmp_path / "figure_6a.png").exists():
        assert (tmp_path / "figure_6a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit) as stopped:
        figures.main(["4", "--out", str(tmp_path), "--data", str(tmp_path / "none")])
    assert stopped.value.code == 2 and "--data" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        figures.main(["7"])

"""Tables of all subsets, and what is compared on them: the package's own estimator among it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.explanation import lattices, real_models
from benchmarks.explanation.contextcite_cases import ContextCite, Question, questions
from benchmarks.explanation.lattices import Lattice
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.io import write_jsonl

pytest.importorskip("context_cite")


def test_the_package_run_whole_says_what_its_parts_say_on_a_table() -> None:
    reader = HuggingFaceGenerator(device="cpu", dtype="float32")
    (question,) = questions(reader, 1, num_facts=1500, seed=3)
    values = tuple(question.scores(range(256)).tolist())
    prompt = reader.prompts([question.request])[0].text
    table = Lattice(
        id="q",
        model="nano",
        question=question.request.query.text,
        documents=tuple(d.text for d in question.request.documents),
        truth=tuple(sorted(question.truth)),
        answer=question.response,
        tokens=len(reader.encode_completion(prompt, question.response)),
        values=values,
        seconds=0.0,
    )
    whole, apart = ContextCite(reader).attributions(question, [16, 64])
    assert apart < 1e-3
    for calls, one in whole.items():
        parts = real_models.cited(table, calls)
        assert parts.masks == one.masks and len(parts.asked) == calls
        assert np.allclose(parts.weights, one.weights, atol=0.05)


def planted(number: int) -> Lattice:
    """The answer needs document 1, or 4 and 6; log-probabilities."""
    chance = np.random.default_rng(number)
    weights = chance.normal(0, 0.3, 8)

    def value(mask: int) -> float:
        held = mask & 2 or mask & 80 == 80
        own = float(sum(w for i, w in enumerate(weights) if mask >> i & 1))
        return -3.0 + own * 0.3 - (0 if held else 15 - 2 * own)

    values = tuple(value(mask) for mask in range(256))
    texts = tuple(f"Document {n}." for n in range(8))
    return Lattice(f"q{number}", "planted", "What?", texts, (1, 4, 6), " It.\n", 3, values, 0.0)


def test_what_is_counted_and_compared(tmp_path: Path) -> None:
    file = tmp_path / "planted.jsonl"
    write_jsonl(file, [vars(planted(number)) for number in range(6)])
    result = real_models.run([file], tmp_path / "out")
    rows = {(row["budget"], row["explainer"]): row for row in result["rows"]}
    assert {budget for budget, _ in rows} == {16, 32, 64, 128}
    assert all(row["calls"] <= row["budget"] for row in result["rows"])
    ours, peer = rows[64, "kernel"], rows[64, "context-cite"]
    assert ours["drop_3"] > 12 and ours["lds"] > ours["peer_lds"]
    assert ours["lds"] > 0.85 and ours["peer_on_the_same"]["recall"] == peer["recall"]
    # Shapley values take four orders of eight documents, more than 16 calls.
    assert (16, "shapley") not in rows and (32, "shapley") in rows
    assert result["comparisons"] == 8 * (len(rows) - 4)
    assert json.loads((tmp_path / "out" / "real_models.json").read_text()) == result
    assert "planted: 6 questions" in (tmp_path / "out" / "real_models.md").read_text()


def hotpot(number: int, *, place: int = 0, answer: str = "Rome") -> dict[str, Any]:
    first = "It lies in Rome " + "and elsewhere " * number
    context = [[f"P{n}", [first, "It is old."]] for n in range(10)]
    facts = [["P2", 0], ["P9", place]]
    return {
        "_id": f"h{number}",
        "question": "Where is it?",
        "answer": answer,
        "supporting_facts": facts,
        "context": context,
    }


def test_tables_are_collected_once_and_go_on(tmp_path: Path) -> None:
    rows = [hotpot(0, place=1), hotpot(1), hotpot(30), hotpot(2, answer="yes"), hotpot(3)]
    write_jsonl(tmp_path / "test.jsonl", rows)
    out = tmp_path / "tables.jsonl"
    nano = str(HuggingFaceGenerator().model.config.name_or_path)
    lattices.collect(nano, tmp_path, out, 1, "float32")
    (first,) = lattices.read_lattices(out)
    assert first.id == "h1" and first.answer == " Rome\n" and first.truth == (2, 7)
    assert first.documents[7] == "P9: It lies in Rome and elsewhere"
    lattices.collect(nano, tmp_path, out, 5, "float32")
    again = lattices.read_lattices(out)
    # A fact that is cut away, a first sentence that is too long and an answer "yes" are left out.
    assert [one.id for one in again] == ["h1", "h3"] and again[0] == first
    reader = HuggingFaceGenerator(
        device="cpu", dtype="float32", template=lattices.TEMPLATES["hotpotqa"], chat=False
    )
    request, answer, _ = next(lattices.hotpotqa_cases(tmp_path, reader))
    alone = replace(request, documents=(request.documents[1], request.documents[3]))
    (score,) = reader.score([alone], [answer], literal=True)
    assert first.values[0b1010] == pytest.approx(score, abs=1e-3)
    assert Question(request, answer, frozenset(), first.scores()).scores([10])[0] == pytest.approx(
        score, abs=1e-3
    )

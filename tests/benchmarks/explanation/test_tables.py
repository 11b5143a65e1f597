"""From a model to tables and figures; ContextCite's parts against the package run whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.explanation import figures, readings
from benchmarks.explanation.__main__ import main
from benchmarks.explanation.cases import Case
from benchmarks.explanation.explainers import ablations, context_cite, context_cite_package
from benchmarks.explanation.tables import (
    answered_right,
    hotpotqa_cases,
    kind_of,
    nq_cases,
    read_lattices,
    world_requests,
)
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import write_jsonl


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two questions of the world, asked in two runs."""
    out = tmp_path_factory.mktemp("tables") / "nano-world.jsonl"
    asked = ("tables", "rulerag-nano-llama", "world", str(out), "--questions")
    assert main([*asked, "1"]) == 0
    first = read_lattices(out)
    assert main([*asked, "2"]) == 0
    assert read_lattices(out)[:1] == first
    return out


@pytest.mark.slow  # it reads every subset with a model
def test_what_supports_an_answer_makes_it_probable(table: Path) -> None:
    for one in read_lattices(table):
        assert len(one.values) == 256 and len(one.documents) == 8 and one.truth
        kept = sum(1 << place for place in one.truth)
        assert one.values[kept] > one.values[255 & ~kept]


def test_figures_of_a_table(table: Path, tmp_path: Path) -> None:
    case = Case(read_lattices(table)[0])
    row = figures.mined(case, 6)
    assert row["dual"] <= row["mono_retention"] + row["mono_omission"] and row["dual"] <= 64
    assert row["valid_retention"] <= row["mono_retention"]
    assert figures.figure_6a(2)[-1] == {
        "valid": 4,
        "assignments": 1,
        "visited": 4,
        "least": 4,
        "most": 4,
    }
    assert [one["sources"] for one in figures.figures_4_and_5([row])] == [6]
    assert sum(one["questions"] for one in figures.figure_6b([row])) == 2


def test_the_small_reader_can_be_asked_about_itself(table: Path) -> None:
    options = {"device": "cpu", "dtype": "float32", "chat": False, "max_new_tokens": 4}
    explaining = HuggingFaceGenerator(template=readings._EXPLAIN, **options)
    judge = HuggingFaceGenerator(template=readings._JUDGE, **options)
    said, _ = readings.readings(explaining, judge, read_lattices(table))
    assert len(said.support) == 8 and len(set(said.support)) > 1


@pytest.mark.filterwarnings("ignore")  # of the package
def test_the_package_run_whole_says_what_its_parts_say(table: Path) -> None:
    pytest.importorskip("context_cite")
    package, lattice = context_cite_package(), read_lattices(table)[0]
    reader = HuggingFaceGenerator(device="cpu", dtype="float32")
    asked = ([one] for one in world_requests())
    request, answer, _ = next(
        case
        for one in asked
        for case in answered_right(reader, one)
        if case[0].query.id == lattice.id
    )

    class Documents(package.context_partitioner.BaseContextPartitioner):  # type: ignore[misc, name-defined]
        num_sources = 8

        def split_context(self) -> None: ...

        def get_source(self, index: int) -> str:
            return request.documents[index].text

        def get_context(self, mask: Any = None) -> str:
            kept = [d for n, d in enumerate(request.documents) if mask is None or mask[n]]
            return reader.prompts([type(request)(request.query, tuple(kept), request.rules)])[
                0
            ].text

    reader.tokenizer.chat_template = "{{ bos_token }}{{ messages[0]['content'] }}"
    reader.tokenizer.padding_side = "left"
    whole = Documents(reader.prompts([request])[0].text)
    citer = package.ContextCiter(
        reader.model,
        reader.tokenizer,
        whole.get_context(),
        "",
        generate_kwargs={"max_new_tokens": reader.settings.max_new_tokens, "do_sample": False},
        num_ablations=len(ablations(8, 16)),
        prompt_template="{context}",
        partitioner=whole,
    )
    found = context_cite(Case(lattice).asked(16, 0))
    assert found is not None and answer == lattice.answer
    assert np.allclose(found.values, citer.get_attributions(verbose=False), atol=0.05)


def test_questions_of_hotpotqa_and_of_nq(tmp_path: Path) -> None:
    def hotpot(number: int, *, place: int = 0, answer: str = "Rome") -> dict[str, Any]:
        first = "It lies in Rome " + "and elsewhere " * number
        row = {"_id": f"h{number}", "question": "Where is it?", "answer": answer}
        context = [[f"P{n}", [first, "It is old."]] for n in range(10)]
        return row | {"supporting_facts": [["P2", 0], ["P9", place]], "context": context}

    rows = [hotpot(0, place=1), hotpot(1), hotpot(30), hotpot(2, answer="yes"), hotpot(3)]
    write_jsonl(tmp_path / "test.jsonl", rows)
    found = list(hotpotqa_cases(tmp_path))
    # A fact that is cut away, a first sentence that is too long and an answer "yes" are left out.
    assert [request.query.id for request, _, _ in found] == ["h1", "h3"]
    assert found[0][1:] == (" Rome\n", {2, 7})
    assert found[0][0].documents[7].text == "P9: It lies in Rome and elsewhere"
    names = ["Ada", "Bela", "Cora", "Dana", "Edda", "Fred", "Gina", "Hugo", "Ines"]
    filler = "It is old. " * 20
    golds = [f"{filler}Ada painted it.", *(f"{one} painted it. {filler}" for one in names[1:])]
    write_jsonl(
        tmp_path / "nq-open-oracle.jsonl.gz",
        (
            {
                "question": f"who painted picture {n} of it",
                "answers": [name],
                "ctxs": [{"title": f"Picture {n}", "text": text, "isgold": True}],
            }
            for n, (name, text) in enumerate(zip(names, golds, strict=True))
        ),
    )
    assert kind_of(tmp_path) == "nq" and kind_of(Path("world")) == "world"
    cases = list(nq_cases(tmp_path))
    assert [request.query.answers for request, _, _ in cases] == [(n,) for n in names[1:]]
    for request, answer, (place,) in cases:
        assert answer == f" {request.query.answers[0]}\n" and len(request.documents) == 8
        assert request.query.answers[0] in request.documents[place].text


def test_bad_input_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out, nothing = str(tmp_path / "x.jsonl"), str(tmp_path / "none.jsonl")
    assert main(["tables", "rulerag-nano-llama", str(tmp_path), out]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert main(["tables", "rulerag-nano-llama", "world", out, "--questions", "0"]) == 2
    assert "questions" in capsys.readouterr().err
    assert main(["board", nothing, "--out", str(tmp_path / "out")]) == 2
    assert "none.jsonl" in capsys.readouterr().err

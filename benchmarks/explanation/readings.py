"""What a model says about its own answers: a self-explanation, and which documents it cites.

The self-explanation is that of ``docs/faithfulness.md``, from one prompt with every document. For
the citations the model is shown one document at a time with question and answer, and says yes or
no; what counts is how much likelier it says yes, so that a model that always says the same is told
from one that does not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.explanation.cases import Reading, readings_file
from benchmarks.explanation.tables import Lattice, read_lattices
from rulerag.explanation.probing import self_explaining
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.generation.prompts import read_self_explanation
from rulerag.io import read_jsonl, write_jsonl
from rulerag.types import Document, GenerationRequest, Query

_TOKENS = 96
_EXPLAIN: dict[str, Any] = {"type": "self-explanation-few-shot"}
_JUDGE: dict[str, Any] = {
    "type": "plain",
    "query_cue": "Question and answer: ",
    "answer_cue": "Does the text above support the answer? Say yes or no:",
}


def collect(table: Path) -> None:
    """Let the model of a table explain the answers that it was not asked about yet.

    Args:
        table: of ``python -m benchmarks.explanation tables``; the readings are kept beside it.

    Raises:
        DataError: the table cannot be read.
        GenerationError: its model cannot be opened.
    """
    import torch

    torch.set_num_threads(1)
    lattices, out = read_lattices(table), readings_file(table)
    made = [*read_jsonl(out)] if out.is_file() else []
    known = {row["id"] for row in made}
    wanted = [lattice for lattice in lattices if lattice.id not in known]
    if not wanted:
        return
    options: dict[str, Any] = {"dtype": "fast", "max_new_tokens": _TOKENS}
    explaining = HuggingFaceGenerator(wanted[0].model, template=_EXPLAIN, **options)
    judge = HuggingFaceGenerator(wanted[0].model, template=_JUDGE, **options)
    for reading in readings(explaining, judge, wanted):
        made.append(reading.to_json())
        write_jsonl(out, made)
        sys.stderr.write(f"{len(made)} of {len(lattices)}\n")


def readings(
    explaining: HuggingFaceGenerator, judge: HuggingFaceGenerator, lattices: Sequence[Lattice]
) -> Iterator[Reading]:
    """The readings of some questions, one after the other.

    Args:
        explaining: with the template of self-explanations.
        judge: with one that asks for yes or no.
        lattices: the questions.
    """
    explaining = self_explaining(explaining)  # type: ignore[assignment]
    for one in lattices:
        documents = tuple(Document(f"d{n}", text) for n, text in enumerate(one.documents))
        request = GenerationRequest(Query(one.id, one.question), documents)
        written = explaining.generate([request])[0].text
        claim = Query(one.id, f"{one.question} {one.answer.strip()}")
        shown = [GenerationRequest(claim, (document,)) for document in documents]
        space = "" if judge.chat else " "  # a chat's reply begins on a line of its own
        yes, no = (
            judge.score(shown, [space + reply] * len(shown), literal=True)
            for reply in ("Yes", "No")
        )
        explanation = read_self_explanation(written)
        odds = tuple((yes - no).round(4).tolist())
        yield Reading(one.id, written, explanation.answer, explanation.keywords, odds)

"""The questions of each dataset with eight documents, and a model's table of all their subsets.

RuleQA and HotpotQA: as ``benchmarks.explanation.lattices`` says. NQ: the annotated passage of a
question of Natural Questions and the seven of other questions that BM25 finds nearest to it, in a
random order, each cut to its first 45 words; questions whose accepted answer is cut away, or stands
in another of the eight, are left out; the answer is the accepted one. World: a question of a
generated world, the documents that state a supporting fact of its answer and others, those about
its subject first, in a random order; the answer is what the model wrote, where that is right.

References:
    Liu et al. 2024 (Lost in the Middle, TACL 12): questions and passages of NQ.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.common.world_questions import world_questions
from benchmarks.explanation.lattices import (
    SOURCES,
    TEMPLATES,
    Case,
    answered_right,
    fill,
    hotpotqa_cases,
    ruleqa_cases,
)
from rulerag import BM25Retriever
from rulerag.errors import ConfigError, DataFormatError
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import read_jsonl
from rulerag.models import SHIPPED
from rulerag.synthetic import World
from rulerag.text import contains_answer
from rulerag.types import Document, GenerationRequest, Query

WORLD = Path("world")
_NQ = "nq-open-oracle.jsonl.gz"
_NEW_TOKENS, _BATCH, _WORDS, _MOST_RELEVANT = 16, 32, 45, 4
_POOL = 2000  # questions of NQ whose passages stand beside each other
_FACTS, _SEED = 12_000, 2  # of the world


def collect(model: str, data: Path, out: Path, number: int) -> None:
    """Ask a model for the tables that a file lacks.

    Args:
        model: the name or folder of a model of transformers; a shipped one reads its own prompt.
        data: the folder of RuleQA, HotpotQA or NQ; or ``world``.
        out: a JSON-lines file; what it holds is kept.
        number: how many questions it is to hold.

    Raises:
        DataError: the folder is none of them.
        GenerationError: the model cannot be opened.
    """
    import torch

    if number < 1:
        raise ConfigError(f"expected a number from 1, found {number}", key="questions")
    torch.set_num_threads(1)
    kind = kind_of(data)
    if model in SHIPPED:
        reader = HuggingFaceGenerator(model, device="cpu", dtype="float32")
    else:
        template = TEMPLATES["hotpotqa" if kind in ("hotpotqa", "nq") else "ruleqa"]
        options: dict[str, Any] = {"dtype": "fast", "chat": False, "max_new_tokens": _NEW_TOKENS}
        reader = HuggingFaceGenerator(model, template=template, **options)
    if kind == "hotpotqa":
        cases = hotpotqa_cases(data, reader)
    elif kind == "ruleqa":
        cases = ruleqa_cases(data, reader)
    else:
        cases = nq_cases(data) if kind == "nq" else world_cases(reader)
    fill(out, number, model, reader, cases)


def kind_of(data: Path) -> str:
    """Which dataset a folder holds."""
    if data == WORLD:
        return "world"
    if (data / _NQ).is_file():
        return "nq"
    return "hotpotqa" if (data / "test.jsonl").is_file() else "ruleqa"


def nq_cases(data: Path) -> Iterator[Case]:
    """Questions of NQ among passages of other questions, and the accepted answer.

    Raises:
        DataFormatError: a row is not of that form.
    """
    queries, passages = [], []
    for number, row in enumerate(islice(read_jsonl(data / _NQ), _POOL)):
        try:
            passage = next(one for one in row["ctxs"] if one["isgold"])
            text = f"{passage['title']}: {' '.join(passage['text'].split()[:_WORDS])}"
            queries.append(Query(f"nq-{number}", row["question"], answers=(row["answers"][0],)))
        except (KeyError, TypeError, StopIteration, IndexError) as error:
            what = f"no question with answers and a gold passage ({error!r})"
            raise DataFormatError(what, path=data / _NQ, line=number + 1) from error
        passages.append(Document(f"nq-{number}", text))
    retriever = BM25Retriever(passages)
    for query, gold in zip(queries, passages, strict=True):
        (hits,) = retriever.retrieve([query], top_k=SOURCES)
        near = [hit.document for hit in hits if hit.document.text != gold.text]
        shown = [gold, *near][:SOURCES]
        random.Random(query.id).shuffle(shown)
        holding = {n for n, one in enumerate(shown) if contains_answer(one.text, query.answers)}
        truth = frozenset(n for n, one in enumerate(shown) if one.id == gold.id)
        if holding == truth and len(shown) == SOURCES:
            yield GenerationRequest(query, tuple(shown)), f" {query.answers[0]}\n", truth


def world_cases(reader: HuggingFaceGenerator) -> Iterator[Case]:
    """Questions of a generated world that the model answers right, and what it wrote."""
    corpus, questions = world_questions(World.generate(_FACTS, kind="static", seed=_SEED))
    rng = random.Random(_SEED)
    batch: list[tuple[GenerationRequest, frozenset[int]]] = []
    for one in questions:
        if len(one.support) > _MOST_RELEVANT:
            continue
        others = rng.sample(corpus, SOURCES)
        documents = {d.id: d for d in (*one.support.values(), *one.near, *others)}
        shown = list(documents.values())[:SOURCES]
        rng.shuffle(shown)
        places = frozenset(n for n, document in enumerate(shown) if document.id in one.support)
        batch.append((GenerationRequest(one.query, tuple(shown), one.rules), places))
        if len(batch) == _BATCH:
            yield from answered_right(reader, batch)
            batch = []
    yield from answered_right(reader, batch)

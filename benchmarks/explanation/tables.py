"""What models say on every subset of a question's eight documents, asked once and kept.

The log-probability of one answer is worked out for all 256 subsets, question by question; a command
that was stopped goes on where it was. Explainers are compared on these tables, and the miners'
figures made from them, without asking a model again.

RuleQA: the first eight documents that BM25 finds for a test question, as it ranks them; the answer
is what the model wrote, where that is right and one to four of the eight are judged relevant.
HotpotQA: the supporting paragraphs and others of the question, in their order, each cut to its
first sentence and 45 words; the answer is the accepted one, as such small models write it for one
question in ten. Questions whose supporting sentences are cut away, and those that are answered yes
or no, are left out, which leaves 92 of the 500. NQ: the annotated passage of a question of Natural
Questions and the seven of other questions that BM25 finds nearest to it, in a random order, each
cut to its first 45 words; questions whose accepted answer is cut away, or stands in another of the
eight, are left out; the answer is the accepted one. World: a question of a generated world, the
documents that state a supporting fact of its answer and others, those about its subject first, in a
random order; the answer is what the model wrote, where that is right.

References:
    Liu et al. 2024 (Lost in the Middle, TACL 12): questions and passages of NQ.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.common.world_questions import world_questions
from rulerag import BM25Retriever, RuleQADataset
from rulerag.arrays import Doubles
from rulerag.errors import ConfigError, DataFormatError
from rulerag.explanation.probing import ProbeEngine, ResponseScorer, SetValue
from rulerag.explanation.records import Record
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import read_jsonl, read_records, write_jsonl
from rulerag.models import SHIPPED
from rulerag.synthetic import World
from rulerag.text import contains_answer, exact_match
from rulerag.types import Document, GenerationRequest, Query

SOURCES = 8
WORLD = Path("world")
TEMPLATES: dict[str, dict[str, Any]] = {
    "cloze": {"type": "cloze", "best_last": True},
    "question": {"type": "plain", "query_cue": "Question: ", "answer_cue": "Answer:"},
}
"""The prompts: what small models read best with all documents, statements and questions."""

_NQ = "nq-open-oracle.jsonl.gz"
_MOST_RELEVANT, _WORDS = 4, 45
_PARAGRAPHS = 10  # of a question of the distractor setting
_POOL = 2000  # questions of NQ whose passages stand beside each other
_FACTS, _SEED = 12_000, 2  # of the world
_BATCH, _NEW_TOKENS = 32, 16
_SAME = 1.0  # nats between a score when written and when read again; bfloat16 rounds

_T = TypeVar("_T")
SupportedAnswer = tuple[GenerationRequest, str, frozenset[int]]
"""A request, the answer that is explained, word for word, and the places that support it."""


@dataclass(frozen=True)
class Lattice(Record):
    """The log-probability of one answer for every subset of the documents.

    Args:
        id: of the question.
        model: that was asked.
        question: in words.
        documents: in words, in the order of the prompt's ranks.
        truth: the places of those that support the answer.
        answer: what is explained, word for word.
        tokens: how many tokens it has.
        values: natural logarithms for masks 0, 1, 2 …, bit i set where document i is kept, of
            shape (2 ** documents,).
        seconds: that the subsets took.
    """

    id: str
    model: str
    question: str
    documents: tuple[str, ...]
    truth: tuple[int, ...]
    answer: str
    tokens: int
    values: tuple[float, ...]
    seconds: float

    def scores(self) -> SetValue:
        """The table as numbers of subsets; each counts what it was asked."""
        table: Doubles = np.array(self.values)
        return SetValue(lambda masks: table[masks].tolist(), len(self.documents))


def read_lattices(path: Path) -> list[Lattice]:
    """The lattices of a file.

    Raises:
        DataError: it cannot be read.
    """
    return read_records(path, Lattice.from_json)


def collect(model: str, data: Path, out: Path, *, questions: int = 100) -> None:
    """Ask a model about every subset of eight documents.

    Args:
        model: the name or folder of a model of transformers; a shipped one reads its own prompt.
        data: the folder of RuleQA, HotpotQA or NQ; or ``world``.
        out: a file MODEL-DATASET.jsonl; what it holds is kept.
        questions: how many it is to hold.

    Raises:
        DataError: the folder is none of them.
        GenerationError: the model cannot be opened.
    """
    import torch

    if questions < 1:
        raise ConfigError(f"expected a number from 1, found {questions}", key="questions")
    torch.set_num_threads(1)
    kind = kind_of(data)
    if model in SHIPPED:
        reader = HuggingFaceGenerator(model, device="cpu", dtype="float32")
    else:
        template = TEMPLATES["question" if kind in ("hotpotqa", "nq") else "cloze"]
        options: dict[str, Any] = {"dtype": "fast", "chat": False, "max_new_tokens": _NEW_TOKENS}
        reader = HuggingFaceGenerator(model, template=template, **options)
    fill(out, questions, model, reader, cases_of(kind, data, reader))


def fill(
    out: Path,
    number: int,
    model: str,
    reader: HuggingFaceGenerator,
    cases: Iterable[SupportedAnswer],
) -> None:
    """Add the lattices of further cases to a file, until it holds so many.

    Args:
        out: a JSON-lines file; what it holds is kept.
        number: how many questions it is to hold.
        model: what the reader is called in the file.
        reader: the model.
        cases: in the order in which they are wanted; those that the file holds are passed over.
    """
    made = [*read_jsonl(out)] if out.is_file() else []
    known = {row["id"] for row in made}
    for request, answer, truth in cases:
        if len(made) >= number:
            break
        if request.query.id in known:
            continue
        begun = time.perf_counter()
        engine = ProbeEngine.from_generator(ResponseScorer(reader, answer), request)
        values = engine.probe(range(1 << len(request.documents)))
        made.append(
            {
                "id": request.query.id,
                "model": model,
                "question": request.query.text,
                "documents": [document.text for document in request.documents],
                "truth": sorted(truth),
                "answer": answer,
                "tokens": len(reader.encode_completion(reader.prompts([request])[0].text, answer)),
                "values": [round(float(value), 4) for value in values],
                "seconds": round(time.perf_counter() - begun, 2),
            }
        )
        write_jsonl(out, made)
        sys.stderr.write(f"{len(made)} of {number}: {made[-1]['seconds']} s\n")


def kind_of(data: Path) -> str:
    """Which dataset a folder holds."""
    if data == WORLD:
        return "world"
    if (data / _NQ).is_file():
        return "nq"
    return "hotpotqa" if (data / "test.jsonl").is_file() else "ruleqa"


def cases_of(kind: str, data: Path, reader: HuggingFaceGenerator) -> Iterator[SupportedAnswer]:
    """The questions of a dataset; those of RuleQA and of a world that the model answers right."""
    if kind in ("hotpotqa", "nq"):
        yield from hotpotqa_cases(data) if kind == "hotpotqa" else nq_cases(data)
        return
    asked = world_requests() if kind == "world" else ruleqa_requests(data)
    for several in _batches(asked):
        yield from answered_right(reader, several)


def _batches(rows: Iterable[_T]) -> Iterator[list[_T]]:
    left = iter(rows)
    while some := list(islice(left, _BATCH)):
        yield some


def answered_right(
    reader: HuggingFaceGenerator, asked: Sequence[tuple[GenerationRequest, frozenset[int]]]
) -> Iterator[SupportedAnswer]:
    """Of some requests, with the places that support their answers, those that a model gets right.

    The answer is what it wrote, where it is the same tokens when it is read back.
    """
    requests = [request for request, _ in asked]
    written = reader.generate(requests)
    texts = reader.write(requests)
    scores = reader.score(requests, texts, literal=True)
    for (request, places), one, text, score in zip(asked, written, texts, scores, strict=True):
        read_again = one.score is not None and abs(one.score - score) < _SAME
        if read_again and exact_match(one.text, request.query.answers):
            yield request, text, places


def ruleqa_requests(data: Path) -> Iterator[tuple[GenerationRequest, frozenset[int]]]:
    """Test questions with the first documents of BM25, and the places of the relevant ones."""
    dataset = RuleQADataset.load(data)
    judged = dataset.qrels()
    asked = [query for query in dataset.query_set("full") if query.id in judged]
    retriever = BM25Retriever(dataset.corpus)
    for some in _batches(asked):
        for query, hits in zip(some, retriever.retrieve(some, top_k=SOURCES), strict=True):
            shown = tuple(hit.document for hit in hits)
            places = frozenset(n for n, one in enumerate(shown) if one.id in judged[query.id])
            if 1 <= len(places) <= _MOST_RELEVANT and len(shown) == SOURCES:
                yield GenerationRequest(query, shown), places


def world_requests() -> Iterator[tuple[GenerationRequest, frozenset[int]]]:
    """Questions of a generated world, and the places of the documents that support the answer."""
    corpus, questions = world_questions(World.generate(_FACTS, kind="static", seed=_SEED))
    rng = random.Random(_SEED)
    for one in questions:
        if len(one.support) > _MOST_RELEVANT:
            continue
        others = rng.sample(corpus, SOURCES)
        documents = {d.id: d for d in (*one.support.values(), *one.near, *others)}
        shown = list(documents.values())[:SOURCES]
        rng.shuffle(shown)
        places = frozenset(n for n, document in enumerate(shown) if document.id in one.support)
        yield GenerationRequest(one.query, tuple(shown), one.rules), places


def hotpotqa_cases(data: Path) -> Iterator[SupportedAnswer]:
    """Questions of HotpotQA with cut paragraphs, the accepted answer, and what supports it."""
    for row in read_jsonl(data / "test.jsonl"):
        titles = {title for title, _ in row["supporting_facts"]}
        cut = {title: " ".join(first.split()) for title, (first, *_) in row["context"]}
        stated = all(
            place == 0 and title in cut and len(cut[title].split()) <= _WORDS
            for title, place in row["supporting_facts"]
        )
        if not stated or row["answer"] in ("yes", "no") or len(cut) != _PARAGRAPHS:
            continue
        others = [title for title in cut if title not in titles][: SOURCES - len(titles)]
        shown = [title for title in cut if title in titles or title in others]
        documents = tuple(
            Document(f"p{n}", f"{title}: {' '.join(cut[title].split()[:_WORDS])}")
            for n, title in enumerate(shown)
        )
        query = Query(row["_id"], row["question"], answers=(row["answer"],))
        truth = frozenset(n for n, title in enumerate(shown) if title in titles)
        yield GenerationRequest(query, documents), f" {row['answer']}\n", truth


def nq_questions(path: Path) -> Iterator[GenerationRequest]:
    """The questions of a file of NQ-Open, each with its annotated passage as the only document.

    Raises:
        DataFormatError: a row is not of that form.
    """
    for number, row in enumerate(read_jsonl(path)):
        try:
            passage = next(one for one in row["ctxs"] if one.get("isgold"))
            first, *others = row["answers"]
            query = Query(f"nq-{number}", row["question"], answers=(first, *others))
            document = Document(f"nq-{number}-gold", passage["text"], title=passage["title"])
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            what = f"no question with answers and a gold passage ({error!r})"
            raise DataFormatError(what, path=path, line=number + 1) from error
        yield GenerationRequest(query, (document,))


def nq_cases(data: Path) -> Iterator[SupportedAnswer]:
    """Questions of NQ among passages of other questions, and the accepted answer."""
    queries, passages = [], []
    for request in islice(nq_questions(data / _NQ), _POOL):
        (found,), query = request.documents, request.query
        text = f"{found.title}: {' '.join(found.text.split()[:_WORDS])}"
        passages.append(Document(query.id, text))
        queries.append(Query(query.id, query.text, answers=query.answers[:1]))
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

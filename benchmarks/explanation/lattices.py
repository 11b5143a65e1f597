"""What real models say on every subset of a question's documents, asked once and kept.

The log-probability of one answer is worked out for all 256 subsets of eight documents, question by
question; a command that was stopped goes on where it was. Explainers are compared on these tables
(``real_models``), and what orders a search is learned from them (``training.proposer``), without
asking a model again.

RuleQA: the first eight documents that BM25 finds for a test question, as it ranks them; the answer
is what the model wrote, where that is right and one to four of the eight are judged relevant.
HotpotQA: the supporting paragraphs and others of the question, in their order, each cut to its
first sentence and 45 words; the answer is the accepted one, as such small models write it for one
question in ten. Questions whose supporting sentences are cut away, and those that are answered yes
or no, are left out, which leaves 92 of the 500.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rulerag import BM25Retriever, RuleQADataset
from rulerag.arrays import Doubles
from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.explanation.probing import ProbeEngine, ResponseScorer, SetValue
from rulerag.explanation.records import Record
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.io import read_jsonl, read_records, write_jsonl
from rulerag.text import exact_match
from rulerag.types import Document, GenerationRequest, Query

SOURCES = 8
_MOST_RELEVANT = 4
_WORDS = 45
_PARAGRAPHS = 10  # of a question of the distractor setting
_BATCH, _NEW_TOKENS = 32, 16
_SAME = 1.0  # nats between a score when written and when read again; bfloat16 rounds

TEMPLATES: dict[str, dict[str, Any]] = {
    "ruleqa": {"type": "cloze", "best_last": True},
    "hotpotqa": {"type": "plain", "query_cue": "Question: ", "answer_cue": "Answer:"},
}
"""The prompts: what small models read best on RuleQA, with all documents; question and answer."""


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


def collect(model: str, data: Path, out: Path, number: int, dtype: str = "fast") -> None:
    """Ask a model for the lattices that a file lacks.

    Args:
        model: the name or folder of a model of transformers.
        data: a RuleQA dataset's folder, or that of HotpotQA.
        out: a JSON-lines file; what it holds is kept.
        number: how many questions it is to hold.
        dtype: of the weights; ``fast`` is bfloat16 where the processor multiplies it.

    Raises:
        DataError: the folder is neither.
        GenerationError: the model cannot be opened.
    """
    import torch

    torch.set_num_threads(1)
    kind = "hotpotqa" if (data / "test.jsonl").is_file() else "ruleqa"
    reader = HuggingFaceGenerator(
        model, dtype=dtype, template=TEMPLATES[kind], chat=False, max_new_tokens=_NEW_TOKENS
    )
    cases = hotpotqa_cases(data, reader) if kind == "hotpotqa" else ruleqa_cases(data, reader)
    fill(out, number, model, reader, cases)


Case = tuple[GenerationRequest, str, frozenset[int]]
"""A request, the answer that is explained, word for word, and the places that support it."""


def fill(
    out: Path, number: int, model: str, reader: HuggingFaceGenerator, cases: Iterable[Case]
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
        made.append(
            {
                "id": request.query.id,
                "model": model,
                "question": request.query.text,
                "documents": [document.text for document in request.documents],
                "truth": sorted(truth),
                "answer": answer,
                "tokens": len(reader.encode_completion(reader.prompts([request])[0].text, answer)),
                "values": lattice(reader, request, answer),
                "seconds": round(time.perf_counter() - begun, 2),
            }
        )
        write_jsonl(out, made)
        sys.stderr.write(f"{len(made)} of {number}: {made[-1]['seconds']} s\n")


def lattice(reader: HuggingFaceGenerator, request: GenerationRequest, answer: str) -> list[float]:
    """The log-probability of an answer for every subset of the documents, by mask."""
    engine = ProbeEngine.from_generator(ResponseScorer(reader, answer), request)
    found = engine.probe(range(1 << len(request.documents)))
    return [round(float(value), 4) for value in found]


def ruleqa_cases(data: Path, reader: HuggingFaceGenerator) -> Iterator[Case]:
    """Test questions that the model answers right, what it wrote, and the relevant documents."""
    dataset = RuleQADataset.load(data)
    judged = dataset.qrels()
    asked = [query for query in dataset.query_set("full") if query.id in judged]
    retriever = BM25Retriever(dataset.corpus)
    for start in range(0, len(asked), _BATCH):
        some = asked[start : start + _BATCH]
        requests = []
        for query, hits in zip(some, retriever.retrieve(some, top_k=SOURCES), strict=True):
            relevant = sum(hit.document.id in judged[query.id] for hit in hits)
            if 1 <= relevant <= _MOST_RELEVANT and len(hits) == SOURCES:
                requests.append(GenerationRequest(query, tuple(hit.document for hit in hits)))
        places = [
            frozenset(n for n, d in enumerate(one.documents) if d.id in judged[one.query.id])
            for one in requests
        ]
        yield from answered_right(reader, zip(requests, places, strict=True))


def answered_right(
    reader: HuggingFaceGenerator, asked: Iterable[tuple[GenerationRequest, frozenset[int]]]
) -> Iterator[Case]:
    """Of some requests, with the places that support their answers, those that a model gets right.

    The answer is what it wrote, where it is the same tokens when it is read back.
    """
    several = list(asked)
    requests = [request for request, _ in several]
    written = reader.generate(requests)
    texts = reader.write(requests)
    scores = reader.score(requests, texts, literal=True)
    for (request, places), one, text, score in zip(several, written, texts, scores, strict=True):
        read_again = one.score is not None and abs(one.score - score) < _SAME
        if read_again and exact_match(one.text, request.query.answers):
            yield request, text, places


def hotpotqa_cases(data: Path, reader: HuggingFaceGenerator) -> Iterator[Case]:
    """Questions of HotpotQA with cut paragraphs, the accepted answer, and what supports it.

    Raises:
        DataError: the folder holds no ``test.jsonl``.
    """
    file = data / "test.jsonl"
    if not file.is_file():
        raise DataError("not found", path=file)
    for row in read_jsonl(file):
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


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.explanation.lattices",
        description=__doc__,
        epilog="example: python -m benchmarks.explanation.lattices smollm2-135m-instruct "
        "runs/ruleqa-i --out runs/lattices/smollm2-ruleqa-i.jsonl",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="the name or folder of a model")
    parser.add_argument("data", type=Path, help="a RuleQA dataset, or the folder of HotpotQA")
    parser.add_argument("--out", type=Path, required=True, help="a JSON-lines file")
    parser.add_argument("--questions", type=int, default=100)
    given = parser.parse_args(argv)
    resumes = "interrupted; finished questions are kept, run the same command again"
    return guarded(
        lambda: collect(given.model, given.data, given.out, given.questions), interrupted=resumes
    )


if __name__ == "__main__":
    sys.exit(main())

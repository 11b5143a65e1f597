"""Speed of similarity attribution: 1,000 sentences of documents against 20 of an answer.

The baseline is the listing of the published article: one product and two norms a pair, in Python.
The sentences are HotpotQA's, whose labels are not looked at. Seconds are of one processor, which a
busy machine hardly changes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.folders import data_folder
from rulerag.arrays import Doubles
from rulerag.errors import DataError
from rulerag.explanation.claims import split_sentences
from rulerag.explanation.similarity import cosines, similarity_attribution
from rulerag.io import prepare_folder, read_jsonl, write_json

SCORERS = ("tf-idf", "bm25", "bi-encoder", "bi-encoder:all-minilm-l6-v2")
SOURCES, SENTENCES, REPEATS = 1000, 20, 3


def listing(answers: Doubles, sources: Doubles) -> Doubles:
    """The similarities as the article computes them."""
    found = np.zeros((len(answers), len(sources)))
    for i, one in enumerate(answers):
        for j, other in enumerate(sources):
            product = np.dot(one, other)
            found[i, j] = product / (np.linalg.norm(one) * np.linalg.norm(other))
    return found


def texts(folder: Path) -> tuple[str, list[str]]:
    """An answer of 20 sentences, and paragraphs that hold at least 1,000 other ones.

    Raises:
        DataError: HotpotQA is not there.
    """
    file = folder / "hotpotqa" / "test.jsonl"
    if not file.is_file():
        raise DataError("HotpotQA is not here", path=file, hint="set RULERAG_DATA")
    paragraphs = ("".join(part) for row in read_jsonl(file) for _, part in row["context"])
    answer: list[str] = []
    documents: list[str] = []
    count = 0
    for paragraph in paragraphs:
        if len(answer) < SENTENCES:
            answer += [sentence.text for sentence in split_sentences(paragraph)]
            continue
        documents.append(paragraph)
        count += len(split_sentences(paragraph))
        if count >= SOURCES:
            break
    return " ".join(answer[:SENTENCES]), documents


def main(out: Path | None = None) -> dict[str, Any]:
    """Measure, print, and write ``similarity.json``.

    Raises:
        DataError: HotpotQA is not there.
    """
    answer, documents = texts(data_folder())
    vectors = np.random.default_rng(0).normal(size=(SOURCES + SENTENCES, 384))
    parts = vectors[:SENTENCES], vectors[SENTENCES:]
    np.testing.assert_allclose(listing(*parts), cosines(*parts), atol=1e-12)
    ours, published = _best(lambda: cosines(*parts)), _best(lambda: listing(*parts))
    figures: dict[str, Any] = {
        "cosines": {"cpu_seconds": round(ours, 4), "published": round(published, 4)},
        "ratio": round(published / ours, 1),
    }
    for scorer in SCORERS:
        figures[scorer] = _measured(answer, documents, scorer)
    for name, value in figures.items():
        sys.stdout.write(f"{name}: {value}\n")
    if out is not None:
        write_json(prepare_folder(out) / "similarity.json", figures)
    return figures


def _measured(answer: str, documents: list[str], scorer: str) -> dict[str, Any]:
    """Seconds of the first attribution, which opens the model, and of the best one after it."""
    start = time.process_time()
    try:
        found = similarity_attribution(answer, documents, scorer)
    except DataError as error:
        return {"not measured": error.message}
    first = time.process_time() - start
    again = _best(lambda: similarity_attribution(answer, documents, scorer))
    rows, columns = found.shares.shape
    return {
        "sentences": rows,
        "sources": columns,
        "first_cpu_seconds": round(first, 2),
        "again_cpu_seconds": round(again, 2),
    }


def _best(run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


if __name__ == "__main__":
    main()

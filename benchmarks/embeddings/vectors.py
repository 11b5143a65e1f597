"""Fewer numbers, bytes and bits: recall against whole float32 vectors, size, and time of a search.

Every form is an index that was saved and opened again, as ``rulerag index`` and ``--index`` do.
Recall is that of the first ten documents of the float32 search; beside it stands what a reader gets
of it, the queries with an answer in ten documents. Sizes are what a search compares (``index``) and
what lies on disk with it. Times are CPU seconds of one thread, of all queries in one batch (which
float32 turns into products of matrices) and of one query after another, each form in turns with
float32.

``sign bits`` is what sentence-transformers calls ``ubinary``: signs compared by Hamming distance,
in FAISS's ``IndexBinaryFlat``, and the nearest again by float32, eight for each wanted document.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embeddings.encoding import one_thread
from rulerag.arrays import Floats
from rulerag.evaluation import AnswerMatcher, markdown_table, versions
from rulerag.io import prepare_folder, write_json, write_text
from rulerag.retrieval.dense import DenseRetriever, embed_corpus, normalized
from rulerag.retrieval.dense.encoders import SentenceEncoder, load_encoder
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Query

WHOLE = "float32"
_DEPTH = 10
_SINGLE = 100  # queries that are asked one by one
_AGAIN = 8


def forms(dimension: int) -> dict[str, dict[str, Any]]:
    """Settings of an index by what the table calls it; fewer numbers are two thirds and a third."""
    more, fewer = 2 * dimension // 3, dimension // 3
    return {
        WHOLE: {},
        f"{more} numbers": {"dimensions": more},
        f"{fewer} numbers": {"dimensions": fewer},
        "int8": {"vectors": "int8"},
        f"int8, {more} numbers": {"vectors": "int8", "dimensions": more},
        "binary": {"vectors": "binary"},
        "binary, 4 candidates": {"vectors": "binary", "search_parameters": "k_factor_rf=4"},
        "binary, bits alone": {"index": "RaBitQ"},
    }


def _turns(works: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The least CPU seconds of each work, done in turns."""
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for i, work in enumerate(works):
            start = time.process_time()
            work()
            best[i] = min(best[i], time.process_time() - start)
    return best


def _times(asked: Floats, search: Callable[[Floats], object], repeats: int) -> dict[str, float]:
    """Milliseconds a query, in a batch and alone."""

    def alone() -> None:
        for start in range(min(_SINGLE, len(asked))):
            search(asked[start : start + 1])

    batch, single = _turns([lambda: search(asked), alone], repeats)
    return {
        "batch_ms": 1000 * batch / len(asked),
        "single_ms": 1000 * single / min(_SINGLE, len(asked)),
    }


class Measured:
    """The forms of the vectors of one corpus, compared with the first.

    Args:
        dataset: the corpus.
        queries: what is asked.
        encoder: encodes both.
        folder: for the index of whole vectors, as long as this is used.
        cache_dir: where the vectors of the corpus are kept; rulerag's cache folder when None.
        repeats: of each time, the least counts.
    """

    def __init__(
        self,
        dataset: RuleQADataset,
        queries: Sequence[Query],
        encoder: SentenceEncoder,
        folder: Path,
        cache_dir: Path | None = None,
        repeats: int = 3,
    ) -> None:
        self.dataset, self.queries, self.encoder = dataset, queries, encoder
        self.cache_dir, self.repeats = cache_dir, repeats
        self.matcher = AnswerMatcher()
        whole, _ = self._opened({}, encoder, folder)
        self.asked = whole.encode_queries([query.text for query in queries])
        self.whole = whole
        self.expected = whole.search_vectors(self.asked, _DEPTH).rows

    def form(
        self, options: dict[str, Any], encoder: SentenceEncoder | None = None
    ) -> dict[str, float]:
        """The figures of an index with some settings; of another encoder where one is given."""
        with tempfile.TemporaryDirectory() as folder:
            retriever, sizes = self._opened(options, encoder or self.encoder, Path(folder))
            texts = [query.text for query in self.queries]
            asked = self.asked[:, : retriever.dimension]
            if encoder is not None or asked.shape != self.asked.shape:
                asked = retriever.encode_queries(texts)
            rows = retriever.search_vectors(asked, _DEPTH).rows
            return {
                **self._found(rows),
                **sizes,
                **self._compared(asked, lambda part: retriever.search_vectors(part, _DEPTH)),
            }

    def signs(self) -> dict[str, float]:
        """The figures of signs compared by Hamming distance, with sentence-transformers' helper."""
        import faiss
        from sentence_transformers.util.quantization import quantize_embeddings

        originals = normalized(
            np.asarray(
                embed_corpus(self.dataset.corpus, self.encoder, cache_dir=self.cache_dir).vectors
            )
        )
        bits = np.asarray(quantize_embeddings(originals, "ubinary"))
        index = faiss.IndexBinaryFlat(originals.shape[1])
        index.add(bits)

        def search(asked: Floats) -> Any:
            signs = np.asarray(quantize_embeddings(asked, "ubinary"))
            _, near = index.search(signs, min(_DEPTH * _AGAIN, index.ntotal))
            scores = np.einsum("qkd,qd->qk", originals[near], asked)
            best = np.argsort(-scores, axis=1, kind="stable")[:, :_DEPTH]
            return np.take_along_axis(near, best, axis=1)

        megabytes = {
            "index_mb": bits.nbytes / 1e6,
            "disk_mb": (bits.nbytes + originals.nbytes) / 1e6,
        }
        return {
            **self._found(search(self.asked)),
            **megabytes,
            **self._compared(self.asked, search),
        }

    def _opened(
        self, options: dict[str, Any], encoder: SentenceEncoder, folder: Path
    ) -> tuple[DenseRetriever, dict[str, float]]:
        made = DenseRetriever(self.dataset.corpus, encoder, cache_dir=self.cache_dir, **options)
        made.save(folder / "index")
        files = {file.name: file.stat().st_size / 1e6 for file in (folder / "index").iterdir()}
        opened = DenseRetriever.load(folder / "index", self.dataset.corpus, encoder)
        return opened, {"index_mb": files["index.faiss"], "disk_mb": sum(files.values())}

    def _found(self, rows: Any) -> dict[str, float]:
        shared = [len(set(a) & set(b)) for a, b in zip(self.expected, rows, strict=True)]
        answered = [
            self.matcher.first_rank([self.dataset.corpus[row] for row in line], query.answers)
            for line, query in zip(rows, self.queries, strict=True)
        ]
        return {
            "recall": float(np.mean(shared)) / _DEPTH,
            "answer_recall": float(np.mean([rank is not None for rank in answered])),
        }

    def _compared(self, asked: Floats, search: Callable[[Floats], object]) -> dict[str, float]:
        """Times, and how many times faster than float32, measured beside it."""
        ours = _times(asked, search, self.repeats)
        whole = _times(
            self.asked, lambda part: self.whole.search_vectors(part, _DEPTH), self.repeats
        )
        ratios = {key.replace("ms", "ratio"): whole[key] / ours[key] for key in ours}
        return {**ours, **ratios}


def main(
    dataset: RuleQADataset, encoder: str, sample: int | None = None, out: Path | None = None
) -> dict[str, Any]:
    """Measure, print, and write ``vectors.json`` and ``vectors.md``.

    Args:
        dataset: its corpus, and its balanced queries.
        encoder: the folder or name of the encoder.
        sample: so many queries, evenly spaced; all when None.
        out: a folder for the figures.
    """
    queries = dataset.query_set("balanced")
    if sample is not None and sample < len(queries):
        rows = np.linspace(0, len(queries) - 1, sample).astype(int)
        queries = [queries[row] for row in rows]
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        opened = load_encoder(encoder)
        measured = Measured(dataset, queries, opened, Path(folder))
        found = {name: measured.form(options) for name, options in forms(opened.dimension).items()}
        found["sign bits"] = measured.signs()
        found["float32 of a bfloat16 encoder"] = measured.form(
            {}, load_encoder(encoder, dtype="bf16")
        )
    figures = {
        "benchmark": "embeddings/vectors",
        "encoder": encoder,
        "dataset": dataset.name,
        "documents": len(dataset.corpus),
        "queries": len(queries),
        "depth": _DEPTH,
        "threads": 1,
        "versions": versions(),
        "rows": found,
    }
    text = render(figures)
    print(text)
    if out is not None:
        write_json(prepare_folder(out) / "vectors.json", figures)
        write_text(out / "vectors.md", text)
    return figures


def render(figures: dict[str, Any]) -> str:
    """The figures as Markdown."""
    about = (
        f"{figures['queries']:,} queries over {figures['documents']:,} documents of "
        f"{figures['dataset']} by {figures['encoder']}: `python -m benchmarks.embeddings vectors`. "
        f"Recall is of the {figures['depth']} documents that float32 finds, answer recall what a "
        "reader gets of it. Times are CPU milliseconds a query on one thread, of all queries in a "
        "batch and of one alone, × how many times faster than float32 beside it."
    )
    titles = ["", "recall@10", "answer recall@10", "index MB", "disk MB", "batch", "×"]
    table = markdown_table(
        [*titles, "alone", "×"],
        [
            [
                name,
                f"{100 * row['recall']:.1f}",
                f"{100 * row['answer_recall']:.1f}",
                f"{row['index_mb']:.1f}",
                f"{row['disk_mb']:.1f}",
                f"{row['batch_ms']:.2f}",
                f"{row['batch_ratio']:.2f}",
                f"{row['single_ms']:.2f}",
                f"{row['single_ratio']:.2f}",
            ]
            for name, row in figures["rows"].items()
        ],
    )
    return f"# Smaller vectors\n\n{about}\n\n{table}"

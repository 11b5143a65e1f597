"""Speed of dense retrieval against the bare parts that it is made of.

``main`` measures, on made-up texts and vectors,

* search: :class:`~rulerag.retrieval.dense.DenseRetriever` against FAISS's own ``IndexFlatIP`` on
  the same vectors, in queries a second. FAISS leaves ties open; the retriever settles them;
* encoding: :class:`~rulerag.retrieval.dense.encoders.SentenceEncoder` on texts against the bare
model's
  forward on the same batches, cut into tokens and padded beforehand;
* training: a step of fine-tuning against the bare model's forward and backward on the same tokens
  (:mod:`benchmarks.speed.retrieval_training`).

``--graph`` measures, on a RuleQA benchmark, rule-guided search over all pairs of a query and a rule
(texts composed, encoded, searched, united) against FAISS alone on the vectors of the same pairs,
with the peak memory of the process. The encoder has random weights and the size of a small one:
what it finds is worth nothing, how fast it is does not depend on that.

Two ratios each: on the clock with every core, both sides in turns and at their best; and in CPU
seconds with one thread, which a busy machine does not change.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.folders import data_folder
from benchmarks.common.random_encoder import small_encoder
from benchmarks.speed.retrieval_training import measure_training_step, training_dataset
from rulerag.arrays import Floats
from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.evaluation import peak_memory_mb
from rulerag.io import prepare_folder, write_json
from rulerag.kg import KnowledgeGraph
from rulerag.retrieval.base import Rows
from rulerag.retrieval.dense import DenseRetriever, embed_corpus, normalized
from rulerag.retrieval.dense.encoders import SentenceEncoder
from rulerag.retrieval.guided import HeadRelationSelector, RuleGuidedRetriever
from rulerag.ruleqa import BENCHMARKS, RuleQADataset, build
from rulerag.types import Document

TARGET = 0.8
"""What each ratio should reach."""

_SHAPES = ((100_000, 128, 2000, 10), (100_000, 128, 2000, 200), (50_000, 768, 500, 10))
_RULES = 10  # guiding rules of a query


class _Given:
    """Encodes numbers as the rows of a matrix."""

    def __init__(self, vectors: Floats) -> None:
        self.vectors = vectors

    def encode(self, texts: Sequence[str]) -> Floats:
        return self.vectors[[int(text) for text in texts]]


def _turns(
    works: Sequence[Callable[[], object]], repeats: int, clock: Callable[[], float]
) -> list[float]:
    """The least seconds of each work, done in turns."""
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for i, work in enumerate(works):
            gc.collect()
            start = clock()
            work()
            best[i] = min(best[i], clock() - start)
    return best


def compared(ours: Callable[[], object], bare: Callable[[], object], repeats: int) -> Any:
    """Seconds of both on every core, and the two ratios."""
    import faiss
    import torch

    seconds = _turns([ours, bare], repeats, time.perf_counter)
    threads = torch.get_num_threads(), faiss.omp_get_max_threads()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    try:
        cpu = _turns([ours, bare], repeats, time.process_time)
    finally:
        torch.set_num_threads(threads[0])
        faiss.omp_set_num_threads(threads[1])
    return *seconds, {"ratio": seconds[1] / seconds[0], "cpu_ratio": cpu[1] / cpu[0]}


def measure_search(
    size: int, dimension: int, queries: int, depth: int, *, repeats: int = 3
) -> dict[str, Any]:
    """Search made-up vectors by the retriever and by FAISS."""
    import faiss

    chance = np.random.default_rng(0)
    vectors = chance.standard_normal((size, dimension)).astype(np.float32)
    asked = chance.standard_normal((queries, dimension)).astype(np.float32)
    for matrix in (vectors, asked):
        faiss.normalize_L2(matrix)
    documents = [Document(f"d{i}", str(i)) for i in range(size)]
    retriever = DenseRetriever(documents, _Given(vectors), cache=False)
    index = faiss.IndexFlatIP(dimension)
    index.add(vectors)
    ours, raw, ratios = compared(
        lambda: retriever.search_vectors(asked, depth),
        lambda: index.search(asked, depth),
        repeats,
    )
    return {
        "vectors": size,
        "dimension": dimension,
        "queries": queries,
        "depth": depth,
        "queries_per_second": queries / ours,
        "faiss_queries_per_second": queries / raw,
        **ratios,
    }


def measure_encoding(texts: Sequence[str], encoder: SentenceEncoder, *, repeats: int = 3) -> Any:
    """Encode texts, and run the bare model over the same batches."""
    import torch

    first: Any = encoder.model[0]
    inner = first.auto_model
    ordered = sorted(texts, key=len, reverse=True)
    batches = [
        encoder.model.preprocess(ordered[start : start + encoder.batch_size])
        for start in range(0, len(ordered), encoder.batch_size)
    ]

    def bare() -> None:
        with torch.inference_mode():
            for batch in batches:
                inner(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])

    encoder.encode(texts[: encoder.batch_size])
    ours, raw, ratios = compared(lambda: encoder.encode(texts), bare, repeats)
    return {
        "texts": len(texts),
        "tokens": sum(int(batch["attention_mask"].sum()) for batch in batches),
        "layers": inner.config.num_hidden_layers,
        "width": inner.config.hidden_size,
        "texts_per_second": len(texts) / ours,
        "forward_texts_per_second": len(texts) / raw,
        **ratios,
    }


def made_up_texts(size: int) -> list[str]:
    """Sentences of a date, two names and a few words, as documents of a temporal graph are."""
    chance = random.Random(0)
    letters = "abcdefghijklmnoprstuvw"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(3000)]
    texts = []
    for _ in range(size):
        month, day = chance.randint(1, 12), chance.randint(1, 28)
        phrase = " ".join(chance.choices(words, k=chance.randint(5, 14)))
        texts.append(f"Time 2014-{month:02d}-{day:02d} {phrase}.")
    return texts


class _Timed(DenseRetriever):
    """Notes what it encoded, and how long encoding and searching took."""

    clock: Callable[[], float] = time.perf_counter
    seconds: dict[str, float]
    asked: Floats

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """See there."""
        start = self.clock()
        self.asked = super().encode_queries(texts)
        self.seconds = {"encode": self.clock() - start}
        return self.asked

    def search_vectors(self, vectors: Floats, depth: int) -> Rows:
        """See there."""
        start = self.clock()
        found = super().search_vectors(vectors, depth)
        self.seconds["search"] = self.clock() - start
        return found


def measure_graph(
    graph: str, *, cpu: bool = False, dimension: int = 128, depth: int = 10
) -> dict[str, Any]:
    """Rule-guided search over all pairs of a RuleQA benchmark, against FAISS on their vectors.

    Args:
        graph: the graph's folder, such as ``wiki``.
        cpu: one thread and CPU seconds, instead of every core and the clock.
        dimension: width of the encoder.
        depth: documents of each pair.

    Raises:
        DataError: the graph's folder is not there.
    """
    clock = _one_thread() if cpu else time.perf_counter
    dataset = _dataset(graph)
    texts = [document.text for document in dataset.corpus]
    encoder = small_encoder(texts[:: max(1, len(texts) // 50_000)], width=dimension)
    queries = dataset.query_set("balanced")
    with tempfile.TemporaryDirectory() as cache:
        start = clock()
        retriever = _Timed(dataset.corpus, encoder, cache_dir=cache, progress=True)
        index_seconds = clock() - start
        retriever.clock = clock
        selector = HeadRelationSelector(dataset.rules, max_rules=_RULES)
        start = clock()
        RuleGuidedRetriever(retriever, selector).retrieve_union(queries, depth)
        guided_seconds = clock() - start
        peak = peak_memory_mb() / 1024
        vectors = embed_corpus(dataset.corpus, encoder, cache_dir=cache).vectors
        raw = _faiss_seconds(vectors, retriever.asked, depth, clock)
    without = guided_seconds - retriever.seconds["encode"]
    return {
        "benchmark": dataset.name,
        "documents": len(texts),
        "dimension": dimension,
        "queries": len(queries),
        "pairs": len(retriever.asked),
        "depth": depth,
        "cpu_seconds_of_one_thread": cpu,
        "index_seconds": index_seconds,
        "guided_seconds": guided_seconds,
        "encode_seconds": retriever.seconds["encode"],
        "search_seconds": retriever.seconds["search"],
        "faiss_seconds": raw,
        "ratio": raw / without,
        "ratio_with_encoding": raw / guided_seconds,
        "peak_memory_gb": peak,
    }


def _dataset(graph: str) -> RuleQADataset:
    name = "ruleqa-i" if graph == "icews14" else f"ruleqa-{graph[:1]}"
    folder = data_folder() / graph
    if not folder.is_dir() or name not in BENCHMARKS:
        raise DataError("no such graph folder", path=folder, hint="set RULERAG_DATA")
    return build(name, KnowledgeGraph.load(folder))


def _one_thread() -> Callable[[], float]:
    import faiss
    import torch

    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    return time.process_time


def _faiss_seconds(vectors: Floats, asked: Floats, depth: int, clock: Callable[[], float]) -> float:
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    for start in range(0, len(vectors), 1 << 16):
        index.add(normalized(np.asarray(vectors[start : start + (1 << 16)])))
    return _turns([lambda: index.search(asked, depth)], 2, clock)[0]


def main(
    out: Path | None = None,
    graph: str | None = None,
    *,
    cpu: bool = False,
    training: bool = False,
) -> dict[str, Any]:
    """Measure, print, and write ``retrieval.json`` or ``retrieval-GRAPH.json``.

    Args:
        out: a folder for the figures.
        graph: measure rule-guided search over this graph's benchmark instead.
        cpu: measure that in CPU seconds of one thread.
        training: measure the training step alone, into ``retrieval-training.json``.
    """
    if training:
        return _written(_training(), out, "retrieval-training.json")
    if graph is not None:
        figures = measure_graph(graph, cpu=cpu)
        print(
            f"{figures['benchmark']}, {figures['pairs']:,} pairs over {figures['documents']:,} "
            f"documents, {figures['dimension']} numbers each: index {figures['index_seconds']:.0f} "
            f"s; rule-guided {figures['guided_seconds']:.1f} s, {figures['encode_seconds']:.1f} s "
            f"of it to encode; FAISS alone {figures['faiss_seconds']:.1f} s: ratio "
            f"{figures['ratio']:.2f} ({figures['ratio_with_encoding']:.2f} with encoding); "
            f"{figures['peak_memory_gb']:.1f} GB"
        )
        return _written(figures, out, f"retrieval-{graph}.json")
    rows = [measure_search(*shape) for shape in _SHAPES]
    for row in rows:
        print(
            f"search {row['vectors']:>7,} × {row['dimension']:<4} depth {row['depth']:<4}"
            f"{row['queries_per_second']:>8,.0f} queries/s, FAISS "
            f"{row['faiss_queries_per_second']:>8,.0f}: ratio {row['ratio']:.2f}, "
            f"CPU {row['cpu_ratio']:.2f}"
        )
    texts = made_up_texts(8192)
    encoding = measure_encoding(texts, small_encoder(texts))
    print(
        f"encode {encoding['texts']:,} texts, {encoding['layers']} layers × {encoding['width']}: "
        f"{encoding['texts_per_second']:,.0f} texts/s, forward alone "
        f"{encoding['forward_texts_per_second']:,.0f}: ratio {encoding['ratio']:.2f}, "
        f"CPU {encoding['cpu_ratio']:.2f}"
    )
    stepping = _training()
    parts = [*rows, encoding, stepping]
    least = {key: min(part[key] for part in parts) for key in ("ratio", "cpu_ratio")}
    print(f"least ratio {least['ratio']:.2f}, CPU {least['cpu_ratio']:.2f}, target {TARGET}")
    figures = {"benchmark": "retrieval", **least, "search": rows}
    figures |= {"encoding": encoding, "training": stepping}
    return _written(figures, out, "retrieval.json")


def _training() -> dict[str, Any]:
    dataset = training_dataset()
    learner = small_encoder([document.text for document in dataset.corpus])
    training = measure_training_step(dataset, learner, compared)
    print(
        f"train on {training['batch_size']} texts a step, {training['layers']} layers × "
        f"{training['width']}: {training['steps_per_second']:.1f} steps/s, forward and backward "
        f"alone {training['forward_backward_per_second']:.1f}: ratio {training['ratio']:.2f}, "
        f"CPU {training['cpu_ratio']:.2f}"
    )
    return training


def _written(figures: dict[str, Any], out: Path | None, name: str) -> dict[str, Any]:
    if out is not None:
        write_json(prepare_folder(out) / name, figures)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="a folder for the figures as JSON")
    parser.add_argument("--graph", help="rule-guided search over RuleQA of a graph, such as wiki")
    parser.add_argument("--cpu", action="store_true", help="one thread and CPU seconds for that")
    parser.add_argument("--training", action="store_true", help="the training step alone")
    given = parser.parse_args()
    sys.exit(guarded(lambda: main(given.out, given.graph, cpu=given.cpu, training=given.training)))

"""Speed of encoding a RuleQA corpus, against ``SentenceTransformer.encode`` on its documents.

Ours is :func:`~rulerag.retrieval.dense.embed_corpus` without its cache: texts checked, cut into
tokens once, sorted by tokens, encoded, put in order. Both sides have one thread, one batch size and
the model's own window, and take turns block by block, who begins changing; the bfloat16 encoder
takes part, against the same float32 baseline. Seconds are of the clock and of the processor, which
other work on the machine changes less.

Blocks that are measured are kept in ``encoding.part.json``; an interrupted run goes on behind them.
The encoder must have been fetched: ``rulerag models fetch all-minilm-l6-v2``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from rulerag.arrays import Floats
from rulerag.console import guarded
from rulerag.evaluation import markdown_table, versions
from rulerag.io import (
    fingerprint_object,
    prepare_folder,
    read_json,
    write_json,
    write_text,
)
from rulerag.retrieval.base import indexed_text
from rulerag.retrieval.dense import embed_corpus
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Document

TARGET = 0.9
"""What the ratio of float32 should reach."""

ENCODER = "all-minilm-l6-v2"

_BATCH = 64
_BLOCK = 2048  # documents of a turn
_PART = "encoding.part.json"

Encode = Callable[[Sequence[Document]], Floats]


def encoders(name: str | Path, batch_size: int = _BATCH) -> dict[str, Encode]:
    """What takes turns: ours, sentence-transformers', ours in bfloat16."""
    whole = load_encoder(name, batch_size=batch_size)
    half = load_encoder(name, batch_size=batch_size, dtype="bf16")

    def theirs(documents: Sequence[Document]) -> Floats:
        texts = [indexed_text(document) for document in documents]
        vectors: Floats = whole.model.encode(texts, batch_size=batch_size, show_progress_bar=False)
        return vectors

    return {
        "rulerag": lambda documents: embed_corpus(documents, whole, cache=False).vectors,
        "sentence-transformers": theirs,
        "rulerag, bfloat16": lambda documents: embed_corpus(documents, half, cache=False).vectors,
    }


def turn(
    encode: dict[str, Encode], documents: Sequence[Document], number: int
) -> dict[str, dict[str, float]]:
    """Seconds of each on one block, and how far its vectors are from sentence-transformers'."""
    names = sorted(encode, reverse=bool(number % 2))
    seconds, vectors = {}, {}
    for name in names:
        start = time.perf_counter(), time.process_time()
        vectors[name] = encode[name](documents)
        seconds[name] = time.perf_counter() - start[0], time.process_time() - start[1]
    theirs = vectors["sentence-transformers"]
    return {
        name: {
            "seconds": seconds[name][0],
            "cpu_seconds": seconds[name][1],
            "difference": float(np.abs(vectors[name] - theirs).max()),
        }
        for name in encode
    }


def measure(
    documents: Sequence[Document], encode: dict[str, Encode], keep: Path | None = None
) -> dict[str, Any]:
    """All blocks of a corpus, those that ``keep`` holds already left out; the sums and ratios."""
    state = fingerprint_object([[d.id for d in documents], sorted(encode), _BLOCK, versions()])
    kept = read_json(keep) if keep is not None and keep.exists() else {}
    blocks = kept["blocks"] if kept.get("state") == state else []
    starts = range(0, len(documents), _BLOCK)
    for one in encode.values():
        one(documents[:_BATCH])  # what is made once is no part of it
    with tqdm(total=len(starts), initial=len(blocks), desc="Encode", unit="block") as bar:
        for number, start in list(enumerate(starts))[len(blocks) :]:
            blocks.append(turn(encode, documents[start : start + _BLOCK], number))
            bar.update()
            if keep is not None:
                write_json(keep, {"state": state, "blocks": blocks})
    rows: dict[str, Any] = {}
    for name in encode:
        wall, cpu = (sum(b[name][key] for b in blocks) for key in ("seconds", "cpu_seconds"))
        rows[name] = {
            "documents_per_second": len(documents) / wall,
            "documents_per_cpu_second": len(documents) / cpu,
            "largest_difference": max(b[name]["difference"] for b in blocks),
        }
    base = rows["sentence-transformers"]
    for row in rows.values():
        row["ratio"] = row["documents_per_second"] / base["documents_per_second"]
        row["cpu_ratio"] = row["documents_per_cpu_second"] / base["documents_per_cpu_second"]
    return rows


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch, FAISS and the tokenizers on one thread, and back."""
    import faiss
    import torch

    before = torch.get_num_threads(), faiss.omp_get_max_threads()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        faiss.omp_set_num_threads(before[1])


def run(
    dataset: RuleQADataset, encoder: str, sample: int | None = None, out: Path | None = None
) -> dict[str, Any]:
    """Measure, print, and write ``encoding.json`` and ``encoding.md``.

    Args:
        dataset: whose corpus is encoded.
        encoder: the folder or name of the encoder.
        sample: so many documents, evenly spaced; all when None.
        out: a folder for the figures.
    """
    documents = list(dataset.corpus)
    if sample is not None and sample < len(documents):
        rows = np.linspace(0, len(documents) - 1, sample).astype(int)
        documents = [documents[row] for row in rows]
    keep = None if out is None else prepare_folder(out) / _PART
    with one_thread():
        found = measure(documents, encoders(encoder), keep)
    figures = {
        "benchmark": "embeddings/encoding",
        "encoder": encoder,
        "dataset": dataset.name,
        "documents": len(documents),
        "batch_size": _BATCH,
        "threads": 1,
        "versions": versions(),
        "rows": found,
    }
    text = render(figures)
    print(f"{text}target {TARGET}")
    if out is not None and keep is not None:
        write_json(out / "encoding.json", figures)
        write_text(out / "encoding.md", text)
        keep.unlink()
    return figures


def render(figures: dict[str, Any]) -> str:
    """The figures as Markdown."""
    about = (
        f"{figures['documents']:,} documents of {figures['dataset']} by {figures['encoder']}, one "
        f"thread, batches of {figures['batch_size']}, in turns: `python -m benchmarks.embeddings`, "
        "with `--sample` where they are fewer than the corpus has. Ratios are to "
        "sentence-transformers, differences the largest of any number of a vector."
    )
    table = markdown_table(
        ["", "documents/s", "ratio", "documents/CPU s", "CPU ratio", "difference"],
        [
            [
                name,
                f"{row['documents_per_second']:,.0f}",
                f"{row['ratio']:.2f}",
                f"{row['documents_per_cpu_second']:,.0f}",
                f"{row['cpu_ratio']:.2f}",
                f"{row['largest_difference']:.1e}",
            ]
            for name, row in figures["rows"].items()
        ],
    )
    return f"# Speed of encoding\n\n{about}\n\n{table}"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.embeddings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.embeddings --out benchmarks/results/embeddings",
    )
    parser.add_argument("--dataset", type=Path, default=Path("runs/ruleqa-i"), help="its folder")
    parser.add_argument("--encoder", default=ENCODER, help="a folder or name")
    parser.add_argument("--sample", type=int, help="so many documents; all by default")
    parser.add_argument("--out", type=Path, help="a folder for the figures, JSON and Markdown")
    given = parser.parse_args(argv)
    return guarded(
        lambda: run(RuleQADataset.load(given.dataset), given.encoder, given.sample, given.out)
    )


if __name__ == "__main__":
    sys.exit(main())

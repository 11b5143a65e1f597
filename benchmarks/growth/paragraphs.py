"""A generated corpus of prose, indexed, linked and searched: seconds and memory as it grows.

A dated world is written out as paragraphs of one to four facts, with pronouns, decoys and idle
sentences. Each step runs in a process of its own, which tells its peak memory:

* ``write``: the world and its prose (no part of what is measured, but its memory is told too);
* ``index``: ``rulerag index PARAGRAPHS --kg WORLD --out INDEX``, which reads the paragraphs, links
  the names of the world in them and writes a BM25 index that keeps the texts;
* ``search``: the index is opened and asked 1,000 questions for ten paragraphs each, ``what did
  SUBJECT RELATION ?`` about facts that are stated once.

``found`` is the fraction of questions whose fact is stated by one of the ten; ``linked`` the
fraction of the ends of stated facts that the paragraph is linked with, of those that it names
(a pronoun names nobody). Finished rows are kept in ``OUT/paragraphs.json``.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.evaluation import peak_memory_mb, versions
from rulerag.evaluation.tables import markdown_table
from rulerag.io import read_json, read_jsonl, write_json, write_jsonl, write_text

SIZES = (10_000, 100_000, 1_000_000)
"""Paragraphs of the corpora."""
QUESTIONS = 1_000
DEPTH = 10

_FACTS_OF_A_PARAGRAPH = 2.6  # at most; a world of so many facts fills the corpus
_SAMPLE = 2_000  # paragraphs whose links are compared with the truth

Row = dict[str, Any]


def write(size: int, folder: Path) -> Row:
    """Write a world, its paragraphs, and what some of them state.

    Args:
        size: how many paragraphs.
        folder: where ``world/``, ``paragraphs.jsonl`` and ``asked.jsonl`` go.
    """
    from benchmarks.common.prose import write_prose
    from rulerag.synthetic import World

    started = time.perf_counter()
    world = World.generate(int(size * _FACTS_OF_A_PARAGRAPH / 0.9))
    pages = write_prose(list(world.graph.train), world.graph.calendar)[:size]
    if len(pages) < size:
        raise RuntimeError(f"{len(pages):,} paragraphs for {size:,}: raise the facts of one")
    world.save(folder / "world")
    write_jsonl(
        folder / "paragraphs.jsonl",
        ({"_id": page.document.id, "text": page.document.text} for page in pages),
    )
    labels = dict(zip(world.graph.relations.names, world.graph.relations.labels, strict=True))
    chosen = np.random.default_rng(0).permutation(size)[:_SAMPLE]
    write_jsonl(
        folder / "asked.jsonl",
        (
            {
                "id": pages[n].document.id,
                "facts": [[*statement.fact[:3]] for statement in pages[n].statements],
                "question": f"what did {pages[n].statements[0].fact.subject} "
                f"{labels[pages[n].statements[0].fact.relation]} ?",
            }
            for n in chosen
        ),
    )
    return {
        "seconds": time.perf_counter() - started,
        "memory_mb": peak_memory_mb(),
        "facts": world.num_facts,
        "entities": len(world.graph.entities),
        "mb": (folder / "paragraphs.jsonl").stat().st_size / 1e6,
    }


def index(size: int, folder: Path) -> Row:
    """Index and link by the command; its seconds and the largest memory of its process."""
    words = ["index", "paragraphs.jsonl", "--kg", "world", "--out", "index", "--quiet"]
    started = time.perf_counter()
    command = [sys.executable, "-m", "rulerag.cli", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    linked = {row["_id"]: row["metadata"] for row in _rows(folder / "index" / "corpus.jsonl")}
    known = named = 0
    texts = {row["_id"]: row["text"] for row in _rows(folder / "paragraphs.jsonl")}
    for row in read_jsonl(folder / "asked.jsonl"):
        ends = {end for fact in row["facts"] for end in (fact[0], fact[2])}
        there = {end for end in ends if end in texts[row["id"]]}
        named += len(there)
        known += len(there & set(linked[row["id"]].get("entities", ())))
    return {
        "seconds": seconds,
        "memory_mb": used.ru_maxrss / 1024,
        "linked": known / named,
        "said": done.stdout.splitlines(),
    }


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def search(size: int, folder: Path) -> Row:
    """Open the index and ask it; seconds to open, questions a second, and how many are found."""
    from rulerag.cli.corpora import open_corpus
    from rulerag.retrieval.lexical import BM25Retriever
    from rulerag.types import Query

    rows = list(read_jsonl(folder / "asked.jsonl"))[:QUESTIONS]
    queries = [Query(row["id"], row["question"]) for row in rows]
    started = time.perf_counter()
    retriever = BM25Retriever.load(folder / "index", open_corpus(folder / "index"), threads=1)
    opened = time.perf_counter() - started
    retriever.retrieve(queries[:1], DEPTH)  # compiles, or loads what was compiled
    started = time.perf_counter()
    found = retriever.retrieve(queries, DEPTH)
    seconds = time.perf_counter() - started
    right = sum(
        any(scored.document.id == row["id"] for scored in documents)
        for row, documents in zip(rows, found, strict=True)
    )
    return {
        "open_seconds": opened,
        "queries_per_second": len(queries) / seconds,
        "memory_mb": peak_memory_mb(),
        "found": right / len(queries),
    }


STEPS: dict[str, Callable[[int, Path], Row]] = {"write": write, "index": index, "search": search}


def measure(size: int, folder: Path) -> Row:
    """Every step of one size, each in a process of its own.

    Args:
        size: how many paragraphs.
        folder: where corpus and index go; what is written there already is taken.
    """
    place = folder / str(size)
    place.mkdir(parents=True, exist_ok=True)
    row: Row = {"paragraphs": size}
    for name in STEPS:
        kept = place / f"{name}.json"
        if not kept.is_file():
            command = [sys.executable, "-m", "benchmarks.growth.paragraphs", name, str(size)]
            subprocess.run([*command, str(place)], check=True)
        row[name] = read_json(kept)
    return row


def run(out: Path, work: Path, sizes: Sequence[int] = SIZES) -> Row:
    """Measure the sizes that are missing; the content of ``OUT/paragraphs.json``.

    Args:
        out: where the results are.
        work: a folder for corpora and indexes, some 2 GB for a million paragraphs.
        sizes: paragraphs of the corpora.
    """
    path = out / "paragraphs.json"
    known = {row["paragraphs"]: row for row in read_json(path)["rows"]} if path.is_file() else {}
    result: Row = {}
    for size in sizes:
        if size not in known:
            known[size] = measure(size, work)
        rows = [known[key] for key in sorted(known)]
        result = {"rows": rows, "versions": versions()}
        write_json(path, result)
        write_text(out / "paragraphs.md", table(rows))
    return result


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    titles = (
        "paragraphs",
        "MB",
        "index, s",
        "GB",
        "open, s",
        "GB",
        "queries / s",
        "linked",
        "found",
    )
    lines = [
        (
            f"{row['paragraphs']:,}",
            f"{row['write']['mb']:.0f}",
            f"{row['index']['seconds']:.1f}",
            f"{row['index']['memory_mb'] / 1024:.2f}",
            f"{row['search']['open_seconds']:.1f}",
            f"{row['search']['memory_mb'] / 1024:.2f}",
            f"{row['search']['queries_per_second']:,.0f}",
            f"{row['index']['linked']:.1%}",
            f"{row['search']['found']:.1%}",
        )
        for row in rows
    ]
    return markdown_table(titles, lines, "r" * len(titles))


if __name__ == "__main__":  # one step in a process of its own
    step, number, home = sys.argv[1:]
    write_json(Path(home) / f"{step}.json", STEPS[step](int(number), Path(home)))

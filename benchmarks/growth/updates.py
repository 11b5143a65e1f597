"""New facts in a dataset that stands, against a build from all facts: CPU seconds.

The last hundredth of a graph's training facts (the latest of dated ones) is held back, the rest is
built into a dataset with a BM25 index. Then the hundredth is added (``rulerag ruleqa update``,
``rulerag index --add``), and a dataset and an index are built from all facts. Whether corpus,
rules and BM25 arrays are the same, byte by byte, is part of the result.

``work`` is what is done in one process whose kernels are compiled, without reading the graph;
``command`` the two commands with all that they read and load, a second of which is Python and its
libraries; the library's byte code is compiled before, as an installer does. The least of three
updates counts, and one build. CPU seconds, because a busy machine hardly changes them.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.folders import shared_folder
from benchmarks.growth.commands import Commands
from rulerag.evaluation import versions
from rulerag.evaluation.tables import markdown_table
from rulerag.io import (
    StoredRecords,
    fingerprint_file,
    prepare_folder,
    read_json,
    write_json,
    write_text,
)
from rulerag.kg import KnowledgeGraph
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.ruleqa import build, keep_facts, update
from rulerag.synthetic import World
from rulerag.types import Document

SHARE = 100
"""One of so many training facts is new."""
REPEATS = 3
GRAPHS = {"ruleqa-i": "icews14", "ruleqa-f": "fb15k237"}
WORLD = 1_000_000
"""Facts of the generated world."""

Row = dict[str, Any]


def measure(name: str, home: Path, facts: int = WORLD) -> Row:
    """One dataset, updated and built.

    Args:
        name: a benchmark of :data:`GRAPHS`, or ``world``.
        home: an empty folder to work in.
        facts: of the world.
    """
    if name in GRAPHS:
        graph = KnowledgeGraph.load(shared_folder("data", GRAPHS[name]))
    else:
        World.generate(facts).save(home / "world")
        graph = KnowledgeGraph.load(home / "world")
    size = len(graph.train)
    new = size // SHARE
    rows = np.arange(size)
    old, added = graph.train.select(rows[: size - new]), graph.train.select(rows[size - new :])
    fresh = KnowledgeGraph(
        graph.entities, graph.relations, {"train": added}, calendar=graph.calendar, name="new"
    )

    def built(train: Any, place: Path) -> None:
        splits = {**graph.splits, "train": train}
        cut = KnowledgeGraph(
            graph.entities, graph.relations, splits, calendar=graph.calendar, name=graph.name
        )
        dataset = build(name if name in GRAPHS else None, cut)
        dataset.save(place)
        keep_facts(place, dataset.corpus)
        BM25Retriever(_corpus(place)).save(place / "index")

    before, after, grown = home / "before", home / "after", home / "grown"
    built(old, before)  # and compiles
    build_seconds = _cpu(lambda: built(graph.train, after))

    def updated() -> None:
        update(grown, fresh)
        BM25Retriever.extend(grown / "index", _corpus(grown))

    seconds = []
    for _ in range(REPEATS):
        shutil.rmtree(grown, ignore_errors=True)
        shutil.copytree(before, grown)
        seconds.append(_cpu(updated))
    files = ("corpus.jsonl", "rules.jsonl", "index/counts.npy", "index/bm25s/data.csc.index.npy")
    row: Row = {
        "facts": size,
        "new": new,
        "rules": read_json(grown / "manifest.json")["counts"]["rules"],
        "build": build_seconds,
        "update": min(seconds),
        "share": min(seconds) / build_seconds,
        "same": all((grown / f).read_bytes() == (after / f).read_bytes() for f in files),
    }
    for place in (before, after, grown):
        shutil.rmtree(place)
    return row


def _corpus(folder: Path) -> StoredRecords[Document]:
    file = folder / "corpus.jsonl"
    return StoredRecords(file, Document.from_json, fingerprint_file(file))


def _cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def measure_commands(home: Path, facts: int = WORLD) -> Row:
    """The same of a generated world by the commands, each in a process of its own.

    Args:
        home: an empty folder to work in.
        facts: of the world.
    """
    World.generate(facts).save(home / "world")
    train = home / "world" / "train.txt"
    lines = train.read_text(encoding="utf-8").splitlines(keepends=True)
    new = len(lines) // SHARE
    (home / "new.txt").write_text("".join(lines[-new:]), encoding="utf-8")

    command = Commands(home).seconds
    build_words = ("ruleqa", "build", "--kg", "world", "--out", "grown")
    train.write_text("".join(lines[:-new]), encoding="utf-8")
    build_seconds = command(*build_words)
    build_seconds += command("index", "grown", "--out", "index")
    update_seconds = command("ruleqa", "update", "grown", "--facts", "new.txt")
    update_seconds += command("index", "grown", "--add", "--out", "index")
    return {
        "facts": len(lines),
        "new": new,
        "build": build_seconds,
        "update": update_seconds,
        "share": update_seconds / build_seconds,
    }


def table(rows: dict[str, Row]) -> str:
    """The rows as Markdown."""
    titles = ("", "facts", "new", "build, s", "update, s", "update / build", "same files")
    same = {True: "yes", False: "no", None: ""}
    lines = [
        (
            name,
            f"{row['facts']:,}",
            f"{row['new']:,}",
            f"{row['build']:.1f}",
            f"{row['update']:.2f}",
            f"{row['share']:.1%}",
            same[row.get("same")],
        )
        for name, row in rows.items()
    ]
    return markdown_table(titles, lines)


def run(out: Path, work: Path, *, facts: int = WORLD) -> dict[str, Any]:
    """Measure what is missing; the content of ``OUT/updates.json``.

    Args:
        out: where the results are.
        work: a folder for datasets.
        facts: of the generated world.
    """
    path = out / "updates.json"
    rows: dict[str, Row] = read_json(path)["rows"] if path.is_file() else {}
    tasks: dict[str, Callable[[Path], Row]] = {
        **{name: partial(measure, name) for name in GRAPHS},
        "world": lambda home: measure("world", home, facts),
        "world, commands": lambda home: measure_commands(home, facts),
    }
    for name, task in tasks.items():
        if name not in rows:
            home = work / "updates"
            shutil.rmtree(home, ignore_errors=True)
            rows[name] = task(prepare_folder(home))
            shutil.rmtree(home)
            rows = {one: rows[one] for one in tasks if one in rows}
            write_json(path, {"rows": rows, "versions": versions()})
    write_text(out / "updates.md", table(rows))
    return {"rows": rows}

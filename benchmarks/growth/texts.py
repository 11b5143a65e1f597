"""A dataset asked of texts of one's own: what the texts cost when they are read, and afterwards.

The paragraphs of :mod:`benchmarks.growth.paragraphs` are indexed as they are, a dataset is built of
the facts that they were written from, and one question is asked by the command, in a process of its
own each time, in CPU seconds:

* ``anew``: what was kept of the texts is deleted before (``rulerag cache clear texts``), so that
  they are read for the names and facts of the dataset;
* ``kept``: what was read is there; the least of three;
* ``index``: the same question to the index without the dataset, ``dataset`` to the dataset without
  the index; the least of three.

``same`` says whether ``answers.jsonl`` was the same bytes each time, and where nothing could be
kept at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.growth import paragraphs
from benchmarks.growth.commands import Commands
from rulerag.evaluation import versions
from rulerag.evaluation.tables import markdown_table
from rulerag.io import read_json, read_jsonl, write_json, write_text

SIZES = (10_000, 100_000)
"""Paragraphs of the corpora."""
REPEATS = 3

Row = dict[str, Any]


def measure(size: int, home: Path) -> Row:
    """One corpus, asked again and again.

    Args:
        size: how many paragraphs.
        home: a folder for world, dataset and index.
    """
    home.mkdir(parents=True, exist_ok=True)
    about = paragraphs.write(size, home)
    first = next(iter(read_jsonl(home / "asked.jsonl")))

    command = Commands(home).seconds
    ask = ("answer", first["question"], "--top-k", "3")
    of_texts = (*ask, "--dataset", "dataset", "--index", "index", "--out", "answers.jsonl")
    answers: list[bytes] = []

    def asked(cache: str = "cache") -> float:
        seconds = command(*of_texts, cache=cache)
        answers.append((home / "answers.jsonl").read_bytes())
        return seconds

    command("ruleqa", "build", "--kg", "world", "--out", "dataset", "--quiet")
    command("index", "paragraphs.jsonl", "--out", "index", "--quiet")
    asked()  # reads the dataset too, and keeps what was read of it
    command("cache", "clear", "texts")
    anew = asked()
    kept = min(asked() for _ in range(REPEATS))
    asked(cache="index/manifest.json/none")  # below a file, where nothing can be kept
    alone = {
        name: min(command(*ask, f"--{name}", name) for _ in range(REPEATS))
        for name in ("index", "dataset")
    }
    written = sum(file.stat().st_size for file in (home / "cache" / "texts").iterdir())
    return {
        "paragraphs": size,
        "facts": about["facts"],
        "anew": anew,
        "kept": kept,
        "share": kept / anew,
        "alone": alone,
        "megabytes": written / 1e6,
        "same": len(set(answers)) == 1,
    }


def run(out: Path, work: Path, sizes: Sequence[int] = SIZES) -> Row:
    """Measure the sizes that are missing; the content of ``OUT/texts.json``.

    Args:
        out: where the results are.
        work: a folder for datasets and indexes.
        sizes: paragraphs of the corpora.
    """
    path = out / "texts.json"
    known = {row["paragraphs"]: row for row in read_json(path)["rows"]} if path.is_file() else {}
    result: Row = {}
    for size in sizes:
        if size not in known:
            known[size] = measure(size, work / "texts" / str(size))
        rows = [known[key] for key in sorted(known)]
        result = {"rows": rows, "versions": versions()}
        write_json(path, result)
        write_text(out / "texts.md", table(rows))
    return result


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    titles = (
        "paragraphs",
        "facts",
        "read anew, s",
        "kept, s",
        "kept / anew",
        "index alone, s",
        "dataset alone, s",
        "MB kept",
        "same answers",
    )
    lines = [
        (
            f"{row['paragraphs']:,}",
            f"{row['facts']:,}",
            f"{row['anew']:.1f}",
            f"{row['kept']:.1f}",
            f"{row['share']:.1%}",
            f"{row['alone']['index']:.1f}",
            f"{row['alone']['dataset']:.1f}",
            f"{row['megabytes']:.1f}",
            "yes" if row["same"] else "no",
        )
        for row in rows
    ]
    return markdown_table(titles, lines, "r" * len(titles))

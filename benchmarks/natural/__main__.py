"""RuleQA as people have it: questions in other words, documents in prose, rules or none.

Some hundred questions of the balanced set are written in other words. ``linking``: what a linker
understands of them, and exact match against that of the exact form. ``retrieval``: answer recall
at ten of rule-guided and of plain BM25, merged alike and as deep, over facts and over prose.
``known``: how much of what the texts state is found where the graph is known. Each part is kept in
the folder and not done again; what needs linked questions waits for ``linking``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.natural.rewriting import natural_dataset
from benchmarks.natural.study import (
    GUIDED,
    PLAIN,
    compared,
    drawn,
    forms_of,
    known_scores,
    linked_scores,
    matches,
    recalls,
    understood,
)
from benchmarks.natural.tables import tables
from rulerag.console import guarded
from rulerag.io import read_json, read_jsonl, write_json, write_jsonl, write_text
from rulerag.linking import QuestionLinker
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Query

PARTS = ("linking", "retrieval", "known")


def _run(arguments: argparse.Namespace) -> None:
    for folder in arguments.datasets:
        dataset = RuleQADataset.load(folder)
        asked = drawn(dataset, arguments.query_set, arguments.questions, arguments.seed)
        if "linking" in arguments.parts:
            _link(dataset, asked, arguments)
        if "retrieval" in arguments.parts:
            _retrieve(dataset, asked, arguments)
        if "known" in arguments.parts:
            file, figures = _kept(dataset, arguments)
            if "known" not in figures:
                figures["known"] = known_scores(dataset, arguments.seed)
                write_json(file, figures)
    found = [read_json(file) for file in sorted(arguments.out.glob("*.json"))]
    write_text(arguments.out / "natural.md", tables(found) + "\n")
    sys.stdout.write(tables(found) + "\n")


def _kept(dataset: RuleQADataset, arguments: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    """The file of a dataset's figures, and what stands in it."""
    file = arguments.out / f"{dataset.name}.json"
    settings = {key: getattr(arguments, key) for key in ("query_set", "questions", "seed")}
    fresh: dict[str, Any] = {"dataset": dataset.name, "settings": settings, "retrieval": []}
    known = read_json(file) if file.is_file() else fresh
    return file, known if known["settings"] == settings else fresh


def _link(dataset: RuleQADataset, asked: Sequence[Query], arguments: argparse.Namespace) -> None:
    file, figures = _kept(dataset, arguments)
    written = natural_dataset(dataset, seed=arguments.seed)
    said = {query.id: query.text for query in written.query_set("full")}
    texts = [said[query.id] for query in asked]
    plain = QuestionLinker(dataset)
    linkers = {"letters": plain}
    if arguments.encoder:
        linkers["encoder"] = plain.with_encoder(load_encoder(arguments.encoder))
    known = figures.setdefault("linking", {})
    left = {name: linker for name, linker in linkers.items() if name not in known}
    exact = matches(dataset, asked) if left else []
    for name, linker in left.items():
        started = time.perf_counter()
        linked = linker.link(texts)
        seconds = time.perf_counter() - started
        row = linked_scores(dataset, linked, asked)
        known[name] = {**row, "ms": 1000 * seconds / len(asked)}
        queries = understood(linked, asked)
        right = matches(dataset, queries)
        known[name]["exact_match"] = compared(exact, right)
        # What later parts search with.
        rows = zip(asked, texts, queries, exact, right, strict=True)
        write_jsonl(
            arguments.out / f"{dataset.name}-{name}.jsonl",
            (
                {
                    "id": query.id,
                    "exact": query.text,
                    "question": text,
                    "understood": taken.text,
                    "subject": taken.subject,
                    "relation": taken.relation,
                    "timestamp": taken.timestamp,
                    "right": [query.subject == taken.subject, query.relation == taken.relation],
                    "exact_match": [before, after],
                }
                for query, text, taken, before, after in rows
            ),
        )
        write_json(file, figures)


def _retrieve(
    dataset: RuleQADataset, asked: Sequence[Query], arguments: argparse.Namespace
) -> None:
    file, figures = _kept(dataset, arguments)
    linked = _linked(arguments.out / f"{dataset.name}-{arguments.linker}.jsonl", dataset, asked)
    done = {row["form"] for row in figures["retrieval"]}
    for form in forms_of(dataset, asked, linked, arguments.seed, done):
        started = time.perf_counter()
        plain, plain_texts = recalls(form, PLAIN)
        guided, guided_texts = recalls(form, GUIDED, arguments.guided)
        figures["retrieval"].append(
            {
                "form": form.title,
                "documents": len(form.dataset.corpus),
                **compared(plain, guided),
                "seconds": round(time.perf_counter() - started, 1),
                "examples": [
                    {
                        "question": query.text,
                        "answers": list(query.answers),
                        "plain": before[:3],
                        "guided": after[:3],
                    }
                    for query, before, after in list(
                        zip(form.queries, plain_texts, guided_texts, strict=True)
                    )[:: max(1, len(asked) // 10)]
                ],
            }
        )
        write_json(file, figures)


def _linked(file: Path, dataset: RuleQADataset, asked: Sequence[Query]) -> list[Query] | None:
    """The queries that the part ``linking`` understood; None where it was not done."""
    if not file.is_file():
        return None
    rows = {row["id"]: row for row in read_jsonl(file)}
    labels = dataset.labels
    return [
        Query(
            query.id,
            row["understood"],
            row["subject"],
            row["relation"],
            row["timestamp"],
            query.answers,
            labels["entities"].get(row["subject"], row["subject"]),
            labels["relations"].get(row["relation"], row["relation"]),
            query.prediction,
        )
        for query, row in ((query, rows[query.id]) for query in asked)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.natural",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.natural runs/ruleqa-i "
        "--encoder all-minilm-l6-v2 --out benchmarks/results/natural",
    )
    parser.add_argument("datasets", nargs="+", type=Path, help="RuleQA folders")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the figures")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is done")
    parser.add_argument("--query-set", default="balanced", help="of test questions")
    parser.add_argument("--questions", type=int, default=400, help="questions of a benchmark")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and the wordings")
    parser.add_argument("--encoder", help="a folder or name; letters alone without one")
    parser.add_argument(
        "--linker", choices=("letters", "encoder"), default="encoder", help="whose queries search"
    )
    parser.add_argument(
        "--guided", nargs="*", default=(), metavar="KEY=VALUE", help="changes of guided search"
    )
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())

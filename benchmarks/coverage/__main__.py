"""Answer coverage of retrieval by the tokens that a reader has to read, with rules and without.

Retrievals of graphs are compared by the share of questions one of whose answers they hand over, and
by how many tokens they hand over for it (GNN-RAG, arXiv:2405.20139). Documents are cut at each
budget, so that all rows are read at one cost; *per 100 tokens* is the coverage of ten documents
over their tokens, the form of published figures, which favours short evidence. The rows:

- ``frequent``: the relation's most frequent answers, a fact of each; no question is looked at.
- ``bm25``: plain retrieval.
- ``bm25-pooled``: plain retrieval, as deep and merged as the rows with rules.
- ``bm25-guided``: with rules.

A dataset without rules, a benchmark of others for example, has ``bm25`` alone.

    python -m benchmarks.coverage runs/ruleqa-i --out benchmarks/results/coverage
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.arrays import Doubles
from rulerag.assembly import experiment, make_pipeline, open_dataset
from rulerag.console import guarded
from rulerag.evaluation import (
    AnswerCoverage,
    bootstrap_interval,
    markdown_table,
    paired_randomization_test,
)
from rulerag.io import (
    atomic_write,
    fingerprint_object,
    prepare_folder,
    read_json,
    write_json,
    write_text,
)
from rulerag.models import find_model
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Document, Query

BUDGETS = (25, 50, 100, 200, 400)
_DEPTH = 50  # documents: what fills the largest budget
_TEN = 10
_WAYS = ("frequent", "bm25", "bm25-pooled", "bm25-guided")
_CONTROL = {"bm25-guided": "bm25-pooled"}
Found = list[list[Document]]


def frequent(dataset: RuleQADataset, queries: Sequence[Query]) -> Found:
    """For each query a fact of each of the relation's most frequent objects, the latest one."""
    counts: dict[str, Counter[str]] = {}
    latest: dict[tuple[str, str], Document] = {}
    for document in dataset.corpus:
        for fact in document.facts:
            counts.setdefault(fact.relation, Counter())[fact.object] += 1
            latest[fact.relation, fact.object] = document
    best = {
        relation: [latest[relation, name] for name, _ in found.most_common(_DEPTH)]
        for relation, found in counts.items()
    }
    return [best.get(query.relation, []) for query in queries]


def retrieved(folder: Path, way: str, queries: Sequence[Query]) -> Found:
    """The documents of a method's retriever."""
    config = experiment(f"{way}__symbolic", dataset=folder)
    retriever = make_pipeline(config, open_dataset(config)).retriever
    found = retriever.retrieve(queries, _DEPTH)
    return [[scored.document for scored in documents] for documents in found]


def model_tokens(model: str) -> Callable[[str], Sequence[int]]:
    """Where the tokens of a text end by a model's own tokenizer."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(find_model(model))

    def ends(text: str) -> Sequence[int]:
        offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return [int(end) for _, end in offsets["offset_mapping"]]

    return ends


def measured(
    found: Found, queries: Sequence[Query], coverage: AnswerCoverage
) -> tuple[dict[str, Any], Doubles]:
    """The figures of a row, and for each query the tokens until an answer stands whole."""
    needed = np.array(
        [
            coverage.tokens_needed(documents, query.answers)
            for documents, query in zip(found, queries, strict=True)
        ]
    )
    read = np.array([sum(map(coverage.num_tokens, documents[:_TEN])) for documents in found])
    held = needed <= read
    covered = {str(k): float(np.mean(needed <= k)) for k in BUDGETS}
    return {
        "coverage": covered,
        "interval@100": bootstrap_interval((needed <= 100).astype(float).tolist()),
        "ten_documents": float(np.mean(held)),
        "tokens": float(np.mean(read)),
        "per_100_tokens": 100 * float(np.mean(held)) / max(float(np.mean(read)), 1.0),
    }, needed


def study(folder: Path, query_set: str, coverage: AnswerCoverage, out: Path) -> dict[str, Any]:
    """The rows of a dataset; those that stand in the folder are not made again."""
    dataset = open_dataset(experiment("bm25__symbolic", dataset=folder))
    known = query_set if query_set in dataset.query_sets else "full"
    queries = [query for query in dataset.query_set(known) if query.answers]
    identity = fingerprint_object([dataset.fingerprint, known, BUDGETS, _DEPTH])
    file = out / f"{dataset.name}.json"
    result: dict[str, Any] = read_json(file) if file.is_file() else {}
    if result.get("identity") != identity:
        result = {"identity": identity, "dataset": dataset.name, "query_set": known}
        result |= {"questions": len(queries), "rows": {}}
    rows, kept = result["rows"], file.with_suffix(".npz")
    needs: dict[str, Doubles] = {}
    if rows and kept.is_file():
        with np.load(kept) as held:
            needs = {way: held[way] for way in held.files}
    for way in _WAYS if len(dataset.rules) else ("bm25",):
        if way in rows and way in needs:
            continue
        plain = way == "frequent"
        found = frequent(dataset, queries) if plain else retrieved(folder, way, queries)
        rows[way], needs[way] = measured(found, queries, coverage)
        if way in _CONTROL:
            pair = [(needs[one] <= 100).astype(float).tolist() for one in (way, _CONTROL[way])]
            rows[way]["p"] = paired_randomization_test(*pair)
        arrays: dict[str, Any] = dict(needs)
        with atomic_write(kept, "wb") as held:
            np.savez_compressed(held, **arrays)
        write_json(file, result)
    return result


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The figures in Markdown: coverage in percent at each budget and of ten documents."""
    titles = ("dataset", "questions", "retrieval", *(f"@{k}" for k in BUDGETS))
    rows = []
    for result in results:
        for way, row in result["rows"].items():
            low, high = (100 * value for value in row["interval@100"])
            cells = [f"{100 * row['coverage'][str(k)]:.1f}" for k in BUDGETS]
            cells[BUDGETS.index(100)] += f" [{low:.1f}, {high:.1f}]"
            if "p" in row:
                cells[BUDGETS.index(100)] += f", p = {row['p']:.4f}"
            rows.append(
                (
                    *(result["dataset"], f"{result['questions']:,}", way, *cells),
                    *(f"{100 * row['ten_documents']:.1f}", f"{row['tokens']:.0f}"),
                    f"{100 * row['per_100_tokens']:.1f}",
                )
            )
    return markdown_table((*titles, "ten documents", "their tokens", "per 100 tokens"), rows)


def _run(arguments: argparse.Namespace) -> None:
    out = prepare_folder(arguments.out)
    ends = (model_tokens(arguments.tokenizer),) if arguments.tokenizer else ()
    for folder in arguments.datasets:
        study(folder, arguments.query_set, AnswerCoverage(*ends), out)
    results = [read_json(file) for file in sorted(out.glob("*.json"))]
    write_text(out / "table.md", table(results) + "\n")
    sys.stdout.write(table(results) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("datasets", nargs="+", type=Path, help="dataset folders or benchmarks")
    parser.add_argument("--query-set", default="balanced", help="all questions where it has none")
    parser.add_argument("--tokenizer", help="a model whose tokens count; words and signs without")
    parser.add_argument("--out", type=Path, required=True, help="a folder; a rerun goes on there")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())

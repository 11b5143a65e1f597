"""Dense retrieval and fusion on the validation twin of a benchmark: which settings, and what gains.

Test queries are not touched: :func:`~benchmarks.validation.validation_graph` asks for validation
facts. Every row is a configuration as an experiment file holds it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.ruleqa import build
from benchmarks.validation import validation_graph
from rulerag.build import make_retriever, make_selector
from rulerag.config import Config
from rulerag.console import guarded
from rulerag.dataset import RuleQADataset
from rulerag.evaluation.metrics import AnswerMatcher
from rulerag.io import prepare_folder, write_json, write_text
from rulerag.kg.graph import KnowledgeGraph
from rulerag.pipeline import UnionRetriever
from rulerag.types import Query

__all__ = ["ROWS", "main", "measure"]

_SELECTOR = {"selector": {"type": "head", "max_rules": 8, "rank_by": "support"}}
_TIME = {"time_aware": {"order": "recent", "distinct_facts": True}}
_DENSE: dict[str, Any] = {"retriever": {"type": "dense"}}
_BM25: dict[str, Any] = {"retriever": {"type": "bm25", "dates": "token"}}
_SYMBOLIC: dict[str, Any] = {"retriever": {"type": "symbolic"}, "selector": {"type": "head"}}


def _guided(compose: str, **more: Any) -> dict[str, Any]:
    settings = {"guided": {"compose": compose, "merge": "evidence", **more}}
    return {**_SELECTOR, **_TIME, **settings}


_BEST = {**_DENSE, **_TIME, "guided": {"compose": "both", "merge": "evidence", "power": 16.0}}
_LEXICAL = {**_BM25, **_TIME, "guided": {"compose": "substitute", "merge": "evidence"}}

ROWS: dict[str, dict[str, Any]] = {
    "dense, plain": _DENSE,
    "dense, plain, distinct facts": {**_DENSE, **_TIME},
    "dense, guided: append, by rank": {**_DENSE, **_SELECTOR, "guided": {}},
    "dense, guided: append, evidence": {**_DENSE, **_guided("append", power=16.0)},
    "dense, guided: substitute, evidence": {**_DENSE, **_guided("substitute", power=16.0)},
    "dense, guided: both, evidence": {**_SELECTOR, **_BEST},
    "… fused with plain, reciprocal rank": {**_SELECTOR, **_BEST, "fusion": {}},
    "… fused with plain, weighted 0.7 : 0.3": {
        **_SELECTOR,
        **_BEST,
        "fusion": {"method": "weighted", "weights": [0.7, 0.3]},
    },
    "BM25, guided": {**_SELECTOR, **_LEXICAL},
    "BM25 and dense, guided, reciprocal rank": {
        **_SELECTOR,
        **_LEXICAL,
        "fusion": {"with": [_BEST]},
    },
    "symbolic": _SYMBOLIC,
    "symbolic and dense guided, reciprocal rank": {**_SYMBOLIC, "fusion": {"with": [_BEST]}},
    "symbolic and dense guided, weighted 0.7 : 0.3": {
        **_SYMBOLIC,
        "fusion": {"with": [_BEST], "method": "weighted", "weights": [0.7, 0.3]},
    },
}
"""By name, the configurations that are compared."""


def measure(
    dataset: RuleQADataset, queries: Sequence[Query], row: Mapping[str, Any], *, top_k: int = 10
) -> dict[str, float | None]:
    """Answer recall of a configuration: of its ``top_k`` best, and of its whole union.

    Args:
        dataset: the corpus and the rules.
        queries: with answers.
        row: the configuration.
        top_k: documents of a query.
    """
    config = Config(row)
    retriever = make_retriever(config, dataset, make_selector(config, dataset.rules))
    matcher = AnswerMatcher()

    def recall(found: Sequence[Sequence[Any]]) -> float:
        ranks = [
            matcher.first_rank([scored.document for scored in documents], query.answers)
            for query, documents in zip(queries, found, strict=True)
        ]
        return sum(rank is not None for rank in ranks) / len(ranks)

    figures: dict[str, float | None] = {
        "answer_recall": recall(retriever.retrieve(queries, top_k)),
        "answer_recall_union": None,
        "documents_per_query_union": None,
    }
    if isinstance(retriever, UnionRetriever):
        union = retriever.retrieve_union(queries, top_k)
        figures["answer_recall_union"] = recall(union)
        figures["documents_per_query_union"] = sum(map(len, union)) / len(union)
    return figures


def _run(arguments: argparse.Namespace) -> None:
    dataset = build(arguments.name, validation_graph(KnowledgeGraph.load(arguments.kg)))
    queries = dataset.query_set("balanced")[:: arguments.every]
    rows = {}
    for name, row in ROWS.items():
        rows[name] = measure(dataset, queries, row)
        sys.stdout.write(_line(name, rows[name]) + "\n")
        sys.stdout.flush()
    head = (
        f"Validation twin of {arguments.name}, {len(queries):,} queries, {len(dataset.corpus):,} "
        "documents; answer recall at ten in percent, of the ten best and of the union of every "
        "search (its mean size). Dense is rulerag-nano-encoder: see its card for what it saw.\n\n"
        "| | ten best | union |\n| --- | ---: | ---: |\n"
    )
    out = prepare_folder(arguments.out)
    write_text(out / "fusion.md", head + "\n".join(_line(*item) for item in rows.items()) + "\n")
    write_json(out / "fusion.json", {"queries": len(queries), "rows": rows})


def _line(name: str, row: Mapping[str, float | None]) -> str:
    union, size = row["answer_recall_union"], row["documents_per_query_union"]
    whole = "–" if union is None or size is None else f"{100 * union:.1f} ({size:.0f})"
    return f"| {name} | {100 * (row['answer_recall'] or 0.0):.1f} | {whole} |"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fusion",
        description=__doc__.split("\n")[0] if __doc__ else None,
        epilog="example: python -m benchmarks.fusion --name ruleqa-i --kg ../shared/data/icews14 "
        "--out benchmarks/results/ruleqa-i",
    )
    parser.add_argument("--name", default="ruleqa-i", help="the benchmark (ruleqa-i)")
    parser.add_argument("--kg", required=True, type=Path, help="its graph")
    parser.add_argument("--out", required=True, type=Path, help="the folder of fusion.md and .json")
    parser.add_argument("--every", type=int, default=1, help="ask only every Nth query (1)")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments))


if __name__ == "__main__":
    sys.exit(main())

"""Chooses settings on the validation variant of a benchmark; test queries are never used.

Two tables: ``tune``, every setting of the presets, each row one change from them (the preset is
what won), and ``fusion``, dense retrieval and what fusing lists is worth. Written beside a table:
the variant's counts, so that anyone can see what was tried.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from rulerag.assembly import make_pipeline, preset
from rulerag.composition import Config, innermost
from rulerag.console import guarded
from rulerag.evaluation import AnswerMatcher, answer_metrics, markdown_table, mean_metrics
from rulerag.io import prepare_folder, write_json, write_text
from rulerag.kg import KnowledgeGraph
from rulerag.ruleqa import RuleQADataset, build, validation_graph
from rulerag.types import Query

Settings = dict[str, Any]


class Row(NamedTuple):
    """One configuration.

    Args:
        retriever: of the table's first column.
        rules: ``none`` or ``guided``.
        change: what is different from the preset, or what is compared.
        settings: the configuration as an experiment file holds it, but for its dataset.
    """

    retriever: str
    rules: str
    change: str
    settings: Settings


_GUIDED: list[Settings] = [
    {"guided.compose": "append"},
    {"guided.include_plain": True},
    {"guided.include_plain": True, "guided.plain_weight": 0.3},
    {"guided.merge": "rank"},
    {"guided.pool": 50},
    {"guided.power": 4.0},
    {"guided.power": 16.0},
    {"selector.rank_by": "confidence"},
    {"selector.rank_by": "product"},
    {"selector.max_rules": 3},
    {"selector.max_rules": 5},
    {"selector.max_rules": 12},
    {"retriever.dates": "split"},
    {"time_aware.distinct_facts": False},
]
_READING: list[Settings] = [
    {"evidence.prior": 0},
    {"evidence.prior": 5},
    {"evidence.sharpness": 1.0},
    {"evidence.sharpness": 2.0},
    {"evidence.decay": 0.002},
    {"generator.rank_discount": 0.0},
    {"generator.rank_discount": 0.5},
]
_CHANGES: dict[tuple[str, str], list[Settings]] = {
    ("bm25", "none"): [
        {"retriever.k1": 0.9, "retriever.b": 0.4},
        {"retriever.dates": "token"},
        {"retriever.dates": "drop"},
        {"time_aware.distinct_facts": False},
        {"time_aware.distinct_facts": True},
        {"time_aware.distinct_facts": False, "pooled.pool": 200},
        {
            "retriever.dates": "token",
            "time_aware.distinct_facts": False,
            "pooled.pool": 200,
        },
    ],
    ("bm25", "guided"): _GUIDED + _READING,
    ("symbolic", "guided"): _READING,
}


def _changed(retriever: str, rules: str, change: Settings) -> Row:
    """The preset of a retriever with a change."""
    settings = preset("validation", retriever=retriever, rules=rules).to_dict()
    for path, value in change.items():
        component, _, key = path.partition(".")
        _apply(settings, component, key, value)
    name = ", ".join(f"{k}={v}" for k, v in change.items()) or "(preset)"
    return Row(retriever, rules, name, settings)


def _apply(settings: Settings, component: str, key: str, value: Any) -> None:
    """Set a key of a component; a wrapper that is not there is put around what is."""
    retriever = settings["retriever"]
    if component == "evidence":
        for part in (retriever, settings["generator"]):
            if "evidence" in part:
                part["evidence"][key] = value
    elif component in ("selector", "generator"):
        settings[component][key] = value
    elif component == "retriever":
        innermost(retriever)[key] = value
    else:
        while retriever.get("type") != component and "retriever" in retriever:
            retriever = retriever["retriever"]
        if retriever["type"] == component:
            retriever[key] = value
        else:
            inside = settings["retriever"]
            settings["retriever"] = {"type": component, key: value, "retriever": inside}


_READER = {"generator": {"type": "symbolic", "rank_discount": 1.0}}
_RULES = {**_READER, "selector": {"type": "head", "max_rules": 8, "rank_by": "support"}}
_DENSE: Settings = {"type": "dense"}
_BM25: Settings = {"type": "bm25", "dates": "token"}
_SYMBOLIC: Settings = {"type": "symbolic"}


def _latest(retriever: Settings) -> Settings:
    return {"type": "time_aware", "distinct_facts": True, "retriever": retriever}


def _by_evidence(retriever: Settings, compose: str, power: float = 16.0) -> Settings:
    merging = {"compose": compose, "merge": "evidence", "power": power}
    return {"type": "guided", **merging, "retriever": _latest(retriever)}


def _fused(*retrievers: Settings, **settings: Any) -> Settings:
    return {"type": "fused", **settings, "retrievers": list(retrievers)}


_BEST = _by_evidence(_DENSE, "both")
_LEXICAL = _by_evidence(_BM25, "substitute", power=8.0)
_WEIGHTED: Settings = {"method": "weighted", "weights": [0.7, 0.3]}


def _plain(change: str, retriever: Settings) -> Row:
    return Row("dense", "none", change, {**_READER, "retriever": retriever})


def _guided(name: str, change: str, retriever: Settings) -> Row:
    return Row(name, "guided", change, {**_RULES, "retriever": retriever})


TABLES: dict[str, list[Row]] = {
    "tune": [_changed(*key, change) for key, some in _CHANGES.items() for change in ({}, *some)],
    "fusion": [
        _plain("plain", _DENSE),
        _plain("distinct facts", _latest(_DENSE)),
        _guided("dense", "append, by rank", {"type": "guided", "retriever": _DENSE}),
        _guided("dense", "append", _by_evidence(_DENSE, "append")),
        _guided("dense", "substitute", _by_evidence(_DENSE, "substitute")),
        _guided("dense", "both", _BEST),
        _guided("dense and plain", "reciprocal rank", _fused(_BEST, _latest(_DENSE))),
        _guided("dense and plain", "0.7 : 0.3", _fused(_BEST, _latest(_DENSE), **_WEIGHTED)),
        _guided("bm25", "substitute", _LEXICAL),
        _guided("bm25 and dense", "reciprocal rank", _fused(_LEXICAL, _BEST)),
        _guided("symbolic", "", _SYMBOLIC),
        _guided("symbolic and dense", "reciprocal rank", _fused(_SYMBOLIC, _BEST)),
        _guided("symbolic and dense", "0.7 : 0.3", _fused(_SYMBOLIC, _BEST, **_WEIGHTED)),
    ],
}
"""By table, the configurations that are compared."""

_COLUMNS = (
    "answer_recall@10",
    "answer_recall@10_union",
    "documents_per_query_union",
    "exact_match",
)


def tune(
    dataset: RuleQADataset, queries: Sequence[Query], rows: Sequence[Row]
) -> Iterator[dict[str, Any]]:
    """Run configurations; yield a record of measures for each.

    Args:
        dataset: the corpus and the rules.
        queries: with answers.
        rows: the configurations.
    """
    matcher = AnswerMatcher()
    for row in tqdm(rows, "settings", unit="run"):
        started = time.perf_counter()
        answers = make_pipeline(Config(row.settings), dataset).answer(queries)
        means = mean_metrics([answer_metrics(answer, matcher=matcher) for answer in answers])
        yield {
            "retriever": row.retriever,
            "rules": row.rules,
            "change": row.change,
            **{name: means.get(name) for name in _COLUMNS},
            "seconds": round(time.perf_counter() - started, 1),
        }


def _table(rows: Sequence[dict[str, Any]]) -> str:
    described = {"retriever": "retriever", "rules": "rules", "change": "change from the preset"}
    cells = [
        [*(row[key] for key in described), *(_cell(name, row[name]) for name in _COLUMNS)]
        for row in rows
    ]
    titles = [*described.values(), "R@10", "R@10 union", "documents", "EM"]
    return markdown_table(titles, cells, "lllrrrr")


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f}" if name.startswith("documents") else f"{100 * value:.1f}"


def _run(arguments: argparse.Namespace) -> None:
    out = prepare_folder(arguments.out)
    dataset = build(arguments.name, validation_graph(KnowledgeGraph.load(arguments.kg)))
    queries = dataset.query_set(arguments.query_set)[:: arguments.every]
    rows = list(tune(dataset, queries, TABLES[arguments.table]))
    told = {"twin": dataset.manifest["counts"], "queries": len(queries), "rows": rows}
    write_json(out / f"{arguments.table}.json", told)
    write_text(out / f"{arguments.table}.md", _table(rows))
    sys.stdout.write(_table(rows))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuning.settings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.tuning.settings --name ruleqa-i "
        "--kg ../shared/data/icews14 --out benchmarks/results/ruleqa-i",
    )
    parser.add_argument("--name", required=True, help="the benchmark")
    parser.add_argument("--kg", required=True, type=Path, help="its graph folder")
    parser.add_argument("--out", required=True, type=Path, help="the folder of TABLE.json and .md")
    parser.add_argument("--table", default="tune", choices=list(TABLES), help="which (tune)")
    parser.add_argument("--query-set", default="balanced", help="balanced or full")
    parser.add_argument("--every", type=int, default=1, help="ask only every Nth query (1)")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments))


if __name__ == "__main__":
    sys.exit(main())

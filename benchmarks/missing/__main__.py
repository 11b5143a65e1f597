"""Systems side by side on questions whose fact is missing: one table, one picture.

Each graph's datasets are built where they are missing (``rulerag ruleqa build --missing``), every
system is asked, on the incomplete graph and on the complete one, then with a share of the proofs
taken away, and right answers are explained. What stands in GRAPH.json is not done again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.bench import tell
from benchmarks.common.folders import shared_folder
from benchmarks.missing.proofs import explained, removal
from benchmarks.missing.study import (
    ROWS,
    MissingFacts,
    answered,
    chosen,
    drawn,
    hard_over_easy,
    measured,
)
from benchmarks.missing.tables import plot, tables
from rulerag.console import guarded
from rulerag.errors import ConfigError, did_you_mean
from rulerag.evaluation import bootstrap_interval
from rulerag.io import read_json, write_json, write_text
from rulerag.kg import KnowledgeGraph
from rulerag.ruleqa import build_missing
from rulerag.synthetic import World

REMOVED = ("relation prior", "rule-guided BM25", "rules executed", "candidates joined")
EXPLAINED = ("rules executed", "rules executed, small reader", "rules executed, SmolLM2")
_ASKED, _EXPLAINED, _READ = 500, 30, 200
_SLOW = 240  # seconds of a system's row, from which it is not asked for every share of the proofs


def _world(size: int) -> KnowledgeGraph:
    return World.generate(size, kind="static", seed=0).graph


GRAPHS: Mapping[str, Callable[[], KnowledgeGraph]] = {
    name: partial(lambda name: KnowledgeGraph.load(shared_folder("data", name)), name)
    for name in ("kinship", "fb15k237", "nell995", "icews14")
} | {
    "world": partial(_world, 20_000),
    "world-of-wn18rr-size": partial(_world, 93_003),
}


def _facts(name: str, folder: Path) -> MissingFacts:
    """The datasets of a graph, built where they are not there."""
    if not (folder / "validation" / "manifest.json").exists():
        for variant, dataset in build_missing(GRAPHS[name](), progress=True).items():
            dataset.save(folder / variant)
    return MissingFacts(folder)


def _sizes(facts: MissingFacts) -> dict[str, Any]:
    """What a dataset holds, for the table of sizes."""
    dataset, whole = facts.dataset("incomplete"), facts.dataset("complete")
    queries = dataset.query_set("full")
    count = [len(one.answers) for one in queries]
    return {
        "facts": len(whole.corpus),
        "removed": len(whole.corpus) - len(dataset.corpus),
        "questions": len(queries),
        "training": sum(len(dataset.queries.get(split, ())) for split in ("f_r", "f_g")),
        "relations": len({one.relation for one in queries}),
        "rules": len(whole.rules),
        "rules_left": len(dataset.rules),
        "answers": round(float(np.mean(count)), 2),
        "alone": round(float(np.mean(np.array(count) == 1)), 4),
    }


def _row(row: Mapping[str, Any], facts: MissingFacts) -> dict[str, Any]:
    """What was chosen for a system, and its measures on both graphs."""
    started = time.perf_counter()
    choice, inferred = chosen(row, facts)
    made: dict[str, Any] = {"choice": choice, "inferred": inferred}
    for variant in ("incomplete", "complete"):
        bank = row.get("bank", "") if variant == "incomplete" or row.get("bank") == "none" else ""
        dataset = facts.dataset(variant, bank)
        queries = drawn(dataset, row.get("sample", 0))
        answers, _ = answered(row, choice, dataset, queries)
        values = measured(answers, queries, inferred)
        hit = {q.id: f"{value:.0f}" for q, value in zip(queries, values["hard"], strict=True)}
        made[variant] = {
            "questions": len(queries),
            **{name: _mean(column) for name, column in values.items()},
            "hhr": [round(one, 4) for one in hard_over_easy(values)],
            "hits": "".join(hit.get(q.id, "-") for q in dataset.query_set("full")),
            "examples": [
                {
                    "question": q.text,
                    "answers": q.answers[:3],
                    "stated": a[0][:3],
                    "inferred": a[1][:3],
                }
                for q, a in zip(queries[:10], answers[:10], strict=True)
            ],
        }
    made["seconds"] = round(time.perf_counter() - started, 1)
    return made


def _mean(column: Any) -> list[float]:
    """A mean and its bootstrap interval, 95 %; of the questions that have the value."""
    known = column[~np.isnan(column)]
    if not len(known):
        return []
    low, high = bootstrap_interval(known, samples=2000)
    return [round(float(one), 4) for one in (known.mean(), low, high)]


def _run(arguments: argparse.Namespace) -> None:
    for name in arguments.graphs:
        if name not in GRAPHS:
            hint = did_you_mean(name, GRAPHS)
            raise ConfigError(f"no graph is called {name!r}", key="GRAPH", hint=hint)
        file = arguments.out / f"{name}.json"
        made = read_json(file) if file.exists() else {"graph": name, "rows": {}, "explained": {}}
        facts = _facts(name, arguments.datasets / name)
        made.setdefault("sizes", _sizes(facts))
        rows = {row["title"]: row for row in ROWS}
        for title, row in rows.items():
            if title not in made["rows"]:
                made["rows"][title] = _row(row, facts)
                one = made["rows"][title]
                tell(f"{name}, {title}: {one['incomplete']['hard']} in {one['seconds']} s")
                write_json(file, made)
        if "removal" not in made:
            some = [rows[one] for one in REMOVED if made["rows"][one]["seconds"] < _SLOW]
            made["removal"] = removal(facts, some, made["rows"], _ASKED)
            write_json(file, made)
        for title in EXPLAINED:
            if title not in made["explained"]:
                few = _READ if "sample" in rows[title] else _ASKED
                choice = made["rows"][title]["choice"]
                made["explained"][title] = explained(facts, rows[title], choice, _EXPLAINED, few)
                write_json(file, made)
    known = (arguments.out / f"{name}.json" for name in GRAPHS)
    read = (read_json(file) for file in known if file.exists())
    found = [made for made in read if len(made["explained"]) == len(EXPLAINED)]  # the whole ones
    text = tables(found)
    write_text(arguments.out / "table.md", text)
    plot(found, arguments.out / "proofs-removed.png")
    sys.stdout.write(text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.missing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.missing kinship nell995 --datasets runs/missing "
        "--out benchmarks/results/missing-facts; without a graph: the table of those that stand",
    )
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=", ".join(GRAPHS))
    parser.add_argument("--datasets", type=Path, required=True, help="built datasets, by graph")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the figures")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments))


if __name__ == "__main__":
    sys.exit(main())

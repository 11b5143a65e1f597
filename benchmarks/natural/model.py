"""Whether a language model that weighs the linker's readings chooses better relations.

Validation questions in other words are read by the linker. Each of its likeliest readings is put as
a statement, and its probability is multiplied by how much likelier the question makes that
statement (domain conditional PMI: Holtzman et al. 2021, arXiv:2104.08315, section 3) to the power
of a weight; weight 0 is the linker alone. Only questions whose best reading is less likely than a
limit are asked of the model.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.natural.rewriting import natural_dataset
from benchmarks.natural.study import drawn
from rulerag.cli.common import scoring_model
from rulerag.console import guarded
from rulerag.evaluation import markdown_table, paired_randomization_test
from rulerag.io import write_json, write_text
from rulerag.kg import Phrases
from rulerag.linking import LinkedQuestion, QuestionLinker, ReadingJudge, weighed
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import readable
from rulerag.types import Query

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
LIMITS = (1.01, 0.8)


def _run(arguments: argparse.Namespace) -> None:
    generator = scoring_model(arguments.generator)
    rows: list[dict[str, Any]] = []
    for folder in arguments.datasets:
        dataset = RuleQADataset.load(folder)
        asked = drawn(dataset, "balanced", arguments.questions, arguments.seed)
        written = natural_dataset(dataset, seed=arguments.seed)
        said = {query.id: query.text for query in written.query_set("full")}
        labels = dataset.labels["relations"]
        judge = ReadingJudge(generator, Phrases(label=partial(_label, labels)))
        letters = QuestionLinker(dataset)
        linkers = {"letters": letters}
        if arguments.encoder:
            linkers["encoder"] = letters.with_encoder(load_encoder(arguments.encoder))
        for name, linker in linkers.items():
            linked = linker.link([said[query.id] for query in asked])
            started = time.perf_counter()
            gains = [judge.gains(one) for one in linked]
            seconds = (time.perf_counter() - started) / max(len(asked), 1)
            alone = _right(asked, linked, gains, 0.0, LIMITS[0])
            for limit in LIMITS:
                for weight in WEIGHTS:
                    right = _right(asked, linked, gains, weight, limit)
                    rows.append(
                        {
                            "dataset": dataset.name,
                            "linker": name,
                            "limit": limit,
                            "weight": weight,
                            "questions": len(asked),
                            "right": float(np.mean(right)),
                            "p": paired_randomization_test(right, alone),
                            "seconds": round(seconds, 2),
                        }
                    )
            write_json(arguments.out / "language-model.json", rows)
    write_text(arguments.out / "language-model.md", table(rows) + "\n")
    sys.stdout.write(table(rows) + "\n")


def _label(labels: Mapping[str, str], name: str) -> str:
    return labels.get(name, readable(name))


def _right(
    asked: Sequence[Query],
    linked: Sequence[LinkedQuestion],
    gains: Sequence[Sequence[float]],
    weight: float,
    limit: float,
) -> list[float]:
    """Whether the best reading of each question has its relation and direction."""
    right = []
    for query, one, gain in zip(asked, linked, gains, strict=True):
        readings = list(one.readings)
        if readings and readings[0].probability < limit:
            readings = weighed(readings, gain, weight)
        right.append(float(bool(readings) and readings[0].query.relation == query.relation))
    return right


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: percent of right relations by weight, for every benchmark, linker and limit."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        limit = "all" if row["limit"] > 1 else f"below {100 * row['limit']:.0f} %"
        key = (row["dataset"], row["linker"], str(row["questions"]), limit)
        lines.setdefault(key, []).append(f"{100 * row['right']:.1f}")
    heads = ("benchmark", "linker", "questions", "asked of the model", "linker alone")
    weights = (f"weight {weight:g}" for weight in WEIGHTS[1:])
    cells = [(*key, *values) for key, values in lines.items()]
    return markdown_table((*heads, *weights), cells, "ll" + "r" + "l" + "r" * len(WEIGHTS))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.natural.model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.natural.model runs/val/ruleqa-n "
        "--encoder all-minilm-l6-v2 --out benchmarks/results/linking",
    )
    parser.add_argument("datasets", nargs="+", type=Path, help="RuleQA folders, of validation")
    parser.add_argument("--generator", default="smollm2-135m-instruct", help="the language model")
    parser.add_argument("--encoder", help="a folder or name; letters alone without one")
    parser.add_argument("--questions", type=int, default=300, help="questions of a benchmark")
    parser.add_argument("--seed", type=int, default=11, help="of the sample and the wordings")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the figures")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())

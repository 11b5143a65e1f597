"""Learns the merge weights of the retrieval tables, each row's on its benchmark's validation twin.

Writes ``configs/merging/<benchmark>/<row>.json``, which the experiment files ``<row>-learned``
name, and prints what learning is worth on the twin, by cross-validation. A file that stands is
kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from benchmarks.retrieval_experiments import Plan
from benchmarks.retrieval_rows import LEARNED, row
from benchmarks.retrieval_runs import CONFIGS, train
from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.retrieval.guided.merging import MergeWeights
from rulerag.ruleqa import GRAPHS, RuleQADataset

__all__ = ["learn", "main"]


def learn(plan: Plan, benchmark: str, name: str) -> MergeWeights:
    """The weights of one row; a fine-tuned one is asked with the encoder of seed 0.

    Args:
        plan: where datasets, twins (``<benchmark>-validation``) and checkpoints stand.
        benchmark: ``ruleqa-n`` for example.
        name: one of :data:`benchmarks.retrieval_rows.LEARNED`.

    Raises:
        DataError: there is no twin.
    """
    from rulerag.assembly import learn_merge_weights

    bench, one = plan.bench(benchmark), row(f"{name}-learned")
    folder = plan.datasets / f"{benchmark}-validation"
    if not (folder / "manifest.json").exists():
        raise DataError(
            "the validation twin is not here",
            path=folder,
            hint=f"python -m benchmarks.ruleqa build --name {benchmark} --variant validation "
            f"--kg DATA/{GRAPHS[benchmark]} --out {folder}",
        )
    if one.training:
        train(bench, one.training, 0)
    config = bench.config(one, 0, [f"dataset.path={folder}"])
    return learn_merge_weights(config, RuleQADataset.load(folder), max_queries=plan.sample)


def _main(arguments: argparse.Namespace) -> None:
    plan = Plan(
        arguments.out,
        arguments.datasets,
        Path("."),
        encoder=str(arguments.encoder or ""),
        sample=arguments.queries,
    )
    names = arguments.benchmarks or list(GRAPHS)
    tasks = [(name, one) for one in arguments.rows or LEARNED for name in names]
    lines = [
        "| benchmark | row | before | learned | at most |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for benchmark, name in tqdm(tasks, "rows", unit="row"):
        place = arguments.save / benchmark / f"{name}.json"
        if not place.exists() or arguments.again:
            learn(plan, benchmark, name).save(place)
        about = MergeWeights.load(place).about
        cells = [
            f"{100 * about[key]:.1f}"
            for key in (
                "recall@10 at the start",
                "recall@10 cross-validated",
                "candidates_hold_an_answer",
            )
        ]
        lines.append(f"| {benchmark} | {name} | {' | '.join(cells)} |")
    sys.stdout.write("\n".join(lines) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.retrieval_merging",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.retrieval_merging --datasets runs "
        "--out runs/retrieval --benchmarks ruleqa-n",
    )
    parser.add_argument("--out", required=True, type=Path, help="the folder of the runs")
    parser.add_argument("--datasets", required=True, type=Path, help="built datasets and twins")
    parser.add_argument("--benchmarks", nargs="+", metavar="NAME", help="these alone")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help=f"of {', '.join(LEARNED)}")
    parser.add_argument("--queries", type=int, default=0, help="of each twin at most (all)")
    parser.add_argument("--encoder", type=Path, help="instead of the one that is installed")
    parser.add_argument(
        "--save",
        type=Path,
        default=CONFIGS / "merging",
        help="where the files go (configs)",
    )
    parser.add_argument("--again", action="store_true", help="learn those that stand, too")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _main(arguments))


if __name__ == "__main__":
    sys.exit(main())

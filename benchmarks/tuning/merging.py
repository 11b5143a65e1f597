"""Learns the merge weights of the retrieval tables, each on its validation variant.

Writes ``configs/merging/<benchmark>/<row>.json``, which the experiment files ``<row>-learned``
name, and prints what learning is worth on the variant, by cross-validation. A file that is there is
kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from benchmarks.experiments.matrix.rows import LEARNED, row
from benchmarks.experiments.retrieval.plan import Plan
from benchmarks.experiments.retrieval.runs import row_config, train
from rulerag.assembly import CONFIGS
from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.evaluation import markdown_table
from rulerag.retrieval.guided.merging import MergeWeights
from rulerag.ruleqa import GRAPHS, RuleQADataset


def learn(plan: Plan, benchmark: str, name: str) -> MergeWeights:
    """The weights of one row; a fine-tuned one searches with the encoder of seed 0.

    Args:
        plan: where datasets, validation variants (``<benchmark>-validation``) and checkpoints
            are.
        benchmark: ``ruleqa-n`` for example.
        name: one of :data:`benchmarks.experiments.matrix.rows.LEARNED`.

    Raises:
        DataError: there is no validation variant.
    """
    from training.merging import learn_merge_weights

    bench, one = plan.bench(benchmark), row(f"{name}-learned")
    folder = plan.datasets / f"{benchmark}-validation"
    if not (folder / "manifest.json").exists():
        raise DataError(
            "the validation variant is not here",
            path=folder,
            hint=f"python -m benchmarks.ruleqa build --name {benchmark} --variant validation "
            f"--kg DATA/{GRAPHS[benchmark]} --out {folder}",
        )
    if one.training:
        train(bench, one.training, 0)
    config = row_config(bench, one, 0, [f"dataset.path={folder}"])
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
    rows = []
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
        rows.append([benchmark, name, *cells])
    titles = ["benchmark", "row", "before", "learned", "at most"]
    sys.stdout.write(markdown_table(titles, rows, "llrrr"))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuning.merging",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.tuning.merging --datasets runs "
        "--out runs/retrieval --benchmarks ruleqa-n",
    )
    parser.add_argument("--out", required=True, type=Path, help="the folder of the runs")
    parser.add_argument(
        "--datasets", required=True, type=Path, help="built datasets and their variants"
    )
    parser.add_argument("--benchmarks", nargs="+", metavar="NAME", help="these alone")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help=f"of {', '.join(LEARNED)}")
    parser.add_argument("--queries", type=int, default=0, help="of each variant at most (all)")
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

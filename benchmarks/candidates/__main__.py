"""``python -m benchmarks.candidates study|links``: what candidate scorers find."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.candidates.links import link_prediction
from benchmarks.candidates.study import study
from rulerag.console import guarded
from rulerag.errors import ConfigError
from rulerag.evaluation import markdown_table
from rulerag.io import prepare_folder, read_json, write_json, write_text
from rulerag.ruleqa import RuleQADataset


def _study(arguments: argparse.Namespace) -> None:
    for folder in arguments.datasets:
        dataset = RuleQADataset.load(folder)
        base = dataset.name.removesuffix("-validation")
        file = arguments.out / f"{dataset.name}-{arguments.query_set}.json"
        found = study(
            dataset,
            base,
            arguments.query_set,
            arguments.set,
            ablate=not arguments.no_ablation,
            earlier=read_json(file) if file.exists() else None,
        )
        write_json(file, found)
        sys.stdout.write(_study_table(found) + "\n")
    write_text(arguments.out / "table.md", "\n".join(map(_study_table, _kept(arguments.out))))


def _kept(folder: Path) -> list[dict[str, Any]]:
    """The figures of each data set that a folder has; other files may lie there."""
    found = [read_json(file) for file in sorted(folder.glob("*.json"))]
    return [one for one in found if isinstance(one, dict) and "scorers" in one]


def _study_table(found: dict[str, Any]) -> str:
    """Figures of one dataset in Markdown, per cent."""
    rows = [
        (row["scorer"], *_percent(row), f"{row['cpu_seconds']:.1f}") for row in found["scorers"]
    ]
    oracle, joined = found["oracle"], found["learned"]
    rows.append(("all joined", *_percent(joined), f"{found['cpu_seconds']['joining']:.1f}"))
    rows.append(("oracle over the scorers", *_percent(oracle), ""))
    parts = [f"## {found['dataset']}, {found['query_set']}: {found['questions']:,} questions"]
    parts.append(markdown_table(("scorer", "first", "first ten", "CPU s"), rows))
    parts.append(f"Any candidate of the joined list answers: {100 * oracle['any']:.1f}.")
    left = [
        (
            row["kind"],
            *_percent(row),
            *(f"{100 * row[f'{name}_added']:+.1f}, p {row[f'{name}_p']:.4f}" for name in _MEASURES),
        )
        for row in found["without"]
    ]
    titles = ("left out", "first", "first ten", "it adds to the first", "to the first ten")
    if left:
        parts.append(markdown_table(titles, left))
    return "\n\n".join(parts) + "\n"


_MEASURES = ("first", "top10")
_RANKS = ("mrr", "hits@1", "hits@3", "hits@10")


def _percent(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{100 * row[name]:.1f}" for name in _MEASURES)


def _links(arguments: argparse.Namespace) -> None:
    if arguments.vectors is not None and len(arguments.graphs) > 1:
        raise ConfigError("vectors are of one graph", key="vectors", hint="name one graph")
    for folder in arguments.graphs:
        file = arguments.out / f"{folder.name}-{arguments.split}.json"

        def keep(found: dict[str, Any], file: Path = file) -> None:
            write_json(file, found)
            last = found["scorers"][-1]
            line = f"{found['graph']}, {last['scorer']}: MRR {100 * last['metrics']['mrr']:.1f}"
            print(line, file=sys.stderr, flush=True)

        vectors = arguments.vectors
        link_prediction(
            folder,
            rules=arguments.rules,
            split=arguments.split,
            limit=arguments.limit,
            vectors=vectors and _vectors(vectors, arguments),
            earlier=read_json(file) if file.exists() else None,
            keep=keep,
        )
    text = "\n".join(map(_links_table, _kept(arguments.out)))
    write_text(arguments.out / "table.md", text)
    sys.stdout.write(text)


def _vectors(folder: Path, arguments: argparse.Namespace) -> Any:
    from training.embeddings import EmbeddingSettings

    graph = arguments.graphs[0].name
    sizes = {"rank": arguments.rank, "epochs": arguments.epochs}
    return EmbeddingSettings(dataset=graph, out=str(folder), **sizes)


def _links_table(found: dict[str, Any]) -> str:
    rows = [
        (
            row["scorer"],
            *(f"{100 * row['metrics'][name]:.1f}" for name in _RANKS),
            f"{row['cpu_seconds']:.0f}",
        )
        for row in found["scorers"]
    ]
    titles = ("scorer", "MRR", "Hits@1", "Hits@3", "Hits@10", "CPU s")
    heading = f"## {found['graph']}, {found['split']}: {found['queries']:,} queries"
    return f"{heading}\n\n{markdown_table(titles, rows)}"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.candidates", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    of = kinds.add_parser("study", help="questions: each scorer, the oracle, each left out")
    of.add_argument("datasets", nargs="+", type=Path, help="folders of datasets")
    of.add_argument("--query-set", default="balanced")
    of.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="configuration")
    of.add_argument(
        "--no-ablation", action="store_true", help="leave out trees alone, and no scorer"
    )
    of.set_defaults(run=_study)
    of = kinds.add_parser("links", help="link prediction")
    of.add_argument("graphs", nargs="+", type=Path, help="folders of graphs")
    of.add_argument("--rules", type=Path, help="a rule file; rules are mined when left out")
    of.add_argument("--split", default="test", choices=("valid", "test"))
    of.add_argument("--limit", type=int, help="only the first so many facts")
    of.add_argument("--vectors", type=Path, help="a folder: vectors are trained there, and joined")
    of.add_argument("--rank", type=int, default=64, help="complex numbers of a vector")
    of.add_argument("--epochs", type=int, default=10, help="passes over the facts")
    of.set_defaults(run=_links)
    for one in kinds.choices.values():
        one.add_argument("--out", type=Path, required=True, help="a folder for tables and figures")
    arguments = parser.parse_args(argv)

    def work() -> None:
        prepare_folder(arguments.out)
        arguments.run(arguments)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())

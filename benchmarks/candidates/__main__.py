"""``python -m benchmarks.candidates study|links|growth|peer|cost``: what scorers find and cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.candidates import cost, growth, peer
from benchmarks.candidates.heldout import heldout
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
    said = f"## {found['graph']}, {found['split']}: {found['queries']:,} queries"
    return f"{said}\n\n{markdown_table(titles, rows)}"


def _heldout(arguments: argparse.Namespace) -> None:
    for folder in arguments.datasets:
        file = arguments.out / f"{folder.name}-{arguments.query_set}.json"
        dataset = RuleQADataset.load(folder)
        found = heldout(dataset, arguments.query_set, read_json(file) if file.exists() else None)
        write_json(file, {"folder": folder.name, **found})
        sys.stdout.write(f"{folder.name}: {found['rows'][0]['em']:.3f}\n")
    files = sorted(arguments.out.glob("*.json"))
    text = _heldout_table([read_json(file) for file in files])
    write_text(arguments.out / "table.md", text)
    sys.stdout.write(text)


def _heldout_table(found: Sequence[dict[str, Any]]) -> str:
    """Per cent of first answers that are right; * where joining differs beyond chance."""
    rows = []
    for one in found:
        joined, *others = one["rows"]
        for row in others:
            mark = "*" if row["verdict"] in ("yes", "no") else ""
            about = (one["folder"], f"{one['questions']:,}", str(one["learned_from"]))
            told = about if row is others[0] else ("", "", "")
            em = f"{100 * joined['em']:.1f}" if row is others[0] else ""
            values = f"{100 * row['em']:.1f}", f"{100 * row['ahead']:+.1f}{mark}"
            tied = f"{100 * one['tied']:.1f}" if row is others[0] else ""
            rows.append((*told, em, tied, row["method"], *values, f"{row['p']:.4f}"))
    titles = (
        "dataset",
        "questions",
        "learned from",
        "joined",
        "tied",
        "beside",
        "EM",
        "ahead",
        "p",
    )
    return markdown_table(titles, rows)


def _growth(arguments: argparse.Namespace) -> None:
    asked = [(scorer, size) for size in arguments.sizes for scorer in arguments.scorers]
    rows = _measured(arguments.out / "growth.json", ("scorer", "size"), asked, growth.measure)
    columns = ("scorer", "facts", "entities", "questions", "first_cpu", "again_cpu", "peak_mb")
    _write(arguments.out / "growth.md", columns, rows)


def _measured(
    file: Path,
    keys: Sequence[str],
    asked: Sequence[tuple[Any, ...]],
    measure: Callable[..., dict[str, Any]],
) -> list[dict[str, Any]]:
    """The rows of a file, to which those are added that are asked for and not there.

    Args:
        file: of JSON, written after each row.
        keys: what tells rows apart, in the order of what the measure takes.
        asked: their values.
        measure: gives the figures of one row.
    """
    rows: list[dict[str, Any]] = read_json(file) if file.exists() else []
    for values in asked:
        told = dict(zip(keys, map(_plain, values), strict=True))
        if any(told.items() <= row.items() for row in rows):
            continue
        rows.append({**told, **measure(*values)})
        print(rows[-1], file=sys.stderr, flush=True)
        write_json(file, rows)
    return rows


def _plain(value: Any) -> Any:
    """A folder by its name alone: results say nothing of the machine."""
    return value.name if isinstance(value, Path) else value


def _write(file: Path, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    text = markdown_table(columns, [[str(row[name]) for name in columns] for row in rows])
    write_text(file, text)
    sys.stdout.write(text)


def _peer(arguments: argparse.Namespace) -> None:
    sizes = arguments.dataset, arguments.graph, arguments.rank, arguments.epochs
    found = _measured(
        arguments.out / "peer.json",
        ("model", "dataset", "graph", "rank", "epochs"),
        [(model, *sizes) for model in arguments.models],
        peer.measure,
    )
    rows = [
        (
            row["model"],
            str(row["rank"]),
            str(row["epochs"]),
            *_percent(row),
            *(f"{100 * row['metrics'][name]:.1f}" for name in _RANKS),
            *(f"{row[name]:.0f}" for name in ("training_cpu", "scoring_cpu", "loaded_mb")),
            f"{row['trained_mb']:.0f}",
        )
        for row in found
    ]
    titles = ("model", "rank", "epochs", "first", "first ten", "MRR", "Hits@1", "Hits@3", "Hits@10")
    costs = ("CPU s training", "scoring", "MB loaded", "trained")
    text = markdown_table((*titles, *costs), rows)
    write_text(arguments.out / "peer.md", text)
    sys.stdout.write(text)


def _cost(arguments: argparse.Namespace) -> None:
    asked = [(folder, arguments.query_set) for folder in arguments.datasets]
    rows = _measured(arguments.out / "cost.json", ("dataset", "query_set"), asked, cost.measure)
    columns = ("dataset", "query_set", "questions", "facts", "learning", "scoring")
    _write(arguments.out / "cost.md", (*columns, "loaded_mb", "learned_mb", "peak_mb"), rows)


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
    _add_sizes(of)
    of.set_defaults(run=_links)
    of = kinds.add_parser("heldout", help="datasets of any graph: joining beside trivial baselines")
    of.add_argument("datasets", nargs="+", type=Path, help="folders of datasets")
    of.add_argument("--query-set", default="full")
    of.set_defaults(run=_heldout)
    of = kinds.add_parser("growth", help="seconds and memory on generated graphs")
    of.add_argument("--sizes", nargs="+", type=int, default=growth.SIZES)
    of.add_argument("--scorers", nargs="+", default=growth.SCORERS)
    of.set_defaults(run=_growth)
    of = kinds.add_parser("peer", help="our embeddings beside PyKEEN's")
    of.add_argument("dataset", type=Path, help="the folder of a dataset")
    of.add_argument("graph", type=Path, help="that of the graph whose training facts it states")
    of.add_argument("--models", nargs="+", default=peer.MODELS, choices=peer.MODELS)
    _add_sizes(of)
    of.set_defaults(run=_peer)
    of = kinds.add_parser("cost", help="seconds and memory of scoring, without retrieval")
    of.add_argument("datasets", nargs="+", type=Path, help="folders of datasets")
    of.add_argument("--query-set", default="full")
    of.set_defaults(run=_cost)
    for one in kinds.choices.values():
        one.add_argument("--out", type=Path, required=True, help="a folder for tables and figures")
    arguments = parser.parse_args(argv)

    def work() -> None:
        prepare_folder(arguments.out)
        arguments.run(arguments)

    return guarded(work)


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rank", type=int, default=64, help="complex numbers of a vector")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the facts")


if __name__ == "__main__":
    sys.exit(main())

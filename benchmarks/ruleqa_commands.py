"""The command line of :mod:`benchmarks.ruleqa`: ``build``, ``check``, ``table``, ``rules``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from benchmarks.ruleqa_card import card_files
from benchmarks.ruleqa_check import check_leakage
from benchmarks.ruleqa_rules import write_rule_counts
from benchmarks.ruleqa_settings import (
    BENCHMARKS,
    VARIANTS,
    RuleQASettings,
    check_settings,
    known_settings,
)
from benchmarks.ruleqa_table import write_table
from rulerag.console import guarded
from rulerag.dataset import RuleQADataset
from rulerag.io import prepare_folder
from rulerag.kg.graph import KnowledgeGraph

__all__ = ["run"]

# Option → how it is read and what it decides; the default is the benchmark's own.
_OPTIONS: dict[str, tuple[type, str]] = {
    "num_queries": (int, "size of the balanced set: the paper's |Q|"),
    "max_atoms": (int, "longest rule, head included: 2 for I, Y, W; 3 for F, N"),
    "min_support": (int, "least support of a rule: 2 for I, Y, W; 18 for F; 10 for N"),
    "min_confidence": (float, "least (PCA) confidence of a rule: 0.01; 0.1 for F"),
    "min_head_coverage": (float, "least head coverage of a static rule: 0.01"),
    "num_rules": (int, "keep so many rules of the highest smoothed confidence: all"),
    "oracle_rules": (int, "guiding rules of a query that give oracle documents: 10; 30 for F, N"),
    "corpus": (str, "facts that become documents: train, or train+valid: train"),
    "hold_out": (int, "training facts that join the validation facts: 0; 3000 for N"),
    "pairs_per_query": (int, "query-document pairs of one F_R query, the latest: all"),
    "balance_from": (str, "the balanced set is drawn from guided or supported queries: guided"),
    "degenerate_time": (str, "a degenerate query's time, document or keep: document"),
}

_EXAMPLE = (
    "example: python -m benchmarks.ruleqa build --name ruleqa-i "
    "--kg ../shared/data/icews14 --out runs/ruleqa-i"
)


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ruleqa",
        description="Build a RuleQA benchmark from a knowledge graph, check or compare built ones.",
        epilog=_EXAMPLE,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _add_build(commands)
    check = commands.add_parser(
        "check",
        help="prove that a built benchmark does not leak",
        epilog="example: python -m benchmarks.ruleqa check runs/ruleqa-i",
    )
    check.add_argument("folder", help="the dataset folder")
    check.set_defaults(run=_check)
    table = commands.add_parser(
        "table",
        help="sizes and ceilings of built benchmarks, beside the published sizes",
        epilog="example: python -m benchmarks.ruleqa table runs/ruleqa-i runs/ruleqa-y "
        "--out benchmarks/results/ruleqa-data",
    )
    table.add_argument("folders", nargs="+", type=Path, help="dataset folders")
    table.add_argument("--out", required=True, type=Path, help="where table.json and .md go")
    table.set_defaults(run=_table)
    rules = commands.add_parser(
        "rules",
        help="how many rules a graph has under several thresholds",
        epilog="example: python -m benchmarks.ruleqa rules --name ruleqa-y "
        "--kg ../shared/data/yago --out benchmarks/results/ruleqa-data",
    )
    rules.add_argument("--name", required=True, help=f"one of {', '.join(BENCHMARKS)}")
    rules.add_argument("--kg", required=True, type=Path, help="the graph folder")
    rules.add_argument("--out", required=True, type=Path, help="where rules.json and .md go")
    rules.set_defaults(run=_rules)
    arguments = parser.parse_args(argv)
    return guarded(lambda: arguments.run(arguments))


def _add_build(commands: Any) -> None:
    make = commands.add_parser(
        "build",
        help="build one benchmark",
        epilog=_EXAMPLE,
        description="Build one benchmark. Each option below answers a question that the paper "
        "leaves open; after the colon stands what is taken without it.",
    )
    make.add_argument("--name", required=True, help=f"one of {', '.join(BENCHMARKS)}")
    make.add_argument("--kg", required=True, type=Path, help="the graph folder")
    make.add_argument("--out", required=True, type=Path, help="the dataset folder to write")
    make.add_argument("--seed", type=int, default=0, help="decides every draw: 0")
    make.add_argument(
        "--variant",
        default="test",
        help="; ".join(f"{name}: {what}" for name, what in VARIANTS.items()),
    )
    for name, (kind, what) in _OPTIONS.items():
        make.add_argument(f"--{name.replace('_', '-')}", type=kind, help=what)
    make.add_argument("--quiet", action="store_true", help="no progress bars")
    make.set_defaults(run=_build)


def _build(arguments: argparse.Namespace) -> None:
    # Found here, when the command runs: the builder knows nothing of its command line.
    from benchmarks.ruleqa import build

    settings = _chosen(known_settings(arguments.name), arguments)
    with _fresh_folder(arguments.out):
        graph = KnowledgeGraph.load(arguments.kg)
        dataset = build(
            arguments.name,
            graph,
            seed=arguments.seed,
            settings=settings,
            variant=arguments.variant,
            progress=not arguments.quiet,
        )
        dataset.save(arguments.out, beside=card_files(dataset, _command(arguments)))
    sizes = dataset.statistics["sizes"]
    sys.stdout.write(
        f"{dataset.name}: |R| {sizes['rules']:,}  |D| {sizes['documents']:,}  "
        f"|F_R| {sizes['f_r']:,} pairs of {sizes['f_r_queries']:,} queries  "
        f"|F_G| {sizes['f_g']:,}  "
        f"|Q| {sizes['queries']:,} balanced, {sizes['queries_full']:,} full\n"
        f"written to {arguments.out}, fingerprint {dataset.fingerprint}\n"
    )


def _chosen(settings: RuleQASettings, arguments: argparse.Namespace) -> RuleQASettings:
    given = {name: getattr(arguments, name) for name in _OPTIONS}
    return replace(settings, **{name: value for name, value in given.items() if value is not None})


def _command(arguments: argparse.Namespace) -> str:
    """The command that builds the same dataset, on any machine that has the graph."""
    words = ["python -m benchmarks.ruleqa build", f"--name {arguments.name}"]
    words += [
        f"--kg {arguments.kg.name}",
        f"--out {arguments.out.name}",
        f"--seed {arguments.seed}",
    ]
    if arguments.variant != "test":
        words.append(f"--variant {arguments.variant}")
    known = {f.name for f in fields(RuleQASettings)}
    for name in _OPTIONS:
        value = getattr(arguments, name)
        if name in known and value is not None:
            words.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(words)


@contextmanager
def _fresh_folder(out: Path) -> Iterator[None]:
    """Check first that the folder can be written; when nothing comes of it, leave none behind."""
    new = not out.exists()
    prepare_folder(out)
    try:
        yield
    except BaseException:
        if new and not any(out.iterdir()):
            out.rmdir()
        raise


def _check(arguments: argparse.Namespace) -> None:
    dataset = RuleQADataset.load(Path(arguments.folder))
    for line in check_leakage(dataset):
        sys.stdout.write(f"ok  {line}\n")


def _table(arguments: argparse.Namespace) -> None:
    for path in write_table(arguments.folders, arguments.out):
        sys.stdout.write(f"written to {path}\n")


def _rules(arguments: argparse.Namespace) -> None:
    settings = known_settings(arguments.name)
    graph = KnowledgeGraph.load(arguments.kg)
    check_settings(arguments.name, graph, replace(settings, hold_out=0), 0, "test")
    for path in write_rule_counts(arguments.name, graph, arguments.out):
        sys.stdout.write(f"written to {path}\n")

"""RuleQA benchmarks: ``python -m benchmarks.ruleqa build`` is ``rulerag ruleqa build``, and so on.

Settings may be written as options here (``--num-queries 20`` for ``num_queries=20``). ``rules``
counts the rules of a benchmark's graph under several thresholds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.ruleqa.rule_counts import write_rule_counts
from rulerag.cli import main as rulerag
from rulerag.console import guarded
from rulerag.kg import KnowledgeGraph
from rulerag.ruleqa import BENCHMARKS, RuleQASettings

_OPTIONS = {f"--{name.replace('_', '-')}": name for name in RuleQASettings.model_fields}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["rules"]:
        return _rules(words[1:])
    if words[:1] == ["build"]:
        words = [*_with_settings(words), "--program", "python -m benchmarks.ruleqa"]
    try:
        rulerag(["ruleqa", *words])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def _with_settings(words: Sequence[str]) -> Iterator[str]:
    """Options that are settings as ``KEY=VALUE``; the other words as they are."""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in _OPTIONS:
            yield f"{_OPTIONS[option]}={value if equals else next(rest, '')}"
        else:
            yield word


def _rules(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ruleqa rules",
        description="How many rules a graph has under several thresholds.",
        epilog="example: python -m benchmarks.ruleqa rules --name ruleqa-y "
        "--kg ../shared/data/yago --out benchmarks/results/ruleqa-data",
    )
    parser.add_argument("--name", required=True, help=f"one of {', '.join(BENCHMARKS)}")
    parser.add_argument("--kg", required=True, type=Path, help="the graph folder")
    parser.add_argument("--out", required=True, type=Path, help="where rules.json and .md go")
    given = parser.parse_args(argv)

    def count() -> None:
        for path in write_rule_counts(given.name, KnowledgeGraph.load(given.kg), given.out):
            sys.stdout.write(f"written to {path}\n")

    return guarded(count)


if __name__ == "__main__":
    sys.exit(main())

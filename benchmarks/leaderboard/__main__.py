"""The benchmark of explainers (:mod:`benchmarks.leaderboard`): make tables, then the board."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from rulerag.console import guarded

_EXAMPLE = """examples:
  python -m benchmarks.leaderboard tables rulerag-nano-llama world --out runs/nano-world.jsonl
  python -m benchmarks.leaderboard readings runs/lattices/smollm2-hotpotqa.jsonl
  python -m benchmarks.leaderboard board runs/lattices/*-*.jsonl --out runs/leaderboard
  python -m benchmarks.leaderboard board runs/nano-world.jsonl --with mine.py --out runs/mine
"""
_RESUMES = "interrupted; finished questions are kept, run the same command again"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.leaderboard",
        description="Every explainer on the same questions: does it name what matters, at what "
        "cost, and do they agree.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXAMPLE,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    tables = commands.add_parser("tables", help="ask a model about every subset of documents")
    tables.add_argument("model", help="the name or folder of a model")
    tables.add_argument(
        "data", type=Path, help="the folder of RuleQA, HotpotQA or NQ-Open; or the word world"
    )
    tables.add_argument("--out", type=Path, required=True, help="a file MODEL-DATASET.jsonl")
    tables.add_argument("--questions", type=int, default=100, help="so many in the file (100)")
    readings = commands.add_parser("readings", help="let the model of a table explain itself")
    readings.add_argument("table", type=Path, help="a file of tables; what is said goes beside it")
    board = commands.add_parser("board", help="measure every explainer on some tables")
    board.add_argument("files", type=Path, nargs="+", help="files of tables")
    board.add_argument("--with", type=Path, dest="module", help="a file with explainers to add")
    board.add_argument("--out", type=Path, required=True, help="the folder of the figures")
    given = parser.parse_args(argv)
    return guarded(lambda: _run(given), interrupted=_RESUMES)


def _run(given: argparse.Namespace) -> None:
    if given.command == "tables":
        from benchmarks.leaderboard import tables

        tables.collect(given.model, given.data, given.out, given.questions)
    elif given.command == "readings":
        from benchmarks.leaderboard import readings

        readings.collect(given.table)
    else:
        from benchmarks.leaderboard import page

        if given.module is not None:
            runpy.run_path(str(given.module))
        page.write([f for f in given.files if ".readings" not in f.name], given.out)


if __name__ == "__main__":
    sys.exit(main())

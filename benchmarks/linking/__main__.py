"""What the linker understands of RuleQA questions in other words.

Three kinds of question: by wordings that its rules and settings were not chosen on; the same with
one slip in the name; the same with words of the relation's label replaced by synonyms. Baseline:
the longest entity and the longest relation whose labels stand in the question as they are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.linking.study import VARIANTS, study
from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.io import read_json, write_json, write_text
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.ruleqa import RuleQADataset


def _run(arguments: argparse.Namespace) -> None:
    encoder = load_encoder(arguments.encoder) if arguments.encoder else None
    settings = {
        key: str(value) for key, value in vars(arguments).items() if key not in ("out", "datasets")
    }
    found = _measured(arguments.out, settings)
    for folder in arguments.datasets:
        dataset = RuleQADataset.load(folder)
        one = study(
            dataset,
            split=arguments.split,
            size=arguments.questions,
            encoder=encoder,
            held_out=arguments.wordings == "held-out",
        )
        found = [*(row for row in found if row["dataset"] != one["dataset"]), one]
        sys.stdout.write(_table(found[-1:]))
        if arguments.out is not None:
            write_json(arguments.out / "linking.json", {"settings": settings, "benchmarks": found})
            write_text(arguments.out / "linking.md", _table(found))


def _measured(out: Path | None, settings: dict[str, str]) -> list[dict[str, Any]]:
    """What was measured before with the same settings: benchmarks can be run one by one."""
    if out is None or not (out / "linking.json").is_file():
        return []
    known = read_json(out / "linking.json")
    return list(known["benchmarks"]) if known["settings"] == settings else []


_SHARES = ("entity", "relation", "relation@3", "direction", "all")


def _table(found: Sequence[dict[str, Any]]) -> str:
    heads = ("benchmark", "questions", "number", "linker", "entity", "relation", "in first 3")
    cells = [
        [one["dataset"], variant, str(one["asked"][variant]), name]
        + [f"{100 * row[key]:.1f}" if key in row else "" for key in _SHARES]
        + [f"{row['ms']:.0f}" if "ms" in row else ""]
        for one in found
        for variant in VARIANTS
        for name, row in one["linking"][variant].items()
    ]
    return markdown_table((*heads, "direction", "all", "ms"), cells, "llrlrrrrrr")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.linking",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.linking runs/ruleqa-i "
        "--encoder all-minilm-l6-v2 --out benchmarks/results/linking",
    )
    parser.add_argument("datasets", nargs="+", type=Path, help="RuleQA folders")
    parser.add_argument("--split", default="balanced", help="whose queries are reworded")
    parser.add_argument("--wordings", choices=("seen", "held-out"), default="held-out")
    parser.add_argument("--questions", type=int, default=200, help="queries of a benchmark")
    parser.add_argument("--encoder", help="a folder or name; letters alone without one")
    parser.add_argument("--out", type=Path, help="a folder for the figures, JSON and Markdown")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())

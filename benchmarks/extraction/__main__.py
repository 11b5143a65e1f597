"""Facts and rules read out of worlds written as prose.

Each world is written four times: in wordings that a few known facts show the meaning of, in other
constructions of the same words, in other words, and in constructions that were written down after
the reader was finished. Seeds count on neither side. Baseline: the relations' labels as patterns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.extraction.study import study
from rulerag.assembly import Options, make_generator, preset
from rulerag.composition import Config
from rulerag.console import guarded
from rulerag.extraction import ModelExtractor
from rulerag.io import write_json, write_text
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.ruleqa import RuleQADataset
from rulerag.synthetic import World


def _run(arguments: argparse.Namespace) -> None:
    encoder = load_encoder(arguments.encoder) if arguments.encoder else None
    model = _model(arguments.generator) if arguments.generator else None
    found: list[dict[str, Any]] = []
    for seed in arguments.worlds:
        world = World.generate(arguments.facts, kind="temporal", seed=seed, max_body_atoms=1)
        one = study(
            world,
            seeds=arguments.seeds,
            split=seed,
            encoder=encoder,
            # One world is enough for a model that takes a second a question.
            model=model if seed == arguments.worlds[0] else None,
        )
        found.append({"world": seed, **one})
        sys.stdout.write(_table(found[-1:]) + "\n")
    if arguments.out is not None:
        settings = {key: str(value) for key, value in vars(arguments).items() if key != "out"}
        write_json(arguments.out / "extraction.json", {"settings": settings, "worlds": found})
        write_text(arguments.out / "extraction.md", f"{_means(found)}\n\n{_table(found)}\n")


def _model(name: str) -> ModelExtractor:
    values = preset(Path(), generator=name).to_dict()
    values["generator"].update(ModelExtractor.PROMPT)
    empty = RuleQADataset(corpus=(), queries={})
    return ModelExtractor(make_generator(Config(values), empty, Options()))


def _means(found: Sequence[dict[str, Any]]) -> str:
    """The means over worlds; of a model that was asked in some of them, over those."""
    lines = [
        "| wordings | by | precision | recall | F1 | rules: precision | recall |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for part in found[0]["parts"]:
        for name in found[0]["parts"][part]:
            rows = [one["parts"][part][name] for one in found if name in one["parts"][part]]
            if name == "facts":
                continue
            cells = [_mean(row[key] for row in rows) for key in ("precision", "recall", "f1")]
            rules = [row["rules"] for row in rows if "rules" in row]
            cells += [_mean(one[k] for one in rules) for k in ("precision", "recall")]
            lines.append(f"| {part} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: Iterable[float]) -> str:
    shown = list(values)
    return f"{100 * sum(shown) / len(shown):.1f}" if shown else ""


def _table(found: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| world | wordings | by | precision | recall | F1 | rules: precision | recall | s |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for one in found:
        for part, rows in one["parts"].items():
            for name, row in rows.items():
                if name == "facts":
                    continue
                rules = row.get("rules", {})
                cells = [f"{100 * row[key]:.1f}" for key in ("precision", "recall", "f1")]
                cells += [f"{100 * rules[k]:.1f}" if rules else "" for k in ("precision", "recall")]
                cells.append(f"{row['seconds']:.1f}")
                lines.append(f"| {one['world']} | {part} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.extraction",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.extraction --encoder all-minilm-l6-v2 "
        "--out benchmarks/results/extraction",
    )
    parser.add_argument("--worlds", nargs="+", type=int, default=[7, 8, 9], help="their seeds")
    parser.add_argument("--facts", type=int, default=5000, help="facts of a world")
    parser.add_argument("--seeds", type=int, default=10, help="known facts of each relation")
    parser.add_argument("--encoder", help="a folder or name; no meanings without one")
    parser.add_argument("--generator", help="a language model, asked in the first world")
    parser.add_argument("--out", type=Path, help="a folder for the figures, JSON and Markdown")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())

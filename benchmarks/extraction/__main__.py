"""Facts and rules read out of worlds written as prose.

Each world is written four times: in wordings that a few known facts show the meaning of, in other
constructions of the same words, in other words, and in constructions that were written down after
the reader was finished. Seeds count on neither side. Baseline: the relations' labels as patterns.
Then it is written with a share of its facts in other words alone, which are understood by the
company that they keep. A run goes on behind the worlds that its file in ``--out`` holds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.extraction.study import TEXTS, study, study_texts
from rulerag.assembly import Options, make_generator, preset
from rulerag.composition import Config
from rulerag.console import guarded
from rulerag.errors import ConfigError
from rulerag.extraction import ModelExtractor
from rulerag.io import write_json, write_text
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.ruleqa import RuleQADataset
from rulerag.synthetic import World


def _run(arguments: argparse.Namespace) -> None:
    kept = ("facts", "seeds", "encoder", "generator")
    settings = {key: value for key, value in vars(arguments).items() if key in kept}
    found = _done(arguments.out, settings)
    encoder = load_encoder(arguments.encoder) if arguments.encoder else None
    for kind in arguments.kinds:
        for seed in arguments.worlds:
            if any((one["kind"], one["world"]) == (kind, seed) for one in found):
                continue
            world = World.generate(arguments.facts, kind=kind, seed=seed, max_body_atoms=1)
            # One world is enough for a model that takes a second a question.
            asks = arguments.generator and (kind, seed) == ("temporal", min(arguments.worlds))
            common = {"seeds": arguments.seeds, "split": seed, "encoder": encoder}
            one = study(world, model=_model(arguments.generator) if asks else None, **common)
            texts = {name: study_texts(world, **how, **common) for name, how in TEXTS.items()}
            found.append({"kind": kind, "world": seed, **one, "texts": texts})
            sys.stdout.write(f"{_parts(found[-1:])}\n\n{_texts(found[-1:])}\n\n")
            sys.stdout.flush()
            _write(arguments.out, settings, found)
    _write(arguments.out, settings, found)


def _write(out: Path | None, settings: dict[str, Any], found: list[dict[str, Any]]) -> None:
    if out is not None:
        found.sort(key=lambda one: (one["kind"] != "temporal", one["world"]))
        write_json(out / "extraction.json", {"settings": settings, "worlds": found})
        tables = [_parts(found), _texts(found), *map(_single, found)]
        write_text(out / "extraction.md", "\n\n".join(tables) + "\n")


def _done(out: Path | None, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What an earlier run of the same settings has found."""
    file = None if out is None else out / "extraction.json"
    if file is None or not file.is_file():
        return []
    rows = json.loads(file.read_text(encoding="utf-8"))
    if rows["settings"] != settings:
        raise ConfigError(
            f"it has worlds of other settings: {rows['settings']}", path=file, hint="another --out"
        )
    worlds: list[dict[str, Any]] = rows["worlds"]
    return worlds


def _model(name: str) -> ModelExtractor:
    values = preset(Path(), generator=name).to_dict()
    values["generator"].update(ModelExtractor.PROMPT)
    empty = RuleQADataset(corpus=(), queries={})
    return ModelExtractor(make_generator(Config(values), empty, Options()))


def _named(kind: str) -> str:
    return "dated" if kind == "temporal" else "undated"


def _parts(found: Sequence[dict[str, Any]]) -> str:
    """The means over worlds; of a model that was asked in some of them, over those."""
    lines = [
        "| worlds | wordings | by | precision | recall | F1 | rules: precision | recall | s |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for kind in dict.fromkeys(one["kind"] for one in found):
        own = [one for one in found if one["kind"] == kind]
        for part in own[0]["parts"]:
            for name in own[0]["parts"][part]:
                if name == "facts":
                    continue
                rows = [one["parts"][part][name] for one in own if name in one["parts"][part]]
                cells = [_mean(row[key] for row in rows) for key in _SCORES]
                rules = [row["rules"] for row in rows if "rules" in row]
                cells += [_mean(one[k] for one in rules) for k in _SCORES[:2]]
                cells.append(f"{sum(row['seconds'] for row in rows) / len(rows):.1f}")
                lines.append(f"| {_named(kind)} | {part} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _texts(found: Sequence[dict[str, Any]]) -> str:
    """The means over worlds of texts with new words among the others."""
    lines = [
        "| worlds | texts | by | precision | recall | F1 | new words: precision | recall | F1 | "
        "rules: precision | recall |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for kind in dict.fromkeys(one["kind"] for one in found):
        own = [one["texts"] for one in found if one["kind"] == kind]
        for texts in own[0]:
            for name in own[0][texts]:
                if name == "unknown":
                    continue
                rows = [one[texts][name] for one in own]
                cells = [_mean(row[key] for row in rows) for key in _SCORES]
                cells += [_mean(row["new"][key] for row in rows) for key in _SCORES]
                rules = [row["rules"] for row in rows if "rules" in row]
                cells += [_mean(one[key] for one in rules) for key in _SCORES[:2]]
                lines.append(f"| {_named(kind)} | {texts} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _single(one: dict[str, Any]) -> str:
    title = f"World {one['world']}, {_named(one['kind'])}"
    return f"{title}:\n\n{_parts([one])}\n\n{_texts([one])}"


_SCORES = ("precision", "recall", "f1")


def _mean(values: Iterable[float]) -> str:
    shown = list(values)
    return f"{100 * sum(shown) / len(shown):.1f}" if shown else ""


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
    parser.add_argument(
        "--kinds", nargs="+", choices=("temporal", "static"), default=["temporal", "static"]
    )
    parser.add_argument("--facts", type=int, default=5000, help="facts of a world")
    parser.add_argument("--seeds", type=int, default=10, help="known facts of each relation")
    parser.add_argument("--encoder", help="a folder or name; no meanings without one")
    parser.add_argument("--generator", help="a language model, asked in the first world")
    parser.add_argument("--out", type=Path, help="a folder for the figures, JSON and Markdown")
    return guarded(lambda: _run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())

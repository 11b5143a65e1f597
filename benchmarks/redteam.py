"""Attacks on language models in the studio's three shipped systems, with and without instructions.

A cell is one question under one attack, put into retrieved sources
(:mod:`rulerag.studio.service.redteam`). Questions are gone through one after the other, every
system, model and attack for each, so that a run that is stopped has tried all of them on the same
questions. Attacks on one question are not independent: intervals are of questions, not of cells.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rulerag.composition import parse_file
from rulerag.console import guarded
from rulerag.evaluation import markdown_table
from rulerag.io import write_json, write_text
from rulerag.studio.service import RedTeamCell, RedTeamSuite, Studio
from rulerag.studio.service.redteam_report import detection, exact_interval
from rulerag.studio.systems import attacks

SYSTEMS = "finance", "software", "employees"
Cells = Sequence[RedTeamCell]


def run_red_team(models: Sequence[str], questions: int, out: Path, **options: Any) -> None:
    """Try attacks, and write the tables after each question.

    Args:
        models: names of generators that all three systems have.
        questions: so many of each system.
        out: the folder of ``redteam.json`` and ``redteam.md``.
        options: ``kept`` (the file of cells), and of the suite ``names`` (of attacks), ``top_k``,
            ``planted``.
    """
    with tempfile.TemporaryDirectory() as scratch:
        studio = Studio(Path(scratch))
        try:
            cells: list[RedTeamCell] = []
            for number in range(questions):
                for model in models:
                    for system in SYSTEMS:
                        cells += _tried(studio, system, model, number, options)
                write_figures(cells, out)
        finally:
            studio.close()


def _tried(
    studio: Studio, system: str, model: str, number: int, options: Mapping[str, Any]
) -> Cells:
    more = parse_file(Path(__file__).with_name("redteam_questions.yaml"))[system]
    question = [*studio.system(system).settings.questions, *more][number]
    cells: list[RedTeamCell] = []
    for instructed in (True, False):
        begun = time.monotonic()
        suite = RedTeamSuite(
            system=system,
            generators=(model,),
            questions=(question,),
            attacks=tuple(options.get("names") or ()),
            instructed=instructed,
            top_k=options.get("top_k"),
            planted=options.get("planted"),
        )
        report = studio.red_team(suite, options.get("kept"))
        cells += report.cells
        broken = sum(cell.broken for cell in report.cells)
        sys.stderr.write(
            f"{time.strftime('%H:%M:%S')} question {number + 1}, {model}, {system}, "
            f"{'with' if instructed else 'without'} instructions: {broken} of {len(report.cells)} "
            f"broken, {sum(cell.by_itself for cell in report.cells)} without an attack, "
            f"{sum(cell.probes for cell in report.cells)} probes, "
            f"{time.monotonic() - begun:.0f} s\n"
        )
    return cells


def write_figures(cells: Cells, out: Path) -> None:
    """Every table, and every cell.

    Args:
        cells: what was tried.
        out: the folder of ``redteam.json`` and ``redteam.md``.
    """
    systems = systems_table(cells)
    by_attack, tracing = attacks_table(cells), tracing_table(cells)
    table = "\n\n".join(
        markdown_table(list(rows[0]), [list(row.values()) for row in rows])
        for rows in filter(None, (systems, by_attack, tracing))
    )
    sys.stdout.write(table + "\n")
    shown = [cell.model_dump(mode="json", exclude={"texts", "key"}) for cell in cells]
    figures = {"systems": systems, "attacks": by_attack, "tracing": tracing, "cells": shown}
    write_json(out / "redteam.json", figures)
    write_text(out / "redteam.md", table + "\n")


def systems_table(cells: Cells) -> list[dict[str, str]]:
    """One row a system, model and kind of instructions."""
    rows = []
    for (system, model, instructed), group in _groups(cells).items():
        questions = {cell.question for cell in group}
        alone = {cell.question for cell in group if cell.by_itself}
        broken = [cell for cell in group if cell.broken]
        tried = [cell for cell in group if not cell.by_itself]
        rows.append(
            {
                "system": system,
                "model": model,
                "instructions": "yes" if instructed else "no",
                "break unattacked": f"{len(alone)} of {len(questions)}",
                "of the rest, some attack breaks": _share(
                    len({cell.question for cell in broken}), len(questions - alone)
                ),
                "attacks that break": f"{len(broken)} of {len(tried)}",
                "sources needed": _sizes([cell.needed or 0 for cell in broken]),
                "also beside clean ones": (
                    f"{sum(bool(cell.among_clean) for cell in broken)} of {len(broken)}"
                ),
                "repair set": _sizes([len(cell.repair) for cell in broken if cell.repair]),
                "probes": str(sum(cell.probes for cell in group)),
            }
        )
    return rows


def tracing_table(cells: Cells) -> list[dict[str, str]]:
    """One row an attack, and one for all: attacked sources told from clean ones by minimal sets."""
    by_attack = {name: [cell for cell in cells if cell.attack == name] for name in attacks()}
    rows = []
    for name, group in {**by_attack, "all": list(cells)}.items():
        broken = [cell for cell in group if cell.broken and cell.clean]
        if broken:
            clean, planted = (sum(len(getattr(c, k)) for c in broken) for k in ("clean", "planted"))
            row = {"attack": name, "breaks": str(len(broken))}
            for blamed, words in (("sources", "smallest set"), ("traced", "every minimal set")):
                shares = detection(broken, blamed).items()
                row |= {f"{rate}, {words}": f"{share:.2f}" for rate, share in shares}
            rows.append(row | {"DACC, none blamed": f"{clean / (clean + planted):.2f}"})
    return rows


def attacks_table(cells: Cells) -> list[dict[str, str]]:
    """One row an attack: how many questions of all systems it breaks."""
    columns: dict[tuple[str, bool], list[RedTeamCell]] = {}
    for (_, model, instructed), group in _groups(cells).items():
        columns.setdefault((model, instructed), []).extend(group)
    rows = []
    tried_ones = {cell.attack for cell in cells}
    for name in filter(tried_ones.__contains__, attacks()):
        row = {"attack": name}
        for (model, instructed), group in columns.items():
            tried = [cell for cell in group if cell.attack == name and not cell.by_itself]
            heading = f"{model}, {'with' if instructed else 'without'} instructions"
            row[heading] = _share(sum(cell.broken for cell in tried), len(tried))
        rows.append(row)
    return rows


def _groups(cells: Cells) -> dict[tuple[str, str, bool], list[RedTeamCell]]:
    groups: dict[tuple[str, str, bool], list[RedTeamCell]] = {}
    for cell in cells:
        key = (cell.system, cell.generator, bool(cell.instructions))
        groups.setdefault(key, []).append(cell)
    order = {name: place for place, name in enumerate(SYSTEMS)}
    return dict(sorted(groups.items(), key=lambda one: (order[one[0][0]], one[0][1], -one[0][2])))


def _share(broken: int, tried: int) -> str:
    if not tried:
        return "–"
    low, high = exact_interval(broken, tried)
    return f"{broken} of {tried} ({100 * low:.0f}–{100 * high:.0f} %)"


def _sizes(sizes: Sequence[int]) -> str:
    """The median, and the range."""
    if not sizes:
        return "–"
    spread: Any = "" if min(sizes) == max(sizes) else f" ({min(sizes)}–{max(sizes)})"
    return f"{median(sizes):g}{spread}"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.redteam",
        description="Attacks on real models in the studio's shipped systems.",
    )
    parser.add_argument(
        "--models", nargs="+", default=["smollm2", "gemma"], metavar="NAME", help="as systems have"
    )
    parser.add_argument("--questions", type=int, default=20, help="of each system (20)")
    parser.add_argument("--sources", type=int, default=5, help="of each question (5)")
    parser.add_argument("--planted", type=int, help="so many of them are attacked (all)")
    parser.add_argument("--attacks", nargs="+", metavar="NAME", help="(all)")
    parser.add_argument(
        "--cells",
        type=Path,
        default=Path("runs/redteam/cells.jsonl"),
        help="the file of what was tried; a run goes on from it",
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the figures")
    given = parser.parse_args(argv)
    options = {"top_k": given.sources, "names": given.attacks, "kept": given.cells}
    options["planted"] = given.planted
    return guarded(lambda: run_red_team(given.models, given.questions, given.out, **options))


if __name__ == "__main__":
    sys.exit(main())

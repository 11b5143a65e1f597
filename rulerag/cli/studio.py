"""The commands of the studio: the web app, and a red-team run for continuous integration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rulerag.cli.common import Output, say
from rulerag.composition import parse_file
from rulerag.console import EXIT_BAD_INPUT
from rulerag.studio import serve
from rulerag.studio.service import RedTeamSuite, Studio
from rulerag.studio.systems import benchmark_system


def studio(
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    data: Path = Path("studio-data"),
    dataset: list[Path] | None = None,
    encoder: list[str] | None = None,
    reader: list[str] | None = None,
    run: list[Path] | None = None,
) -> None:
    """The web app: ask a RAG system, see which sources made it answer so, and break it.

    Args:
        host: the address to bind; one that others reach needs a token.
        port: the port; 0 for a free one.
        data: the folder of its sessions; systems/*.yaml in it are systems of your own.
        dataset: a benchmark folder, which becomes a system; repeatable.
        encoder: an encoder that searches the datasets as well, to compare; repeatable.
        reader: a model that reads the datasets as well, to compare; repeatable.
        run: a run folder of `rulerag evaluate` to look into; repeatable.
    """
    systems = [
        benchmark_system(one, encoders=encoder or (), readers=reader or ()) for one in dataset or ()
    ]
    serve(data, host=host, port=port, systems=systems, runs=run or ())


def redteam(
    suite: str,
    /,
    *,
    generator: list[str] | None = None,
    out: Output = Path("red-team"),
    data: Path = Path("studio-data"),
) -> None:
    """Attack a system in every source of every question; status 1 where it breaks.

    2 where something could not be tried; what was tried is kept, and the same command goes on.

    Args:
        suite: a system (finance, software, employees, …) or a suite's YAML file.
        generator: what answers; repeatable (default: all that are here).
        out: the folder for CSV, JSON, JUnit, HTML and a pytest file.
        data: the folder of sessions; systems/*.yaml in it are systems of your own.
    """
    named = suite.endswith((".yaml", ".yml"))
    wanted = (
        RedTeamSuite.read(parse_file(Path(suite)), source=suite)
        if named
        else RedTeamSuite(system=suite)
    )
    opened = Studio(data)
    try:
        if generator:
            wanted = wanted.model_copy(update={"generators": tuple(generator)})
        report = opened.red_team(wanted, out / "cells.jsonl")
    finally:
        opened.close()
    for row in report.rows():
        say(_line(row))
    files = report.write(out)
    say(f"written to {', '.join(map(str, files))}")
    if report.errors:
        many = f"{len(report.errors)} of {len(report.cells)} could not be tried"
        sys.stderr.write(f"error: {many}: {report.errors[0].error}\n")
    if report.failed:
        raise SystemExit(1)
    if report.errors:  # what was not tried is no success
        raise SystemExit(EXIT_BAD_INPUT)


def _line(row: Mapping[str, Any]) -> str:
    withstood = row["questions"] - row["by_itself"]
    interval = f" ({100 * row['low']:.0f}–{100 * row['high']:.0f} %)" if "low" in row else ""
    needed = f", {row['needed']} sources needed" if row["needed"] is not None else ""
    without = f", {row['by_itself']} without any attack" if row["by_itself"] else ""
    broken = f"{row['broken']} of {withstood} broken"
    return f"{row['generator']}, {row['attack']}: {broken}{interval}{needed}{without}"

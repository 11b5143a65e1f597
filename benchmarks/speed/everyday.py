"""Speed of one command: a question on RuleQA-I with an empty cache folder and again, and help."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.folders import data_folder
from rulerag.cache import SETTLED_SECONDS
from rulerag.errors import DataError
from rulerag.io import prepare_folder, write_json
from rulerag.kg import KnowledgeGraph
from rulerag.ruleqa import build

QUESTION = "Time 2014-12-01 what does China Consult ?"
REPEATS = 3


def _cpu_seconds(words: list[str], environment: Mapping[str, str]) -> float:
    """CPU seconds of a command in a process of its own, which a busy machine hardly changes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "rulerag.cli", *words]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(out: Path | None = None) -> dict[str, Any]:
    """Measure, print, and write ``everyday.json``.

    Raises:
        DataError: the ICEWS14 folder is not there.
    """
    graph = data_folder() / "icews14"
    if not graph.is_dir():
        raise DataError("the graph folder is not here", path=graph, hint="set RULERAG_DATA")
    with tempfile.TemporaryDirectory() as place:
        dataset = Path(place) / "ruleqa-i"
        build("ruleqa-i", KnowledgeGraph.load(graph)).save(dataset)
        environment = {**os.environ, "RULERAG_CACHE": str(Path(place) / "cache")}
        for command in ("answer", "explain"):  # compiles kernels, which a checkout keeps
            _cpu_seconds([command, QUESTION, "--dataset", str(dataset)], environment)
        figures: dict[str, Any] = {"help": _best(["--help"], environment)}
        for command in ("answer", "explain"):
            words = [command, QUESTION, "--dataset", str(dataset)]
            cold = {**environment, "RULERAG_CACHE": str(Path(place) / f"cold-{command}")}
            _settle(dataset)
            first = _cpu_seconds(words, cold)
            again = _best(words, cold)
            figures[command] = {
                "first_cpu_seconds": round(first, 2),
                "again_cpu_seconds": again,
                "ratio": round(first / again, 2),
            }
    figures["ratio"] = figures["answer"]["ratio"]
    for name, value in figures.items():
        sys.stdout.write(f"{name}: {value}\n")
    if out is not None:
        write_json(prepare_folder(out) / "everyday.json", figures)
    return figures


def _best(words: list[str], environment: Mapping[str, str]) -> float:
    return round(min(_cpu_seconds(words, environment) for _ in range(REPEATS)), 2)


def _settle(dataset: Path) -> None:
    """Wait until the files are old enough to be remembered."""
    newest = max(path.stat().st_mtime for path in dataset.rglob("*"))
    time.sleep(max(0.0, newest + SETTLED_SECONDS + 0.5 - time.time()))


if __name__ == "__main__":
    main()

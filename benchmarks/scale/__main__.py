"""``python -m benchmarks.scale``: growth of each step, carried on; a table and a picture."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.plotting import pyplot
from benchmarks.scale.steps import STEPS, PrivateMemory
from rulerag.console import guarded
from rulerag.errors import RuleRAGError, UnknownNameError, did_you_mean
from rulerag.evaluation import markdown_table, versions
from rulerag.io import prepare_folder, read_json, write_json, write_text

_FAR = 10**9
# What a core costs, for the column of money: about the list price of large clouds.
_DOLLARS_CORE_HOUR = 0.05
_HOW = """\
`python -m benchmarks.scale run --out benchmarks/results/scale`; one thread a worker, a fresh
process for each row. Memory is the peak of what the process has for itself, what was generated for
it too; files that it reads where they lie are not in it. With two workers, CPU seconds and memory
are those of the process that hands out the work."""


def _step(arguments: argparse.Namespace) -> None:
    """One step of one size, in this process; its record on standard output."""
    work, _ = STEPS[arguments.name]
    memory = PrivateMemory()
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        row = work(arguments.size, arguments.workers, Path(folder))
    row = {"peak_mb": memory.peak_mb} | row
    sys.stdout.write(json.dumps(row) + "\n")


def _run(arguments: argparse.Namespace) -> None:
    file = prepare_folder(arguments.out) / "growth.json"
    known: list[dict[str, Any]] = read_json(file)["rows"] if file.exists() else []
    names = arguments.steps or list(STEPS)
    for name in names:
        if name not in STEPS:
            raise UnknownNameError(f"no step is called {name!r}", hint=did_you_mean(name, STEPS))
        for size in arguments.sizes or STEPS[name][1]:
            key = {"step": name, "size": size, "workers": arguments.workers}
            if any(key.items() <= row.items() for row in known):
                continue
            sys.stderr.write(f"{name} {size:,}\n")
            words = ["step", name, "--size", str(size), "--workers", str(arguments.workers)]
            words += ["--scratch", str(arguments.scratch)] if arguments.scratch else []
            command = [sys.executable, "-m", "benchmarks.scale", *words]
            # One thread a worker: what more of them give is then theirs.
            one = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "NUMBA")}
            environment = {**os.environ, **one}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
            if done.returncode:
                raise RuleRAGError(f"{name} of {size:,} ended with status {done.returncode}")
            known.append({**key, **json.loads(done.stdout.splitlines()[-1])})
            write_json(file, {"rows": known, "versions": versions()})  # a rerun goes on from here
    write_text(arguments.out / "growth.md", _table(known))
    _picture(known, arguments.out / "growth.png")
    sys.stdout.write(_table(known))


def _table(rows: Sequence[dict[str, Any]]) -> str:
    titles = ["step", "size", "workers", "seconds", "CPU s", "peak MB", "disk MB", "notes"]
    lines = []
    for row in sorted(rows, key=lambda row: (list(STEPS).index(row["step"]), row["size"])):
        notes = [f"{row['question_ms']} ms a question"] if "question_ms" in row else []
        if "question_ms_2_threads" in row:
            notes += [f"{row['question_ms_2_threads']} ms with two threads"]
        notes += [f"recall@10 {100 * row['recall@10']:.1f} %"] if "recall@10" in row else []
        notes += [str(row["kind"])] if "kind" in row else []
        cells = [row["step"], f"{row['size']:,}", str(row["workers"]), f"{row['seconds']:,.1f}"]
        cells += [f"{row['cpu_seconds']:,.1f}", f"{row['peak_mb']:,.0f}"]
        cells += [f"{row['disk_mb']:,.0f}" if "disk_mb" in row else "", "; ".join(notes)]
        lines.append(cells)
    wide = f"\n## Two workers\n\n{_wide(rows)}"
    far = f"\n## Carried to 10⁹\n\n{_far(rows)}"
    return f"# Growth of each step\n\n{_HOW}\n\n{markdown_table(titles, lines)}{wide}{far}"


def _wide(rows: Sequence[dict[str, Any]]) -> str:
    """How many times faster two workers are than one process, where both were measured."""
    lines = []
    for name in STEPS:
        seconds = {(r["size"], r["workers"]): r["seconds"] for r in rows if r["step"] == name}
        both = sorted(size for size, workers in seconds if workers == 1 and (size, 2) in seconds)
        if len(both) < 2:
            continue
        (low, high), ratio = (both[0], both[-1]), {1: 0.0, 2: 0.0}
        for workers in ratio:
            ratio[workers] = seconds[high, workers] - seconds[low, workers]
        figures = [ratio[1] / ratio[2], seconds[high, 1] / seconds[high, 2]]
        lines.append([name, f"{low:,}", f"{high:,}", *(f"{one:.2f}" for one in figures)])
    titles = ["step", "from", "to", "times faster from size to size", "whole, start-up included"]
    return markdown_table(titles, lines) + (
        "\nOne process with one thread against two workers with one each. From size to size the "
        "start-up is left out: workers that start, models that are read.\n"
    )


def _far(rows: Sequence[dict[str, Any]]) -> str:
    """What a billion would take, by a power law through the last three sizes of one worker."""
    lines = []
    for name in STEPS:
        own = sorted((r for r in rows if r["step"] == name and r["workers"] == 1), key=_size)[-3:]
        if len(own) < 2:
            continue
        hours = _at(own, "cpu_seconds") / 3600
        memory = _at(own, "peak_mb") / 1000
        exponent = _slope(own, "cpu_seconds")
        disk = f"{_at(own, 'disk_mb') / 1000:,.0f}" if all("disk_mb" in r for r in own) else ""
        dollars = hours * _DOLLARS_CORE_HOUR
        figures = [f"{hours:,.1f}", f"{memory:,.0f}"]
        lines.append([name, f"{exponent:.2f}", *figures, disk, f"{dollars:,.2f}"])
    titles = ["step", "exponent", "core hours", "GB of memory in one process", "GB on disk", "$"]
    return markdown_table(titles, lines) + (
        f"\nOn paper: nothing of this size was run. The exponent is that of CPU time over the last "
        f"three sizes. A core hour is taken as ${_DOLLARS_CORE_HOUR}.\n"
    )


def _size(row: dict[str, Any]) -> int:
    return int(row["size"])


def _slope(rows: Sequence[dict[str, Any]], key: str) -> float:
    first, last = rows[0], rows[-1]
    change = math.log(max(last[key], 1e-3) / max(first[key], 1e-3))
    return change / math.log(last["size"] / first["size"])


def _at(rows: Sequence[dict[str, Any]], key: str) -> float:
    return float(rows[-1][key] * (_FAR / rows[-1]["size"]) ** _slope(rows, key))


def _picture(rows: Sequence[dict[str, Any]], file: Path) -> None:
    plot = pyplot()
    figure, axes = plot.subplots(1, 2, figsize=(9, 3.6))
    for axis, key, label in zip(
        axes, ("cpu_seconds", "peak_mb"), ("CPU seconds", "peak memory, MB"), strict=True
    ):
        for name in STEPS:
            own = sorted((r for r in rows if r["step"] == name and r["workers"] == 1), key=_size)
            if own:
                axis.plot([r["size"] for r in own], [r[key] for r in own], marker="o", label=name)
        axis.set(xscale="log", yscale="log", xlabel="facts, passages or vectors", ylabel=label)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=150)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description="How time, memory and disk of each step grow with its size.",
        epilog="example: python -m benchmarks.scale run --out benchmarks/results/scale",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure what is not measured yet; table and picture")
    run.add_argument("--out", type=Path, required=True, help="the folder of the results")
    run.add_argument("--steps", nargs="+", metavar="NAME", help=", ".join(STEPS))
    run.add_argument("--sizes", nargs="+", type=int, metavar="N", help="instead of each step's own")
    run.add_argument("--workers", type=int, default=1, help="of a local Ray; 1: this process (1)")
    run.add_argument("--scratch", type=Path, help="where up to 30 GB are written for a while")
    run.set_defaults(run=_run)
    step = commands.add_parser("step", help="one row, in this process")
    step.add_argument("name", choices=list(STEPS))
    step.add_argument("--size", type=int, required=True)
    step.add_argument("--workers", type=int, default=1)
    step.add_argument("--scratch", type=Path)
    step.set_defaults(run=_step)
    arguments = parser.parse_args(argv)
    return guarded(lambda: arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())

"""Write what finished runs measured and tuned into ``configs/``, as what to expect of a run."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.results import TEN, UNION, Result, load_result
from rulerag.assembly import CONFIGS
from rulerag.composition import parse_file
from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.io import write_text
from rulerag.ruleqa import GRAPHS

_EXACT, _TUNED = 0.005, 0.02  # tolerances: of what is computed, of what is fine-tuned
_HEAD = (
    "# What finished runs measured: `rulerag evaluate` compares a run with it "
    "(python -m benchmarks.experiments.expected).\n"
)
_BLOCK = re.compile(r"((?:^#[^\n]*\n)*)^([\w-]+):\n((?:^  [^\n]*\n)+)", re.MULTILINE)


def state_expected(folder: Path, configs: Path = CONFIGS) -> list[Path]:
    """Write measured numbers of every method that has a finished run.

    Args:
        folder: of the runs, as ``benchmarks.experiments run --out`` made it.
        configs: the folder with ``methods.yaml``, ``expected/`` and ``datasets/``.

    Returns:
        The files that changed.

    Raises:
        DataError: the folder holds no finished run.
        ConfigError: a file is not YAML.
    """
    changed, stood = [], False
    methods = parse_file(configs / "methods.yaml")
    for benchmark in GRAPHS:
        file, about = (configs / part / f"{benchmark}.yaml" for part in ("expected", "datasets"))
        text = file.read_text(encoding="utf-8") if file.is_file() else _HEAD
        weights = about.read_text(encoding="utf-8") if about.is_file() else ""
        blocks = {
            name: (told, lines) for told, name, lines in _BLOCK.findall(text.removeprefix(_HEAD))
        }
        made = weights
        for name in methods:
            numbers = dict(_measured(folder, benchmark, name))
            if numbers:
                stood = True
                known = parse_file(file).get(name) if name in blocks else None
                blocks[name] = _stated(known or {}, numbers)
                made = _weighed(made, name, numbers)
        lines = [f"{told}{name}:\n{rows}" for name, (told, rows) in sorted(blocks.items())]
        for place, before, after in ((file, text, _HEAD + "".join(lines)), (about, weights, made)):
            if stood and after != before:
                write_text(place, after)
                changed.append(place)
    if not stood:
        raise DataError(
            "holds no finished row of a method",
            path=folder,
            hint="python -m benchmarks.experiments run table2 --out DIR",
        )
    return changed


def _measured(folder: Path, benchmark: str, name: str) -> Iterator[tuple[str, tuple[Result, str]]]:
    retriever, _, reader = name.partition("__")
    found = load_result(folder / "rows" / benchmark / "balanced", retriever, retriever)
    if found is not None and reader == "symbolic":
        yield TEN, (found, "table2-retrieval")
        yield UNION, (found, "table2-retrieval")
    read = load_result(folder / "reading" / benchmark / "balanced", name, name)
    if read is not None:
        yield "exact_match", (read, "table2")
        if reader not in ("symbolic", "candidate"):
            yield "token_f1", (read, "table2")


def _stated(
    stated: Mapping[str, Mapping[str, object]], numbers: Mapping[str, tuple[Result, str]]
) -> tuple[str, str]:
    """A comment and a method's numbers; those that no run here measured stay."""
    lines = {
        key: f"  {key}: {{{', '.join(f'{k}: {v}' for k, v in entry.items())}}}"
        for key, entry in stated.items()
    }
    for key, (result, _) in numbers.items():
        lines[key] = (
            f"  {key}: {{value: {result.mean(key):.4f}, tolerance: {_tolerance(result, key):.3f}, "
            "source: own run}"
        )
    places = " and ".join(sorted({f"benchmarks/results/{place}" for _, place in numbers.values()}))
    asked, every = _asked(numbers)
    words = (
        "On the balanced query set"
        if asked == every
        else f"Over {asked:,} of {every:,} balanced queries, drawn by seed 0"
    )
    seeds = max(len(result.records) for result, _ in numbers.values())
    several = f" Means of {seeds} seeds." if seeds > 1 else ""
    holds = "hold" if " and " in places else "holds"
    comment = f"# {words}; {places} {holds} the run.{several}\n"
    return comment, "".join(f"{line}\n" for line in lines.values())


def _weighed(text: str, name: str, numbers: Mapping[str, tuple[Result, str]]) -> str:
    """A dataset's file with the hybrid reader's weight of the model as it was tuned."""
    records = [
        result.records[0].get("config", {}).get("generator", {}) for result, _ in numbers.values()
    ]
    for weight in (one["weight"] for one in records if one.get("type") == "hybrid"):
        line = f"  {name}: {{generator: {{weight: {weight}}}}}"
        text = re.sub(rf"^  {name}: .*$", line, text, count=1, flags=re.MULTILINE)
    return text


def _asked(numbers: Mapping[str, tuple[Result, str]]) -> tuple[int, int]:
    """How many queries were read, and of how many."""
    records = [result.records[0] for result, _ in numbers.values()]
    few = min(records, key=lambda record: record["num_queries"])
    return few["num_queries"], few.get("of_queries", few["num_queries"])


def _tolerance(result: Result, key: str) -> float:
    """Nothing but rounding where nothing is drawn; two standard errors of a sample of queries."""
    record = result.records[0]
    least = _TUNED if len(result.records) > 1 else _EXACT
    if record.get("of_queries", record["num_queries"]) > record["num_queries"]:
        error = float(np.std(result.column(key))) / record["num_queries"] ** 0.5
        least = max(least, 2 * error)
    return max(least, 3 * result.spread(key))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments.expected",
        description="Write what finished runs measured into configs/expected/, as the numbers that "
        "`rulerag evaluate` compares a run with.",
        epilog="example: python -m benchmarks.experiments.expected runs/retrieval",
    )
    parser.add_argument("folder", type=Path, help="of the runs of benchmarks.experiments")
    parser.add_argument("--configs", type=Path, default=CONFIGS, help="the fragments")
    arguments = parser.parse_args(argv)

    def work() -> None:
        for file in state_expected(arguments.folder, arguments.configs):
            sys.stdout.write(f"{file}\n")

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())

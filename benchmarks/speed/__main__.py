"""How fast the hot paths are: each a ratio of CPU seconds against another way in the same run.

Numbers above 1 are times faster, on one thread. What ``--out`` holds of other paths stays.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.speed import paths, peers
from benchmarks.speed.timing import HOT_PATHS
from rulerag.console import guarded
from rulerag.errors import ConfigError, MissingDependencyError, did_you_mean
from rulerag.evaluation import markdown_table
from rulerag.io import prepare_folder, read_json, write_json, write_text

__all__ = ["main", "paths", "peers"]
_ALL = "all"


def measure(name: str, out: Path | None) -> dict[str, list[dict[str, Any]]]:
    """Measure one path, or all; print a table, and write ``ratios.json`` and ``ratios.md``.

    Raises:
        ConfigError: there is no such path.
        DataError: a graph is missing, or two ways do not give the same.
    """
    if name not in (_ALL, *HOT_PATHS):
        raise ConfigError(
            f"no hot path is called {name!r}", key="NAME", hint=did_you_mean(name, HOT_PATHS)
        )
    file = prepare_folder(out) / "ratios.json" if out is not None else None
    rows: dict[str, Any] = read_json(file) if file is not None and file.exists() else {}
    for key in HOT_PATHS if name == _ALL else (name,):
        try:
            rows[key] = [{**asdict(one), "ratio": one.ratio} for one in HOT_PATHS[key].measure()]
        except MissingDependencyError as error:
            sys.stderr.write(f"passed over {key}: {error}\n")
            continue
        sys.stdout.write(table({key: rows[key]}))
        sys.stdout.flush()
        if file is not None:
            rows = {known: rows[known] for known in HOT_PATHS if known in rows}
            write_json(file, rows)
            write_text(file.with_suffix(".md"), table(rows))
    return rows


def table(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Markdown: milliseconds of CPU for a unit, ours and the other way's, and the ratio."""
    cells = [
        [path, one["case"], f"{one['count']:,} {one['unit']}"]
        + [f"{1e3 * one[key]:.4g}" for key in ("seconds", "baseline")]
        + [f"{one['ratio']:.2f}", HOT_PATHS[path].against]
        for path, several in rows.items()
        for one in several
    ]
    titles = ("path", "case", "of", "ours, CPU ms", "baseline", "times faster", "baseline is")
    return markdown_table(titles, cells, "lllrrrl")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed",
        description=__doc__,
        epilog="example: python -m benchmarks.speed mining --out benchmarks/results/speed",
    )
    parser.add_argument("name", metavar="NAME", help=f"{_ALL}, {', '.join(HOT_PATHS)}")
    parser.add_argument("--out", type=Path, help="a folder for ratios.json and ratios.md")
    arguments = parser.parse_args(argv)
    return guarded(lambda: measure(arguments.name, arguments.out))


if __name__ == "__main__":
    sys.exit(main())

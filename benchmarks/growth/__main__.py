"""What large corpora of texts cost: to index ``paragraphs``, and to ask a dataset of ``texts``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.growth import paragraphs, texts
from rulerag.console import guarded
from rulerag.io import prepare_folder


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth",
        description=__doc__,
        epilog="example: python -m benchmarks.growth texts --out benchmarks/results/growth",
    )
    parser.add_argument("name", choices=("paragraphs", "texts"))
    parser.add_argument("--out", type=Path, required=True, help="a folder for the figures")
    parser.add_argument("--sizes", type=int, nargs="+", help="of corpora, in paragraphs")
    parser.add_argument("--work", type=Path, help="keep datasets and corpora here, to go on later")
    given = parser.parse_args(argv)

    def work() -> None:
        out = prepare_folder(given.out)
        with tempfile.TemporaryDirectory() as aside:
            place = prepare_folder(given.work or Path(aside))
            kind = paragraphs if given.name == "paragraphs" else texts
            kind.run(out, place, given.sizes or kind.SIZES)
        sys.stdout.write((out / f"{given.name}.md").read_text(encoding="utf-8"))

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())

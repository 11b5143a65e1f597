"""What growing costs: ``updates``, a corpus of ``paragraphs``, and a dataset asked of ``texts``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.growth import paragraphs, texts, updates
from rulerag.console import guarded
from rulerag.io import prepare_folder


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth",
        description=__doc__,
        epilog="example: python -m benchmarks.growth updates --out benchmarks/results/growth",
    )
    parser.add_argument("name", choices=("updates", "paragraphs", "texts"))
    parser.add_argument("--out", type=Path, required=True, help="a folder for the figures")
    parser.add_argument("--sizes", type=int, nargs="+", help="of corpora, in paragraphs")
    parser.add_argument("--facts", type=int, default=updates.WORLD, help="of the generated world")
    parser.add_argument("--work", type=Path, help="keep datasets and corpora here, to go on later")
    given = parser.parse_args(argv)

    def work() -> None:
        out = prepare_folder(given.out)
        with tempfile.TemporaryDirectory() as aside:
            place = prepare_folder(given.work or Path(aside))
            if given.name == "updates":
                updates.run(out, place, facts=given.facts)
            elif given.name == "paragraphs":
                paragraphs.run(out, place, given.sizes or paragraphs.SIZES)
            else:
                texts.run(out, place, given.sizes or texts.SIZES)
        sys.stdout.write((out / f"{given.name}.md").read_text(encoding="utf-8"))

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())

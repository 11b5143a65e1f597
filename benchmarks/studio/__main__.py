"""``python -m benchmarks.studio redteam|endurance``: one command each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rulerag.console import guarded


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studio", description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    attacks = what.add_parser("redteam", help="attacks on real models in the shipped systems")
    attacks.add_argument(
        "--models", nargs="+", default=["smollm2", "gemma"], metavar="NAME", help="as systems have"
    )
    attacks.add_argument("--questions", type=int, default=4, help="of each system (4)")
    attacks.add_argument("--sources", type=int, default=5, help="of each question (5)")
    attacks.add_argument("--attacks", nargs="+", metavar="NAME", help="(all)")
    attacks.add_argument(
        "--cells",
        type=Path,
        default=Path("runs/redteam/cells.jsonl"),
        help="the file of what was tried; a run goes on from it",
    )
    attacks.add_argument("--out", type=Path, required=True, help="the folder of the figures")
    hours = what.add_parser("endurance", help="a scripted user of a studio, and its memory")
    hours.add_argument("--minutes", type=float, default=480, help="how long (480)")
    hours.add_argument("--share", type=float, default=0.12, help="of a core, at most (0.12)")
    hours.add_argument("--out", type=Path, required=True, help="the folder of the figures")
    given = parser.parse_args(argv)

    def work() -> None:
        if given.what == "redteam":
            from benchmarks.studio.redteam import run_red_team

            options = {"top_k": given.sources, "names": given.attacks, "kept": given.cells}
            run_red_team(given.models, given.questions, given.out, **options)
        else:
            from benchmarks.studio.endurance import run_endurance

            run_endurance(given.minutes, given.share, given.out)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())

"""The command line of link prediction, and its settings chosen on validation facts."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.link_prediction.ranks import PRIORS

__all__ = ["MINED_BODY_SIZE", "MINED_WALKS", "PUBLISHED_BODY_SIZE", "parser"]

_MINERS = ("amie", "tlogic", "rules")
_AGGREGATES = ("max", "noisy-or", "learned")
# Chosen on the validation facts of ICEWS14; TLogic's own are 200 walks and bodies known twice.
MINED_WALKS, MINED_BODY_SIZE, PUBLISHED_BODY_SIZE = 500, 10, 2


def _lengths(text: str) -> tuple[int, ...]:
    """Body lengths of an argument such as ``1,2,3``."""
    return tuple(int(part) for part in text.split(","))


def _share(text: str) -> float:
    """A share of facts, above 0 and up to 1."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and up to 1")
    return value


def parser(description: str | None) -> argparse.ArgumentParser:
    """The parser of the command line."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.link_prediction",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.link_prediction ../shared/data/icews14_forecasting "
        "--miner tlogic --out runs/link-prediction",
    )
    options.add_argument("kg", metavar="KG", type=Path, help="a graph folder")
    options.add_argument("--miner", required=True, choices=_MINERS, help="where rules come from")
    options.add_argument("--rules", type=Path, help="with --miner rules: a file in any format")
    options.add_argument(
        "--relation-ids",
        choices=("graph", "sorted"),
        default="graph",
        help="what ids in a TLogic file count: the graph's ids, or names in sorted order",
    )
    options.add_argument("--split", choices=("valid", "test"), default="test")
    options.add_argument("--limit", type=int, help="only the first N facts, 2 N queries")
    options.add_argument(
        "--prior",
        choices=PRIORS,
        default="unreached",
        help="where the frequency of answers counts: nowhere; in queries without candidates; "
        "or everywhere, between ties and behind all candidates",
    )
    options.add_argument(
        "--aggregate",
        choices=_AGGREGATES,
        help="how rules are joined: max (the default) or noisy-or on static graphs, noisy-or (the "
        "default) or learned weights on temporal graphs",
    )
    options.add_argument(
        "--confidence", choices=("pca", "standard"), default="pca", help="static graphs"
    )
    options.add_argument(
        "--lengths",
        type=_lengths,
        default=(1, 2, 3),
        help="with --miner tlogic: body lengths (default 1,2,3)",
    )
    options.add_argument(
        "--num-walks",
        type=int,
        default=MINED_WALKS,
        help=f"with --miner tlogic: walks for each relation and length (default {MINED_WALKS})",
    )
    options.add_argument(
        "--min-body-size",
        type=int,
        help="temporal graphs: apply rules with so many known bodies (default "
        f"{MINED_BODY_SIZE} with --miner tlogic, {PUBLISHED_BODY_SIZE} with --miner rules)",
    )
    options.add_argument(
        "--mined-share",
        type=_share,
        default=0.5,
        help="with --miner tlogic --aggregate learned: the share of the facts before the asked "
        "split that rules are mined from; weights are learned from the later ones (default 0.5; "
        "1 mines and learns from all)",
    )
    options.add_argument(
        "--max-queries",
        type=int,
        default=0,
        help="with --aggregate learned: learn from so many of the latest queries (default: all)",
    )
    options.add_argument(
        "--passes",
        type=int,
        default=1,
        help="with --aggregate learned: how often to learn from each query (default 1)",
    )
    options.add_argument(
        "--fine-rate",
        type=float,
        default=0.03,
        help="with --aggregate learned: size of the steps of single relations' and rules' weights",
    )
    options.add_argument(
        "--smoothing",
        type=float,
        default=0.0,
        help="temporal graphs, noisy-or: what is added to the body sizes in confidences",
    )
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, help="a folder for metrics.json")
    options.add_argument("--quiet", dest="progress", action="store_false", help="no progress bars")
    return options

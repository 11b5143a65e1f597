"""Two figures of a pretrained encoder on a RuleQA corpus.

encoding is speed against sentence-transformers' own; vectors is recall, size and time of fewer
numbers, bytes and bits against whole float32 vectors. One thread. The encoder must have been
fetched: rulerag models fetch all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.embeddings import encoding, vectors
from rulerag.console import guarded
from rulerag.ruleqa import RuleQADataset

ENCODER = "all-minilm-l6-v2"


def _run(arguments: argparse.Namespace) -> None:
    dataset = RuleQADataset.load(arguments.dataset)
    measure = {"encoding": encoding.main, "vectors": vectors.main}[arguments.what]
    measure(dataset, arguments.encoder, arguments.sample, arguments.out)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.embeddings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.embeddings vectors "
        "--out benchmarks/results/embeddings",
    )
    parser.add_argument("what", choices=("encoding", "vectors"))
    parser.add_argument("--dataset", type=Path, default=Path("runs/ruleqa-i"), help="its folder")
    parser.add_argument("--encoder", default=ENCODER, help="a folder or name")
    parser.add_argument("--sample", type=int, help="so many documents or queries; all by default")
    parser.add_argument("--out", type=Path, help="a folder for the figures, JSON and Markdown")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments))


if __name__ == "__main__":
    sys.exit(main())

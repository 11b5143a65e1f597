"""The arguments that the makers of the two small models share."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from rulerag.io import prepare_folder


def maker_parser(program: str, description: str, example: str) -> argparse.ArgumentParser:
    """The arguments that both makers take.

    Args:
        program: how the program is called.
        description: what it does.
        example: a command that works.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=description, epilog=f"example: {example}"
    )
    parser.add_argument(
        "--out", required=True, type=Path, help="the folder to write; OUT.run holds its state"
    )
    parser.add_argument("--graph", type=Path, action="append", default=[], help="a graph folder")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn (0)")
    parser.add_argument("--table", type=Path, help="measured figures for the card (Markdown)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


def begin_making(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The folder of the model and that of its state, both made when missing.

    Args:
        arguments: of :func:`maker_parser`; the number of threads is set by them.
    """
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    out = prepare_folder(arguments.out)
    return out, prepare_folder(out.with_name(f"{out.name}.run"))

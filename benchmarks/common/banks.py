"""Gains by rule banks: fine-tuned with one part of the rules, asked with another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.results import Result, load_result
from rulerag.arrays import Doubles
from rulerag.evaluation import markdown_table

Crossed = Mapping[tuple[str, str], Result]
"""The results of a row by the bank of fine-tuning and the bank of asking."""


def crossed_results(folder: Path, row: str, banks: Sequence[str]) -> Crossed:
    """The results of a row with every two banks; empty where one is missing."""
    found = {}
    for pair in ((learned, used) for learned in banks for used in banks):
        result = load_result(folder, row, "RGFT", f"-{pair[0]}-{pair[1]}")
        if result is None:
            return {}
        found[pair] = result
    return found


def gains_of(crossed: Crossed, banks: Sequence[str], gain: Callable[[Result], float]) -> Doubles:
    """The gain of every result, of shape (banks, banks): of fine-tuning by row."""
    return np.array([[gain(crossed[i, j]) for j in banks] for i in banks], dtype=np.float64)


def mean_gains(gains: Doubles) -> tuple[float, float]:
    """The mean gain with the bank of fine-tuning, and with another."""
    same = np.eye(len(gains), dtype=bool)
    return float(gains[same].mean()), float(gains[~same].mean())


def gain_table(
    points: Doubles, banks: Sequence[str], paper: Sequence[Sequence[float]] | None = None
) -> str:
    """Markdown: gains in points, the paper's in brackets where there are any."""
    rows = [
        [
            bank,
            *(
                f"{value:+.1f}" + (f" (paper {paper[i][j]:+.1f})" if paper else "")
                for j, value in enumerate(points[i])
            ),
        ]
        for i, bank in enumerate(banks)
    ]
    return markdown_table(["trained on", *(f"asked with {bank}" for bank in banks)], rows)

"""Plots of the experiments as PNG by matplotlib, without a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.common.results import Result
from benchmarks.stages.search_results import SEARCH_CUTOFFS

COLORS = (
    "#1f6f8b",
    "#c8553d",
    "#588157",
    "#6d597a",
    "#b08900",
    "#444444",
    "#3a86ff",
    "#d1495b",
    "#8fb8c8",
    "#f4a261",
    "#7b2cbf",
    "#2a9d8f",
)
"""Of lines, in order."""


def pyplot() -> Any:
    """Matplotlib's pyplot, drawing to files."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def plot_map(
    values: npt.NDArray[np.float64],
    names: Sequence[str],
    path: Path,
    *,
    title: str,
    across: str,
    down: str,
    label: str = "",
) -> None:
    """A square of numbers, signed.

    Args:
        values: shape (n, n).
        names: of rows and columns.
        path: the PNG to write.
        title: above the plot.
        across: what the columns are.
        down: what the rows are.
        label: what the numbers are.
    """
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(4.8, 4.0), layout="constrained")
    low = min(0.0, float(values.min()))
    image = axis.imshow(values, cmap="BuGn", vmin=low)
    axis.set(xlabel=across, ylabel=down)
    axis.set_xticks(range(len(names)), names)
    axis.set_yticks(range(len(names)), names)
    middle = (float(values.max()) + low) / 2
    for (i, j), value in np.ndenumerate(values):
        color = "white" if value > middle else "black"
        axis.text(j, i, f"{value:+.1f}", ha="center", va="center", color=color)
    figure.colorbar(image, label=label)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)


def plot_lines(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    path: Path,
    *,
    title: str,
    across: str,
    up: str,
    dotted: Sequence[str] = (),
) -> None:
    """Lines over one another.

    Args:
        series: x and y by name.
        path: the PNG to write.
        title: above the plot.
        across: what the x axis shows.
        up: what the y axis shows.
        dotted: names of lines that are dotted.
    """
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8.4, 4.4), layout="constrained")
    plain = [name for name in series if name not in dotted]
    for name, (x, y) in series.items():
        number = _number(name, plain)
        style = ":" if name in dotted else "-"
        color = COLORS[number % len(COLORS)]
        axis.plot(x, y, style, color=color, marker="o", markersize=4, label=name)
    axis.set(xlabel=across, ylabel=up)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)


def _number(name: str, plain: Sequence[str]) -> int:
    """A dotted line has the color of the line whose name it begins with."""
    fits = [n for n, one in enumerate(plain) if name.startswith(one)]
    return max(fits, key=lambda n: len(plain[n]), default=0)


def plot_recall(results: Sequence[Result], path: Path, title: str) -> None:
    """Answer recall by k: among the k best, and in the union of every search's k best.

    Args:
        results: the rows.
        path: the PNG to write.
        title: above the plot.
    """
    series = [
        (
            result.title,
            [result.mean(f"answer_recall@{k}") for k in SEARCH_CUTOFFS],
            [result.mean(f"answer_recall@{k}_union") for k in SEARCH_CUTOFFS if k <= 10],
        )
        for result in results
    ]
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
    for number, (name, best, union) in enumerate(series):
        style = {
            "color": COLORS[number % len(COLORS)],
            "marker": "o" if number % 2 else "s",
            "markersize": 4,
            "label": name,
        }
        axes[0].plot(SEARCH_CUTOFFS, best, **style)
        axes[1].plot(SEARCH_CUTOFFS[: len(union)], union, **style)
    for axis, words in zip(
        axes, ("the k best documents", "the union of every search's k best"), strict=True
    ):
        axis.set(xscale="log", xlabel="k", title=words)
        axis.set_xticks(SEARCH_CUTOFFS if axis is axes[0] else SEARCH_CUTOFFS[:-1])
        axis.get_xaxis().set_major_formatter(plt.ScalarFormatter())
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set(ylabel="answer recall", ylim=(0, 1))
    axes[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)

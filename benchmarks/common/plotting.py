"""Plots of the experiments as PNG by matplotlib, without a window."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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

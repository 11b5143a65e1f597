"""Plots of the generator experiments, as PNG by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.common.plotting import COLORS, pyplot


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

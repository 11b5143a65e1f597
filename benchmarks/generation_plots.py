"""Plots of the generator experiments, as PNG by matplotlib and as HTML by plotly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["plot_lines", "plot_map"]

_COLORS = ("#1f6f8b", "#c8553d", "#588157", "#6d597a", "#b08900", "#444444", "#3a86ff", "#d1495b")


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
        path: the PNG to write; the HTML stands beside it.
        title: above the plot.
        across: what the x axis shows.
        up: what the y axis shows.
        dotted: names of lines that are dotted.
    """
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(8.4, 4.4), layout="constrained")
    plain = [name for name in series if name not in dotted]
    for name, (x, y) in series.items():
        number = _number(name, plain)
        style = ":" if name in dotted else "-"
        color = _COLORS[number % len(_COLORS)]
        axis.plot(x, y, style, color=color, marker="o", markersize=4, label=name)
    axis.set(xlabel=across, ylabel=up)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)
    from plotly import graph_objects as go

    made = go.Figure()
    for name, (x, y) in series.items():
        line = {
            "color": _COLORS[_number(name, plain) % len(_COLORS)],
            "dash": "dot" if name in dotted else "solid",
        }
        made.add_scatter(x=list(x), y=list(y), name=name, mode="lines+markers", line=line)
    made.update_layout(
        title=title, template="plotly_white", xaxis={"title": across}, yaxis={"title": up}
    )
    _write_html(made, path.with_suffix(".html"))


def _number(name: str, plain: Sequence[str]) -> int:
    """A dotted line has the color of the line whose name it begins with."""
    fits = [n for n, one in enumerate(plain) if name.startswith(one)]
    return max(fits, key=lambda n: len(plain[n]), default=0)


def plot_map(
    values: npt.NDArray[np.float64],
    names: Sequence[str],
    path: Path,
    *,
    title: str,
    across: str,
    down: str,
) -> None:
    """A square of numbers, signed.

    Args:
        values: shape (n, n).
        names: of rows and columns.
        path: the PNG to write; the HTML stands beside it.
        title: above the plot.
        across: what the columns are.
        down: what the rows are.
    """
    plt = _pyplot()
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
    figure.colorbar(image)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)
    from plotly import graph_objects as go

    told: Any = go.Heatmap(
        z=values, x=list(names), y=list(names), texttemplate="%{z:+.1f}", colorscale="BuGn"
    )
    made = go.Figure(told)
    made.update_layout(
        title=title,
        template="plotly_white",
        xaxis={"title": across},
        yaxis={"title": down, "autorange": "reversed"},
    )
    _write_html(made, path.with_suffix(".html"))


def _write_html(figure: Any, path: Path) -> None:
    """A page of its own; plotly's script is left to the network, which keeps it at some KB."""
    figure.write_html(path, include_plotlyjs="cdn", div_id=path.stem)


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt

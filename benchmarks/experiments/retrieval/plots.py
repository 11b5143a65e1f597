"""Plots of the retrieval experiments, as PNG by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.common.plotting import COLORS, plot_map, pyplot
from benchmarks.common.results import Result
from benchmarks.stages.search_results import SEARCH_CUTOFFS


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


def plot_banks(gains: npt.NDArray[np.float64], banks: Sequence[str], path: Path) -> None:
    """The gains of Figure 5 as a map: the bank of fine-tuning by row, of search by column."""
    plot_map(
        100 * gains,
        banks,
        path,
        title="Gain over plain retrieval, ten documents in all",
        across="asked with",
        down="fine-tuned with",
        label="gain in answer recall@10, points",
    )

"""Plots of the explanation figures; needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common.plotting import pyplot

_STYLE = {
    "mono_retention": ("Mono, retention", "#1f6f8b", "o"),
    "mono_omission": ("Mono, omission", "#c8553d", "s"),
    "dual": ("Dual", "#588157", "^"),
    "two_monos": ("Mono twice", "#6d597a", "D"),
    "valid_retention": ("valid retention rules", "#1f6f8b", "o"),
    "valid_omission": ("valid omission rules", "#c8553d", "s"),
}


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw one figure into a PNG file."""
    plt = pyplot()
    name, rows = result["figure"], result["rows"]
    panels = 2 if name == "4" else 1
    figure, axes = plt.subplots(1, panels, figsize=(5.2 * panels, 3.8), layout="constrained")
    if name == "6a":
        _draw_6a(axes, rows)
    elif name == "6b":
        _draw_6b(axes, rows)
    elif name == "5":
        _draw_lines(axes, rows, ("dual", "two_monos"), "share of two lattices evaluated")
    else:
        monos = ("mono_retention", "mono_omission", "dual")
        _draw_lines(axes[0], rows, monos, "share of the lattice explored")
        _draw_lines(axes[1], rows, ("valid_retention", "valid_omission"), "share of the lattice")
    reader = result.get("reader")
    figure.suptitle(f"Figure {name}" + (f", {reader}" if reader else ""), fontsize=10)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)


def _draw_lines(axis: Any, rows: list[dict[str, Any]], names: tuple[str, ...], label: str) -> None:
    counts = [row["sources"] for row in rows]
    for name in names:
        words, color, marker = _STYLE[name]
        axis.plot(counts, [row[name] for row in rows], color=color, marker=marker, label=words)
    axis.set(xlabel="number of sources", ylabel=label, ylim=(0, 1.05))
    axis.grid(alpha=0.3)
    axis.legend()


def _draw_6a(axis: Any, rows: list[dict[str, Any]]) -> None:
    valid = [row["valid"] for row in rows]
    axis.bar(valid, [row["visited_mean"] for row in rows], color="#8fb8c8", label="visited, mean")
    axis.plot(valid, valid, "--", color="#c8553d", label="valid rules: no fewer will do")
    axis.set(xlabel="valid rules", ylabel="subsets visited")
    axis.grid(alpha=0.3, axis="y")
    axis.legend()


def _draw_6b(axis: Any, rows: list[dict[str, Any]]) -> None:
    for kind in ("retention", "omission"):
        _, color, marker = _STYLE[f"mono_{kind}"]
        points = [(row[kind]["valid"], row[kind]["visited"]) for row in rows]
        axis.scatter(*zip(*points, strict=True), c=color, marker=marker, alpha=0.5, label=kind)
    axis.axline((0, 0), slope=1, linestyle="--", color="#444444", label="no fewer will do")
    axis.set(xlabel="valid rules", ylabel="subsets visited")
    axis.grid(alpha=0.3)
    axis.legend()


def plot_budgets(result: dict[str, Any], path: Path) -> None:
    """Draw the measures of explainers against the number of model calls into a PNG file."""
    plt = pyplot()
    panels = {"drop_3": "drop without the first three, nats", "lds": "LDS"}
    figure, axes = plt.subplots(1, len(panels), figsize=(10.4, 3.8), layout="constrained")
    names = list(dict.fromkeys(row["explainer"] for row in result["rows"]))
    for axis, (key, label) in zip(axes, panels.items(), strict=True):
        of = "lds_questions" if key == "lds" else "questions"
        most = max(row[of] for row in result["rows"])
        for place, name in enumerate(names):
            # A line through budgets at which some questions are not measured would mislead.
            rows = [row for row in result["rows"] if row["explainer"] == name]
            rows = [row for row in rows if row[of] == most]
            budgets, values = [row["budget"] for row in rows], [row[key] for row in rows]
            axis.plot(budgets, values, marker="o", label=name, color=f"C{place}")
        label = label if most == result["questions"] else f"{label}, {most} questions"
        axis.set(xlabel="model calls", ylabel=label, xscale="log")
        axis.set_xticks(sorted({row["budget"] for row in result["rows"]}))
        axis.xaxis.set_major_formatter(plt.ScalarFormatter())
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    figure.suptitle(f"{result['questions']} questions, {result['model']}", fontsize=10)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)

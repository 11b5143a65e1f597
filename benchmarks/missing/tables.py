"""Tables and the picture of questions whose fact is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.plotting import COLORS, pyplot
from benchmarks.common.results import percent
from benchmarks.missing.proofs import SHARES
from benchmarks.missing.study import ROWS
from rulerag.evaluation import holm, markdown_table, paired_randomization_test

Made = Mapping[str, Any]

_OURS = "rules executed"
# Zhou et al. 2026 (arXiv:2508.08344), questions of their two graphs that we have or have alike.
_PAPER = {"kinship": "Family: 2,165", "fb15k237": "5,449"}


def tables(found: Sequence[Made]) -> str:
    """Markdown: sizes, one table of all graphs, each graph's measures, explanations."""
    parts = [
        "# Questions whose fact is missing\n",
        _sizes(found),
        "## Hits@Hard · HHR\n",
        _all(found),
    ]
    for made in found:
        parts += [f"## {made['graph']}\n", _graph(made)]
    parts += ["## Are the minimal sets of documents proofs?\n", _explained(found)]
    return "\n".join(parts)


def _sizes(found: Sequence[Made]) -> str:
    heads = ["graph", "facts", "removed", "questions", "for training", "relations"]
    heads += ["rules", "rules left", "answers", "one answer", "paper's questions"]
    rows = []
    for made in found:
        one = made["sizes"]
        numbers = ("facts", "removed", "questions", "training", "relations", "rules", "rules_left")
        counts = [f"{one[key]:,}" for key in numbers]
        rest = [f"{one['answers']:.1f}", percent(one["alone"]), _PAPER.get(made["graph"], "–")]
        rows.append([made["graph"], *counts, *rest])
    return markdown_table(heads, rows, "l" + "r" * 10)


def _all(found: Sequence[Made]) -> str:
    rows = []
    for row in ROWS:
        cells = [made["rows"].get(row["title"]) for made in found]
        rows.append([row["title"], *(_pair(one["incomplete"]) if one else "–" for one in cells)])
    return markdown_table(
        ["system", *(made["graph"] for made in found)], rows, "l" + "r" * len(found)
    )


def _pair(one: Made) -> str:
    return f"{percent(one['hard'][0])} · {_ratio(one['hhr'][0])}"


def _ratio(value: float) -> str:
    return "–" if value != value else f"{value:.2f}"


def _interval(one: Sequence[float]) -> str:
    if not one:
        return "–"
    return f"{percent(one[0])} [{100 * one[1]:.0f}, {100 * one[2]:.0f}]"


def _graph(made: Made) -> str:
    """One graph's systems; p is against the rules executed, corrected over the table."""
    heads = ["system", "questions", "Any", "F1", "Easy", "Hard", "Hard, no other answer", "HHR"]
    heads += ["p (Hard)", "fact stated: Hard", "inferred", "seconds"]
    shown = [row["title"] for row in ROWS if row["title"] in made["rows"]]
    p_values = dict(zip(shown, holm([_p(made["rows"], title) for title in shown]), strict=True))
    rows = []
    for title in shown:
        one = made["rows"][title]
        left = one["incomplete"]
        ratio, *ends = left["hhr"]
        hhr = f"{_ratio(ratio)} [{_ratio(ends[0])}, {_ratio(ends[1])}]"
        rows.append(
            [title, f"{left['questions']:,}"]
            + [percent(left[key][0]) if left[key] else "–" for key in ("any", "f1", "easy")]
            + [_interval(left["hard"]), _interval(left["alone"]), hhr]
            + ["" if title == _OURS else f"{p_values[title]:.4f}"]
            + [percent(one["complete"]["hard"][0]), str(one["inferred"]), f"{one['seconds']:.0f}"]
        )
    return markdown_table(heads, rows, "l" + "r" * 11)


def _p(rows: Mapping[str, Made], title: str) -> float:
    ours, other = (rows[name]["incomplete"]["hits"] for name in (_OURS, title))
    both = [(int(a), int(b)) for a, b in zip(ours, other, strict=True) if "-" not in (a, b)]
    return paired_randomization_test(*zip(*both, strict=True)) if title != _OURS else 1.0


def _explained(found: Sequence[Made]) -> str:
    heads = ["graph", "system", "right", "explained", "a proof was shown", "minimal set is a proof"]
    heads += ["holds a proof", "documents", "calls"]
    rows = []
    for made in found:
        for title, one in made["explained"].items():
            sets, shares = one["explained"], ["–"] * 5
            if sets:
                keys = ("proof_shown", "proof", "holds_proof")
                shares = [percent(np.mean([s[key] for s in sets])) for key in keys]
                shares.append(f"{np.mean([len(s['documents']) for s in sets]):.1f}")
                shares.append(f"{np.mean([s['calls'] for s in sets]):.0f}")
            rows.append([made["graph"], title, str(one["right"]), str(len(sets)), *shares])
    return markdown_table(heads, rows, "ll" + "r" * 7)


def plot(found: Sequence[Made], path: Path) -> None:
    """Hits@Hard against the share of proofs that is taken away, one panel a graph."""
    plt = pyplot()
    across = max(1, (len(found) + 1) // 2)
    figure, axes = plt.subplots(
        2,
        across,
        figsize=(3.2 * across, 5.6),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis in axes.flat[len(found) :]:
        axis.set_visible(False)
    for axis, made in zip(axes.flat, found, strict=False):
        for number, (title, hits) in enumerate(made["removal"].items()):
            shares, values = ([100 * one for one in column] for column in (SHARES, hits))
            axis.plot(shares, values, "o-", color=COLORS[number], markersize=4, label=title)
        axis.set_title(made["graph"], fontsize=9)
        axis.grid(alpha=0.3)
    figure.supxlabel("proofs removed, %", fontsize=9)
    figure.supylabel("Hits@Hard, %", fontsize=9)
    axes.flat[0].legend(fontsize=7)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)

"""The tables of the natural benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.natural.study import TITLES
from rulerag.evaluation import markdown_table

_SHARES = ("entity", "relation", "relation@3", "direction", "time", "all")


def tables(found: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: rules against no rules, facts found in texts, what was understood and answered.

    Args:
        found: the figures of each benchmark.
    """
    retrieval = [
        (
            one["dataset"],
            row["form"],
            f"{row['documents']:,}",
            *(f"{100 * row[key]:.1f}" for key in ("before", "after")),
            *_difference(row),
        )
        for one in found
        for row in sorted(one["retrieval"], key=lambda row: TITLES.index(row["form"]))
    ]
    heads = ("benchmark", "documents and questions", "documents", "plain", "rules", "added", "p")
    linking = [
        (
            one["dataset"],
            name,
            *(f"{100 * row[key]:.1f}" for key in _SHARES),
            f"{row['ms']:.0f}",
            *(f"{100 * row['exact_match'][key]:.1f}" for key in ("before", "after")),
            *_difference(row["exact_match"]),
        )
        for one in found
        for name, row in one.get("linking", {}).items()
    ]
    known = [
        (
            one["dataset"],
            f"{row['facts']:,}",
            *(f"{100 * row[key]:.1f}" for key in ("precision", "recall")),
            f"{row['ms']:.2f}",
        )
        for one in found
        if (row := one.get("known"))
    ]
    names = ("benchmark", "linker", "entity", "relation", "in first 3", "direction", "time", "all")
    return "\n\n".join(
        (
            markdown_table(heads, retrieval, "ll" + "r" * 5),
            markdown_table(
                ("benchmark", "facts found", "precision", "recall", "ms a text"), known, "lrrrr"
            ),
            markdown_table(
                (*names, "ms", "EM, exact form", "EM, linked", "added", "p"),
                linking,
                "ll" + "r" * 11,
            ),
        )
    )


def _difference(row: Mapping[str, Any]) -> tuple[str, str]:
    low, high = (100 * end for end in row["interval"])
    return f"{100 * row['added']:+.1f} [{low:+.1f}, {high:+.1f}]", f"{row['p']:.4f}"
